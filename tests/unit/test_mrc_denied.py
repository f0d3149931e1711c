"""EVs that the controller forbade stay forbidden until it lifts that very word."""

import pytest
from mrc_sim import FULL_SIZE, Simulation, Transfer

from mrclab.hosts.mrc.evs.evformat import EvFormat
from mrclab.hosts.mrc.evs.evprofile import ApiState, Mode, ProfileState
from mrclab.topo import srv6
from mrclab.topo.config.nodeconfig import DenyRule

PLANES, UPLINKS = 4, 2
PLANE, UPLINK = 1, 2


def online(ctl, mode=Mode.EXPLICIT):
    """A profile of every path, in the order of planes and uplinks."""
    number = ctl.create_ev_profile(mode, EvFormat.STEV, PLANES * UPLINKS, 1)
    if mode is Mode.EXPLICIT:
        for index in range(PLANES * UPLINKS):
            plane, uplink = index // UPLINKS + 1, index % UPLINKS + 1
            ctl.replace_ev(number, index, plane, srv6.ev(plane, uplink, srv6.ev_tag(index)).to_bytes(4, "big"))
    for state in (ProfileState.OFFLINE, ProfileState.ONLINE):
        ctl.modify_ev_profile(number, state)
    return number


class Denied:
    """h1 with a QP whose EV on (PLANE, UPLINK) was denied with MODIFY_EV_STATE."""

    def __init__(self, mode=Mode.EXPLICIT):
        self.sim = Simulation()
        self.host = self.sim.hosts["h1"]
        self.profile = online(self.host.ctl, mode)
        self.qp = self.new_qp()
        self.modify(ApiState.DENIED)
        assert self.state() is ApiState.DENIED

    def new_qp(self):
        return self.host.verbs.create_qp(self.sim.configs["h3"].host.address, 0.0, ev_profile=self.profile)

    def ev(self, qp=None):
        """The EV of that path, as the control interface knows it, in a QP."""
        evs = self.host.verbs.qp(qp or self.qp).evs.by_value.values()
        (found,) = (ev for ev in evs if (ev.plane, ev.uplink) == (PLANE, UPLINK))
        return found

    def modify(self, state):
        ev = self.ev()
        self.host.ctl.modify_ev_state(self.profile, ev.path.port, ev.api_value, state, 0.0)

    def state(self, qp=None):
        value = self.ev(qp).api_value
        return next(state for _, known, state in self.host.ctl.query_ev_state(qp or self.qp) if known == value)

    def configure(self, *rules):
        config = self.host.config.model_copy(update={"version": 2, "denylist": rules})
        self.host.update_config(config, 0.0)


@pytest.mark.parametrize("mode", [Mode.EXPLICIT, Mode.AUTO])
def test_a_denied_ev_outlives_config_updates_resets_and_new_qps(mode):
    denied = Denied(mode)
    denied.configure()
    assert denied.state() is ApiState.DENIED
    denied.host.verbs.modify_qp(denied.qp, "RESET", 0.0)
    assert denied.state() is ApiState.DENIED
    another = denied.new_qp()
    assert denied.state(another) is ApiState.DENIED
    denied.modify(ApiState.GOOD)
    denied.host.verbs.modify_qp(denied.qp, "RESET", 0.0)
    assert (denied.state(), denied.state(another)) == (ApiState.GOOD, ApiState.GOOD)


def test_denylist_and_control_interface_forbid_each_for_itself():
    denied = Denied()
    denied.configure(DenyRule(plane=PLANE, uplink=UPLINK, element="t0-p1-1/t1-p1-2"))
    denied.modify(ApiState.GOOD)
    assert denied.state() is ApiState.DENIED
    denied.configure()
    assert denied.state() is ApiState.GOOD


def test_an_entry_written_again_stays_denied_until_the_profile_starts_over():
    denied = Denied()
    ctl, index = denied.host.ctl, (PLANE - 1) * UPLINKS + UPLINK - 1
    entry = ctl.query_ev_array(denied.profile)[index]
    denied.host.verbs.destroy_qp(denied.qp, 0.0)
    ctl.replace_ev(denied.profile, index, entry.port, entry.value)
    assert ctl.query_ev_array(denied.profile)[index].state is ApiState.DENIED


def test_a_qp_all_of_whose_evs_are_denied_gives_up_after_its_retries():
    sim = Simulation(retry_linear=1, retry_exponential=1, timeout_exponent=15)
    transfer = Transfer(sim, "h1", "h3", 200 * FULL_SIZE)
    transfer.write(0, 200 * FULL_SIZE)
    evs = sim.hosts["h1"].verbs.qp(transfer.qa).evs
    sim.at(0.02, lambda: [evs.deny(ev, sim.now) for ev in list(evs.by_value.values())])
    sim.run(until=60.0, done=transfer.done)
    assert [done.status for done in transfer.completions] == ["RETRY_EXC_ERR"]
    assert sim.now < 1.0


def test_a_denied_ev_that_a_backup_replaces_costs_no_retry():
    sim = Simulation(retry_linear=0, retry_exponential=0, planes=1)
    transfer = Transfer(sim, "h1", "h3", 2000 * FULL_SIZE)
    transfer.write(0, 2000 * FULL_SIZE)
    evs = sim.hosts["h1"].verbs.qp(transfer.qa).evs
    first, second = evs.by_value.values()
    sim.at(0.02, lambda: evs.deny(first, sim.now))
    sim.at(0.03, lambda: (evs.deny(second, sim.now), evs.allow(first, sim.now)))
    sim.run(until=60.0, done=transfer.done)
    assert [done.status for done in transfer.completions] == ["SUCCESS"]
    assert transfer.stats().timeouts == 0
