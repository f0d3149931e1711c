"""Suites: which files are meant, which runs that makes, and what repeated runs say together."""

import contextlib
import gc
import io
import json
import os
import statistics
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from mrclab import HOME
from mrclab.lab.command.cli import app
from mrclab.lab.errors import Interrupted, LabError, RunError, ScenarioError
from mrclab.lab.expectations import Verdict
from mrclab.lab.measure.intervals import summary
from mrclab.lab.report import suitereport
from mrclab.lab.run import suite
from mrclab.lab.run.suite import SuiteEntry, SuiteResult
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.files import finding
from mrclab.sim.world import SimWorld
from mrclab.topo.linux import state

TEXT = """\
name: NAME
title: A file
fabric: {planes: 1, t0s: 1, t1s: 1, hosts_per_t0: 2}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: 1 MiB}
"""
VARIANTS = "variants:\n  - {name: one}\n  - {name: two, set: {traffic.file.size: 2 MiB}}\n"


@pytest.fixture
def home(tmp_path):
    for name, more in (("b", ""), ("a", VARIANTS), ("paper/e1", ""), ("paper/e2", "")):
        path = tmp_path / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(TEXT.replace("NAME", path.stem) + more)
    (tmp_path / "notes.txt").write_text("no scenario")
    return tmp_path


def names(paths: list[Path]) -> list[str]:
    return [path.stem for path in paths]


def test_words_are_files_directories_or_names_below_scenarios(home):
    assert names(finding.find([], home)) == ["a", "b", "e1", "e2"]
    assert names(finding.find(["paper", "b"], home)) == ["e1", "e2", "b"]
    assert names(finding.find([str(home / "paper" / "e2.yaml"), "paper/e1", "paper"], home)) == ["e2", "e1"]
    with pytest.raises(ScenarioError, match=r"no scenario .papier. .*; did you mean paper\?"):
        finding.find(["papier"], home)


def test_results_below_a_folder_are_no_scenarios(home):
    place = home / "results" / "a-20260101-000000"
    place.mkdir(parents=True)
    for name in ("scenario.yaml", "fabric.yaml", "run.json"):
        (place / name).write_text("{}")
    assert names(finding.find([str(home)])) == ["a", "b", "e1", "e2"]


def test_a_name_that_is_not_utf_8_is_refused(home):
    path = home / os.fsdecode(b"b\xff.yaml")
    path.write_text(TEXT.replace("NAME", "b"))
    with pytest.raises(ScenarioError, match=r"b\\udcff.yaml': this name is not UTF-8; rename the file"):
        scenario.load(path)


@pytest.mark.parametrize("apart", finding.EXCLUDED)
def test_what_takes_a_machine_for_itself_runs_only_when_it_is_named(home, apart):
    path = home / apart / "huge.yaml"
    path.parent.mkdir()
    path.write_text(TEXT.replace("NAME", "huge"))
    assert names(finding.find([], home)) == ["a", "b", "e1", "e2"]
    assert names(finding.find([apart], home)) == names(finding.find([f"{apart}/huge"], home)) == ["huge"]
    assert (finding.SCENARIOS / apart).is_dir()


def test_mistakes_of_all_files_are_said_together(home):
    for name in ("b", "paper/e1"):
        path = home / f"{name}.yaml"
        path.write_text(path.read_text().replace("size:", "siz:"))
    with pytest.raises(ScenarioError) as error:
        suite.load_all(finding.find([], home))
    assert {Path(line.split(":")[0]).stem for line in error.value.mistakes} == {"b", "e1"}


def test_every_seed_runs_all_variants_before_the_next_one(home):
    loaded = suite.load_all(finding.find(["a", "b"], home))

    def planned(**options):
        return [(one.scenario.name, one.scenario.seed) for one in suite.runs(loaded, **options)]

    assert planned() == [("a-one", 1), ("a-two", 1), ("b", 1)]
    assert planned(repeat=2) == [("a-one", 1), ("a-two", 1), ("a-one", 2), ("a-two", 2), ("b", 1), ("b", 2)]
    assert planned(seeds=[7, 9])[-2:] == [("b", 7), ("b", 9)]
    assert [name for name, _ in [(r.scenario.name, 0) for r in suite.runs(loaded[:1], variant="two")]] == ["a-two"]
    sizes = {one.scenario.name: one.scenario.traffic[0].size for one in suite.runs(loaded, seeds=[7])}
    assert sizes == {"a-one": 2**20, "a-two": 2**21, "b": 2**20}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["suite", "link-failure", "--seeds", ""], "--seeds '': no seed; write, for example, --seeds 1..1000"),
        (["suite", "link-failure", "--seeds", "1", "--repeat", "2"], "give one of the two"),
        (["campaign", "link-failure", "--seeds", ""], "--seeds '': no seed; write, for example, --seeds 1..1000"),
        (["worlds", "link-failure", "--sim-seeds", ""], "--sim-seeds '': no seed; write, for example, --sim-seeds 1"),
    ],
)
def test_seeds_that_name_nothing_or_twice_are_refused(words, said):
    assert said in str(CliRunner().invoke(app, words).exception)


