"""Open-loop traffic: flow sizes, arrivals, a run in virtual time, slowdowns."""

import gc
import itertools
import json
import random
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mrclab
from mrclab.hosts.mrc.qp import MrcQueuePair
from mrclab.lab.command.cli import app
from mrclab.lab.errors import ScenarioError
from mrclab.lab.history import History
from mrclab.lab.measure.measures import Measures
from mrclab.lab.measure.traffic import slowdown
from mrclab.lab.measure.traffic.completions import CompletedWork
from mrclab.lab.report import plots, summary
from mrclab.lab.run import runner
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.units import show_bytes
from mrclab.lab.traffic import flowsizes
from mrclab.lab.traffic.kinds.openloop import OpenLoop, capacity
from mrclab.lab.traffic.running import openloop
from mrclab.sim import openloop as driver
from mrclab.topo.model import Fabric
from mrclab.topo.numbers import FULL_HEADER_BYTES
from mrclab.topo.spec import FabricSpec

SCENARIO = """
name: small
world: sim
fabric: {planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 2, link: {rate: 100 Gb/s, delay: 600ns}}
traffic:
  - {name: search, kind: open_loop, SIZES, load: 40%, flows: 60}
timeout: 10s
expect:
  - {kind: qp_errors, at_most: 0}
  - {kind: completion, traffic: search, of: flows, percentile: 99, at_most: 1s}
  - {kind: slowdown, traffic: search, percentile: 50, least: 2, below: 1 MiB, at_least: 1, at_most: 20}
"""
SIZES = "0 0\n1000 50 # half of them\n200000 100\n"


def loaded(tmp_path, sizes="file: small.cdf") -> scenario.Loaded:
    (tmp_path / "small.cdf").write_text(SIZES, encoding="utf-8")
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO.replace("SIZES", sizes), encoding="utf-8")
    return scenario.load(path)


