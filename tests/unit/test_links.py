"""Links that differ by tier, plane and cable: what rules say, and what runs with them come to."""

from typing import Any

import pytest
from sim_pair import Sim, Write

import mrclab
from mrclab.controller import nodefiles
from mrclab.topo import spec as specs
from mrclab.topo.model import Fabric

BASE: dict[str, Any] = {
    "planes": 2, "t0s": 2, "t1s": 2, "hosts_per_t0": 2, "link": {"rate": "100 Gb/s", "delay": "600ns"},
}  # fmt: skip


def fabric(*rules: dict[str, Any], **changes: Any) -> Fabric:
    return Fabric(specs.load({**BASE, **changes, "links": list(rules)}))


def times(made: Fabric, name: str) -> tuple[float, float]:
    found = made.link_times(made.link(name).index)
    return found.rate / 1e9, found.delay


def test_later_rules_win_and_a_cable_may_differ_by_itself():
    made = fabric(
        {"tier": "t0-t1", "rate": "400 Gb/s", "length": "200m"},
        {"planes": [2], "delay": "2us"},
        {"cables": ["h1-p1", "t0-p1-1/t1-p1-2"], "rate": "50 Gb/s"},
    )
    assert times(made, "h2-p1") == (100, 600e-9)
    assert times(made, "h1-p1") == (50, 600e-9)
    assert times(made, "t0-p1-1/t1-p1-1") == pytest.approx((400, 1e-6))
    assert times(made, "t0-p1-1/t1-p1-2") == pytest.approx((50, 1e-6))
    assert times(made, "t0-p2-1/t1-p2-1") == (400, 2e-6)


def test_the_base_rtt_is_that_of_the_slowest_plane_link_by_link():
    alike = fabric().spec
    longer = fabric({"tier": "t0-t1", "length": "1km"}).spec
    assert longer.base_rtt(2) == alike.base_rtt(2)
    assert longer.base_rtt(4) - alike.base_rtt(4) == pytest.approx(4 * (5e-6 - 600e-9))
    slower = fabric({"planes": [2], "rate": "50 Gb/s"}).spec
    assert slower.base_rtt(4) - alike.base_rtt(4) == pytest.approx(alike.byte_time(4) * (4096 + 142 + 142), rel=0.01)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([{"tier": "t0-t1"}], "says nothing; give rate, delay or length"),
        ([{"delay": "1us", "length": "3m"}], "delay and length say the same"),
        ([{"cables": ["h1-p1"], "tier": "nic", "rate": "1 Gb/s"}], "cables are named one by one"),
        ([{"planes": [3], "rate": "1 Gb/s"}], "links.1.planes: there is no plane 3, but 1 to 2"),
        ([{"length": "3 feet"}], "'3 feet' is not a length; write, for example, 30m or 2km"),
    ],
)
def test_rules_that_mean_nothing_are_refused(rules, message):
    with pytest.raises(specs.SpecError, match=message):
        fabric(*rules)


def test_an_unknown_cable_is_named_with_the_nearest():
    with pytest.raises(specs.SpecError, match=r"links\.1\.cables: no cable is called 'h9-p1'"):
        fabric({"cables": ["h9-p1"], "rate": "1 Gb/s"})


def test_rules_need_a_rate_in_bits():
    with pytest.raises(specs.SpecError, match=r"give link\.rate"):
        specs.load({"links": [{"rate": "1 Gb/s"}]})


def test_hosts_know_the_rates_of_their_ports():
    config = nodefiles.node_configs(fabric({"planes": [1], "rate": "400 Gb/s"}))["h1"]
    assert [port.rate for port in config.ports] == [400e9, None]
    assert config.all_ports == 5


def test_a_host_knows_the_rate_of_its_own_cable():
    configs = nodefiles.node_configs(fabric({"cables": ["h2-p1"], "rate": "10 Gb/s"}))
    rates = {name: [port.rate for port in config.ports] for name, config in configs.items()}
    assert rates == {"h1": [None, None], "h2": [10e9, None], "h3": [None, None], "h4": [None, None]}


def goodput(**changes: Any) -> float:
    """Gb/s of payload that the slowest of four senders keeps, each to a host of the other T0 group, all at once."""
    scenario = mrclab.scenario(
        fabric={**BASE, "hosts_per_t0": 4, **changes},
        traffic=[{"name": "all", "kind": "permutation", "hosts": "all", "shift": 4, "size": "2 MB", "message": "2 MB"}],
    )
    run = mrclab.run(scenario, world="sim", seed=1)
    assert run.passed
    return min(flow["goodput"] for flow in run.flows) * 8e-9


def test_faster_uplinks_make_up_for_their_number():
    half = goodput()  # four hosts and two uplinks in each plane
    whole = goodput(links=[{"tier": "t0-t1", "rate": "200 Gb/s"}])
    assert half < 100
    assert whole > 1.7 * half


def test_a_port_of_a_far_slower_link_has_room_for_a_packet():
    sim = Sim(planes=1, t1s=1, link=BASE["link"], links=[{"cables": ["t0-p1-1/t1-p1-1"], "rate": "1 Mb/s"}])
    port = sim.fabric.switches["t0-p1-1"].ports[2]
    Write(sim, "h1", "h3", 4096)
    sim.run(10e-6)
    assert (port.waiting, port.dropped) == (1, 0)


def test_a_sender_uses_planes_as_fast_as_they_are():
    planes = {"t1s": 4}
    alike = goodput(**planes)
    mixed = goodput(**planes, links=[{"planes": [1], "rate": "400 Gb/s"}])
    assert mixed > 2.1 * alike  # 500 Gb/s in place of 200, less what the first round trips cost
