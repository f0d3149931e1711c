"""Failures that are correlated, and loss that grows with load, in virtual time."""

from typing import Any

import pytest

import mrclab
from mrclab.lab.errors import ScenarioError
from mrclab.lab.run import worlds

FABRIC: dict[str, Any] = {
    "planes": 2, "t0s": 4, "t1s": 4, "hosts_per_t0": 1, "link": {"rate": "100 Gb/s", "delay": "600ns"},
}  # fmt: skip


def run(fault: dict[str, Any], seed: int = 1, size: str = "4 MB", **expect: Any) -> mrclab.Run:
    scenario = mrclab.scenario(
        fabric=FABRIC,
        traffic=[{"name": "f", "kind": "write", "from": "h1", "to": "h4", "size": size}],
        faults=[{"name": "zone", "at": "20% of f", **fault}],
        expect=[{"kind": "integrity"}, {"kind": "qp_errors", "at_most": 0}, {"kind": "health"}],
    )
    made = mrclab.run(scenario, world="sim", seed=seed)
    assert made.passed, [verdict.observed for verdict in made.verdicts]
    return made


def test_a_line_card_takes_all_of_its_ports():
    made = run({"kind": "line_card", "switch": "t0-p1-1", "ports": 2, "card": 2})
    cut = {
        row["links"] if isinstance(row["links"], str) else tuple(row["links"])
        for row in made.faults
        if row["kind"] == "link_down"
    }
    assert cut == {("t0-p1-1/t1-p1-2",), ("t0-p1-1/t1-p1-3",)}  # ports 3 and 4: port 1 leads to the host


def test_a_power_zone_is_the_same_racks_in_all_planes():
    made = run({"kind": "power_zone", "tier": "t1", "zones": 2, "zone": 2, "takes": "20us"})
    texts = sorted(row["text"] for row in made.faults if row["kind"] == "switch_reboot")
    assert texts == [f"t1-p{plane}-{number} reboots" for plane in (1, 2) for number in (3, 4)]
    lasted = [row["end"] - row["begin"] for row in made.faults if row["kind"] == "switch_reboot"]
    assert max(lasted) < 0.5e-3  # 20 µs without power, then until it holds its entries: on fast links no 50 ms


def test_which_zone_goes_is_drawn_from_the_seed():
    def zone(seed: int) -> tuple[str, ...]:
        made = run({"kind": "power_zone", "tier": "t1", "zones": 4, "takes": "20us"}, seed)
        return tuple(sorted(row["text"] for row in made.faults if row["kind"] == "switch_reboot"))

    found = [zone(seed) for seed in (1, 1, 3)]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"kind": "line_card", "switch": "t0-p1-1", "ports": 2, "card": 4}, "t0-p1-1 has 3 cards of 2 ports"),
        ({"kind": "power_zone", "zones": 2, "zone": 3}, "there is no zone 3, but 1 to 2"),
        ({"kind": "power_zone", "zones": 5}, "there are 4 racks with a T0"),
    ],
)
def test_domains_that_are_not_there_are_refused(fault, message):
    with pytest.raises(ScenarioError, match=message):
        run(fault)


def lost(rate: str) -> tuple[int, int]:
    """Packets lost, and sent, of a stream over one path at a share of its line."""
    stream = {"name": "f", "kind": "stream", "from": "h1", "to": "h4", "message": "64 kB", "duration": "2ms"}
    weak = {"name": "weak", "kind": "load_loss", "link": "h1-p1", "direction": "up", "rate": "5%", "at": "0s"}
    scenario = mrclab.scenario(
        fabric={**FABRIC, "planes": 1, "t1s": 1}, traffic=[{**stream, "rate": f"{rate} of line"}], faults=[weak]
    )
    made = mrclab.run(scenario, world="sim", seed=1)
    (flow,) = made.flows
    return flow["lost_packets"], flow["sent_packets"]


def test_a_link_loses_nothing_up_to_its_load_and_more_beyond():
    (none, _), (some, sent), (more, all_sent) = lost("20%"), lost("70%"), lost("100%")
    assert none == 0
    assert 0 < some / sent < 0.035
    assert more / all_sent > 1.3 * some / sent


def test_load_is_of_virtual_time():
    loaded = mrclab.scenario(
        world="wire",
        traffic=[{"name": "f", "kind": "write", "from": "h1", "to": "h3", "size": "1 kB"}],
        faults=[{"name": "w", "kind": "load_loss", "link": "h1-p1", "rate": "1%", "at": "0s"}],
    ).loaded
    with pytest.raises(ScenarioError, match="load_loss is not supported on the wire, only in virtual time"):
        worlds.check(loaded)
