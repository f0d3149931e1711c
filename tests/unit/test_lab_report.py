"""Reports made from a history: the page, the pictures, the numbers, and making them again from a result directory."""

import io
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from lab_history import PLANE_RATE, measures, records, scenario
from PIL import Image
from rich.console import Console

from lab import plots, results, runner, summary, terminal
from lab.errors import LabError
from lab.expectations import judge_all
from lab.history import History, Record


@pytest.fixture
def directory(tmp_path):
    """A result directory as `collect` leaves it."""
    (tmp_path / "scenario.yaml").write_text(scenario().text)
    History(records()).store(tmp_path / "history.jsonl")
    info = {"scenario": "link-failure", "seed": 1, "target": "soft", "finished": "now", "trouble": ""}
    (tmp_path / "run.json").write_text(json.dumps({**info, "versions": {"python": "3.11"}, "machine": {"cores": 2}}))
    return tmp_path


def test_a_report_holds_everything_in_one_page(directory):
    outcome = runner.finish(directory)
    assert outcome.ok
    page = (directory / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    assert not re.search(r'(src|href)="(?!data:)', page)
    for text in ("12 of 12 expectations held", "core-link", "t0-p1-1/t1-p1-2", "ASSUMED_BAD", "PORT_DOWN", "usid_miss"):
        assert text in page


def test_every_picture_is_a_png_of_sensible_size(directory):
    runner.finish(directory)
    pictures = sorted(directory.glob("*.png"))
    assert [p.name for p in pictures] == ["evs.png", "goodput.png", "losses.png", "paths.png"]
    for path in pictures:
        with Image.open(path) as image:
            assert image.width >= 1000
            assert image.height >= 200


def test_result_json_says_what_the_exit_status_says(directory):
    runner.finish(directory)
    result = json.loads((directory / "result.json").read_text())
    assert result["ok"] is True
    assert len(result["verdicts"]) == 12
    assert result["facts"]["faults"][0]["lost"] == 4


def test_a_run_that_broke_off_has_failed_whatever_else_held(directory):
    info = json.loads((directory / "run.json").read_text())
    (directory / "run.json").write_text(json.dumps({**info, "trouble": "the traffic took too long"}))
    outcome = runner.finish(directory)
    assert not outcome.ok
    assert "the traffic took too long" in (directory / "report.html").read_text()


def test_series_have_one_value_per_bin_and_add_up():
    data = summary.series(measures())
    goodput = data["goodput_bytes_per_second"]
    assert {len(values) for values in goodput.values()} == {len(data["t"])} == {90}
    assert sum(goodput["total"]) * data["step"] == pytest.approx((4 * 9 - 3) * PLANE_RATE, rel=0.01)
    assert sum(data["lost_packets"]) == sum(data["retransmitted_packets"]) == 10


def test_ev_states_over_time_cover_the_run_without_gaps():
    spans = plots.state_spans(measures())
    assert len(spans) == 8
    for bars in spans.values():
        assert all(a[1] == b[0] for a, b in pairwise(bars))
    (bad,) = [bars for key, bars in spans.items() if key[3] == (1, 2)]
    assert [state for *_, state in bad] == ["GOOD", "ASSUMED_BAD", "GOOD"]


def test_the_terminal_shows_every_expectation():
    m = measures()
    facts = summary.summarize(m, judge_all(m), {})
    console = Console(width=120, record=True, file=io.StringIO())
    terminal.show(facts, Path("results/x"), console)
    text = console.export_text()
    assert text.count("held ") >= 12
    assert "results/x/report.html" in text


def test_a_history_without_any_traffic_still_gives_a_report(directory):
    History([Record(1.0, "lab", "lab.up", {"seconds": 1.0})]).store(directory / "history.jsonl")
    assert not runner.finish(directory).ok
    assert "never came" in (directory / "report.html").read_text()


def test_a_folder_that_is_no_result_is_refused(tmp_path):
    with pytest.raises(LabError, match="is no result directory"):
        results.load(tmp_path)
