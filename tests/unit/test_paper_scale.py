"""The paper at its own speed: a small experiment of its page run whole, and the page made of a stored history."""

import gzip
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from mrclab import compiled
from mrclab.experiments.campaign import plan
from mrclab.experiments.paper import page
from mrclab.experiments.paper.book import Chapter
from mrclab.experiments.paperscale import curves, memory, table
from mrclab.lab.report import suitereport
from mrclab.lab.run import runner
from mrclab.lab.run.suite import SuiteEntry, SuiteResult
from mrclab.lab.scenario import scenario

STORED = Path(__file__).parent / "stored-run"
E08 = "e08-ecn-rebalances-at-speed"


def chapter(chapters: list[Chapter], name: str) -> Chapter:
    return next(one for one in chapters if one.experiment.scenario == name)


def test_the_smallest_experiment_runs_whole_agrees_with_the_paper_and_is_not_run_twice(tmp_path: Path) -> None:
    (job,) = (one for one in table.planned(["e08"]) if one.variant == "ecn")
    said: list[str] = []
    table.run([job], tmp_path, said.append)
    table.write(tmp_path)
    written, chapters = page.write(tmp_path)
    judged = {line.row.ours: line.state for line in chapter(chapters, E08).lines}
    assert judged["ecn.alone"] == judged["ecn.free-rate"] == judged["ecn.pinned-rate"] == judged["ecn.moved"] == "pass"
    assert judged["no-choice.free-rate"] == "missing"
    assert "| the pinned flow | 96 Gb/s | 96.1 Gb/s |" in written.read_text(encoding="utf-8")
    assert said
    said.clear()
    table.run([job], tmp_path, said.append)
    assert said == []


@pytest.fixture
def stored(tmp_path: Path) -> SuiteEntry:
    """A run of E8 made shorter, as it was recorded."""
    place = tmp_path / "runs" / "stored"
    shutil.copytree(STORED, place)
    (place / "history.jsonl").write_bytes(gzip.decompress((place / "history.jsonl.gz").read_bytes()))
    outcome = runner.judged(place)
    return SuiteEntry(E08, "ecn", 1, outcome.state, 0.0, place, tuple(outcome.verdicts), rtt=outcome.measures.rtt)


def test_the_page_tells_what_a_stored_history_holds(stored: SuiteEntry, tmp_path: Path) -> None:
    suitereport.write_json(SuiteResult(tmp_path, [stored]))
    drawn = tmp_path / "curve.png"
    more = page.Appendix("A curve", "What is drawn.", drawn, ("x", "y"), [["1", "2.5"]])
    written, chapters = page.write(tmp_path, appendices=[more])
    text = written.read_text(encoding="utf-8")
    assert written == tmp_path / "paper-scale" / "README.md"
    assert "| the free flow alone | 96 Gb/s | 96.1 Gb/s | 1 | 96 ± 3 % | agrees |" in text
    assert "| the pinned flow | 96 Gb/s | 93.5 Gb/s | 0.974 | 96 ± 3 % | agrees |" in text
    assert "of 4 figures that the paper prints or implies, 4 agree and 0 differ" in text
    assert "| 1 | 2.5 |" in text
    assert (written.parent / f"{E08}-figures.png").stat().st_size > 1000
    assert chapter(chapters, "e09-ring-all-reduce-at-speed").state == "missing"


def test_what_differs_stands_there_with_its_reason(stored: SuiteEntry, tmp_path: Path) -> None:
    rate = next(verdict for verdict in stored.verdicts if verdict.kind == "goodput (alone)")
    told = [("latency (local-latency)", 1.72e-6, "s"), ("goodput (local-rate)", rate.value, "B/s")]
    verdicts = tuple(type(rate)(kind, True, "", "", "", value, unit) for kind, value, unit in told)
    entry = SuiteEntry("e01-point-to-point-at-speed", "qp1", 1, "held", 0.0, stored.directory, verdicts)
    suitereport.write_json(SuiteResult(tmp_path, [entry]))
    written, chapters = page.write(tmp_path)
    text = written.read_text(encoding="utf-8")
    assert "| latency of 2 bytes, T0-local | 5.09 µs | 1.72 µs | 0.338 | 5.09 ± 15 % | differs |" in text
    assert "* latency of 2 bytes, T0-local: links and a switch are all that takes time here" in text
    assert not any(line.unexplained for line in chapter(chapters, entry.name).lines)


