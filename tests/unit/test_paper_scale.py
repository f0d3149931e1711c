"""The paper at its own speed: a small experiment of its page run whole, and the page made of a stored history."""

import gzip
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mrclab.experiments.campaign import journal, plan
from mrclab.experiments.paper import page
from mrclab.experiments.paper.comparison import Chapter
from mrclab.experiments.paperscale import __main__ as command
from mrclab.experiments.paperscale import curves, memory, models, table
from mrclab.lab.errors import LabError
from mrclab.lab.expectations import Verdict
from mrclab.lab.report import results, suitereport
from mrclab.lab.run.suite import SuiteEntry, SuiteResult
from mrclab.lab.scenario import scenario

pytestmark = pytest.mark.once

STORED = Path(__file__).parent / "stored-run"
E08 = "e08-ecn-rebalances-at-speed"


def chapter(chapters: list[Chapter], name: str) -> Chapter:
    return next(one for one in chapters if one.experiment.scenario == name)


MAKE = """
import sys
from pathlib import Path
from mrclab.experiments.paperscale import table
(job,) = (one for one in table.planned(["e08"], (1,)) if one.variant == "ecn")
table.run([job], Path(sys.argv[1]), print)
"""


def made(place: Path) -> str:
    """Make the runs that are not there yet, in a process, which may run the compiled form; returns its output."""
    return subprocess.run([sys.executable, "-c", MAKE, place], check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.mark.usefixtures("form_of_users")
def test_the_smallest_experiment_runs_whole_agrees_with_the_paper_and_is_not_run_twice(tmp_path: Path) -> None:
    assert made(tmp_path)
    table.write(tmp_path)
    written, chapters = page.write(tmp_path)
    judged = {line.row.ours: line.state for line in chapter(chapters, E08).lines}
    names = ("ecn.alone", "ecn.free-rate", "ecn.pinned-rate", "ecn.moved")
    assert {judged[name] for name in names} == {"open"}  # one seed decides nothing
    accepted = [line for line in chapter(chapters, E08).lines if line.row.ours in names and line.verdicts == (True,)]
    assert len(accepted) == len(names)
    assert judged["no-choice.free-rate"] == "missing"
    assert "| the pinned flow | 96 Gb/s | 96.4 Gb/s | one seed |" in written.read_text(encoding="utf-8")
    assert made(tmp_path) == ""


@pytest.fixture
def stored(tmp_path: Path) -> SuiteEntry:
    """A run of E8 made shorter, as it was recorded."""
    place = tmp_path / "runs" / "stored"
    shutil.copytree(STORED, place)
    (place / "history.jsonl").write_bytes(gzip.decompress((place / "history.jsonl.gz").read_bytes()))
    outcome = results.load(place)
    return SuiteEntry(E08, "ecn", 1, outcome.state, 0.0, place, tuple(outcome.verdicts), rtt=outcome.measures.rtt)


def test_the_page_tells_what_a_stored_history_holds(stored: SuiteEntry, tmp_path: Path) -> None:
    suitereport.write_json(SuiteResult(tmp_path, [stored, replace(stored, seed=2)]))
    drawn = tmp_path / "curve.png"
    more = page.Appendix("A curve", "What is drawn.", drawn, ("x", "y"), [["1", "2.5"]])
    written, chapters = page.write(tmp_path, appendices=[more])
    text = written.read_text(encoding="utf-8")
    assert written == tmp_path / "paper-scale" / "README.md"
    assert "| the free flow alone · | 96 Gb/s | 96.1 Gb/s | the same in all | 1 | 96 ± 5 % | agrees |" in text
    assert "| the pinned flow | 96 Gb/s | 95.5 Gb/s | the same in all | 0.995 | 96 ± 5 % | agrees |" in text
    assert "Of 3 figures that test a transport 3 agree, 0 differ and 0 are open" in text
    assert "| 1 | 2.5 |" in text
    assert (written.parent / f"{E08}-figures.png").stat().st_size > 1000
    assert chapter(chapters, "e09-ring-all-reduce-at-speed").state == "missing"


def test_what_differs_stands_there_with_its_reason(stored: SuiteEntry, tmp_path: Path) -> None:
    rate = next(verdict for verdict in stored.verdicts if verdict.kind == "goodput (alone)")
    told = [("goodput (left-1)", 23.875e9, "B/s"), ("goodput (before)", 191.5e9, "B/s")]
    verdicts = tuple(type(rate)(kind, True, "", "", "", value, unit) for kind, value, unit in told)
    entry = SuiteEntry("e02-staircase-at-speed", "at-once", 1, "passed", 0.0, stored.directory, verdicts)
    suitereport.write_json(SuiteResult(tmp_path, [entry, replace(entry, seed=2)]))
    written, chapters = page.write(tmp_path)
    text = written.read_text(encoding="utf-8")
    assert "| one · | 100 Gb/s | 191 Gb/s | the same in all | 1.91 | 100 ± 5 % | differs |" in text
    assert "* one: one link carries 96 Gb/s in each direction" in text
    assert not any(line.unexplained for line in chapter(chapters, entry.name).lines)


def test_round_trips_are_seconds_too(stored: SuiteEntry, tmp_path: Path) -> None:
    gap = type(stored.verdicts[0])("stall (gap)", True, "", "", "", 2.0, "RTT")
    entry = SuiteEntry("e05-t0-dies-at-speed", "links-down", 1, "passed", 0.0, stored.directory, (gap,), rtt=4.5e-6)
    suitereport.write_json(SuiteResult(tmp_path, [entry]))
    _, chapters = page.write(tmp_path)
    (line,) = (one for one in chapter(chapters, entry.name).lines if one.row.ours == "links-down.gap-seconds")
    assert line.figure is not None
    assert line.figure.median == pytest.approx(9.0)  # µs


def test_a_curve_has_a_point_for_each_value_with_the_spread_of_its_seeds(tmp_path: Path) -> None:
    sweep = curves.sweeps()[0]

    def row(links: int, seed: int, during: float) -> dict[str, object]:
        verdicts = {
            "completion (during)": {"value": during},
            "completion (before)": {"value": 1e-4},
            "lost (lost-per-qp)": {"value": 2.0},
        }
        values = {"faults.cut.links": ["cable"] * links}
        return {"variant": "", "seed": seed, "state": "passed", "values": values, "verdicts": verdicts}

    rows = [row(4, 1, 2e-4), row(1, 1, 1e-4), row(1, 2, 1.2e-4), {**row(8, 1, 9e-4), "state": "aborted"}]
    made = curves.appendix(sweep, rows, tmp_path)
    assert [line[:2] for line in made.rows] == [["1", "10 (0 … 20)"], ["4", "100"]]
    assert made.rows[0][2:] == ["–", "2", "100"]
    assert made.picture.stat().st_size > 1000


def test_the_runs_of_a_sweep_are_those_of_a_campaign_and_none_is_done_twice(tmp_path: Path) -> None:
    few = {"traffic.incast.from": [["h9", "h17"]], "fabric.trimming": [True], "traffic.incast.size": ["64 KiB"]}
    trimming = next(one for one in curves.sweeps() if one.name == "trimming")
    sweep = trimming.model_copy(update={"swept": few, "seeds": [1]})
    said: list[str] = []
    (row,) = curves.run(sweep, tmp_path, 1, said.append)
    assert (row["state"], len(said)) == ("passed", 1)
    took = sweep.figures[1].of(row)
    assert took is not None
    assert 5 < took < 50  # µs; the links of the receiver take three for so many bytes
    assert [line["verdicts"] for line in curves.run(sweep, tmp_path, 1, said.append)] == [row["verdicts"]]
    assert len(said) == 1
    with (
        journal.Journal(tmp_path / sweep.name).owned(),
        pytest.raises(LabError, match=r"another process adds runs to .* --results"),
    ):
        curves.run(sweep, tmp_path, 1, said.append)
    (tmp_path / sweep.name / "campaign.json").write_text("{}")
    with pytest.raises(LabError, match=r"name another directory with --results$"):
        curves.run(sweep, tmp_path, 1, said.append)


def test_every_sweep_is_a_campaign_of_its_scenario() -> None:
    for sweep in curves.sweeps():
        loaded = scenario.load(table.SCENARIOS / "curves" / f"{sweep.name}.yaml")
        told = (*loaded.scenario.expect, *loaded.scenario.measure)
        named = {f"{entry.kind} ({entry.name})" for entry in told}
        asked = {name for one in sweep.figures for name in (one.expectation, one.minus) if name}
        assert asked <= named, sweep.name
        assert len({sweep.x(job.values) for job in plan.make(loaded, sweep.seeds, sweep.swept)}) > 2


def test_models_stand_beside_the_paper_with_both_transports(tmp_path: Path) -> None:
    mrc, roce = (models.Point("ring_all_reduce", 64, models.MODELS[1], one, "0.1 %") for one in models.TRANSPORTS[:2])

    def entry(point: models.Point, seed: int, seconds: float) -> SuiteEntry:
        verdict = Verdict("completion (time)", True, "", "", "", seconds, "s")
        return SuiteEntry(point.name, "", seed, "passed", 0.0, verdicts=(verdict,))

    told = {(mrc, 1): entry(mrc, 1, 1e-3), (mrc, 2): entry(mrc, 2, 2e-3), (roce, 1): entry(roce, 1, 0.012)}
    made = models.appendices(told, tmp_path)[0]
    assert list(made.rows[0]) == ["the paper", "64", "24", "8", "4", "23", "1", "0", "23", "1", "0", "8"]
    row = list(made.rows[1])
    assert row[:5] == [models.MODELS[1].name, "64", "–", "24.8 (16.5 … 33)", "–"]
    assert (row[6], row[-1]) == ("2.75", "9")
    assert made.picture.stat().st_size > 1000


def test_every_point_of_the_models_is_a_scenario_of_the_transport_that_it_names() -> None:
    names = [point.name for point in models.chosen()]
    assert len(set(names)) == len(names)
    for point in models.chosen()[:: len(names) // 8]:
        made = point.loaded(2)
        assert (made.scenario.seed, made.scenario.transport.kind == "mrc") == (2, point.transport.is_mrc)


def test_a_qp_with_more_evs_takes_more_memory_whether_or_not_compiled_modules_run() -> None:
    name = "transport.ev_profile.active_per_plane"
    few, many = memory.qp_memory({name: 2}), memory.qp_memory({name: 16})
    assert 20 < few < many < 400  # KiB


def test_runs_that_another_process_adds_to_are_left_alone(tmp_path):
    with (tmp_path / "entries.jsonl").open("w") as file:
        file.write('{"dig')  # which it is about to complete
    with table.store(tmp_path).owned(), pytest.raises(LabError, match=r"another process adds runs to .* --results"):
        table.run([], tmp_path, print)
    assert (tmp_path / "entries.jsonl").read_text() == '{"dig'


def test_a_run_without_a_result_is_missing_and_the_command_fails(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(table, "run", lambda runs, *_: runs[1:])
    monkeypatch.setattr(table, "write", lambda *_: None)
    monkeypatch.setattr(page, "write", lambda *_, **__: (tmp_path / "README.md", []))
    assert command.main(["e01", "--results", str(tmp_path)]) == 1
    assert "missing on the page: 1 run without a result" in capsys.readouterr().out


def test_a_run_without_a_result_is_no_line_and_done_again(tmp_path, monkeypatch) -> None:
    entry = SuiteEntry(E08, "ecn", 1, "invalid", 0.0, error="the machine was too slow")
    monkeypatch.setattr(table.Suite, "run_one", lambda *_: entry)
    (job,) = (one for one in table.planned(["e08"], (1,)) if one.variant == "ecn")
    assert table.run([job], tmp_path, print) == []


def test_an_experiment_that_there_is_not_is_refused() -> None:
    with pytest.raises(LabError, match=r"no experiment is called 'e99'; there are e01, e02, .*, e16$"):
        table.planned(["e01", "e99"])