@pytest.mark.parametrize(
    ("command", "name", "old"),
    [
        ("campaign", "--output", "--out"),
        ("figure", "--output", "--out"),
        ("survey", "--output", "--out"),
        ("survey", "--page", "--write"),
        ("soak", "--workers", "--jobs"),
    ],
)
def test_old_names_of_options_are_accepted(command, name, old):
    commands = typer.main.get_command(app).commands
    assert any({name, old} == set(param.opts) for param in commands[command].params)


def test_two_suites_of_one_second_have_directories_of_their_own(tmp_path):
    one, two = (suite.Suite(tmp_path, lambda *_: None, lambda _: None).run([]) for _ in range(2))
    assert one.directory != two.directory


def test_a_suite_whose_results_can_go_nowhere_begins_no_run(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match=r"results cannot go to .*/file: .* is not a directory .* see --results"):
        suite.Suite(tmp_path / "file", lambda *_: None, lambda _: None).run([])


@pytest.mark.parametrize(("states", "kept"), [(["invalid", "passed"], "passed"), (["invalid"], "invalid")])
def test_an_invalid_run_stays_in_the_report_until_its_repetition_has_ended(tmp_path, monkeypatch, states, kept):
    def run_one(_suite, loaded, _parent):
        if not states:
            raise Interrupted("interrupted")
        return SuiteEntry(loaded.base_name, "", 1, states.pop(0), 1.0)

    monkeypatch.setattr(suite.Suite, "run_one", run_one)
    made = suite.Suite(tmp_path, lambda *_: None, lambda _: None, again=1)
    planned = [scenario.load(HOME / "scenarios" / "link-failure.yaml")]
    with contextlib.suppress(Interrupted):
        made.run(planned)
    assert [entry.state for entry in made.result.entries] == [kept]


def test_the_interval_of_the_mean_is_student_s():
    figure = summary([10.0, 12.0, 14.0])
    assert (figure.median, figure.mean, figure.least, figure.most) == (12, 12, 10, 14)
    assert figure.low == pytest.approx(12 - 4.303 * 2 / 3**0.5)
    assert figure.high == pytest.approx(12 + 4.303 * 2 / 3**0.5)
    assert (summary([5.0]).low, summary([5.0]).high) == (None, None)
    many = summary([0.0, 1.0] * 50)
    assert many.high - many.low == pytest.approx(2 * 1.984 * 0.5025 / 10, rel=1e-3)


def entry(state: str, value: float, seed: int, trouble: str = "", ok: bool = True) -> SuiteEntry:
    verdicts = (
        Verdict("integrity", True, "file arrives", "equal"),
        Verdict("goodput", ok, "goodput ≥ 90% of line", f"{value:.2f} of line", "", value, "of line"),
    )
    return SuiteEntry("a", "one", seed, state, 3.0, None, () if state == "aborted" else verdicts, trouble)


def test_the_outcome_of_a_run_has_the_reason_where_there_is_one():
    assert entry("passed", 1.0, 1).outcome == "passed"
    assert entry("aborted", 1.0, 1, "no room").outcome == "aborted – no room"


@pytest.fixture
def result(tmp_path):
    entries = [
        entry("passed", 0.95, 1),
        entry("failed", 0.85, 2, ok=False),
        entry("invalid", 0.2, 3, "the machine let h1 wait"),
        entry("aborted", 0, 4, "the controller ended"),
    ]
    return SuiteResult(tmp_path / "suite-now", entries)


def test_figures_leave_out_runs_that_say_nothing_about_the_network(result):
    rows = [row for row in result.repeated() if row.figure]
    assert [(row.expectation, row.passed, row.runs, row.figure.median) for row in rows] == [
        ("goodput", 1, 2, pytest.approx(0.9))
    ]
    assert rows[0].label == "a [one]"


def test_the_exit_status_tells_failed_from_invalid(result):
    assert result.status == 1
    assert SuiteResult(result.directory, [result.entries[0], result.entries[2]]).status == 3
    assert SuiteResult(result.directory, result.entries[:1]).status == 0
    assert SuiteResult(result.directory, result.entries[3:]).status == 1


def test_one_report_shows_every_run(result):
    page = suitereport.write(result).read_text()
    assert "1 passed, 1 failed, 1 invalid, 1 aborted" in page
    assert " held" not in page
    for text in ("a [one]", "the machine let h1 wait", "the controller ended"):
        assert text in page
    told = json.loads((result.directory / "suite.json").read_text())
    assert [run["state"] for run in told["runs"]] == ["passed", "failed", "invalid", "aborted"]
    assert told["figures"][1]["figure"]["count"] == 2
    root = ElementTree.parse(result.directory / "junit.xml").getroot()
    assert [(s.get("name"), s.get("failures"), s.get("errors")) for s in root] == [
        ("a [one] seed 1", "0", "0"),
        ("a [one] seed 2", "1", "0"),
        ("a [one] seed 3", "0", "1"),
        ("a [one] seed 4", "0", "1"),
    ]