def test_round_trips_are_seconds_too(stored: SuiteEntry, tmp_path: Path) -> None:
    gap = type(stored.verdicts[0])("stall (gap)", True, "", "", "", 2.0, "RTT")
    entry = SuiteEntry("e05-t0-dies-at-speed", "links-down", 1, "held", 0.0, stored.directory, (gap,), rtt=4.5e-6)
    suitereport.write_json(SuiteResult(tmp_path, [entry]))
    _, chapters = page.write(tmp_path)
    (line,) = (one for one in chapter(chapters, entry.name).lines if one.row.ours == "links-down.gap-seconds")
    assert line.figure is not None
    assert line.figure.median == pytest.approx(9.0)  # µs


def test_a_curve_has_a_point_for_each_value_with_the_spread_of_its_seeds(tmp_path: Path) -> None:
    sweep = curves.SWEEPS[0]

    def row(links: int, seed: int, during: float) -> dict[str, object]:
        verdicts = {
            "completion (during)": {"value": during},
            "completion (before)": {"value": 1e-4},
            "lost (lost-per-qp)": {"value": 2.0},
        }
        values = {"faults.cut.links": ["cable"] * links}
        return {"variant": "", "seed": seed, "state": "held", "values": values, "verdicts": verdicts}

    rows = [row(4, 1, 2e-4), row(1, 1, 1e-4), row(1, 2, 1.2e-4), {**row(8, 1, 9e-4), "state": "broken"}]
    made = curves.appendix(sweep, rows, tmp_path)
    assert [line[:2] for line in made.rows] == [["1", "10 (0 … 20)"], ["4", "100"]]
    assert made.rows[0][2:] == ["–", "2", "100"]
    assert made.picture.stat().st_size > 1000


def test_the_runs_of_a_sweep_are_those_of_a_campaign_and_none_is_done_twice(tmp_path: Path) -> None:
    few = {"traffic.incast.from": [["h9", "h17"]], "fabric.trimming": [True], "traffic.incast.size": ["64 KiB"]}
    sweep = replace(next(one for one in curves.SWEEPS if one.name == "trimming"), swept=few, seeds=(1,))
    said: list[str] = []
    (row,) = curves.run(sweep, tmp_path, 1, said.append)
    assert (row["state"], len(said)) == ("held", 1)
    took = sweep.told[0].of(row)
    assert took is not None
    assert 5 < took < 50  # µs; the links of the receiver take three for so many bytes
    assert [line["verdicts"] for line in curves.run(sweep, tmp_path, 1, said.append)] == [row["verdicts"]]
    assert len(said) == 1


def test_every_sweep_is_a_campaign_of_its_scenario() -> None:
    for sweep in curves.SWEEPS:
        loaded = scenario.load(table.SCENARIOS / "curves" / f"{sweep.name}.yaml")
        named = {f"{entry.kind} ({entry.name})" for entry in loaded.scenario.expect}
        asked = {name for one in (sweep.drawn, *sweep.told) for name in (one.expectation, one.minus) if name}
        assert asked <= named, sweep.name
        assert len({sweep.x(job.values) for job in plan.make(loaded, sweep.seeds, sweep.swept)}) > 2


@pytest.mark.skipif(compiled.state().runs, reason="what compiled modules take of memory is not told apart")
def test_a_qp_with_more_evs_takes_more_memory() -> None:
    name = "transport.ev_profile.active_per_plane"
    few, many = memory.of_a_qp({name: 2}), memory.of_a_qp({name: 16})
    assert few is not None
    assert many is not None
    assert 20 < few < many < 400  # KiB
