"""Boundary: result directories of somebody else, and what foreign text does to the terminal."""

import contextlib
import gzip
import io
import json
import os
import shutil
from pathlib import Path

import pytest
from rich.table import Table

from mrclab.lab import console
from mrclab.lab.command import cli
from mrclab.lab.errors import LabError
from mrclab.lab.report import compare, results, summary
from mrclab.lab.ui.sources import RunIndex

STORED = Path(__file__).parent / "stored-run"
WRITTEN = ("result.json", "series.json", "report.html", "junit.xml", "goodput.png")


@pytest.fixture
def run(tmp_path):
    place = tmp_path / "run"
    place.mkdir()
    info = json.loads((STORED / "run.json").read_text())
    (place / "run.json").write_text(json.dumps({**info, "history_sha256": ""}))
    shutil.copy(STORED / "scenario.yaml", place)
    (place / "history.jsonl").write_bytes(gzip.decompress((STORED / "history.jsonl.gz").read_bytes()))
    return place


def command(capsys, *words):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli.sys, "argv", ["mrclab", *words])
        with pytest.raises(SystemExit) as end:
            cli.main()
    said = capsys.readouterr()
    return end.value.code, said.out + said.err


@pytest.mark.whole
def test_a_report_follows_no_link_and_overwrites_nothing_elsewhere(run, tmp_path, capsys):
    victims = {name: tmp_path / f"victim-{name}" for name in WRITTEN}
    for name, victim in victims.items():
        victim.write_text("kept")
        (run / name).symlink_to(victim)
    command(capsys, "report", str(run))
    assert {victim.read_text() for victim in victims.values()} == {"kept"}
    assert (run / "report.html").read_text().startswith("<!doctype html>")
    assert not any((run / name).is_symlink() for name in WRITTEN[:4])


@pytest.mark.parametrize("name", ["run.json", "scenario.yaml", "history.jsonl"])
@pytest.mark.parametrize("kind", ["link", "fifo", "brackets", "other"])
def test_hostile_files_in_a_result_directory_are_one_sentence(run, name, kind):
    path = run / name
    path.unlink()
    if kind == "link":
        path.symlink_to("/etc/passwd")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.write_text("[" * 100_000 if kind == "brackets" else '{"t": 1, "node": "h1", "kind": "sample"}\n')
    try:
        assert results.load(run).verdicts
        said = ""  # a history without a run in it has failed
    except LabError as error:
        said = str(error)
    assert (said == "") == ((name, kind) in {("history.jsonl", "other"), ("history.jsonl", "brackets")})
    assert "root:" not in said
    assert len(said.splitlines()) <= 8


@pytest.mark.parametrize(
    "line",
    [
        {"t": 1, "node": "h1", "kind": "sample"},
        {"t": 1e300, "node": "h1", "kind": "traffic.end"},
        {"t": 1, "node": "lab", "kind": "fault.strike", "name": [], "links": 5},
        {"t": 1, "node": "lab", "kind": "counters", "switches": 5},
        {"t": 1, "node": "h1", "kind": "flow.done", "flow": {"a": 1}, "bytes": "x"},
    ],
)
def test_records_that_make_no_sense_are_one_sentence(run, line):
    with (run / "history.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    with contextlib.suppress(LabError), results.foreign(run):
        found = results.load(run)
        summary.summarize(found.measures, found.verdicts, found.info)


def test_a_matrix_of_a_result_directory_is_read_below_it_only(run, capsys):
    text = "name: x\nworld: sim\ntraffic:\n  - {name: a, kind: matrix, file: /etc/passwd}\n"
    (run / "scenario.yaml").write_text(text)
    status, said = command(capsys, "report", str(run))
    assert (status, "root:" in said) == (2, False)


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", '{"verdicts": 5}', '{"state": 1, "verdicts": [5]}'])
def test_a_hostile_result_is_no_member_of_a_comparison_nor_a_traceback_on_the_shelf(run, text):
    (run / "result.json").write_text(text)
    (run / "fabric.yaml").write_text("planes: 2\n")
    with pytest.raises(LabError):
        compare.read(run)
    run_index = RunIndex(run.parent)
    assert [each["name"] for each in run_index.runs()] == ["run"]
    with pytest.raises(LabError):
        run_index.take("run")


def test_what_no_run_wrote_is_named():
    with pytest.raises(LabError, match=r"makes no sense .KeyError: 'x'."), results.foreign(Path("here")):
        raise KeyError("x")
    with pytest.raises(LabError, match="mine"), results.foreign(Path("here")):
        raise LabError("mine")


# --- the terminal -----------------------------------------------------------------------------------------------------


def shown(text, **options):
    out = io.StringIO()
    made = console.console(file=out, force_terminal=True, width=80)
    made.print(text, **options)
    return out.getvalue()


HOSTILE = "\x1b]0;owned\x07 \x1b[2J \x9b31m \u202egnp.exe \x00 \x7f"


@pytest.mark.parametrize("markup", [False, True])
def test_a_word_between_colons_is_no_emoji(markup):
    assert ":link:" in shown("h1:link:down", markup=markup)


@pytest.mark.parametrize("wrap", [str, Table])
def test_control_characters_are_shown_escaped(wrap):
    said = shown(wrap(HOSTILE), markup=False) if wrap is str else shown(wrap(HOSTILE))
    assert not set("\x07\x9b\u202e\x00\x7f") & set(said)
    assert "\x1b]0" not in said
    assert "\x1b[2J" not in said
    assert "\\x1b" in said


def test_the_labs_own_colours_pass(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[32m" in shown("[green]held[/]")


def test_a_title_with_escapes_does_not_reach_the_terminal(tmp_path, capsys):
    path = tmp_path / "x.yaml"
    path.write_text(
        'name: x\nworld: sim\ntitle: "a\\e]0;owned\\a"\ntraffic:\n'
        "  - {name: a, kind: write, from: h1, to: h3, size: 1 MiB}\n"
        'faults:\n  - {name: "c\\e[2J", kind: link_down, link: "h1\\e[2J", at: 1s}\n'
    )
    for text in (path.read_text(), path.read_text().partition("faults")[0]):
        path.write_text(text)
        _status, said = command(capsys, "run", "--dry-run", str(path))
        assert "\x1b" not in said
        assert "\x07" not in said
