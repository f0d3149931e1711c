"""Connection matrices of uet-htsim: what is read, what is refused, and when connections of a run begin."""

import pytest

from mrclab.lab import history
from mrclab.lab.errors import ScenarioError
from mrclab.lab.report import results
from mrclab.lab.run import runner
from mrclab.lab.scenario import scenario
from mrclab.lab.traffic import matrix
from mrclab.lab.traffic.matrix import Connection, MatrixError, TriggerLine, Triggers
from mrclab.lab.ui.judging import Judge

CHAIN = """\
# a comment
Nodes 4
Connections 5
Triggers 2

0->2 id 1 start 0 size 400000 send_done_trigger 1
2->3 id 2 trigger 1 size 300000 recv_done_trigger 2 prio 3
3->0 id 3 trigger 2 size 100000
0->2 id 4 start 40000000 size 50001
1->3 id 5 trigger 2 size 4000
trigger id 1 oneshot
trigger id 2 oneshot
"""
SCENARIO = """\
name: chain
world: sim
fabric: {planes: 1, t0s: 2, t1s: 2, hosts_per_t0: 2, link: {rate: 100 Gb/s, delay: 1us}}
traffic:
  - {name: cm, kind: matrix, file: chain.cm}
expect:
  - {kind: integrity}
  - {kind: completion, name: half, traffic: cm, of: flows, percentile: 50, at_most: 25us}
  - {kind: completion, traffic: cm, of: flows, percentile: 100, at_least: 150% of half}
"""


def quiet(*_arguments):
    """Nobody watches."""


@pytest.fixture
def chain(tmp_path):
    (tmp_path / "chain.cm").write_text(CHAIN)
    (tmp_path / "chain.yaml").write_text(SCENARIO)
    return tmp_path / "chain.yaml"


def test_a_scenario_with_other_values_has_the_files_that_it_was_read_with(chain):
    loaded = scenario.load(chain)
    (chain.parent / "chain.cm").unlink()
    (other,) = scenario.with_values(loaded, {"traffic.cm.message": "4KiB"}).scenario.traffic
    assert (other.message, other.matrix) == (4096, loaded.scenario.traffic[0].matrix)


def test_a_file_is_read_and_written_alike():
    found = matrix.read(CHAIN, "chain.cm")
    assert found.nodes == 4
    assert found.connections[1] == Connection(2, 3, 300000, None, 2, trigger=1, recv_done=2, line=7)
    assert found.connections[3].start == 40_000_000
    assert found.triggers == (TriggerLine(1, "oneshot", line=11), TriggerLine(2, "oneshot", line=12))
    again = matrix.read(found.text(), "again.cm")
    assert again.text() == found.text()
    assert [(c.source, c.destination, c.size, c.start) for c in again.connections] == [
        (c.source, c.destination, c.size, c.start) for c in found.connections
    ]


