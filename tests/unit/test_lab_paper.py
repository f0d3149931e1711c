"""The paper's experiments: that their data fits the scenarios, and how runs are held against it."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from mrclab.experiments.paper import pictures
from mrclab.experiments.paper.comparison import SECONDS, compare
from mrclab.experiments.paper.figures import AT_SPEED, FILE, Experiment, FigureRow, load
from mrclab.lab.expectations import Verdict
from mrclab.lab.run.suite import SuiteEntry
from mrclab.lab.scenario import scenario

ROOT = Path(__file__).parents[2] / "scenarios"
SCENARIOS = ROOT / "paper"
BOOKS = {FILE: SCENARIOS, AT_SPEED: ROOT / "paper-scale"}
EVERY = [(book, experiment) for book in BOOKS for experiment in load(book)]


def terms(row: FigureRow) -> list[tuple[str, str]]:
    words = [word for word in row.ours.split() if "." in word]
    return [(word.partition(".")[0], word.partition(".")[2]) for word in words]


@pytest.mark.parametrize(("book", "experiment"), EVERY, ids=lambda given: getattr(given, "scenario", given.__class__))
def test_every_row_names_a_variant_and_an_expectation_of_its_scenario(book: Path, experiment: Experiment) -> None:
    loaded = scenario.load(BOOKS[book] / f"{experiment.scenario}.yaml")
    named = {run.variant: {entry.name for entry in run.scenario.figures} for run in loaded.runs}
    for row in experiment.rows:
        for variant, expectation in terms(row):
            assert expectation.removesuffix(SECONDS) in named[variant], row.ours
    assert set(experiment.over_time) <= set(named)


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_every_scenario_of_the_paper_has_its_experiment(book: Path) -> None:
    assert {path.stem for path in BOOKS[book].glob("*.yaml")} == {experiment.scenario for experiment in load(book)}


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.stem)
def test_no_experiment_is_missing_and_they_come_in_order(book: Path) -> None:
    assert [experiment.scenario[:3] for experiment in load(book)] == [f"e{number:02d}" for number in range(1, 17)]


@pytest.mark.parametrize("name", ["e14-bad-paths", "e16-localisation"])
def test_clustermapper_s_experiments_run_it_in_every_variant_and_watch_for_false_alarms(name: str) -> None:
    for run in scenario.load(SCENARIOS / f"{name}.yaml").runs:
        assert run.scenario.mapper is not None
        assert {"verdict", "false_alarms", "lost"} <= {entry.kind for entry in run.scenario.expect}
        assert sum(entry.seconds or 0 for entry in run.scenario.traffic) <= 40
        verdicts = [entry for entry in run.scenario.expect if entry.kind == "verdict"]
        assert {entry.fault for entry in verdicts} == {fault.name for fault in run.scenario.faults}


@pytest.mark.parametrize(
    ("rule", "yes", "no"),
    [("≥ 0.9", 0.9, 0.89), ("≤ 3", 3.0, 3.1), ("0.25 … 0.6", 0.4, 0.61), ("0.75 ± 3 %", 0.77, 0.78)],
)
def test_rules_accept_what_they_say(rule: str, yes: float, no: float) -> None:
    row = FigureRow(what="x", ours="a.b", accept=rule)
    assert row.accepts(yes) is True
    assert row.accepts(no) is False


def test_a_rule_excludes_the_figure_without_the_effect() -> None:
    with pytest.raises(ValueError, match=r"least sample: ≥ 0.95 accepts 0.969, the figure without the effect"):
        FigureRow(what="least sample", ours="a.b", paper=0.991, accept="≥ 0.95", absent=0.969)
    assert FigureRow(what="least sample", ours="a.b", paper=0.991, accept="≥ 0.98", absent=0.969).accepts(0.985)


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.yaml")), ids=lambda path: path.stem)
def test_no_limit_is_one_that_every_run_keeps(path: Path) -> None:
    loaded = scenario.load(path)
    for entry in (entry for run in loaded.runs for entry in run.scenario.expect):
        least, most = getattr(entry, "at_least", None), getattr(entry, "at_most", None)
        assert getattr(least, "share", None) != 0, entry
        assert least != 0, entry
        assert (getattr(most, "of", ""), getattr(most, "share", 0)) != ("line", 1), entry
        assert getattr(most, "amount", 0) < loaded.scenario.timeout, entry
        assert not (entry.kind in {"jain", "spread"} and most == 1), entry


@pytest.mark.parametrize("text", ["about 3", "> 1", "3 %"])
def test_a_rule_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write, for example,"):
        FigureRow(what="x", ours="a.b", accept=text)


def experiment() -> Experiment:
    rows = [
        FigureRow(what="kept", ours="calm.time / storm.time", paper=0.4, accept="0.25 … 0.6"),
        FigureRow(what="count", ours="storm.lost", unit="packets"),
    ]
    return Experiment(scenario="e", title="", mirrors="", paper_says="", rows=rows)


def runs(seed: int, storm: float, state: str = "passed") -> list[SuiteEntry]:
    calm, stormy, lost = (
        Verdict(f"completion ({name})", True, "", "", value=value)
        for name, value in (("time", 1.0), ("time", storm), ("lost", 7.0))
    )
    return [
        SuiteEntry("e", "calm", seed, "passed", 0.0, verdicts=(calm,)),
        SuiteEntry("e", "storm", seed, state, 0.0, verdicts=(stormy, lost)),
    ]


def test_a_row_is_judged_in_every_seed() -> None:
    (chapter,) = compare([*runs(1, 2.0), *runs(2, 2.5)], [experiment()])
    kept, count = chapter.lines
    assert (kept.state, count.state, chapter.state) == ("pass", "shown", "pass")
    assert kept.figure is not None
    assert kept.figure.median == pytest.approx(0.45)
    assert kept.ratio == pytest.approx(1.125)
    (chapter,) = compare([*runs(1, 2.0), *runs(2, 10.0)], [experiment()])
    assert (chapter.lines[0].state, chapter.state) == ("fail", "fail")


@pytest.mark.parametrize(
    ("storms", "state"),
    [
        ((2.0, 2.1, 2.2, 2.1, 2.0), "pass"),  # kept 0.45 to 0.5
        ((8.0, 8.1, 8.2, 8.1, 8.0), "fail"),
        ((2.0, 2.1, 2.2, 9.0, 2.0), "open"),  # one seed makes the interval meet both sides
        ((2.0, 2.1, 2.2, 2.1), "open"),  # too few
        ((2.0, 2.0), "pass"),  # nothing is drawn: two say what all would
        ((2.0,), "open"),
    ],
)
def test_a_row_is_judged_by_the_interval_of_at_least_five_seeds(storms: tuple[float, ...], state: str) -> None:
    done = [run for seed, storm in enumerate(storms, 1) for run in runs(seed, storm)]
    (chapter,) = compare(done, [experiment()], by_interval=True)
    assert chapter.lines[0].state == state


def test_the_picture_shows_the_figure_and_the_range_that_the_page_judges() -> None:
    figure = pytest.importorskip("matplotlib.figure")
    done = [one for seed, storm in enumerate((2.0, 2.1, 2.2, 9.0, 2.0), 1) for one in runs(seed, storm)]
    (chapter,), (by_seed,) = compare(done, [experiment()], by_interval=True), compare(done, [experiment()])
    line, other = next(one for one in chapter.lines if one.figure), next(one for one in by_seed.lines if one.figure)
    assert line.figure is not None
    assert (line.ours, line.range) == (line.figure.mean, line.interval)
    assert (other.ours, other.range) == (line.figure.median, (line.figure.least, line.figure.most))
    axes = figure.Figure().subplots()
    pictures._rows(axes, [line])
    assert axes.patches[0].get_width() == line.figure.mean
    assert tuple(axes.lines[0].get_xdata()) == line.interval


def test_a_picture_of_a_collective_has_the_median_of_an_even_number_of_runs(tmp_path: Path, monkeypatch) -> None:
    size = SimpleNamespace(scenario=SimpleNamespace(traffic=[SimpleNamespace(name="ring", size=4_000_000)]))
    monkeypatch.setattr(pictures, "_measures", lambda _run: size)
    both = [Verdict("completion (ring-time)", True, "", "", value=seconds) for seconds in (1.0, 3.0)]
    entries = [SuiteEntry("e", "mrc", seed, "passed", 0.0, tmp_path, (one,)) for seed, one in enumerate(both, 1)]
    (chapter,) = compare(entries, [experiment()])
    assert pictures._collective(chapter, "mrc").y == [2.0]


def test_a_chapter_with_a_run_that_was_aborted_did_not_pass() -> None:
    (chapter,) = compare([*runs(1, 2.5), *runs(2, 2.5, "aborted")], [experiment()])
    assert chapter.state == "fail"


def test_a_chapter_with_a_failed_run_did_not_pass() -> None:
    (chapter,) = compare([*runs(1, 2.0), *runs(2, 2.5, "failed")], [experiment()])
    assert chapter.lines[0].state == "pass"
    assert chapter.state == "fail"


def test_one_rule_judges_the_figures_at_speed_and_none_is_wider_than_its_effect() -> None:
    judged = [row for one in load(AT_SPEED) for row in one.rows if row.band is not None]
    assert len(judged) > 100
    for row in judged:
        assert row.paper is not None, row.what
        low, high = row.band or (0.0, 0.0)
        half = max(row.paper - low, high - row.paper)
        if " / " in row.ours and "…" in str(row.accept):
            continue  # a quotient of figures that are rounded
        assert half <= max(0.05 * row.paper, 0.5 if row.moved else 0.0) * 1.0001, row.what
        assert half <= max(1.0, row.effect or 5.0) / 100 * row.paper * 1.0001 or row.moved, row.what


def test_runs_that_say_nothing_about_the_network_are_left_out() -> None:
    (chapter,) = compare([*runs(1, 2.0), *runs(2, 10.0, "invalid")], [experiment()])
    assert chapter.state == "pass"
    assert chapter.lines[0].verdicts == (True,)


def test_without_runs_an_experiment_is_missing() -> None:
    (chapter,) = compare([], [experiment()])
    assert {line.state for line in chapter.lines} == {"missing"}
    assert chapter.state == "missing"


def test_figures_at_speed_are_told_in_the_paper_s_units() -> None:
    figures = {("", "rate"): 1e11, ("", "gap-seconds"): 2.5e-6, ("", "time"): 0.001}
    assert FigureRow(what="", ours=".rate", unit="Gb/s").value(figures) == pytest.approx(800)
    assert FigureRow(what="", ours=".gap-seconds", unit="µs").value(figures) == pytest.approx(2.5)
    assert FigureRow(what="", ours=".time", unit="Gb/s", moved=25_000_000).value(figures) == pytest.approx(200)
    assert FigureRow(what="", ours=".rate / .time").value(figures) == pytest.approx(1e14)
