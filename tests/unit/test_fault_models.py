"""Faults of a scenario: their fields, the messages for mistakes, and the plans of chaos."""

import itertools
import re

import pytest
from pydantic import TypeAdapter, ValidationError

from mrclab.lab.errors import ScenarioError
from mrclab.lab.faults.base import FAULTS, Fault, LastingFault
from mrclab.lab.faults.chaos import DEFAULT_KINDS, Chaos
from mrclab.lab.prompt import registry
from mrclab.lab.scenario.scenario import loads
from mrclab.lab.session.lab import entry_of as parse_entry
from mrclab.topo.model import Fabric
from mrclab.topo.spec import load

FABRIC = Fabric(load({"planes": 4, "t0s": 2, "t1s": 2, "hosts_per_t0": 2}))

SCENARIO = """\
name: small
fabric: {planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 1}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: 1 MiB}
faults:
  - {name: it, at: 1s, FIELDS}
"""

EVERY_KIND = [
    {"kind": "link_down", "link": "h1 2"},
    {"kind": "flap", "link": "h1-p1", "period": "1s", "duty": "20%", "count": 5},
    {"kind": "flap", "link": "h1-p1", "rate": 0.5, "down": "100ms"},
    {"kind": "loss", "link": "h1-p1", "rate": "1%", "direction": "up"},
    {"kind": "loss", "link": "h1-p1", "every": 100, "min_length": 1000},
    {"kind": "ev_loss", "everywhere": True, "paths": [{"plane": 1, "uplink": 2}], "rate": "20%"},
    {"kind": "ev_loss", "link": "t0-p1-1/t1-p1-2", "usids": [0x1102]},
    {"kind": "silent_drop", "link": "t0-p1-1/t1-p1-2"},
    {"kind": "corrupt", "link": "t0-p1-1/t1-p1-2", "rate": "1%"},
    {"kind": "rate_limit", "link": "t0-p1-1/t1-p1-2", "rate_pps": 100},
    {"kind": "delay", "link": "t0-p1-1/t1-p1-2", "delay": "5ms"},
    {"kind": "jitter", "link": "t0-p1-1/t1-p1-2", "delay": "5ms", "jitter": "2ms"},
    {"kind": "reorder", "link": "t0-p1-1/t1-p1-2", "delay": "5ms", "share": "10%"},
    {"kind": "lose_packets", "link": "t0-p1-1/t1-p1-2", "packets": [1, 2, 10]},
    {"kind": "swap_cables", "links": ["h1-p1", "h1-p2"]},
    {"kind": "transceiver", "links": ["t0-p1-1/t1-p1-1", "t0-p1-1/t1-p1-2"]},
    {"kind": "nic_port_down", "port": "h1-p2"},
    {"kind": "nic_down", "host": "h1"},
    {"kind": "plane_down", "plane": 2},
    {"kind": "host_loss", "rate": "0.1%", "hosts": ["h1", "h2"], "planes": [1, 2]},
    {"kind": "switch_crash", "switch": "t1-p1-1"},
    {"kind": "switch_freeze", "switch": "t1-p1-1"},
    {"kind": "switch_reboot", "switch": "t1-p1-1", "keep_state": True},
    {"kind": "wrong_entry", "switch": "t1-p1-1", "port": 1, "to": 2},
    {"kind": "controller_crash"},
    {"kind": "controller_restart"},
    {"kind": "controller_partition", "switch": "t1-p1-1"},
    {"kind": "controller_slow"},
    {"kind": "agent_crash", "host": "h2"},
    {"kind": "program_kill", "host": "h2"},
    {"kind": "background", "from": "h1", "to": "h3", "plane": 2, "uplink": 1, "load": "50%"},
    {"kind": "chaos", "duration": "60s"},
    {"kind": "population", "share": "5%", "of": "nic", "fault": {"kind": "loss", "rate": "1%"}},
    {"kind": "load_loss", "link": "h1-p1", "rate": "1%", "above": "60%"},
    {"kind": "line_card", "switch": "t0-p1-1", "ports": 2, "card": 1},
    {"kind": "power_zone", "tier": "t1", "zones": 2},
]


def parse(kind, fields):
    return parse_entry(FAULTS, kind, {"at": 0, **fields}, FABRIC)


