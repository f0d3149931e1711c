"""Jobs as graphs: collectives whose ends match, times that formulas give, and two transports in one fabric."""

import dataclasses
import itertools
import json
import re
import textwrap
from collections import Counter

import pytest

from mrclab import HOME
from mrclab.hosts.rdma.timers import Timers
from mrclab.hosts.workloads import schedules
from mrclab.hosts.workloads.graph import GraphRun, RankProgram
from mrclab.hosts.workloads.payload import Payload
from mrclab.hosts.workloads.schedules import RECV, SEND, Collective
from mrclab.lab.errors import ScenarioError
from mrclab.lab.run import runner
from mrclab.lab.scenario import scenario
from mrclab.lab.training.parallel import one_f_one_b

MTU = 4096
GROUP = {
    "planes": 2, "t0s": 1, "t1s": 1, "hosts_per_t0": 8, "path_mtu": MTU, "switch_latency": "500ns",
    "link": {"rate": "100Gb/s", "delay": "600ns"},
}  # fmt: skip
FRAME_S = (MTU + 142) * 8 / 100e9


def run(tmp_path, traffic, fabric=GROUP, **more):
    """The history of a scenario in virtual time, and its outcome."""
    given = {"name": "job", "world": "sim", "fabric": fabric, "traffic": traffic, **more}
    loaded = scenario.from_data(given, str(tmp_path / "job.yaml"))
    outcome = runner.run_scenario(loaded, tmp_path, lambda *_: None, lambda _: None, report=False)
    records = [json.loads(line) for line in (outcome.directory / "history.jsonl").read_text().splitlines()]
    return outcome, records


@pytest.mark.parametrize(
    "kind",
    [
        "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "reduce", "gather", "scatter",
        "barrier",
    ],
)  # fmt: skip
def test_every_message_of_a_collective_has_two_ends_and_all_ranks_come_to_the_end(kind):
    for algorithm, count, size in itertools.product(schedules.ALGORITHMS, (2, 3, 4, 7, 8), (1, 1_000_003)):
        _check(kind, algorithm, count, size)


def _check(kind, algorithm, count, size):
    server = 2 if count % 2 == 0 else 1
    what = Collective(kind, algorithm, size, server)
    ranks = [schedules.schedule(what, count, rank) for rank in range(count)]
    sent = {(a, op.peer, op.number): op.size for a, s in enumerate(ranks) for op in s.ops if op.kind == SEND}
    got = {(op.peer, b, op.number): op.size for b, s in enumerate(ranks) for op in s.ops if op.kind == RECV}
    assert sent == got
    assert all(number < schedules.span(what, count) for _, _, number in sent)
    assert len(sent) == sum(op.kind == SEND for s in ranks for op in s.ops)
    assert _runs_to_the_end(ranks)


def _runs_to_the_end(ranks):
    """Return True if everything happens where a message arrives in the moment in which it is sent."""
    needs = [[op.needs for op in s.ops] for s in ranks]
    ready = [(rank, root) for rank, s in enumerate(ranks) for root in s.roots]
    arrived, waiting, done = set(), {}, 0
    while ready:
        rank, place = ready.pop()
        op = ranks[rank].ops[place]
        key = (rank, op.peer, op.number) if op.kind == SEND else (op.peer, rank, op.number)
        ended = [(rank, place)]
        if op.kind == SEND:
            arrived.add(key)
            ended += [waiting.pop(key)] if key in waiting else []
        elif key not in arrived:
            waiting[key] = rank, place
            continue
        for whose, which in ended:
            done += 1
            for after in ranks[whose].ops[which].then:
                needs[whose][after] -= 1
                if not needs[whose][after]:
                    ready.append((whose, after))
    return done == sum(len(s.ops) for s in ranks)


def test_a_rank_with_nothing_to_do_ends_all_of_many_steps():
    idle = RankProgram(schedules.Schedule((), (), 0), peers=(), steps=10_000)
    steps, ends = [], []
    run = GraphRun(
        idle, "", {}, {}, Timers(), Payload(), idle.steps, on_sent=None,
        on_step=lambda step, *_: steps.append(step), on_done=lambda: ends.append(True),
    )  # fmt: skip
    run.start(0.0)
    assert (steps, ends) == (list(range(10_000)), [True])


@pytest.mark.parametrize(("algorithm", "share"), [("ring", 2 * 7 / 8), ("halving_doubling", 2 * 7 / 8)])
def test_an_all_reduce_moves_as_many_bytes_as_its_formula_says(algorithm, share):
    what, size = Collective("all_reduce", algorithm, 8 << 20), 8 << 20
    for rank in range(8):
        assert sum(sent.size for sent in schedules.exchanged(what, 8, rank, SEND)) == round(size * share)


