"""Chakra and GOAL traces: read as their formats say, run to the end, and refused in one sentence."""

import struct

import pytest
from test_training_graph import GROUP, run

from mrclab.bench import astrasim
from mrclab.hosts.workloads import schedules
from mrclab.lab.errors import ScenarioError
from mrclab.lab.report.summary import phases
from mrclab.lab.training.job import JobError
from mrclab.lab.training.traces import chakra, goal, recorded
from mrclab.lab.training.traces.nodes import ANY, RecordedNode, RecordedRank

COMP, SEND, RECV, COLL = 4, 5, 6, 7
CYCLE = 1e-9


def trace(*nodes):
    """A rank's file: nodes as (id, type, dependencies, attributes, µs)."""
    made = chakra.messages()
    parts = [made["GlobalMetadata"](version="0.0.4")]
    for key, kind, after, attributes, micros in nodes:
        node = made["Node"](id=key, name=f"n{key}", type=kind, data_deps=after, duration_micros=micros)
        for name, value in attributes.items():
            field = "bool_val" if isinstance(value, bool) else "string_val" if isinstance(value, str) else "int64_val"
            node.attr.append(made["Attribute"](name=name, **{field: value}))
        parts.append(node)
    return b"".join(_varint(len(data)) + data for data in (part.SerializeToString() for part in parts))


def _varint(value):
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def pair(tmp_path, first, second):
    """A trace of two ranks beside the scenario."""
    for rank, nodes in enumerate((first, second)):
        (tmp_path / f"job.{rank}.et").write_bytes(trace(*nodes))
    return [{"name": "job", "kind": "trace", "file": "job", "steps": 2}]


def test_a_chakra_trace_computes_sends_and_reduces_in_order(tmp_path):
    reduce = {"comm_type": 0, "comm_size": 100_000}
    first = [(0, COMP, [], {}, 30), (1, SEND, [0], {"comm_dst": 1, "comm_tag": 3, "comm_size": 50_000}, 0)]
    second = [(0, RECV, [], {"comm_src": 0, "comm_tag": 3, "comm_size": 50_000}, 0), (1, COMP, [0], {}, 20)]
    jobs = pair(tmp_path, [*first, (2, COLL, [1], reduce, 0)], [*second, (2, COLL, [1], reduce, 0)])
    outcome, records = run(tmp_path, jobs)
    assert outcome.ok, outcome.verdicts
    steps = [r for r in records if r["kind"] == "training.step"]
    assert [r["compute"] for r in steps if r["rank"] == 0] == [pytest.approx(30e-6)] * 2
    assert all(r["ended"] - r["began"] > 50e-6 for r in steps)
    sent = {r["flow"]: r["bytes"] for r in records if r["kind"] == "flow.end"}
    assert sent == {"job/h1>h2": 2 * 150_000, "job/h2>h1": 2 * 100_000}
    kept = (outcome.directory / "job.trace").read_text()
    assert "job.1.et" in kept


