"""Topologies: the fat tree, uet-htsim's files, and what a scenario makes of them."""

from pathlib import Path
from typing import Any

import pytest

import mrclab
from mrclab.lab.errors import ScenarioError
from mrclab.lab.report import results
from mrclab.lab.scenario import scenario
from mrclab.lab.topology.kinds import htsim

TWO = """Nodes 32
Tiers 2
Podsize 32

Tier 0
Downlink_speed_Gbps 100
Radix_Down 8
Radix_Up 2
Downlink_Latency_ns 1000
Switch_Latency_ns 0
Oversubscribed 4

Tier 1
Downlink_speed_Gbps 400
Radix_Down 4
Downlink_Latency_ns 2000
Switch_Latency_ns 0
"""
THREE = """# three tiers
Nodes 16
Tiers 3
Podsize 4
Tier 0
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 1000
Tier 1
Downlink_speed_Gbps 200
Radix_Down 2
Radix_Up 2
Downlink_Latency_ns 1000
Bundle 1
Tier 2
Downlink_speed_Gbps 200
Radix_Down 4
Downlink_Latency_ns 1000
"""
TRAFFIC = [{"name": "f", "kind": "write", "from": "h1", "to": "h9", "size": "100 kB"}]


def loaded(topology: dict[str, Any], folder: Path | None = None, **more: Any) -> scenario.Loaded:
    data = {"name": "s", "world": "sim", "topology": topology, "traffic": TRAFFIC, **more}
    return scenario.from_data(data, str((folder or Path()) / "s"))


def test_two_tiers_with_faster_uplinks():
    made = htsim.read(TWO, "x.topo")
    assert made == {
        "planes": 1, "t0s": 4, "t1s": 2, "hosts_per_t0": 8, "switch_latency": "0ns",
        "link": {"rate": "100 Gb/s", "delay": "1000ns"},
        "links": [{"tier": "t0-t1", "rate": "400 Gb/s", "delay": "2000ns"}],
    }  # fmt: skip


def test_three_tiers():
    made = htsim.read(THREE, "x.topo")
    assert {key: made[key] for key in ("pods", "t0s", "t1s", "t2s", "hosts_per_t0")} == {
        "pods": 4, "t0s": 8, "t1s": 2, "t2s": 4, "hosts_per_t0": 2,
    }  # fmt: skip
    assert "links" not in made


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("Radix_Up 2", "Radix_Upp 2", "x.topo:8: 'Radix_Upp' is not a keyword here; did you mean 'Radix_Up'?"),
        ("Radix_Up 2", "Radix_Up two", r"x.topo:8: a word and a whole number are expected.*\(got 'Radix_Up two'\)"),
        ("Radix_Up 2", "Radix_Up ²", r"x.topo:8: a word and a whole number are expected.*\(got 'Radix_Up ²'\)"),
        ("Radix_Up 2", "Radix_Up 0", "x.topo: Radix_Up of tier 0 is 0; give, for example, 4"),
        ("Radix_Up 2", "Radix_Up 2\nradix_up 3", "x.topo:9: radix_up stands twice; keep one of the two"),
        ("Nodes 32\n", "", "x.topo: Nodes is missing or 0; add, for example, Nodes 16"),
        ("Gbps 100", "Gbps 0", "Downlink_speed_Gbps of tier 0 is 0; give, for example, 100"),
        ("Radix_Up 2\n", "", "x.topo: tier 0 has no Radix_Up; add it"),
        ("Radix_Down 4", "Radix_Down 5", "Radix_Down of tier 1 is 5, and there are 4 T0s of a pod"),
        ("Nodes 32", "Nodes 33", "Nodes 33 is not a multiple of Radix_Down of tier 0, 8"),
        ("Tiers 2", "Tiers 3", "Tiers 3 with 2 sections"),
        ("Switch_Latency_ns 0\nOver", "Switch_Latency_ns 5\nOver", "Switch_Latency_ns differs between tiers"),
        ("Oversubscribed 4", "Bundle 2", "bundles of 2 cables"),
    ],
)
def test_files_that_make_no_fabric_are_refused(old, new, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        htsim.read(TWO.replace(old, new, 1), "x.topo")


def test_a_scenario_runs_on_a_file_and_its_result_keeps_it(tmp_path):
    (tmp_path / "mine.topo").write_text(THREE)
    made = loaded({"kind": "htsim", "file": "mine.topo"}, tmp_path, fabric={"planes": 2})
    spec = made.fabric.spec
    assert (spec.planes, spec.pods, spec.t2s, len(made.fabric.hosts)) == (2, 4, 4, 16)
    run = mrclab.run(mrclab.Scenario(made), results=tmp_path / "results", seed=1)
    assert run.passed
    assert run.directory is not None
    again = results.load(run.directory).loaded
    assert again.fabric.spec == spec
    assert "fabric.topology.topo" in {path.name for path in run.directory.iterdir()}


def test_a_fat_tree_of_four_ports_has_sixteen_hosts():
    made = loaded({"kind": "fat_tree", "k": 4}, fabric={"link": {"rate": "100 Gb/s", "delay": "1us"}})
    assert len(made.fabric.hosts) == 16
    assert {len(switch.ports) for switch in made.fabric.switches} == {4}


def test_mistakes_are_told_with_their_place(tmp_path):
    for topology, message in (
        ({"kind": "fat_tree", "k": 5}, r"topology\.k: .*must be even"),
        ({"kind": "fat_treee", "k": 4}, "topology.*fat_tree"),
        ({"kind": "htsim", "file": "none.topo"}, "cannot be read"),
    ):
        with pytest.raises(ScenarioError, match=message):
            loaded(topology, tmp_path)


def test_servers_have_a_nic_on_each_rail(tmp_path):
    (tmp_path / "x.topo").write_text(TWO)
    made = loaded(
        {"kind": "htsim", "file": "x.topo"},
        tmp_path,
        fabric={"rails": 2},
        traffic=[{"name": "a", "kind": "all_to_all", "hosts": ["s1", "s10"], "size": "1 kB"}],
    )
    fabric = made.fabric
    assert fabric.servers == 16
    assert fabric.of_server(1) == ["h1", "h9"]
    assert fabric.of_server(10) == ["h18", "h26"]  # of the second block of two T0s
    assert fabric.of_rail(2)[:2] == ["h9", "h10"]
    assert {fabric.group(name) for name in fabric.of_rail(2)} == {2, 4}
    assert made.scenario.traffic[0].hosts == ["h1", "h9", "h18", "h26"]  # type: ignore[attr-defined]


def test_rails_need_as_many_t0s():
    with pytest.raises(ScenarioError, match="rails 3 need as many T0s, or a multiple, and the fabric has 2"):
        scenario.from_data({"name": "s", "fabric": {"rails": 3}, "traffic": TRAFFIC}, "s")
    incast = {**TRAFFIC[0], "kind": "incast", "from": ["s9"], "to": "h1"}
    with pytest.raises(ScenarioError, match="no server is called 's9'"):
        scenario.from_data({"name": "s", "fabric": {"rails": 2}, "traffic": [incast]}, "s")