def fault(name="it", **fields):
    return TypeAdapter(Fault).validate_python({"name": name, "at": "1s", **fields}, context={"fabric": FABRIC})


def mistakes(fields):
    with pytest.raises(ScenarioError) as error:
        loads(SCENARIO.replace("FIELDS", fields), "x.yaml")
    return error.value.mistakes


@pytest.mark.parametrize("fields", EVERY_KIND, ids=lambda fields: fields["kind"])
def test_each_kind_says_what_it_does_and_to_which_cables(fields):
    entry = fault(**fields)
    assert entry.kind_name == fields["kind"]
    assert len(entry.text(FABRIC).split()) > 1
    assert set(entry.links(FABRIC)) <= {link.name for link in FABRIC.links}


def test_every_kind_is_in_the_examples_and_has_an_action():
    assert {fields["kind"] for fields in EVERY_KIND} == {*FAULTS.names}

    class NoLab:
        seed, fabric, emulation = 1, FABRIC, None

    for fields in EVERY_KIND:
        assert fault(**fields).action(NoLab()).fault.kind_name == fields["kind"]


@pytest.mark.parametrize(
    ("fields", "links", "paths"),
    [
        ({"kind": "link_down", "link": "h1 2"}, ("h1-p2/t0-p2-1",), ()),
        ({"kind": "nic_down", "host": "h3"}, tuple(f"h3-p{plane}/t0-p{plane}-2" for plane in (1, 2, 3, 4)), ()),
        ({"kind": "switch_freeze", "switch": "t1-p3-2"}, ("t0-p3-1/t1-p3-2", "t0-p3-2/t1-p3-2"), ()),
        ({"kind": "wrong_entry", "switch": "t1-p3-2", "port": 1}, ("t0-p3-1/t1-p3-2",), ()),
        ({"kind": "ev_loss", "link": "h1-p1", "evs": [0x1020_8001]}, ("h1-p1/t0-p1-1",), ((1, 2),)),
        ({"kind": "host_loss", "every": 9, "hosts": ["h1"], "planes": [2]}, ("h1-p2/t0-p2-1",), ()),
        ({"kind": "controller_crash"}, (), ()),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_cables_and_paths_that_suffer(fields, links, paths):
    entry = fault(**fields)
    assert entry.links(FABRIC) == links
    assert entry.paths(FABRIC) == paths


def test_processes_that_end_on_purpose_are_named():
    assert fault(kind="switch_crash", switch="t1-p1-1").processes(FABRIC) == ("t1-p1-1",)
    assert fault(kind="switch_reboot", switch="t1-p1-1", keep_state=True).processes(FABRIC) == ()
    assert fault(kind="agent_crash", host="h4").processes(FABRIC) == ("h4",)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("kind: link_dwn, link: h1-p1", "x.yaml:6: faults[1]: kind 'link_dwn' is unknown; did you mean 'link_down'?"),
        ("kind: flap, link: h1-p1", "a flap needs either a period (such as 1s) or a Poisson rate per second (such as"),
        ("kind: flap, link: h1-p1, rate: 1", "needs down, the time without carrier, such as down: 200ms"),
        ("kind: flap, link: h1-p1, period: 1s, down: 2s", "a flap of 1.00 s cannot be down for 2.00 s; lower"),
        ("kind: flap, link: h1-p1, period: 10ms", "a flap is down for at least 20 ms; raise period, duty or down"),
        ("kind: flap, link: h1-p1, rate: 21, down: 20ms", "a cable flaps at most 20 times a second; lower rate"),
        ("kind: loss, link: h1-p1", "a loss needs one of rate (such as 1%), every"),
        ("kind: loss, link: h1-p1, rate: 120%", "faults[1].rate: this must be at most 100% "),
        ("kind: ev_loss, evs: [1]", "an ev_loss needs either a link or everywhere: true"),
        ("kind: ev_loss, everywhere: true", "an ev_loss needs evs, paths (such as {plane: 1, uplink: 2}) or usids"),
        ("kind: jitter, link: h1-p1, delay: 1ms, jitter: 2ms", "raise delay or lower jitter"),
        ("kind: swap_cables, links: [h1-p1, t0-p1-1-1]", "cannot be swapped with itself; name two cables"),
        ("kind: nic_port_down, port: t0-p1-1/t1-p1-1", "is not a NIC port; name one, such as h1-p1"),
        (
            "kind: ev_loss, everywhere: true, paths: [{plane: 1, uplink: 9}]",
            "there is no uplink 9; a T0 has uplinks 1 to",
        ),
        ("kind: plane_down, plane: 3", "there is no plane 3; the fabric has planes 1 to 2"),
        ("kind: switch_reboot, switch: t1-p1-1, until: 2s", "x.yaml:6: faults[1].until: no such field; known here:"),
        ("kind: switch_crash, switch: t1-p1-9", "no switch is called 't1-p1-9'; there are 't1-p1-1' to 't1-p"),
        ("kind: wrong_entry, switch: t1-p1-1, port: 9", "t1-p1-1 has no port 9; it has ports 1 to 2"),
        ("kind: wrong_entry, switch: t1-p1-1, port: 1, to: 1", "name another port, or 0 for no entry"),
        ("kind: controller_slow, period: 1s, pause: 1s", "leaves nothing of a period of 1.00 s; lower it"),
        ("kind: background, from: h1, to: h1, load: 50%", "goes from h1 to itself; name two hosts"),
        ("kind: background, from: h1, to: h2", "needs either rate_pps or load (such as 50%, of the link rate)"),
        ("kind: background, from: h1, to: h2, load: 50%, uplink: 9", "no uplink 9 leads from h1 to h2; choose 1, 2"),
        ("kind: background, from: h1, to: h2, load: 50%, size: 9000", "size 9000 exceeds the path MTU, 4096; lower it"),
        ("kind: background, from: h1, to: h2, rate_pps: 1e-300", "packets are less than 0.001 a second; raise rate"),
        ("kind: background, from: h1, to: h2, load: 0.0000001%", "are less than 0.001 a second; raise load"),
        ("kind: ev_loss, everywhere: true, evs: [0x30108000]", "EV 0x30108000 is of plane 3, uplink 1, and the"),
        ("kind: ev_loss, link: h1-p1, evs: [0x10408000]", "EV 0x10408000 is of plane 1, uplink 4, and the"),
        ("kind: ev_loss, link: h1-p1, usids: [0xffff]", "no switch and no downlink has the uSID ffff; `mrclab plan`"),
        ("kind: loss, link: h1-p1, rate: 1e-310", "1e-310 is hardly any; write 0, or 1e-15 at least"),
        ("kind: loss, link: h1-p1, every: 4294967296", "this must be at most 2147483648"),
        ("kind: rate_limit, link: h1-p1, rate_pps: 100000000000", "this must be at most 10000000000"),
        ("kind: rate_limit, link: h1-p1, rate_pps: 1, burst: 4294967296", "this must be at most 4294967295"),
        ("kind: chaos, duration: 60s, shortest: 9s", "shortest, 9.00 s, exceeds longest, 5.00 s; lower it"),
        ("kind: chaos, duration: 60s, kinds: [link_dwn]", "'link_dwn' is unknown; did you mean 'link_down'?"),
    ],
)
def test_a_mistake_is_told_with_its_remedy(fields, said):
    (told,) = mistakes(fields)
    assert said in told