def test_process_groups_of_the_metadata_say_who_takes_part():
    groups = '[{"pg_name": "7", "ranks": [1, 2]}]'
    made = chakra.messages()
    meta = made["Node"](id=9, type=1, inputs=made["IOInfo"](values=groups)).SerializeToString()
    body = trace((1, COLL, [], {"comm_type": 2, "comm_size": 10, "pg_name": "7"}, 0))
    at = 1 + body[0]
    with_groups = body[:at] + _varint(len(meta)) + meta + body[at:]
    ranks = chakra.read({0: trace(), 1: with_groups, 2: with_groups}, "job")
    assert ranks[1].nodes[1].group == (1, 2)
    assert ranks[1].nodes[1].size == 20  # an all-gather's own part, twice
    assert [pairs[:2] for pairs in recorded.job(ranks, "ring").pairs] == [(1, 2), (2, 1)]


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        ([(0, COMP, [1], {}, 1), (1, COMP, [0], {}, 1)], [], r"job.0.et: node 0 \(n0\) waits for itself"),
        ([(0, COMP, [5], {}, 1)], [], r"job.0.et: node 0 \(n0\) waits for node 5, which is not there"),
        (
            [(0, SEND, [], {"comm_dst": 1, "comm_size": 9}, 0)],
            [],
            r"job.0.et: node 0 \(n0\) sends to rank 1 with tag 0",
        ),
        ([], [(4, RECV, [], {"comm_src": 0, "comm_size": 9}, 0)], r"job.1.et: node 4 \(n4\) receives from rank 0"),
        ([(0, SEND, [], {"comm_dst": 7, "comm_size": 9}, 0)], [], "sends to rank 7, and there are ranks 0 to 1"),
        ([(0, SEND, [], {"comm_size": 9}, 0)], [], "has no comm_dst"),
        ([(0, COLL, [], {"comm_type": 0, "comm_size": 9}, 0)], [], "rank 1 takes part in 0 collectives"),
        ([(0, COLL, [], {"comm_type": 0, "in_msg_nelems": 9, "dtype": "Qubit"}, 0)], [], "unknown dtype 'Qubit'"),
        (
            [(0, COLL, [], {"comm_type": 0, "in_msg_nelems": "x", "dtype": "int"}, 0)],
            [],
            r"job.0.et: node 0 \(n0\) has no in_msg_nelems; give it as a number from 0 on",
        ),
        (
            [(0, SEND, [], {"comm_dst": 1, "comm_size": 9, "comm_tag": "x"}, 0)],
            [],
            r"job.0.et: node 0 \(n0\) has the comm_tag 'x'; give it as a number",
        ),
        ([(0, 12, [], {}, 0)], [], "is of unknown type 12"),
        ([(0, COMP, [], {}, 0), (0, COMP, [], {}, 0)], [], "has an id that another node has"),
    ],
)
def test_a_chakra_trace_that_is_wrong_is_one_sentence_with_file_and_node(tmp_path, first, second, sentence):
    with pytest.raises(ScenarioError, match=sentence):
        run(tmp_path, pair(tmp_path, first, second))


@pytest.mark.parametrize(("name", "why"), [("x" * 300, "File name too long"), ("a\0.goal", ".*embedded null")])
def test_a_name_that_no_file_can_have_is_refused_with_its_field(tmp_path, name, why):
    with pytest.raises(ScenarioError, match=rf"traffic\[1\].file: .* cannot be read: {why}.*; name a trace beside"):
        run(tmp_path, [{"name": "job", "kind": "trace", "file": name}])


def test_files_that_are_missing_or_no_traces_are_named(tmp_path):
    jobs = [{"name": "job", "kind": "trace", "file": "job"}]
    with pytest.raises(ScenarioError, match=r"there is neither .*job nor .*job.0.et"):
        run(tmp_path, jobs)
    (tmp_path / "job.1.et").write_bytes(trace())
    with pytest.raises(ScenarioError, match=r"job.0.et is missing"):
        run(tmp_path, jobs)
    (tmp_path / "job.0.et").write_bytes(b"\x7fnothing")
    with pytest.raises(ScenarioError, match="is not a Chakra execution trace"):
        run(tmp_path, jobs)
    (tmp_path / "job.0.et").unlink()
    (tmp_path / "job.0.et").mkdir()
    with pytest.raises(ScenarioError, match=r"job.0.et cannot be read"):
        run(tmp_path, jobs)


TEXT = """
num_ranks 2
/* two
   lines */
rank 0 {
l1: calc 100 cpu 1
l2: send 5000b to 1 tag 7 // on its way
l2 requires l1
calc 20
l4: calc 30
l4 irequires l2
}
rank 1 {
l1: recv 5000b from 0 tag 7
}
"""


