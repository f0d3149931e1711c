"""Both worlds side by side: what counts as the same, what is run again, and what the page says."""

import json
import math
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mrclab.experiments.worlds import comparison, page
from mrclab.experiments.worlds import runs as work
from mrclab.experiments.worlds.comparison import Explanation, Side
from mrclab.experiments.worlds.figures import RunFigure, figures
from mrclab.experiments.worlds.runs import Store
from mrclab.lab.command.cli import app
from mrclab.lab.errors import LabError
from mrclab.lab.report import results
from mrclab.lab.report.summary import phases
from mrclab.lab.run.suite import SuiteEntry
from mrclab.lab.scenario import scenario

pytestmark = pytest.mark.once

SCENARIO = """
name: small
fabric: {planes: 1, t0s: 2, t1s: 2, hosts_per_t0: 1, link: {rate_pps: 400, delay: 2ms}}
traffic:
  - {name: all, kind: permutation, duration: 800ms}
  - {name: other, kind: stream, from: h1, to: h2, duration: 800ms}
faults:
  - {name: cut, kind: link_down, at: 400ms, link: t0-p1-1/t1-p1-1}
  - {name: same-time, kind: link_down, at: 400ms, link: t0-p1-2/t1-p1-1}
expect:
  - {kind: integrity}
  - {kind: ev_state, fault: cut, returns: false}
  - {kind: goodput, name: whole, window: start .. cut, at_least: 50% of line}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run in virtual time."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "small.yaml").write_text(SCENARIO, encoding="utf-8")
    assert invoke(folder / "small.yaml", folder / "results", "--world", "sim").exit_code == 0
    (made,) = [path.parent for path in (folder / "results").rglob("result.json")]
    return made


def invoke(file, results, *more, seeds="1"):
    return CliRunner().invoke(app, ["worlds", str(file), "--seeds", seeds, "--results", str(results), *more])


def put(run, results, name, world, state="passed", goodput=1.0, seed=1):
    """A run as another world, state, goodput and seed would have left it."""
    directory = shutil.copytree(run, results / name)
    info = json.loads((directory / "run.json").read_text(encoding="utf-8"))
    (directory / "run.json").write_text(
        json.dumps(info | {"world": world, "target": "soft", "seed": seed}), encoding="utf-8"
    )
    result = json.loads((directory / "result.json").read_text(encoding="utf-8"))
    for row in result["facts"]["phases"]:
        row["of_line"] *= goodput
    (directory / "result.json").write_text(json.dumps(result | {"state": state}), encoding="utf-8")
    return directory


def runs_in(results):
    return sorted(results.rglob("run.json"))


def facts_of(run):
    return json.loads((run / "result.json").read_text(encoding="utf-8"))["facts"]


def one(value, seeds=1, spread=0.0):
    return Side(value, value - spread, value + spread, seeds)


@pytest.mark.parametrize(
    ("kind", "unit", "wire", "sim", "state"),
    [
        ("goodput", "of line", one(0.90), one(0.92), "within"),
        ("goodput", "of line", one(0.90), one(0.93), "beyond"),
        ("goodput", "of line", one(0.90, 3, 0.1), one(0.95), "beyond"),  # a wide spread is no excuse
        ("count", "packets", one(100), one(119), "spread"),  # 2√100 of a single seed
        ("count", "packets", one(100), one(121), "beyond"),
        ("count", "packets", one(100, 3, 5), one(119), "beyond"),  # three seeds speak for themselves
        ("count", "packets", one(100, 3, 5), one(108, 3, 4), "spread"),
        ("count", "packets", one(0), one(2), "spread"),
        ("time", "RTT", one(2.0), one(2.05), "within"),
        ("time", "RTT", one(2.0), one(2.2), "beyond"),
        ("time", "RTT", one(2.0, 3, 0.3), one(2.2), "spread"),
        ("share", "", None, one(0.5), "beyond"),
        ("share", "of mean", one(0.002), one(0.003), "within"),  # of the whole
        ("share", "", one(0.5), one(0.52), "beyond"),
    ],
)
def test_figures_agree_within_three_per_cent_or_the_spread_of_seeds(kind, unit, wire, sim, state):
    assert comparison.judge(RunFigure("x", kind, 0.0, unit), wire, sim) == state


def rows(run, wire, sim, known=(), jittery=None):
    return comparison.rows(run, comparison.sides(wire, sim, jittery), known)


@pytest.mark.parametrize(
    ("kind", "wire", "sim", "jittery", "state"),
    [
        ("count", one(100, 3, 5), one(200, 3, 5), one(60, 3, 5), "jitter"),
        ("count", one(100, 3, 5), one(200, 3, 5), one(110, 3, 6), "jitter"),
        ("count", one(100, 3, 5), one(200, 3, 5), one(110, 3, 4), "beyond"),  # not far enough
        ("count", one(100, 3, 5), one(200, 3, 5), one(250, 3, 5), "beyond"),  # the other way
        ("count", one(100, 3, 5), one(108, 3, 4), one(250, 3, 5), "spread"),
        ("goodput", one(0.80, 3, 0.1), one(0.90), one(0.70), "jitter"),
        ("goodput", one(0.80, 3, 0.1), one(0.90), one(0.82), "jitter"),
        ("goodput", one(0.80, 3, 0.1), one(0.90), one(0.85, 3, 0.1), "beyond"),  # a wide spread is no excuse
        ("time", one(2.0), one(1.0), None, "beyond"),
        ("time", None, one(1.0), one(2.0), "beyond"),
    ],
)
def test_jitter_explains_what_lies_between_runs_without_it_and_with_it(kind, wire, sim, jittery, state):
    (row,) = comparison.rows("small", [(RunFigure("x", kind, 0.0, ""), wire, sim, jittery)], [])
    assert row.state == state


def test_medians_are_of_the_seeds_that_both_worlds_ran():
    def told(value):
        return {"packets lost": RunFigure("packets lost", "count", value, "packets")}

    (row,) = rows("small", {1: told(10)}, {1: told(11), 2: told(40), 3: told(50)})
    assert row.wire == Side(10, 10, 10, 1)
    assert row.sim == Side(11, 11, 50, 3)
    assert row.difference == pytest.approx(0.1)


def test_a_reason_explains_the_figures_and_runs_that_it_names():
    far = {name: RunFigure(name, "time", 2.0, "RTT") for name in ("cut detected after", "gap")}
    near = {name: RunFigure(name, "time", 1.0, "RTT") for name in far}
    known = [
        Explanation(run="e02 [[]after-*", figure="gap*", by=9, because="no"),
        Explanation(run="e02 [after-*", figure="cut *", by=1, because="so"),
    ]
    found = {row.name: row for row in rows("e02 [after-1s]", {1: near}, {1: far}, known)}
    assert (found["cut detected after"].state, found["cut detected after"].because) == ("explained", "so")
    assert found["gap"].state == "beyond"
    assert all(row.state == "beyond" for row in rows("e02 [at-once]", {1: near}, {1: far}, known))


@pytest.mark.parametrize(
    ("limit", "wire", "sim", "explained"),
    [
        ({"by": 1.0}, one(1), one(2), True),
        ({"by": 0.9}, one(1), one(2), False),
        ({"share": 0.5}, one(2), one(3), True),
        ({"share": 0.4}, one(2), one(3), False),
        ({"spreads": 1}, one(1), one(3, 3, 1), True),  # 1 from a range that is 2 wide
        ({"spreads": 0.4}, one(1), one(3, 3, 1), False),
        ({"spreads": 1}, one(1), one(2), False),  # nothing shows how far seeds lie apart
        ({"spreads": 1, "share": 0.5}, one(1), one(3, 3, 1), False),  # a wide spread is no excuse for a multiple
        ({"by": 1.0, "sim_is": "less"}, one(1), one(2), False),
        ({"by": 1.0, "sim_is": "more"}, one(1), one(2), True),
        ({"by": 9.0}, None, one(2), False),
        ({"by": 9.0, "missing": "sim"}, None, one(2), False),
        ({"by": 9.0, "missing": "wire"}, None, one(2), True),
        ({"by": 1.0, "missing": "wire"}, None, one(2), False),
        ({"by": 9.0, "missing": "wire"}, one(1), one(2), False),
    ],
)
def test_a_reason_reaches_as_far_as_its_limit(limit, wire, sim, explained):
    reason = Explanation(figure="gap", because="so", **limit)
    assert reason.explains("small", RunFigure("gap", "time", 0.0, "s"), wire, sim) is explained


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("figure: gap", "a reason has a limit; give by"),
        ("figure: gap, by: 1, share: 0.5", "a reason has a limit; give by"),
        ('figure: "*", by: 1', "names no figure"),
        ('figure: [gap, "*"], by: 1', "names no figure"),
        ("by: 1", "figure"),
        ("figure: gap, share: 0.5, missing: wire", "give by"),
        ("figure: gap, share: 2", "share"),
    ],
)
def test_a_reason_without_figures_or_a_limit_is_refused(tmp_path, fields, said):
    path = tmp_path / "because.yaml"
    path.write_text(f"reasons: [{{{fields}, because: It is drawn.}}]\n", encoding="utf-8")
    with pytest.raises(LabError, match=rf"because.yaml: .*{said}"):
        comparison.reasons(path)


def test_what_is_nothing_in_both_worlds_is_no_row():
    zero = {"packets marked (ECN)": RunFigure("packets marked (ECN)", "count", 0.0, "packets")}
    assert rows("small", {1: zero}, {1: zero}) == []
    assert [row.state for row in rows("small", {1: {}}, {1: zero | {"x": RunFigure("x", "time", 1.0)}})] == ["beyond"]


def test_figures_of_a_run_are_those_of_its_report(run):
    facts = facts_of(run)
    found = figures(facts)
    assert found["goodput, start → cut"].value == facts["phases"][0]["of_line"]
    assert found["cut detected after"].value == pytest.approx(found["ev_state"].value, abs=0.005)
    assert found["lost to cut"].value == facts["faults"][0]["lost"] > 0
    assert found["packets lost"].value == sum(row["packets"] for row in facts["losses"])


def test_an_expectation_gives_a_figure_unless_it_counts_problems(run):
    facts = facts_of(run)
    row = {"kind": "retransmitted", "ok": True, "value": 0.02, "unit": "of packets", "expected": "", "observed": ""}
    judged = [row, row | {"kind": "health", "value": 1.0, "unit": "problems"}, row | {"kind": "x", "value": None}]
    found = figures(facts | {"verdicts": judged})
    assert found["retransmitted"] == RunFigure("retransmitted", "share", 0.02, "of packets")
    assert not found.keys() & {"health", "x"}


def test_goodput_counts_from_the_first_byte_on(run):
    """The first sample of a host is of its start: what arrives before the second is not lost to the figure."""
    facts = facts_of(run)
    series = json.loads((run / "series.json").read_text(encoding="utf-8"))
    placed = sum(series["goodput_bytes_per_second"]["total"]) * series["step"]
    seconds = (len(series["t"])) * series["step"]
    sent = 2 * 800e-3 * 400 * 4096  # by two hosts at line rate
    assert placed == pytest.approx(sent, rel=0.1)
    assert math.isclose(facts["totals"]["of_line"], placed / seconds / (2 * 400 * 4096), rel_tol=0.05)


def test_what_happens_at_about_the_same_time_is_one_moment(run, tmp_path):
    """The wire does one thing after the other, virtual time all at once: the phases have the same names."""
    wire = shutil.copytree(run, tmp_path / "wire")
    lines = (wire / "history.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    for record in records:
        late = (record["kind"], record.get("traffic") or record.get("fault")) in {
            ("traffic.start", "other"),
            ("fault.begin", "same-time"),
        }
        record["t"] += 0.001 if late else 0.0
    (wire / "history.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n", encoding="utf-8")
    about = json.loads((wire / "run.json").read_text(encoding="utf-8"))
    (wire / "run.json").write_text(json.dumps(about | {"history_sha256": ""}), encoding="utf-8")
    names = [[row["phase"] for row in phases(results.load(directory).measures)] for directory in (run, wire)]
    assert names[0] == names[1]
    assert names[0][0] == "start → cut"
    assert names[0][1].startswith("cut → ")


def test_runs_that_are_there_are_not_repeated(run, file, tmp_path):
    kept = tmp_path / "results"
    put(run, kept, "there", "sim")
    assert invoke(file, kept, "--world", "sim").exit_code == 0
    assert len(runs_in(kept)) == 1

    file.write_text(SCENARIO.replace("800ms", "700ms"), encoding="utf-8")
    assert invoke(file, kept, "--world", "sim").exit_code == 0
    assert len(runs_in(kept)) == 2, "another scenario of the same name is another run"


def test_a_scenario_of_a_file_is_compared_by_what_the_file_says(file, tmp_path):
    matrix = tmp_path / "pairs.cm"
    matrix.write_text("Nodes 2\nConnections 1\n0->1 id 1 start 0 size 20000\n", encoding="utf-8")
    flows = "  - {name: all, kind: matrix, file: pairs.cm}\n"
    text = SCENARIO[: SCENARIO.index("  - {name: all")] + flows + "expect:\n  - {kind: integrity}\n"
    file.write_text(text, encoding="utf-8")
    kept = tmp_path / "results"
    for _ in range(2):
        assert "sim PASS" in invoke(file, kept, "--world", "sim").output
        assert len(runs_in(kept)) == 1
    matrix.write_text(matrix.read_text(encoding="utf-8").replace("20000", "40000"), encoding="utf-8")
    assert "sim PASS" in invoke(file, kept, "--world", "sim").output
    assert len(runs_in(kept)) == 2


def test_a_run_that_was_torn_is_done_again(run, file, tmp_path):
    kept = tmp_path / "results"
    torn = put(run, kept, "torn", "sim") / "result.json"
    torn.write_text(torn.read_text(encoding="utf-8")[:500], encoding="utf-8")
    assert invoke(file, kept, "--world", "sim").exit_code == 0
    assert len(runs_in(kept)) == 2
    assert "sim PASS" in invoke(file, kept, "--only-page").output


def test_a_run_that_broke_off_is_done_again(run, file, tmp_path):
    kept = tmp_path / "results"
    for number in range(work.TRIES):
        put(run, kept, f"broken-{number}", "sim", state="aborted")
    assert "1 of 1: small, seed 1, sim" in invoke(file, kept, "--world", "sim").output
    assert len(runs_in(kept)) == work.TRIES + 1
    assert "sim PASS" in invoke(file, kept, "--only-page").output


def test_an_invalid_run_is_tried_twice_more_and_then_shown_as_what_it_is(run, file, tmp_path):
    kept = tmp_path / "results"
    put(run, kept, "sim", "sim")
    runs = work.comparable([scenario.load(file)])
    store, done = Store(kept), []

    def slow(_loaded):
        done.append(put(run, kept, f"wire-{len(done)}", "wire", "invalid"))
        return SuiteEntry("small", "", 1, "invalid", 0.0, None, ())

    for _ in range(2):
        work.work(work.plan(runs, [1]), store, slow, lambda _: None)
        assert len(done) == 3
    text = page.render(page.chapters(runs, store, [1]), page.About("mrclab worlds"))
    assert "| INVALID | – | PASS | 1 | 0 |" in text


def test_a_valid_run_after_invalid_ones_is_the_result(run, file, tmp_path):
    kept = tmp_path / "results"
    runs = work.comparable([scenario.load(file)])
    store, states = Store(kept), iter(["invalid", "passed"])
    done = []

    def better(_loaded):
        done.append(put(run, kept, f"wire-{len(done)}", "wire", state := next(states)))
        return SuiteEntry("small", "", 1, state, 0.0, None, ())

    work.work(work.plan(runs, [1], "wire"), store, better, lambda _: None)
    (found,) = store.of(runs[0], "wire", [1])
    assert (found.state, len(done)) == ("passed", 2)


def test_the_page_names_what_differs_and_the_command_fails(run, file, tmp_path):
    kept, written = tmp_path / "results", tmp_path / "worlds.md"
    put(run, kept, "sim", "sim")
    put(run, kept, "wire", "wire")
    details = tmp_path / "worlds-details.md"
    agreed = invoke(file, kept, "--only-page", "--page", str(written))
    assert agreed.exit_code == 0, agreed.output
    text = details.read_text(encoding="utf-8")
    assert "goodput, start → cut: 9" in text[text.index("## What agrees") :]
    assert "## What is not explained" not in text
    assert "**beyond** |" not in text
    assert written.read_text(encoding="utf-8").count("(worlds-details.md#small)") == 1

    shutil.rmtree(kept / "wire")
    put(run, kept, "wire", "wire", goodput=0.9)
    differs = invoke(file, kept, "--only-page", "--page", str(written), "--note", "The machine was shared.")
    assert differs.exit_code == 1
    assert "goodput, start → cut: wire 8" in differs.output
    text = details.read_text(encoding="utf-8")
    assert "+11.1 % | **beyond** |" in text
    assert "goodput, start → cut" not in text[text.index("## What agrees") :]
    assert "The machine was shared." in written.read_text(encoding="utf-8")


def test_the_page_names_the_command_with_all_that_decides_which_runs_it_has(run, file, tmp_path):
    put(run, tmp_path / "results", "sim", "sim")
    words = ["--sim-seeds", "4..6", "--only", "sm*", "--only-page", "--page", str(tmp_path / "page.md")]
    assert invoke(file, tmp_path / "results", *words).exit_code == 0
    said = f"`mrclab worlds {file} --seeds 1 --sim-seeds 4..6 --only 'sm*'`"
    assert said in (tmp_path / "page.md").read_text(encoding="utf-8")


def test_new_runs_take_the_place_of_one_scenario_among_the_figures_of_a_file(run, file, tmp_path):
    kept, old, new = tmp_path / "results", tmp_path / "old.md", tmp_path / "new.md"
    put(run, kept, "sim", "sim")
    put(run, kept, "wire", "wire")
    invoke(file, kept, "--only-page", "--page", str(old))
    figures = json.loads(old.with_suffix(".json").read_text(encoding="utf-8"))
    other = {**figures["runs"][0], "run": "other"}
    old.with_suffix(".json").write_text(json.dumps({**figures, "runs": [other, *figures["runs"]]}), encoding="utf-8")

    shutil.rmtree(kept / "wire")
    put(run, kept, "wire", "wire", goodput=0.9, seed=2)
    put(run, kept, "again", "sim", seed=2)
    put(run, kept, "more", "sim", seed=3)
    words = ["--only-page", "--from", str(old.with_suffix(".json")), "--sim-seeds", "2,3", "--page", str(new)]
    invoke(file, kept, *words, seeds="1,2")
    first, second = json.loads(new.with_suffix(".json").read_text(encoding="utf-8"))["runs"]
    assert first == other
    assert (second["wire"]["seeds"], second["sim"]["seeds"]) == ([1, 2], [1, 2, 3])
    (goodput,) = [row for row in second["figures"] if row[0] == "goodput, start → cut"]
    assert goodput[3][1] < goodput[3][2]
    assert goodput[3][2] == goodput[4][2]

    shutil.rmtree(kept / "wire")
    put(run, kept, "third", "wire", goodput=0.8, seed=3)
    last = tmp_path / "last.md"
    invoke(file, kept, "--only-page", "--from", str(new.with_suffix(".json")), "--page", str(last), seeds="1,2,3")
    _, third = json.loads(last.with_suffix(".json").read_text(encoding="utf-8"))["runs"]
    assert third["wire"]["seeds"] == [1, 2, 3]
    (three,) = [row for row in third["figures"] if row[0] == "goodput, start → cut"]
    assert three[3][3] == 3
    assert three[3][0] == goodput[3][1]  # the median of three: the least of the two that were there
    assert (three[3][2], three[3][1] < goodput[3][1]) == (goodput[3][2], True)


def test_jitter_of_hosts_is_a_third_set_of_runs(run, file, tmp_path):
    kept, written, again = tmp_path / "results", tmp_path / "worlds.md", tmp_path / "again.md"
    put(run, kept, "sim", "sim")
    assert invoke(file, kept, "--world", "sim", "--jitter", "2ms").exit_code == 0
    late = [path.parent for path in runs_in(kept) if path.parent.name != "sim"]
    assert [(one / "scenario.yaml").read_text(encoding="utf-8").count("nic_jitter: 2ms") for one in late] == [1]
    put(run, kept, "wire", "wire", goodput=0.98)
    invoke(file, kept, "--only-page", "--jitter", "2ms", "--page", str(written))
    assert "hosts that take up to 2ms longer" in written.read_text(encoding="utf-8")
    fields = json.loads(written.with_suffix(".json").read_text(encoding="utf-8"))
    assert fields["runs"][0]["jittery"]["seeds"] == [1]
    (goodput,) = [row for row in fields["runs"][0]["figures"] if row[0] == "goodput, start → cut"]
    assert len(goodput) == 6
    CliRunner().invoke(app, ["worlds", "--from", str(written.with_suffix(".json")), "--page", str(again)])
    assert again.with_suffix(".json").read_bytes() == written.with_suffix(".json").read_bytes()

    other = invoke(file, kept, "--only-page", "--from", str(written.with_suffix(".json")), "--jitter", "3ms")
    assert "had 2ms; leave it out" in str(other.exception)
    wrong = invoke(file, kept, "--jitter", "soon")
    assert wrong.exit_code != 0
    assert "fabric.nic_jitter" in str(wrong.exception)


def test_a_scenario_on_slower_links_is_another_line_of_the_page(run, file, tmp_path):
    kept, first, written = tmp_path / "results", tmp_path / "first.md", tmp_path / "worlds.md"
    put(run, kept, "sim", "sim")
    put(run, kept, "wire", "wire")
    invoke(file, kept, "--only-page", "--page", str(first))
    assert invoke(file, kept, "--world", "sim", "--slower", "2").exit_code == 0
    (slow,) = [path.parent for path in runs_in(kept) if path.parent.name not in {"sim", "wire"}]
    assert "rate_pps: 200" in (slow / "scenario.yaml").read_text(encoding="utf-8")
    put(slow, kept, "slow-wire", "wire")
    words = ["--only-page", "--slower", "2", "--from", str(first.with_suffix(".json")), "--page", str(written)]
    assert invoke(file, kept, *words).exit_code == 0
    fields = json.loads(written.with_suffix(".json").read_text(encoding="utf-8"))
    assert [(one["run"], one.get("slower")) for one in fields["runs"]] == [("small", None), ("small", 2)]
    details = written.with_name("worlds-details.md").read_text(encoding="utf-8")
    assert "small, 2 times slower" in details
    assert "[small](worlds-details.md#small)" in written.read_text(encoding="utf-8")


def test_figures_that_differ_for_one_reason_stand_together_below_it():
    known = [Explanation(figure="gap", by=1, because="It is drawn.")]
    figure = {1: {"gap": RunFigure("gap", "time", 1.0, "s")}}, {1: {"gap": RunFigure("gap", "time", 2.0, "s")}}
    none = page.WorldRuns({}, [])
    made = [page.BothWorlds(name, none, none, rows(name, *figure, known)) for name in ("one", "two [a]")]
    text = page.render(made, page.About("mrclab worlds"))
    assert text.count("It is drawn.") == 1
    assert "| one | 1000 ms | gap: 1000 ms → 2000 ms (+100.0 %) |" in text
    assert "| two – a | 1000 ms | gap: 1000 ms → 2000 ms (+100.0 %) |" in text


@pytest.mark.parametrize(
    ("unit", "value", "shown"),
    [
        ("s", 2e-5, "20 (10 … 30) µs"),
        ("s", 0.02, "20 (10 … 30) ms"),
        ("of line", 0.97, "97 (48.5 … 146)% of line"),
        ("of packets", 0.5, "50 (25 … 75)% of packets"),
        ("packets", 12346.0, "12346 (6173 … 18519) packets"),
        ("RTT", 2.0, "2 (1 … 3) RTT"),
    ],
)
def test_figures_have_the_units_of_other_pages(unit, value, shown):
    found = one(value, seeds=3, spread=value / 2)
    assert page.side(found, comparison.Row("gap", "count", unit, found, found, "within")) == shown


def test_a_page_can_be_made_again_of_the_figures_beside_it(run, tmp_path):
    for world in ("sim", "wire"):
        put(run, tmp_path / "results", world, world, goodput=0.9 if world == "sim" else 1.0)
    (tmp_path / "small.yaml").write_text(SCENARIO, encoding="utf-8")
    pages = tmp_path / "first.md", tmp_path / "again.md"
    invoke(tmp_path / "small.yaml", tmp_path / "results", "--only-page", "--page", str(pages[0]))
    again = CliRunner().invoke(app, ["worlds", "--from", str(tmp_path / "first.json"), "--page", str(pages[1])])
    assert again.exit_code == 1  # what differs
    texts = [path.read_text(encoding="utf-8").replace("again-details", "first-details") for path in pages]
    assert texts[0] == texts[1]
    assert (tmp_path / "first-details.md").read_bytes() == (tmp_path / "again-details.md").read_bytes()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"runs": [1]}', '{"runs": [], "colour": 1}'])
def test_a_file_without_figures_is_refused(tmp_path, text):
    (tmp_path / "x.json").write_text(text, encoding="utf-8")
    with pytest.raises(LabError, match=r"x.json holds no figures of `mrclab worlds --page`"):
        page.load_figures(tmp_path / "x.json")


def test_the_page_in_the_docs_is_of_the_figures_beside_it_and_todays_reasons():
    kept = Path(__file__).parents[2] / "docs" / "results" / "worlds.json"
    found, details = page.load_figures(kept), kept.with_name("worlds-details.md")
    assert page.render(*found, details.name) == kept.with_suffix(".md").read_text(encoding="utf-8")
    assert page.render(*found) == details.read_text(encoding="utf-8")


def test_scenarios_of_one_world_alone_are_left_out(file, tmp_path):
    file.write_text(SCENARIO + "world: sim\n", encoding="utf-8")
    refused = CliRunner().invoke(app, ["worlds", str(file), "--results", str(tmp_path)])
    assert refused.exit_code != 0
    assert "can happen in both worlds" in str(refused.exception)
    both = scenario.loads(SCENARIO)
    assert work.comparable([both, scenario.load(file)]) == [both]


def test_all_reasons_can_be_read():
    assert all(reason.because.endswith(".") for reason in comparison.reasons())


def test_a_name_that_no_run_has_is_refused_with_those_that_there_are(tmp_path):
    words = ["worlds", "incast", "--only", "zzz", "--results", str(tmp_path)]
    refused = CliRunner().invoke(app, words).exception
    assert str(refused) == "--only zzz: no run has a name like this; there are incast"