@pytest.mark.parametrize(
    ("line", "instead", "said"),
    [
        ("Nodes 4", "Nodse 4", "x.cm:2: 'Nodse' does not begin a line of a matrix; did you mean 'Nodes'?"),
        ("Nodes 4", "Nodes four", "x.cm:2: Nodes four is not a whole number from 0 to"),
        ("Nodes 4", "Nodes 3", "x.cm:7: node 3 is not one of 3, counted from 0; write 0 to 2, or raise Nodes"),
        ("Nodes 4\n", "", "x.cm:1: Nodes is missing; begin the file with, for example, Nodes 16"),
        ("Connections 5", "Connections 6", "x.cm:3: Connections 6 is declared and 5 follow; write Connections 5"),
        ("Triggers 2", "Triggers 1", "x.cm:4: Triggers 1 is declared and 2 follow; write Triggers 2"),
        ("Triggers 2", "Failures 2", "x.cm:4: Failures: broken links are not traffic; write Failures 0 and add faults"),
        ("0->2 id 1", "0 -> 2 id 1", "x.cm:6: '0' does not begin a line of a matrix; known here: Nodes"),
        ("0->2 id 1", "0-> id 1", "x.cm:6: '0->' does not name two nodes; write, for example, 0->13, without spaces"),
        ("0->2 id 1", "2->2 id 1", "x.cm:6: 2->2 goes from node 2 to itself; name two nodes"),
        ("0->2 id 1", "0->x id 1", "x.cm:6: node x is not a whole number from 0 to"),
        (" size 400000", "", "x.cm:6: 0->2 has no size; add, for example, size 2000000"),
        ("Nodes 4", f"Nodes {'9' * 5000}", "x.cm:2: Nodes 999999999"),
        (" size 400000", " size 0", "x.cm:6: size 0 is not a whole number from 1 to"),
        (" size 400000", " size", "x.cm:6: size has no number behind it; add one"),
        (" start 0 ", " ", "x.cm:6: 0->2 has no start; add start 0"),
        (" start 0 ", " start -5 ", "x.cm:6: start -5 is not a time of 0 or later; write, for example, start 0"),
        (" start 0 ", " start 0 trigger 2 ", "x.cm:6: 0->2 has a start and a trigger; leave one of them out"),
        (" start 0 ", " stat 0 ", "x.cm:6: 'stat' is not a keyword of a connection; did you mean 'start'?"),
        (" start 0 ", " start 0 start 1 ", "x.cm:6: start is given twice; leave one of them out"),
        ("id 2 ", "id 1 ", "x.cm:7: id 1 is that of line 6 already; give every connection another"),
        ("id 2 ", "id 0 ", "x.cm:7: id 0 is not a whole number from 1 to"),
        (" prio 3", " prio", "x.cm:7: prio has no number behind it; add one"),
        ("trigger id 2 oneshot", "trigger id 3 oneshot", "x.cm:7: recv_done_trigger 2 is declared nowhere; add a line"),
        ("trigger id 2 oneshot", "trigger id 1 oneshot", "x.cm:12: trigger id 1 is declared already in line 11"),
        ("trigger id 2 oneshot", "trigger id 2", "x.cm:12: a trigger needs an id and a kind; write, for example,"),
        ("trigger id 2 oneshot", "trigger id 2 onshot", "x.cm:12: 'onshot' is not a keyword of a trigger; did you"),
        ("trigger id 2 oneshot", "trigger id 2 barrier", "x.cm:12: a barrier needs a count, after which its"),
        ("trigger id 2 oneshot", "failure link_id 2", "x.cm:12: failure: broken links are not traffic; leave"),
        (
            " recv_done_trigger 2",
            "",
            "x.cm:8: trigger 2 is fired never, too few times for this connection ever to begin; add send_done",
        ),
        ("trigger id 2 oneshot", "trigger id 2 multishot", "x.cm:10: trigger 2 is fired once, too few times for this"),
        ("trigger id 2 oneshot", "trigger id 2 barrier count 2", "x.cm:8: trigger 2 is fired once, too few times for"),
        ("prio 3", "send_done_trigger 2", "x.cm:12: trigger 2 is fired twice, a oneshot at most once; write multishot"),
    ],
)  # fmt: skip
def test_a_bad_line_is_told_with_file_line_word_and_remedy(line, instead, said):
    assert line in CHAIN
    with pytest.raises(MatrixError) as error:
        matrix.read(CHAIN.replace(line, instead, 1), "x.cm")
    assert error.value.sentences[0].replace("2 times", "twice").startswith(said)


def test_every_bad_line_has_its_sentence_up_to_twenty():
    lines = [f"{n}->{n} start 0 size 1" for n in range(30)]
    with pytest.raises(MatrixError) as error:
        matrix.read("\n".join(["Nodes 30", "Connections 30", *lines]), "x.cm")
    assert len(error.value.sentences) == 21
    assert error.value.sentences[0] == "x.cm:3: 0->0 goes from node 0 to itself; name two nodes"
    assert error.value.sentences[-1] == "x.cm: 10 more lines are wrong; fix these first"


@pytest.mark.parametrize("garbage", ["", "\0\1->\2", "->", "trigger", "Nodes", "0->1", "Nodes 1 2", "# only a comment"])
def test_garbage_is_refused_in_sentences(garbage):
    with pytest.raises(MatrixError) as error:
        matrix.read(garbage, "x.cm")
    assert all(sentence.startswith("x.cm:") for sentence in error.value.sentences)


@pytest.mark.parametrize(
    ("kind", "begun"),
    [("oneshot", [[0, 1, 2], [], []]), ("multishot", [[0], [1], [2]]), ("barrier count 3", [[], [], [0, 1, 2]])],
)
def test_what_a_trigger_lets_begin(kind, begun):
    name, _, count = kind.partition(" count ")
    lines = tuple(Connection(0, 1, 1, None, trigger=7) for _ in range(3))
    made = matrix.Matrix(2, lines, (TriggerLine(7, name, int(count or 0)),))
    triggers = Triggers(made)
    assert [triggers.fire(7) for _ in range(3)] == begun
    assert triggers.fire(0) == []


def test_connections_begin_at_their_time_or_when_another_is_acknowledged_or_has_arrived(chain, tmp_path):
    outcome = runner.run_scenario(scenario.load(chain), tmp_path / "results", quiet, quiet, report=False)
    assert outcome.state == "passed", [verdict for verdict in outcome.verdicts if not verdict.ok]
    records = history.load(outcome.directory / "history.jsonl")
    (start,) = (r.t for r in records.of("traffic.start"))
    done = {r["flow"]: (r["began"] - start, r["ended"] - start) for r in records.of("flow.done")}
    (arrived,) = (r.t - start for r in records.of("flow.received"))
    assert done["cm/h1>h3"][0] == 0
    assert done["cm/h1>h3#4"][0] == pytest.approx(40e-6, abs=1e-9)
    assert done["cm/h3>h4"][0] == done["cm/h1>h3"][1]
    assert done["cm/h4>h1"][0] == done["cm/h2>h4"][0] == pytest.approx(arrived, abs=1e-9)
    assert arrived < done["cm/h3>h4"][1]
    ends = {r["flow"]: r["seconds"] for r in records.of("flow.end")}
    assert ends["cm/h4>h1"] == pytest.approx(done["cm/h4>h1"][1] - done["cm/h4>h1"][0], abs=2e-9)
    assert {flow.name: flow.begin - start for flow in outcome.measures.flows}["cm/h4>h1"] > 50e-6