def binary(ranks):
    """GOAL's binary form of nodes as (type, peer, size, tag, cpu, those that wait for its end, and for its begin)."""
    parts = []
    for nodes in ranks:
        needs = [sum(place in (*row[5], *row[6]) for row in nodes) for place in range(len(nodes))]
        roots = [place for place, count in enumerate(needs) if not count]
        rows, appendix = b"", []
        for (kind, peer, size, tag, cpu, ended, begun), count in zip(nodes, needs, strict=True):
            first = len(appendix)
            appendix += [*ended, *begun]
            places = len(ended), first, len(begun), first + len(ended)
            rows += struct.pack("<IBIQIBBIIII", count, kind, peer, size, tag, cpu, 0, *places)
        words = [*roots], [*appendix]
        parts.append(
            struct.pack(f"<II{len(roots)}I", len(nodes), len(roots), *words[0])
            + rows
            + struct.pack(f"<{len(appendix)}I", *words[1])
        )
    at, table = 6 + 16 * len(parts), b""
    for part in parts:
        table += struct.pack("<QQ", at, at + len(part))
        at += len(part)
    return struct.pack("<QIBB", goal.MAGIC, len(parts), 2, 1) + table + b"".join(parts)


@pytest.mark.parametrize("kept", ["{}", '{"a.goal": "", "b.goal": ""}', '{"job.0.et": 1}', "[]"])
def test_a_kept_trace_of_other_files_than_one_schedule_or_those_of_ranks_is_none(tmp_path, kept):
    (tmp_path / "job.trace").write_text(kept)
    with pytest.raises(ScenarioError, match=r"job.trace is not a trace that a run kept; name the files"):
        run(tmp_path, [{"name": "job", "kind": "trace", "file": "job.trace"}])


def test_a_rank_far_behind_the_others_is_named_at_once(tmp_path):
    (tmp_path / "job.0.et").write_bytes(trace())
    (tmp_path / "job.999999999999.et").write_bytes(trace())
    with pytest.raises(ScenarioError, match=r"job.1.et is missing, and there is .*job.999999999999.et; add it"):
        run(tmp_path, [{"name": "job", "kind": "trace", "file": "job"}])


def test_a_schedule_has_as_many_operations_in_all_ranks_together_as_a_trace(monkeypatch):
    monkeypatch.setattr(goal, "MAX_NODES", 5)
    assert len(goal.read(TEXT.encode(), "x", CYCLE)) == 2
    monkeypatch.setattr(goal, "MAX_NODES", 4)
    with pytest.raises(JobError, match=r"x:14: a schedule has at most 4 operations; this one has more"):
        goal.read(TEXT.encode(), "x", CYCLE)
    nodes = [(3, 0, 1, 0, 0, [], [])] * 3
    with pytest.raises(JobError, match=r"x: a schedule has at most 4 operations; this one has more"):
        goal.read(binary([nodes, nodes]), "x", CYCLE)


def test_both_forms_of_goal_say_the_same():
    first = [
        (3, 0, 100, 0, 1, [1], []),
        (1, 1, 5000, 7, 0, [], [3]),
        (3, 0, 20, 0, 0, [], []),
        (3, 0, 30, 0, 0, [], []),
    ]
    data = binary([first, [(2, 0, 5000, 7, 0, [], [])]])
    found = [
        [[node.__class__(**{**vars(node), "text": ""}) for node in rank.nodes] for rank in goal.read(form, "x", CYCLE)]
        for form in (TEXT.encode(), data)
    ]
    assert found[0] == found[1]
    assert found[0][0][1].after == (0,)
    assert found[0][0][3].begun_after == (1,)
    assert found[0][0][0].seconds == pytest.approx(1e-7)