@pytest.mark.parametrize(("name", "mean"), [("web_search", 1.7e6), ("data_mining", 7.4e6), ("hadoop", 1.2e5)])
def test_sizes_are_drawn_as_published(name, mean):
    sizes = flowsizes.published(name)
    assert sizes.mean == pytest.approx(mean, rel=0.1)
    draw = random.Random(1)
    drawn = [sizes.at(draw.random()) for _ in range(20_000)]
    assert sum(drawn) / len(drawn) == pytest.approx(sizes.mean, rel=0.1)
    for size, share in flowsizes.PUBLISHED[name][1:-1]:
        assert sum(one <= size for one in drawn) / len(drawn) == pytest.approx(share / 100, abs=0.015)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("10 50\n5 100\n", "f:2: sizes and shares must rise"),
        ("10 50\n", "f: the last line must have 100 percent"),
        ("ten 50\n", "f:1: write bytes and a share"),
        ("10 120\n", "f:1: sizes and shares must rise"),
        ("0 100\n", "f: the largest flow has less than a byte; give sizes of at least 1"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(text, said):
    with pytest.raises(ValueError, match=said):
        flowsizes.parse(text, "f")


def test_arrivals_are_poisson_at_the_load(tmp_path):
    found = loaded(tmp_path)
    entry = found.scenario.traffic[0]
    assert isinstance(entry, OpenLoop)
    many = entry.model_copy(update={"count": 20_000})
    arrivals = list(many.arrivals(found.fabric, 1))
    gaps = [after[0] - before[0] for before, after in itertools.pairwise(arrivals)]
    mean = sum(gaps) / len(gaps)
    assert sum((gap - mean) ** 2 for gap in gaps) / len(gaps) == pytest.approx(mean**2, rel=0.1)  # exponential
    offered = sum(size for *_, size in arrivals) / arrivals[-1][0]
    assert offered == pytest.approx(0.4 * capacity(found.fabric, entry.hosts), rel=0.05)
    assert all(source != destination for _, source, destination, _ in arrivals)
    assert arrivals == list(many.arrivals(found.fabric, 1))
    crossing = many.model_copy(update={"cross_group": True, "count": 500})
    group = found.fabric.group
    assert all(group(a) != group(b) for _, a, b, _ in crossing.arrivals(found.fabric, 1))


@pytest.mark.parametrize(
    ("fabric", "hosts", "gigabits"),
    [
        ({}, range(1, 9), 8 * 200),
        ({"t1s": 1}, range(1, 9), 4 * 200),  # half a NIC's rate for each of the two hosts of a T0
        ({"t1s": 1}, (1, 3, 5, 7), 4 * 200),  # one of each T0
        ({"t1s": 1}, (1, 2), 2 * 200),  # nothing between them but their T0
        ({"pods": 2, "t2s": 4}, range(1, 9), 8 * 200),
        ({"pods": 2}, range(1, 9), 4 * 200),  # two T2s of a plane above two T0s of two uplinks each
        ({"pods": 2, "links": [{"tier": "t1-t2", "rate": "50 Gb/s"}]}, range(1, 9), 2 * 2 * 2 * 50),
        ({"pods": 2, "links": [{"tier": "t1-t2", "rate": "50 Gb/s"}]}, range(1, 5), 4 * 200),  # of one pod
        ({"pods": 2, "t1s": 1, "t2s": 2}, range(1, 9), 4 * 200),  # two of a pod's T0s share its uplinks, two per T0
        # Plane 1 has fast NICs and slow uplinks, plane 2 the contrary: each passes 25 Gb/s of a host.
        ({"t1s": 1, "links": [{"tier": "t0-t1", "planes": [1], "rate": "50 Gb/s"},
          {"tier": "nic", "planes": [2], "rate": "25 Gb/s"}]}, range(1, 9), 8 * 50),
    ],
)  # fmt: skip
def test_full_load_is_what_the_narrowest_tier_of_each_plane_passes(fabric, hosts, gigabits):
    data = {"planes": 2, "t0s": 4, "t1s": 2, "hosts_per_t0": 2, "link": {"rate": "100 Gb/s", "delay": "600ns"}}
    made = Fabric(FabricSpec.model_validate(data | fabric))
    share = 4096 / (4096 + FULL_HEADER_BYTES)
    assert capacity(made, [f"h{number}" for number in hosts]) == pytest.approx(gigabits * 1e9 / 8 * share)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (
            "{kind: goodput, window: start .. end}",
            "kind: search leaves no QPs in the history, by which goodput is judged",
        ),
        (
            "{kind: lost, traffic: search, per: run}",
            "kind: search leaves no QPs in the history, by which lost is judged",
        ),
        ("{kind: completion, traffic: search}", "of: the history has no messages of search; write of: flows"),
    ],
)
def test_a_figure_that_no_open_loop_has_is_refused_before_it_runs(tmp_path, entry, said):
    text = loaded(tmp_path).text + f"measure:\n  - {entry}\n"
    with pytest.raises(ScenarioError, match=re.escape(f"measure[1].{said}")):
        scenario.loads(text, "small.yaml", {"small.cdf": SIZES})
    other = "  - {name: file, kind: write, from: h1, to: h2, size: 1 MiB}\n"
    if "search" not in entry:  # it is about the other traffic, too
        scenario.loads(text.replace("timeout:", other + "timeout:"), "small.yaml", {"small.cdf": SIZES})


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ("sizes: websearch", "web_search"),
        ("file: none.cdf", "none.cdf cannot be read"),
        ("sizes: ai, file: small.cdf", "needs either sizes, such as web_search, or a file"),
    ],
)
def test_an_unknown_distribution_is_refused(tmp_path, sizes, said):
    with pytest.raises(ScenarioError, match=said):
        loaded(tmp_path, sizes)


