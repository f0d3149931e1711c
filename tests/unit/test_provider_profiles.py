"""Profiles of the control interface, as an agent keeps them for programs."""

import struct
from types import SimpleNamespace

import pytest
from mrc_sim import Simulation

from mrclab.hosts.agent.provider import wire
from mrclab.hosts.agent.provider.control import ProgramCtl, required
from mrclab.hosts.agent.provider.profiles import EvOp, EvProfileMask
from mrclab.hosts.agent.provider.wire import Op
from mrclab.hosts.rdma.errors import VerbsError

OFFLINE, ONLINE = 1, 2
AUTO, EXPLICIT = 1, 2
FORMAT = 13
FIRST = EvProfileMask.STATE | EvProfileMask.MODE | EvProfileMask.FMT_ID | EvProfileMask.COUNT


@pytest.fixture
def evs():
    """EV profiles of a host, with a format that is ONLINE and explicit profile 1 of four EVs."""
    (endpoint,) = Simulation((1,)).hosts.values()
    made = ProgramCtl(endpoint, SimpleNamespace(now=0.0)).evs
    made.modify_format(FORMAT, 1 | 4 | 8, OFFLINE, 0, mode=1, widths=(16, 16))
    made.modify_format(FORMAT, 1, ONLINE, 0)
    made.modify(1, FIRST, OFFLINE, 0, 0, [], mode=EXPLICIT, format=FORMAT, count=4)
    return made


def test_a_profile_that_becomes_auto_has_no_entries_to_fill(evs):
    with pytest.raises(VerbsError, match="EV profile 1 has 4 unpopulated entries"):
        evs.modify(1, EvProfileMask.STATE, ONLINE, 0, 0, [])
    evs.modify(1, EvProfileMask.MODE, 0, 0, 0, [], mode=AUTO)
    evs.modify(1, EvProfileMask.STATE, ONLINE, 0, 0, [])
    assert (evs.online(1), evs.array(evs.profile(1))) == (1, [])


def test_a_profile_of_another_format_has_its_evs_to_fill_again(evs):
    evs.modify_format(FORMAT + 1, 1 | 4 | 8, OFFLINE, 0, mode=4, widths=(16,))
    evs.modify_format(FORMAT + 1, 1, ONLINE, 0)
    ev = (bytes(32), 0, b"\x10\x01\x80\x00" + bytes(28), 1, 0, 1)
    evs.modify(1, EvProfileMask.EV_OP, 0, 0, EvOp.REPLACE, [ev])
    evs.modify(1, EvProfileMask.FMT_ID, 0, 0, 0, [], format=FORMAT + 1)
    with pytest.raises(VerbsError, match="EV profile 1 has 4 unpopulated entries"):
        evs.modify(1, EvProfileMask.STATE, ONLINE, 0, 0, [])


def test_a_change_that_is_refused_changes_nothing(evs):
    with pytest.raises(VerbsError, match="257 EVs; a profile has at most 256"):
        evs.modify(1, EvProfileMask.MODE | EvProfileMask.COUNT, 0, 0, 0, [], mode=AUTO, count=257)
    assert (evs.profile(1).mode, evs.profile(1).count) == (EXPLICIT, 4)
    evs.modify(1, EvProfileMask.MODE | EvProfileMask.STATE, ONLINE, 0, 0, [], mode=AUTO)
    with pytest.raises(VerbsError, match="EV profile 1 is ONLINE; take it OFFLINE to change its count"):
        evs.modify(1, EvProfileMask.COUNT, 0, 0, 0, [], count=8)


@pytest.mark.parametrize("refused", ["unknown EV", "unknown port"])
def test_a_list_of_replacements_of_which_one_is_refused_changes_nothing(evs, refused):
    ev = b"\x10\x01\x80\x00" + bytes(28)
    good = (bytes(32), 0, ev, 1, 0, 0)
    bad = (bytes(32), 2, ev, 1, 0, 0) if refused == "unknown EV" else (bytes(32), 0, ev, 9, 0, 0)
    with pytest.raises(VerbsError):
        evs.modify(1, EvProfileMask.EV_OP, 0, 0, EvOp.REPLACE, [good, bad])
    assert {(value, port) for value, port, _ in evs.array(evs.profile(1))} == {(bytes(32), 0)}


def test_a_query_of_more_evs_than_it_names_is_refused():
    (endpoint,) = Simulation((1,)).hosts.values()
    control = ProgramCtl(endpoint, SimpleNamespace(now=0.0))
    numbers = [1, EvProfileMask.EV_OP, 0, 0, 0, 0, 0, 0, 0, EvOp.QUERY_STATE, 2, 0, 0]
    with pytest.raises((VerbsError, struct.error)):
        control.handle(Op.CTL_QUERY_EV, numbers, bytes(wire.VENDOR_BYTES), is_controller=True)


def test_a_transport_without_a_control_interface_says_so():
    with pytest.raises(VerbsError, match="runs RoCEv2") as refused:
        required(None)
    assert refused.value.code == "EOPNOTSUPP"