def test_a_goal_schedule_runs_over_a_link_that_fails(tmp_path):
    (tmp_path / "job.goal").write_text(TEXT)
    fault = {"name": "cut", "kind": "link_down", "link": "h1/t0-p1-1", "at": "1us", "until": "job.end"}
    jobs = [{"name": "job", "kind": "trace", "file": "job.goal", "placement": "spread", "steps": 20}]
    outcome, records = run(tmp_path, jobs, {**GROUP, "t0s": 2}, faults=[fault])
    assert outcome.ok, outcome.verdicts
    assert {r["flow"] for r in records if r["kind"] == "flow.end"} == {"job/h1>h9"}


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("num_ranks 2", "num_ranks 3", "rank 2 of 3 is missing"),
        ("l2 requires l1", "l2 requires l9", "x:8: l9 labels nothing"),
        ("l2 requires l1", "l2 requires l1\nl1 requires l2", r"l1 of rank 0 \(line 6\) waits for itself"),
        ("from 0 tag 7", "from 0 tag 7\nl2: calc 1\nl2 requires l1\nl1 requires l2", "l1 of rank 1 .* for itself"),
        ("calc 20", "wait 20", "x:9: 'wait 20' is not an operation"),
        ("to 1 tag 7", "to 1 tag -1", "sends to any rank or with any tag; name the rank and the tag"),
        ("from 0 tag 7", "from -1 tag 8", "receives from any rank with tag 8, which no rank sends to it; add a send"),
        ("from 0 tag 7", "from -1 tag 7\nrecv 5000b from -1 tag 7", "has 2 receives like that of l1 .* and is sent 1"),
        ("from 0 tag 7", "from 0 tag 8", "with tag 7, which never receives it"),
        ("calc 20", f"calc {'9' * 5000}", "x:9: 'calc 9+' is not an operation"),
        ("num_ranks 2", f"num_ranks {'9' * 5000}", "num_ranks 9+ is not a number"),
        ("recv 5000b", "recv 4000b", "receives 4000 bytes and rank 0 sends 5000"),
        ("\n}\n", "\n", "is not an operation"),
    ],
)
def test_a_goal_schedule_that_is_wrong_is_one_sentence_with_its_line(old, new, sentence):
    with pytest.raises(JobError, match=sentence):
        recorded.job(goal.read(TEXT.replace(old, new, 1).encode(), "x", CYCLE), "ring")


def test_a_computation_that_no_run_waits_for_is_named(tmp_path):
    jobs = pair(tmp_path, [(0, COMP, [], {}, 1 << 63)], [])
    with pytest.raises(ScenarioError, match=r"the run ends after 5 min 0 s, and a computation in it takes \d+ min"):
        run(tmp_path, jobs)


CROSSED = """num_ranks 2
rank 0 {
l1: recv 64b from 1 tag 0
l2: send 64b to 1 tag 0
l3: calc 5
l2 requires l1
l3 requires l2
}
rank 1 {
l1: recv 64b from 0 tag 0
l2: send 64b to 0 tag 0
l2 requires l1
}
"""


def test_ranks_that_wait_for_each_other_are_named_before_anything_runs():
    with pytest.raises(
        JobError, match=r"l1 of rank 0 \(line 3\) waits for rank 1, which waits for it in turn at l2 of"
    ):
        recorded.job(goal.read(CROSSED.encode(), "x.goal", CYCLE), "ring")
    for line in ("l2 requires l1\nl3", "l2 requires l1\n}"):
        begun = CROSSED.replace(line, line.replace("requires", "irequires"), 1)
        assert recorded.job(goal.read(begun.encode(), "x.goal", CYCLE), "ring").ranks == 2


def test_collectives_in_another_order_than_messages_are_named_too(tmp_path):
    reduce = {"comm_type": 0, "comm_size": 100}
    first = [(0, COLL, [], reduce, 0), (1, SEND, [0], {"comm_dst": 1, "comm_tag": 3, "comm_size": 5}, 0)]
    second = [(0, RECV, [], {"comm_src": 0, "comm_tag": 3, "comm_size": 5}, 0), (1, COLL, [0], reduce, 0)]
    with pytest.raises(ScenarioError, match=r"waits for rank \d, which waits for it in turn at .*; break the cycle"):
        run(tmp_path, pair(tmp_path, first, second))


def test_messages_that_no_receive_from_any_rank_is_left_for_are_named():
    text = TEXT.replace("from 0 tag 7", "from -1 tag -1").replace("calc 20", "send 9b to 1 tag 3")
    with pytest.raises(JobError, match=r"x: rank 1 is sent 2 messages .* and has 1 receives for them; make both alike"):
        recorded.job(goal.read(text.encode(), "x", CYCLE), "ring")