# --- chaos ----------------------------------------------------------------------------------------------------------


def whole_paths(fabric, broken):
    """For each pair of hosts, its paths that cross none of the cables."""
    for one, other in itertools.combinations(fabric.hosts, 2):
        paths = fabric.paths(one.name, other.name)
        yield sum(not broken & {link.name for link in fabric.path_links(one.name, other.name, *path)} for path in paths)


def lasts(part):
    """Begin and end of a planned fault."""
    begin = part.at.seconds
    return begin, part.until.seconds if hasattr(part, "until") else begin + part.takes


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_chaos_leaves_every_pair_a_whole_path_at_every_moment(seed):
    chaos = fault(kind="chaos", duration="100s", every="500ms", settle="1s", at_once=6)
    parts = chaos.parts(FABRIC, seed)
    assert len(parts) > 20
    assert max(end for _, end in map(lasts, parts)) <= 100
    for moment in (lasts(part)[0] for part in parts):
        active = [part for part in parts if lasts(part)[0] <= moment < lasts(part)[1] + 1]
        assert sum(lasts(part)[1] > moment for part in active) <= 6
        touched = [link for part in active for link in part.links(FABRIC)]
        assert len(touched) == len(set(touched)), "two faults share a cable"
        assert min(whole_paths(FABRIC, set(touched))) >= 1