def test_every_flow_that_arrives_is_carried_and_its_qps_are_gone(tmp_path, monkeypatch):
    worlds = []
    begin = runner.Run.go
    monkeypatch.setattr(runner.Run, "go", lambda self: (worlds.append(self._world), begin(self))[1])
    left = {}
    rest = runner.Run._wait_for_evs

    def linger(self):
        rest(self)
        self._world.pause(1e-3)
        hosts = self._world._sim.hosts
        left.update({name: len(host.transport.verbs.qps) for name, host in hosts.items()})

    monkeypatch.setattr(runner.Run, "_wait_for_evs", linger)
    outcome = runner.run_scenario(loaded(tmp_path), tmp_path / "r", lambda *_: None, lambda _: None, report=False)
    assert outcome.state == "passed", [str(verdict) for verdict in outcome.verdicts]
    assert set(left.values()) == {0}
    expected = outcome.verdicts[2].expected
    assert expected.startswith("percentile 50 of the slowdown of search (flows ≥ 2 bytes, < 1 MiB) ≥ 1")
    done = outcome.measures.completions.flows
    assert len(done) == 60
    (row,) = summary.summarize(outcome.measures, [], {}).completions
    assert (row["what"], row["count"]) == ("flows of search", 60)
    assert plots.durations.completions(outcome.measures) is not None
    entry = loaded(tmp_path).scenario.traffic[0]
    wanted = sorted(size for *_, size in entry.arrivals(outcome.measures.fabric, 1))
    assert sorted(flow.size for flow in done) == wanted
    assert all(slowdown.of(outcome.measures.fabric, flow) >= 0.99 for flow in done)
    unended = [record for record in outcome.measures.history.records if record.kind != "traffic.end"]
    interrupted = Measures(History(unended), outcome.measures.scenario, outcome.measures.fabric)
    assert f"; {show_bytes(sum(wanted))} in " in summary.summarize(interrupted, [], {}).headline
    assert not list(outcome.measures.history.of("wr.done"))

    said = CliRunner().invoke(app, ["slowdown", str(outcome.directory), "--json"])
    assert said.exit_code == 0, said.output
    rows = json.loads(said.output)["rows"]
    assert rows[-1]["flows"] == 60
    assert sum(row["flows"] for row in rows[:-1]) == 60


@pytest.mark.sources
def test_flows_that_are_only_counted_are_not_said_to_have_digests(tmp_path):
    other = "  - {name: file, kind: write, from: h1, to: h3, size: 64 KiB}\ntimeout:"
    text = loaded(tmp_path).text.replace("timeout:", other).replace("expect:", "expect:\n  - {kind: integrity}")
    (tmp_path / "two.yaml").write_text(text, encoding="utf-8")
    outcome = runner.measure(scenario.load(tmp_path / "two.yaml"), tmp_path, lambda *_: None, lambda _: None)
    said = "of 61 flows 1 intact by sha256, of the others all bytes acknowledged and counted"
    assert (outcome.verdicts[0].ok, outcome.verdicts[0].observed) == (True, said)


def test_a_flow_for_which_a_host_has_no_qp_left_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "MAX_QP", 2)
    ends = ended(tmp_path, loaded(tmp_path).text)
    assert len(ends) == 60
    assert {error.partition(" has ")[2] for error in ends.values()} == {"", "2 QPs, as many as a host can have"}


def test_flows_of_an_agent_that_crashes_end_with_it(tmp_path):
    text = loaded(tmp_path).text.replace(
        "timeout:", "faults:\n  - {name: crash, kind: agent_crash, host: h3, at: 1us, until: 100us}\ntimeout:"
    )
    ends = ended(tmp_path, text.replace("load: 40%", "load: 190%"))
    assert len(ends) == 60
    assert set(ends.values()) == {"", "the agent of h3 is down"}