ANY_RANK = """
num_ranks 3
rank 0 {
l1: recv 50b from -1 tag 0
l2: send 50b to 1 tag 0
l2 requires l1
l3: recv 60b from 1 tag 0
l3 requires l2
l4: recv 70b from -1 tag -1
l4 requires l3
}
rank 1 {
l1: recv 50b from 0 tag 0
l2: send 60b to 0 tag 0
l2 requires l1
}
rank 2 {
l1: send 50b to 0 tag 0
l2: calc 90000
l2 requires l1
l3: send 70b to 0 tag 5
l3 requires l2
}
"""


def test_a_receive_from_any_rank_takes_the_message_that_comes_first(tmp_path):
    """Rank 1 answers what rank 0 sends after the first of them: had that one waited for rank 1, nothing would end."""
    (tmp_path / "job.goal").write_text(ANY_RANK)
    outcome, records = run(tmp_path, [{"name": "job", "kind": "trace", "file": "job.goal", "steps": 3}], timeout="1ms")
    assert outcome.ok, outcome.verdicts
    assert len([r for r in records if r["kind"] == "training.step"]) == 9


def test_both_forms_of_goal_receive_from_any_rank():
    either = [(3, 0, 100, 0, 0, [], [])], [(2, goal._ANY, 5000, goal._ANY, 0, [], [])]
    node = goal.read(binary(either), "x", CYCLE)[1].nodes[0]
    assert (node.peer, node.tag) == (ANY, ANY)
    (node,) = goal.read(b"num_ranks 1\nrank 0 {\nrecv 5000b from -1 tag -1\n}", "x", CYCLE)[0].nodes
    assert (node.peer, node.tag) == (ANY, ANY)


@pytest.mark.parametrize("number", range(len(chakra.COLLECTIVE_TYPES)), ids=chakra.COLLECTIVE_TYPES)
def test_every_collective_of_the_schema_is_done(number):
    body = trace((1, COLL, [], {"comm_type": number, "comm_size": 900}, 0))
    job = recorded.job(chakra.read(dict.fromkeys(range(3), body), "job"), "ring")
    kind = chakra.COLLECTIVE_TYPES[number]
    sent = {rank: sum(size for source, _, size in job.pairs if source == rank) for rank in range(3)}
    expected = {
        "all_reduce": [1200] * 3, "reduce": [0, 900, 900], "all_gather": [1800] * 3, "gather": [0, 900, 900],
        "scatter": [600, 0, 0], "broadcast": [1800, 0, 0], "all_to_all": [600] * 3, "reduce_scatter": [600] * 3,
        "barrier": [2] * 3,
    }  # fmt: skip
    assert list(sent.values()) == expected[kind]


def test_a_goal_file_that_is_cut_off_is_refused():
    data = binary([[(3, 0, 100, 0, 0, [], [])]] * 2)
    for end in range(goal._HEAD.size, len(data)):
        with pytest.raises(JobError, match="write it again"):
            goal.read(data[:end], "x", CYCLE)


def test_a_microbenchmark_takes_what_an_analytical_network_says_within_five_percent(tmp_path, capsys):
    folder = tmp_path / "all_reduce" / "8npus_1MB"
    folder.mkdir(parents=True)
    for rank in range(8):
        reduce = trace((rank, COLL, [], {"is_cpu_op": False, "comm_type": 0, "comm_size": astrasim.SIZE}, 0))
        (folder / f"all_reduce.{rank}.et").write_bytes(reduce)
    astrasim.main([str(tmp_path)])
    name, here, there, beyond = capsys.readouterr().out.splitlines()[-1].strip("| ").split(" | ")
    assert (name, there) == ("all-reduce, 8 ranks", "41.2 µs")
    assert 41.2 < float(here.removesuffix(" µs")) < 1.05 * 41.2
    assert beyond.startswith("+")


def test_a_job_that_sends_nothing_takes_its_longest_computation(tmp_path):
    (tmp_path / "job.goal").write_text("num_ranks 2\nrank 0 {\nl1: calc 5000\n}\nrank 1 {\nl1: calc 10000\n}\n")
    outcome, records = run(tmp_path, [{"name": "job", "kind": "trace", "file": "job.goal", "steps": 2}])
    assert outcome.state == "passed"
    ended = max(record["ended"] for record in records if record["kind"] == "training.step")
    assert ended == pytest.approx(20e-6)
    assert "nothing was sent" in [verdict.observed for verdict in outcome.verdicts]