P, A, T = 8 << 16, 1 << 14, 1 << 15  # parameters of two bytes, bytes of activations and of tokens


@pytest.mark.parametrize(
    ("degrees", "inside", "outside"),  # of a job of 2 layers and 3 micro-batches: bytes of rank 0 to its server, beyond
    [
        ({}, 0, 2 * 7 / 8 * 2 * P),
        ({"overlap": "fsdp"}, 0, 2 * 3 * 7 / 8 * 2 * P + 3 * 7 / 8 * 2 * P),  # every micro-batch, the gather twice
        ({"expert": 4}, 0, 2 * 7 / 8 * 2 * P + 4 * 2 * 3 * 3 / 4 * T),
        ({"tensor": 2}, 0, 2 * 3 / 4 * P + 4 * 2 * 3 * A),
        ({"tensor": 2, "server": 2}, 0, 2 * 3 / 4 * P),
        ({"tensor": 2, "pipeline": 2}, 0, P / 2 + 4 * 1 * 3 * A + 3 * A),
        ({"algorithm": "hierarchical", "server": 4}, 2 * 3 / 4 * 2 * P, 2 * P / 4),
        ({"algorithm": "hierarchical", "server": 4, "tensor": 2}, P, P / 2),  # two of four copies in a server
        ({"algorithm": "hierarchical", "server": 4, "tensor": 4}, 0, P / 2),  # each of two copies fills one
        ({"algorithm": "hierarchical", "server": 8, "tensor": 2}, 2 * 3 / 4 * P, 0),
        ({"algorithm": "hierarchical", "server": 2, "tensor": 4}, 4 * 2 * 3 * A, P / 2 + 4 * 2 * 3 * A / 2),
    ],
)
def test_a_rank_sends_what_its_degrees_of_parallelism_ask_for(degrees, inside, outside):
    given = {"name": "job", "kind": "training", "parameters": P, "layers": 2, "micro_batches": 3, "forward": "1us"}
    given |= {"activations": A, "tokens": T, **degrees}
    loaded = scenario.from_data({"name": "job", "world": "sim", "fabric": GROUP, "traffic": [given]}, "job")
    pairs, server = loaded.scenario.traffic[0].job.pairs, degrees.get("server", 1)
    sent = {destination: size for source, destination, size in pairs if source == 0}
    found = [sum(size for rank, size in sent.items() if (rank < server) == same) for same in (True, False)]
    assert found == [inside, outside]


@pytest.mark.parametrize("degrees", [{"tensor": 2, "pipeline": 2}, {"overlap": "fsdp"}, {"expert": 4}])
def test_a_rank_knows_how_many_messages_each_other_sends_it(degrees):
    given = {"name": "job", "kind": "training", "parameters": P, "layers": 2, "micro_batches": 3, "forward": "1us"}
    given |= {"activations": A, "tokens": T, **degrees}
    loaded = scenario.from_data({"name": "job", "world": "sim", "fabric": GROUP, "traffic": [given]}, "job")
    job = loaded.scenario.traffic[0].job
    programs = [dataclasses.replace(job.program(rank), steps=3) for rank in range(job.ranks)]
    for rank in range(job.ranks):
        sent = Counter()
        for one in programs[rank].exchanged(schedules.SEND):
            sent[one.rank] += 3 * one.messages
        assert sent
        assert sent == {peer: n for peer in range(job.ranks) if (n := programs[peer].receives_from(rank))}


def test_a_pipeline_begins_with_as_many_forward_passes_as_stages_follow():
    assert one_f_one_b(2, 3, 3) == [(True, 0), (False, 0), (True, 1), (False, 1), (True, 2), (False, 2)]
    first = one_f_one_b(0, 3, 4)
    assert first[:3] == [(True, 0), (True, 1), (True, 2)]
    assert first[3:5] == [(False, 0), (True, 3)]
    assert sorted(first) == sorted((way, n) for way in (True, False) for n in range(4))


