"""The lines by which a page of the documentation opens a campaign's table work, each where its library is installed."""

import importlib.util
from pathlib import Path

import pytest

from mrclab.experiments.campaign import journal

pytest.importorskip("pyarrow")
PAGE = Path(__file__).parents[2] / "docs" / "virtual-time.md"
LIBRARIES = ("pandas.", "polars.", "duckdb.")


def statements(text):
    """Yield each statement that begins with one of the libraries, over as many lines as its brackets take."""
    lines = map(str.strip, text.splitlines())
    for line in lines:
        if line.startswith(LIBRARIES):
            whole = line
            while whole.count("(") > whole.count(")"):
                whole += f" {next(lines)}"
            yield whole


LINES = list(statements(PAGE.read_text(encoding="utf-8")))
ROWS = [(t1s, seed, 0.5 + t1s / 10 + seed / 100) for t1s in (2, 4) for seed in (1, 2, 10)]


def made(directory, rows):
    directory.mkdir(parents=True)
    table = journal.Journal(directory)
    for place, (t1s, seed, goodput) in enumerate(rows):
        verdict = {"ok": goodput > 0.8, "value": goodput, "unit": "of line", "expected": "≥ 80 %", "observed": ""}
        row = {"variant": "", "seed": seed, "values": {"fabric.t1s": t1s}, "state": "passed", "error": ""}
        table.append({**row, "seconds": float(place), "verdicts": {"goodput": verdict}})
    journal.write_parquet(directory, journal.Journal(directory).read())


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made(tmp_path / "results" / "campaign", ROWS)
    made(tmp_path / "results" / "one", ROWS)
    made(tmp_path / "results" / "other", ROWS[::-1])


def run(line):
    name = line.split(".")[0]
    return eval(line, {name: pytest.importorskip(name)})


def test_the_page_has_a_line_for_each_library():
    assert {line.split(".")[0] for line in LINES} == {"pandas", "polars", "duckdb"}


@pytest.mark.parametrize("line", LINES)
def test_a_line_opens_the_table(tables, line):
    run(line)


def test_the_mean_of_a_group_is_the_same_in_all_of_them(tables):
    found = {}
    for line in LINES:
        if "goodput" in line and importlib.util.find_spec(name := line.split(".")[0]):
            table = run(line)
            rows = table["mean"].items() if name == "pandas" else table.rows() if name == "polars" else table.fetchall()
            found[name] = sorted((int(t1s), round(float(mean), 9)) for t1s, mean in rows)
    if not found:
        pytest.skip("needs pandas, polars or duckdb")
    wanted = [(t1s, round(0.5 + t1s / 10 + 13 / 300, 9)) for t1s in (2, 4)]
    assert all(means == wanted for means in found.values()), found


def test_a_campaign_that_came_out_otherwise_is_not_equal(tables, tmp_path):
    pytest.importorskip("pandas")
    (line,) = (line for line in LINES if "assert_frame_equal" in line)
    for stale in (tmp_path / "results" / "other").iterdir():
        stale.unlink()
    (tmp_path / "results" / "other").rmdir()
    made(tmp_path / "results" / "other", [*ROWS[:-1], (4, 10, 0.1)])
    with pytest.raises(AssertionError):
        run(line)