@pytest.mark.parametrize(
    ("unit", "mean"), [("s", "20 µs"), ("RTT", "2e-05 RTT"), ("", "2e-05"), ("of line", "0.002% of line")]
)
def test_a_figure_of_a_repeated_run_is_told_in_a_unit_that_fits(unit, mean):
    row = suite.Repeated("a", "completion", "", 2, 2, unit, summary([2e-5, 2e-5]))
    number = mean.removesuffix(f" {unit}").removesuffix("%").removesuffix(" µs")
    assert suitereport._numbers(row) == (mean, f"{number} … {mean}")


TWO_FABRICS = """\
name: two
world: sim
fabric: {planes: 1, t0s: 1, t1s: 1, hosts_per_t0: 2, link: {rate_pps: 2000, delay: 1ms}}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: 64 KiB}
variants:
  - {name: plain}
  - {name: other, replace: {fabric: {planes: 1, trimming: false, hosts_per_t0: 2}}}
"""


def test_the_pages_of_a_suite_warn_where_variants_differ_in_what_they_do_not_name(tmp_path):
    planned = scenario.loads(TWO_FABRICS).runs
    result = suitereport.run(
        suite.Suite(tmp_path, lambda *_: None, lambda _: None), planned, "two", Console(file=io.StringIO())
    )
    assert len(result.entries) == 2
    page, compared = (result.directory / name for name in ("index.html", "compare-two.html"))
    for text in (page.read_text(), compared.read_text()):
        assert "in what they do not name" in text
        assert "fabric.t0s (1 in plain; 2 in other)" in text


def test_the_terminal_says_why_a_run_did_not_hold(result):
    console = Console(record=True, width=160, file=io.StringIO())
    suitereport.show(result, console)
    shown = console.export_text()
    assert "goodput ≥ 90% of line: 0.85 of line" in shown
    assert "1 of 2" in shown
    assert "the controller ended" in shown


def test_a_run_without_results_or_with_strange_words_leaves_every_report_readable(result):
    strange = Verdict("run", False, "the run completes", "\x1b[31mSegmentation fault\x00\x08")
    broken = SuiteEntry("a", "", 1, "aborted", 1.0, None, (strange,), "\x1b[31mkilled\x00")
    entries = [broken, entry("invalid", 0.5, 2, "late", ok=False)]
    suitereport.write(SuiteResult(result.directory, entries))
    broken, invalid = ElementTree.parse(result.directory / "junit.xml").getroot()
    assert "Segmentation fault" in broken.find(".//failure").get("message")
    assert (invalid.get("failures"), invalid.get("errors"), invalid.get("skipped")) == ("0", "1", "2")
    assert invalid.find(".//failure") is None
    assert json.loads((result.directory / "suite.json").read_text())["status"] == 1


def test_a_suite_of_nothing_has_not_held(tmp_path):
    assert (SuiteResult(tmp_path).ok, SuiteResult(tmp_path).status) == (False, 1)


@pytest.mark.parametrize(("freedom", "quantile"), [(16, 2.120), (20, 2.086), (30, 2.042), (60, 2.000), (120, 1.980)])
def test_the_quantile_of_many_runs_is_student_s_too(freedom, quantile):
    values = [float(n % 2) for n in range(freedom + 1)]
    figure = summary(values)
    half = (figure.high - figure.low) / 2 / (statistics.stdev(values) / len(values) ** 0.5)
    assert half == pytest.approx(quantile, abs=0.001)


def test_nobody_else_gets_the_place_between_two_runs(home, tmp_path, monkeypatch):
    seen = []

    def run_scenario(*_arguments):
        seen.append(state.running(tmp_path / "base"))
        raise RunError("no")

    monkeypatch.setattr(suite.runner, "run_scenario", run_scenario)
    progress = lambda *_: seen.append(state._held != {})  # noqa: E731
    made = suite.Suite(tmp_path / "results", progress, lambda _: progress(), None, tmp_path / "base" / "lab")
    result = made.run(suite.runs(suite.load_all([home / "a.yaml"])))
    assert [entry.state for entry in result.entries] == ["aborted", "aborted"]
    assert True in seen
    assert False not in seen
    assert state._held == {}
    assert not (tmp_path / "base").exists()


@pytest.mark.whole
def test_no_run_stays_in_memory_when_the_next_begins(tmp_path):
    traffic, expect = "[{name: file, kind: write, from: h1, to: h3, size: 64 KiB}]", "[{kind: integrity}]"
    text = f"name: small\nworld: sim\ntraffic: {traffic}\nexpect: {expect}\n"
    loaded = scenario.loads(text, "small.yaml")
    others = _worlds()
    result = suite.Suite(tmp_path, lambda *_: None, lambda _: None).run([loaded])
    assert [entry.state for entry in result.entries] == ["passed"]
    assert not [found for found in _worlds() if not any(found is other for other in others)]


def _worlds():
    gc.unfreeze()  # else what reading the history hid is in no list
    return [found for found in gc.get_objects() if isinstance(found, SimWorld)]


def test_a_scenario_of_a_folder_is_found_by_its_name_alone():
    (found,) = finding.find(["e10-all-to-all"])
    assert found == finding.SCENARIOS / "paper" / "e10-all-to-all.yaml"