def test_a_ring_all_reduce_takes_what_its_formula_says_within_two_percent(tmp_path):
    """2(n-1)/n · S/B + 2(n-1) · latency: two cables, a switch, and one more packet time where that stores a frame."""
    size, count = 4 << 20, 4
    job = {"name": "job", "kind": "training", "parameters": size / 2, "layers": 1, "forward": "0s", "bucket": size}
    _, records = run(tmp_path, [job], {**GROUP, "hosts_per_t0": count})
    (took,) = {round(r["ended"] - r["began"], 9) for r in records if r["kind"] == "training.step" and r["rank"] == 0}
    rate = 2 * MTU / FRAME_S
    latency = 2 * 600e-9 + 500e-9 + FRAME_S
    formula = 2 * (count - 1) / count * size / rate + 2 * (count - 1) * latency
    assert took == pytest.approx(formula, rel=0.02)


def test_a_graph_of_independent_flows_equals_the_same_matrix(tmp_path):
    pairs = [(0, 1), (2, 3), (4, 5), (1, 6)]
    goal = ["num_ranks 8"]
    for rank in range(8):
        goal.append(f"rank {rank} {{")
        goal += [f"send 100000b to {b} tag 0" for a, b in pairs if a == rank]
        goal += [f"recv 100000b from {a} tag 0" for a, b in pairs if b == rank]
        goal.append("}")
    (tmp_path / "flows.goal").write_text("\n".join(goal))
    rows = [f"{a}->{b} start 0 size 100000" for a, b in pairs]
    (tmp_path / "flows.cm").write_text("\n".join(["Nodes 8", f"Connections {len(rows)}", *rows]))
    matrix = {"name": "job", "kind": "matrix", "file": "flows.cm", "message": 100_000, "depth": 1}
    _, one = run(tmp_path, [{"name": "job", "kind": "trace", "file": "flows.goal"}])
    _, other = run(tmp_path, [matrix])
    found = [
        {r["flow"]: (r["began"], r["ended"], r["bytes"]) for r in records if r["kind"] == "flow.done"}
        for records in (one, other)
    ]
    assert len(found[0]) == len(pairs)
    assert found[0] == found[1]


def test_compute_overlaps_with_what_is_reduced_and_the_rest_is_exposed(tmp_path):
    common = {
        "name": "job", "kind": "training", "parameters": 1e6, "layers": 4, "bucket": 500_000, "forward": "20us",
        "steps": 2, "hosts": ["h1", "h2", "h3", "h4"],
    }  # fmt: skip
    took = {}
    for overlap in ("ddp", "none", "fsdp"):
        outcome, _ = run(tmp_path, [{**common, "overlap": overlap}])
        training = outcome.measures.training
        took[overlap] = training.seconds("job")[0]
        assert len(training.steps("job")) == 2
        assert training.exposed("job") + 3 * 80e-6 == pytest.approx(took[overlap], rel=0.01)
        assert outcome.ok, outcome.verdicts
    assert took["ddp"] < took["none"] - 50e-6


def test_jitter_is_drawn_from_the_seed_of_the_run(tmp_path):
    job = {
        "name": "job", "kind": "training", "parameters": 1e3, "layers": 2, "forward": "100us", "jitter": "50%",
        "hosts": ["h1", "h2"], "steps": 3,
    }  # fmt: skip

    def steps(seed):
        return run(tmp_path, [job], seed=seed)[0].measures.training.seconds("job")

    first = steps(1)
    assert steps(1) == first
    assert sum(abs(a - b) > 5e-6 for a, b in zip(first, steps(2), strict=True)) >= 2
    assert all(600e-6 < seconds < 900e-6 for seconds in first)


def test_every_kind_of_parallelism_runs_to_its_end_at_once(tmp_path):
    fabric = {**GROUP, "t0s": 2, "t1s": 2}
    job = {
        "name": "job", "kind": "training", "tensor": 2, "pipeline": 2, "expert": 2, "micro_batches": 3, "skew": 1.2,
        "parameters": 2e5, "layers": 4, "forward": "20us", "activations": 8_000, "tokens": 16_000, "steps": 2,
        "jitter": "10%", "algorithm": "halving_doubling",
    }  # fmt: skip
    outcome, records = run(tmp_path, [job], fabric)
    assert outcome.ok, outcome.verdicts
    assert {r["rank"] for r in records if r["kind"] == "training.step"} == set(range(16))
    again, _ = run(tmp_path, [{**job, "server": 2}], fabric)
    assert again.measures.training.seconds("job")[0] < outcome.measures.training.seconds("job")[0]