def test_results_hold_the_matrix_and_can_be_judged_and_run_again(chain, tmp_path):
    outcome = runner.run_scenario(scenario.load(chain), tmp_path / "results", quiet, quiet, report=False)
    (named,) = outcome.measures.history.of("scenario")
    assert named["files"] == {"chain.cm": CHAIN}
    chain.unlink()
    (tmp_path / "chain.cm").unlink()
    assert (outcome.directory / "cm.cm").read_text() == CHAIN
    assert [verdict.ok for verdict in results.load(outcome.directory).verdicts] == [True] * 3
    judge = Judge(outcome.loaded.fabric)  # as the page does
    for record in outcome.measures.history.records:
        judge.take(record)
    state, expectations = judge.outcome()
    assert (judge.title, state, len(expectations)) == ("chain", "passed", 3)
    again = runner.run_scenario(
        scenario.load(outcome.directory / "scenario.yaml"), tmp_path / "again", quiet, quiet, report=False
    )
    one, other = (_happened(found.directory) for found in (outcome, again))
    assert one == other


def _happened(directory):
    """The history but for the scenario's text, in which a result directory names its own copy of the matrix."""
    lines = (directory / "history.jsonl").read_text().splitlines()
    return [line for line in lines if '"kind":"scenario"' not in line]


def test_start_times_may_be_microseconds(chain, tmp_path):
    text = SCENARIO.replace("chain.cm}", "chain.cm, unit: us}")
    (tmp_path / "chain.cm").write_text(CHAIN.replace("start 40000000", "start 40"))
    chain.write_text(text)
    loaded = scenario.load(chain)
    starts = {flow.name: start for flow, start in loaded.scenario.traffic[0].timed(loaded.fabric)}
    assert starts == {
        "cm/h1>h3": 0, "cm/h3>h4": None, "cm/h4>h1": None, "cm/h1>h3#4": pytest.approx(40e-6), "cm/h2>h4": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (CHAIN.replace("0->2 id 1", "0->0 id 1").replace("oneshot", "onshot"), "chain.cm:6: 0->0 goes from node 0"),
        (CHAIN.replace("Nodes 4", "Nodes 6"), "chain.cm has 6 nodes and the fabric 4 hosts; raise fabric.t0s"),
        (CHAIN.replace("start 40000000", "start 400e12"), "its last connection begins at 6 min 40 s; correct the file"),
        (None, "chain.cm cannot be read: No such file or directory; name a file beside the scenario"),
    ],
)
def test_a_scenario_says_what_is_wrong_with_its_matrix(chain, tmp_path, text, said):
    (tmp_path / "chain.cm").unlink() if text is None else (tmp_path / "chain.cm").write_text(text)
    with pytest.raises(ScenarioError) as error:
        scenario.load(chain)
    assert "chain.yaml:5: traffic[1].file: " in str(error.value)
    assert said in str(error.value)
    if text and "onshot" in text:
        assert len(error.value.mistakes) == 3


def test_a_name_that_no_file_can_have_is_refused(chain):
    chain.write_text(SCENARIO.replace("file: chain.cm", 'file: "chain\\0.cm"'))
    with pytest.raises(ScenarioError, match=r"cannot be read: .*embedded null .*; name a file beside the scenario"):
        scenario.load(chain)


def test_a_connection_that_fails_ends_those_that_wait_for_it(chain, tmp_path):
    cut = "faults: [{name: cut, kind: agent_crash, host: h3, at: 10ms}]\nexpect: [{kind: integrity}]\n"
    text = SCENARIO.replace(", link: {rate: 100 Gb/s, delay: 1us}", "")
    chain.write_text(text[: text.index("expect:")] + cut)
    outcome = runner.run_scenario(scenario.load(chain), tmp_path / "results", quiet, quiet, report=False)
    assert outcome.state == "failed"
    assert "the agent of h3 ended" in str([r.get("error") for r in outcome.measures.history.of("traffic.end")])


def test_a_mistake_in_a_file_names_it_as_it_is_written(tmp_path):
    (tmp_path / "Chain.cm").write_text("Nodes 4\nConnections 1\n0->9 id 1 start 0 size 10\n")
    (tmp_path / "x.yaml").write_text(SCENARIO.replace("chain.cm", "Chain.cm"))
    with pytest.raises(ScenarioError, match=r": Chain\.cm:3: node 9 is not one of 4"):
        scenario.load(tmp_path / "x.yaml")