def ended(tmp_path, text: str) -> dict[str, str]:
    """Errors of all flows, each of which ends once."""
    (tmp_path / "ended.yaml").write_text(text[: text.index("expect:")], encoding="utf-8")
    outcome = runner.measure(scenario.load(tmp_path / "ended.yaml"), tmp_path, lambda *_: None, lambda _: None)
    assert outcome.state != "aborted"
    ends = [(record["flow"], record["error"]) for record in outcome.measures.history.of("flow.end")]
    assert len(dict(ends)) == len(ends)
    return dict(ends)


def test_the_slowdown_of_an_idle_fabric_is_one(tmp_path):
    fabric = loaded(tmp_path).fabric
    flow = CompletedWork("a", "a/h1>h3#7", 0.0, fabric.base_rtt("h1", "h3"), 4096)
    assert slowdown.of(fabric, flow) == pytest.approx(1)
    size = 10_000_000
    line = 2 * fabric.spec.link.rate_pps * fabric.spec.path_mtu
    long = CompletedWork("a", "a/h1>h3", 0.0, 2 * size / line, size)
    assert slowdown.of(fabric, long) == pytest.approx(2, rel=0.03)


@pytest.mark.parametrize(
    ("extra", "sizes"),
    [
        ({"links": [{"planes": [2], "rate": "100 Gb/s"}]}, (1000, 4096, 4 << 20)),
        ({"links": [{"planes": [2], "delay": "5us"}]}, (1000, 4096)),  # more bytes wait for the slower plane as well
        ({"pods": 2, "t0s": 4}, (4096, 1 << 18)),  # within a pod
    ],
)
def test_no_flow_of_an_idle_fabric_is_faster_than_its_fastest_planes(extra, sizes):
    fabric = {"planes": 2, "t0s": 2, "t1s": 2, "hosts_per_t0": 1, "link": {"rate": "400 Gb/s", "delay": "600ns"}}
    traffic = [
        {"name": f"w{size}", "kind": "write", "from": "h1", "to": "h2", "size": size, "start": f"{place * 300}us"}
        for place, size in enumerate(sizes)
    ]
    made = mrclab.scenario(fabric=fabric | extra, traffic=traffic)
    for row in mrclab.run(made).flows:
        assert 0.999 < row["slowdown"] < 1.02, row


def test_the_wire_refuses_it(tmp_path):
    path = Path(tmp_path / "w.yaml")
    path.write_text(
        SCENARIO.replace("SIZES", "sizes: web_search").replace("world: sim", "world: wire"), encoding="utf-8"
    )
    done = CliRunner().invoke(app, ["plan", str(path)])
    assert "open_loop is not supported on the wire" in done.output + str(done.exception or "")


def test_memory_holds_the_flows_under_way_and_not_those_that_are_over(tmp_path, monkeypatch):
    """QPs refer to themselves, and virtual time passes with the collector off."""
    monkeypatch.setattr(openloop, "_COLLECT_EVERY", 20)
    ended, left = openloop.RunningOpenLoop._ended, []

    def counted(self, *arguments):
        ended(self, *arguments)
        if self._done % 20 == 0:
            known = sum(len(host.transport.verbs.qps) for host in self._world._sim.hosts.values())
            left.append(sum(type(one) is MrcQueuePair for one in gc.get_objects()) - known)

    monkeypatch.setattr(openloop.RunningOpenLoop, "_ended", counted)
    text = SCENARIO.replace("SIZES", "sizes: hadoop").replace("flows: 60", "flows: 200")
    runner.measure(scenario.loads(text), tmp_path, lambda *_: None, lambda _: None)
    assert left == [0] * 10


def test_counted_bytes_are_whole_without_a_digest(tmp_path):
    one = loaded(tmp_path)
    text = one.text[: one.text.index("expect:")]
    (tmp_path / "least.yaml").write_text(text, encoding="utf-8")
    outcome = runner.measure(scenario.load(tmp_path / "least.yaml"), tmp_path, lambda *_: None, lambda _: None)
    assert [(verdict.kind, verdict.ok) for verdict in outcome.verdicts] == [
        ("integrity", True), ("qp_errors", True), ("health", True)
    ]  # fmt: skip