def test_mrc_and_roce_compete_in_one_run(tmp_path):
    fabric = {**GROUP, "planes": 1, "t0s": 2, "t1s": 2, "hosts_per_t0": 4}
    common = {"kind": "training", "parameters": 2e5, "layers": 2, "forward": "10us", "steps": 2}
    jobs = [
        {**common, "name": "one", "hosts": ["h1", "h2", "h5", "h6"]},
        {**common, "name": "other", "hosts": ["h3", "h4", "h7", "h8"], "transport": {"kind": "roce", "qps": 4}},
    ]
    outcome, records = run(tmp_path, jobs, fabric)
    assert outcome.ok, outcome.verdicts
    flows = {r["traffic"]: r["flows"] for r in records if r["kind"] == "traffic.start"}
    assert {len(flow["qps"]) for flow in flows["one"]} == {1}
    assert {len(flow["qps"]) for flow in flows["other"]} == {4}
    with pytest.raises(ScenarioError, match="h1 has the transport of one already"):
        run(tmp_path, [jobs[0], {**jobs[1], "hosts": ["h1", "h4"]}], fabric)


def test_a_fault_costs_a_job_time_which_is_told_against_the_same_run_without(tmp_path):
    job = {
        "name": "job", "kind": "training", "parameters": 5e5, "layers": 4, "bucket": 500_000, "forward": "20us",
        "steps": 6, "hosts": ["h1", "h2", "h3", "h4"],
    }  # fmt: skip
    fault = {"name": "cut", "kind": "link_down", "link": "h1/t0-p1-1", "at": "30% of job", "until": "job.end"}
    expect = [{"kind": "time_lost", "traffic": "job", "at_least": "20us", "steps_at_most": 6}]
    outcome, records = run(tmp_path, [job], faults=[fault], expect=[*expect, {"kind": "integrity"}])
    assert outcome.ok, outcome.verdicts
    measured = run(tmp_path, [job], faults=[fault], measure=[{"kind": "time_lost", "traffic": "job"}])[0].verdicts[-1]
    assert (measured.ok, measured.value) == (True, outcome.verdicts[0].value)
    (reference,) = [r for r in records if r["kind"] == "training.reference"]
    assert len(reference["ends"]) == 6
    assert "the same run without faults" in outcome.verdicts[0].observed


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"tensor": 3}, "tensor 3 × pipeline 1 does not make 8 hosts"),
        ({"expert": 3}, "expert 3 does not divide data parallelism 8"),
        ({"algorithm": "hierarchical", "server": 3}, "data parallelism 8 does not fill servers of 3; change server"),
        ({"algorithm": "hierarchical", "server": 3, "tensor": 4}, "tensor parallelism 4 does not fill servers of 3"),
        ({"pipeline": 8, "layers": 4}, "4 layers do not fill 8 stages"),
        ({"forward": None}, "needs either forward"),
        ({"forward": None, "forward_flops": 1e12}, "no gpu_flops"),
        ({"backward_flops": 1e12}, "has backward_flops and no gpu_flops"),
        ({"backward": "1us", "backward_flops": 1e12, "gpu_flops": 1e14}, "both backward and backward_flops"),
        ({"forward": "200s"}, "the run ends after 5 min 0 s, and a computation in it takes 6 min 40 s; shorten it"),
        ({"optimizer": "400s"}, "a computation in it takes 6 min 40 s; shorten it, or raise timeout"),
        ({"parameters": 1e13, "layers": 1, "bucket": "1000Gi"}, "lower its size"),
        ({"steps": 1_000_000, "layers": 512, "bucket": 1}, "steps"),
    ],
)
def test_a_plan_that_cannot_be_is_one_sentence(tmp_path, change, sentence):
    job = {"name": "job", "kind": "training", "parameters": 1e6, "forward": "10us", **change}
    given = {key: value for key, value in job.items() if value is not None}
    with pytest.raises(ScenarioError, match=sentence):
        run(tmp_path, [given])


def test_the_plan_of_a_job_names_ranks_and_nodes():
    loaded = scenario.load(HOME / "scenarios" / "training.yaml")
    (entry,) = loaded.scenario.traffic
    assert entry.text(loaded.fabric, 1) == "6 steps of 16 ranks; h1 is rank 0, with 21 nodes in each"


def test_the_example_of_the_page_is_small_and_passes(tmp_path):
    page = (HOME / "docs" / "training.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^    name: train\n(?:    .*\n)*", page, re.MULTILINE)
    text = textwrap.dedent(example).replace("steps: 10", "steps: 2")
    (tmp_path / "page.yaml").write_text(text, encoding="utf-8")
    loaded = scenario.load(tmp_path / "page.yaml")
    (job,) = loaded.scenario.traffic
    assert sum(size for _, _, size in job.job.pairs) * 10 < 1 << 29
    assert runner.run_scenario(loaded, tmp_path, lambda *_: None, lambda _: None, report=False).ok