def test_chaos_of_one_seed_is_one_plan():
    chaos = fault(kind="chaos", duration="60s")
    assert chaos.parts(FABRIC, 7) == chaos.parts(FABRIC, 7)
    assert chaos.parts(FABRIC, 7) != chaos.parts(FABRIC, 8)


def test_chaos_of_microseconds_has_faults_one_after_another_that_last():
    parts = fault(kind="chaos", duration="2ms", every="50us", shortest="10us", longest="60us", settle="20us").parts(
        FABRIC, 3
    )
    begins = [part.at.seconds for part in parts]
    assert len(set(begins)) == len(parts) > 10
    lasts = [part.until.seconds - part.at.seconds for part in parts if isinstance(part, LastingFault)]
    assert min(lasts) >= 9e-6
    assert max(lasts) <= 61e-6


def test_long_chaos_draws_every_kind():
    drawn = {part.kind_name for part in fault(kind="chaos", duration="1000s", every="1s").parts(FABRIC, 1)}
    assert drawn == set(DEFAULT_KINDS)


def test_chaos_on_a_fabric_with_one_path_does_nothing():
    narrow = Fabric(load({"planes": 1, "t0s": 1, "t1s": 1, "hosts_per_t0": 2}))
    chaos = Chaos(name="c", kind="chaos", at="0s", duration=60, kinds=("link_down", "loss"))
    parts = chaos.parts(narrow, 1)
    assert {link for part in parts for link in part.links(narrow)} <= {"t0-p1-1/t1-p1-1"}


def test_chaos_asks_for_more_paths_where_it_is_told_to():
    chaos = fault(kind="chaos", duration="100s", every="300ms", keep_paths=4, at_once=10)
    for part in chaos.parts(FABRIC, 1):
        assert min(whole_paths(FABRIC, set(part.links(FABRIC)))) >= 4


def test_a_plane_can_never_be_taken_from_a_fabric_of_one():
    one = Fabric(load({"planes": 1, "t0s": 2, "t1s": 2, "hosts_per_t0": 1}))
    assert Chaos(name="c", kind="chaos", at="0s", duration=60, kinds=("plane_down",)).parts(one, 1) == []


def test_a_kind_that_chaos_does_not_know_is_refused():
    with pytest.raises(ValidationError):
        fault(kind="chaos", duration="1s", kinds=["nic_down"])


# --- at the prompt --------------------------------------------------------------------------------------------------


class Lab:
    fabric = FABRIC


def test_a_fault_is_typed_as_a_kind_and_its_fields():
    entry = parse("transceiver", registry.fields(["name=optics", "links=[h1-p1,h1-p2]"]))
    assert entry.name == "optics"
    assert entry.links(FABRIC) == ("h1-p1/t0-p1-1", "h1-p2/t0-p2-1")
    assert parse("loss", registry.fields(["name=gray", "link=h1-p1", "rate=1%"])).rate == 0.01


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("los", "link=h1-p1", "no kind of fault is called 'los'; did you mean 'loss'?"),
        ("loss", "link=h9-p1 rate=1%", "loss.link: no cable is called 'h9-p1'; there are 'h1-p1' to 'h4-p"),
        ("loss", "link=h1-p1 rat=1%", "loss.rat is not a known field; did you mean 'rate'?"),
        ("background", "form=h1 to=h3 load=1%", "background.form is not a known field; did you mean 'from'?"),
        ("loss", "h1-p1", "'h1-p1' is not a field; write, for example, link=h1-p1 rate=1%"),
        ("transceiver", "links=[h1-p1", "links cannot be read from '[h1-p1'; write, for example, links=[h1-p1,h1-p2]"),
    ],
)
def test_what_is_typed_wrong_is_told(kind, fields, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        parse(kind, {"name": "it", **registry.fields(fields.split())})