def test_a_job_that_sends_nothing_is_no_flow_and_leaves_those_beside_it_as_they_are(tmp_path):
    (tmp_path / "job.goal").write_text("num_ranks 2\nrank 0 {\nl1: calc 5000\n}\nrank 1 {\nl1: calc 10000\n}\n")
    job = {"name": "job", "kind": "trace", "file": "job.goal"}
    outcome, _ = run(tmp_path, [job, {"name": "s", "kind": "stream", "from": "h3", "to": "h1", "size": "1MB"}])
    assert [(flow.flow, flow.size) for flow in outcome.measures.completions.flows] == [("s/h3>h1", 1_000_000)]
    (sent,) = [r["sent_sha256"] for r in outcome.measures.history.of("traffic.end") if r["traffic"] == "s"]
    assert outcome.verdicts[0].observed == f"sha256 {sent[:12]}… at both ends"
    assert [row["phase"] for row in phases(outcome.measures)] == ["start → job.end", "job.end → end"]


def test_a_group_that_names_a_rank_twice_is_refused():
    node = RecordedNode(0, "node 0", schedules.COLLECTIVE, size=100, collective="all_reduce", group=(0, 1, 0))
    with pytest.raises(JobError, match=r"a: node 0 is a collective of a group that names rank 0 twice; correct the gr"):
        recorded.job([RecordedRank("a", [node]), RecordedRank("b", [node])], "ring")


COMPUTING = "num_ranks 2\nrank 0 {\nl1: calc 5000\n}\nrank 1 {\nl1: calc 10000\n}\n"


def test_a_job_that_sends_nothing_is_done_at_its_end(tmp_path):
    (tmp_path / "job.goal").write_text(COMPUTING)
    job = {"name": "job", "kind": "trace", "file": "job.goal"}
    other = {"name": "s", "kind": "stream", "from": "h3", "to": "h1", "size": "1MB"}
    cut = {"name": "cut", "kind": "link_down", "link": "h4/t0-p1-1", "at": "100% of job", "until": "cut + 1us"}
    outcome, records = run(tmp_path, [job, other], faults=[cut])
    assert outcome.ok, outcome.verdicts
    (ended,) = [r["t"] for r in records if r["kind"] == "traffic.end" and r["traffic"] == "job"]
    (began,) = [r["t"] for r in records if r["kind"] == "fault.begin"]
    assert ended <= began < ended + 1e-3


def test_a_job_ends_with_the_agent_of_a_rank_that_sends_nothing(tmp_path):
    (tmp_path / "job.goal").write_text(COMPUTING)
    fault = {"name": "crash", "kind": "agent_crash", "host": "h2", "at": "20us"}
    jobs = [{"name": "job", "kind": "trace", "file": "job.goal", "steps": 1000}]
    outcome, records = run(tmp_path, jobs, faults=[fault])
    (end,) = [r for r in records if r["kind"] == "traffic.end"]
    assert (end["error"], outcome.error) == ("the agent of h2 ended", "")
    assert end["t"] < 100e-6


def test_a_job_whose_host_is_killed_ends_and_names_it_once(tmp_path):
    both = TEXT.replace("from 0 tag 7\n", "from 0 tag 7\nsend 9b to 0 tag 1\n")
    (tmp_path / "job.goal").write_text(both.replace("calc 20\n", "calc 20\nrecv 9b from 1 tag 1\n"))
    fault = {"name": "crash", "kind": "agent_crash", "host": "h2", "at": "20us"}
    jobs = [{"name": "job", "kind": "trace", "file": "job.goal", "steps": 1000}]
    outcome, records = run(tmp_path, jobs, faults=[fault])
    (verdict, *_) = outcome.verdicts
    assert not verdict.ok
    assert [r["error"] for r in records if r["kind"] == "traffic.end"] == ["the agent of h2 ended"]
    assert verdict.observed == "the agent of h2 ended" or "job/h1>h2: the agent of h2 ended" in verdict.observed
