"""Messages for the commonest mistakes: one sentence that names the mistake, and the remedy."""

import errno
import os
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mrclab.lab.command import cli, ending
from mrclab.lab.command.runs import send
from mrclab.lab.errors import LabError, exhausted, exhausted_by_log
from mrclab.lab.report import results
from mrclab.lab.run import mirror as places
from mrclab.lab.scenario.files import finding

ROOT = Path(__file__).resolve().parents[2]

MISTAKES = {
    "run link-failrue": 'no scenario "link-failrue" .*; did you mean link-failure',
    "run xyzzy": 'no scenario "xyzzy" .*; choose chaos, .*, or one that `mrclab suite',
    "campaign permutatoin": "did you mean permutation?",
    "run tabs.yaml": "tabs.yaml:3: this is not valid YAML: .*; indent with spaces",
    "report nothere": "nothere is not the result directory of a finished run: there is no such directory; name one",
    "report .": r"\. is not the result directory of a finished run: it has no run.json; name one that",
    "compare nothere": "nothere is not the result directory .*; name one that `mrclab run` printed",
    "compare half": "half holds no result yet; make it with `mrclab report half`",
    "compare suite half": "suite is a suite's: `mrclab report suite` compares it with the paper; to compare runs, give",
    "report half half": "half is a run's directory, not a suite's; `mrclab compare` puts runs on one page",
    "capture --around-faults --packets 5": "--packets ends a single file; leave it out with --around-faults",
    "ui nothere": "nothere is not the result directory .*: there is no such directory; name one",
    "ui half": "half is not the result directory .*: it has no fabric.yaml; name one",
    "suite link-failure --seeds x": "--seeds x: 'x' is not a seed; write, for example, --seeds 1..1000",
    "worlds link-failure --sim-seeds 4.": "--sim-seeds 4.: '4.' is not a seed; write, for example, --sim-seeds 1..1000",
    "run link-failure --world sim --set fabric.t1s": "write a field and its value, for example --set fabric.t1s=4",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_answered_with_what_is_wrong_and_the_remedy(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tabs.yaml").write_text("name: x\ntraffic:\n\t- x\n")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "run.json").write_text("{}")
    (tmp_path / "suite").mkdir()
    (tmp_path / "suite" / "suite.json").write_text("{}")
    result = CliRunner().invoke(cli.app, line.split())
    assert isinstance(result.exception, LabError)
    with pytest.raises(LabError, match=MISTAKES[line].replace("?", r"\?")):
        raise result.exception
    assert "Errno" not in str(result.exception)
    assert len(str(result.exception)) < 300


def test_a_folder_that_goes_while_it_is_searched_is_passed_over(tmp_path, monkeypatch):
    (tmp_path / "kept.yaml").write_text("")
    (tmp_path / "gone").mkdir()
    walk = finding.os.walk

    def losing(top):
        for place, folders, names in walk(top):
            (tmp_path / "gone").rmdir() if (tmp_path / "gone").exists() else None
            yield place, folders, names

    monkeypatch.setattr(finding.os, "walk", losing)
    assert finding._below(tmp_path) == [tmp_path / "kept.yaml"]


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "open files"),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "processes and threads"),
        (RuntimeError("can't start new thread"), "processes and threads"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), "memory"),
        (MemoryError(), "memory"),
        (ImportError("libXau.so.6: failed to map segment from shared object"), "memory"),
    ],
)
def test_what_the_machine_has_run_out_of_is_named(error, what, capsys):
    assert ending._report(error) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"mrclab: this machine has run out of {what}; ")
    assert said.count("\n") == 1
    assert exhausted(RuntimeError("something else")) == exhausted(OSError(errno.ENOENT, "No such file")) == ""
    assert not exhausted(ImportError("No module named x"))


@pytest.mark.parametrize(
    ("end", "what"),
    [
        ("thd.cc:157] pthread_create failed: Resource temporarily unavailable\nFailed to start lifeguard thread\n",
         "processes and threads"),
        ("  File \"threading.py\"\nRuntimeError: can't start new thread\n", "processes and threads"),
        ("terminate called after throwing an instance of 'std::bad_alloc'\n", "memory"),
        ("OSError: [Errno 24] Too many open files\n", "open files"),
    ],
)  # fmt: skip
def test_what_the_machine_has_run_out_of_is_read_in_the_end_of_a_log(tmp_path, end, what):
    log = tmp_path / "t0-p1-1.log"
    assert exhausted_by_log(log) == ""
    log.write_text("started\n" * 10_000)
    assert exhausted_by_log(log) == ""
    with log.open("a") as file:
        file.write(end)
    said = exhausted_by_log(log)
    assert said.startswith(f"this machine has run out of {what}; ")
    assert said.endswith("(see log/t0-p1-1.log)")


@pytest.mark.once
def test_a_run_without_memory_for_pictures_keeps_its_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "_PICTURES_BYTES", 1 << 60)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    line = ["run", str(ROOT / "scenarios" / "true-speed.yaml"), "--world", "sim", "--results", str(tmp_path)]
    done = CliRunner().invoke(cli.app, line)
    assert exhausted(done.exception) == "this machine has run out of memory; close what else runs, or give it more"
    assert list(tmp_path.glob("*/result.json"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("run true-speed --target foo", "'foo' is not one of soft, bmv2"),
        ("suite true-speed --target foo", "'foo' is not one of soft, bmv2"),
        ("run true-speed --seed 99999999999999999999", "less than or equal to 9223372036854775807"),
        ("run true-speed --slower 1e300", "less than or equal to 1000000"),
        ("suite true-speed --name ../x", "'../x' is not a name"),
    ],
)
def test_an_option_that_says_nothing_sensible_is_refused_in_either_world(line, said):
    result = CliRunner().invoke(cli.app, line.split(), env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert said in result.output


def test_a_folder_of_very_many_folders_is_not_searched_to_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(finding, "_MAX_FOLDERS", 3)
    for number in range(4):
        (tmp_path / str(number)).mkdir()
    with pytest.raises(LabError, match="has more than 3 folders; name one that holds scenarios"):
        finding.find([str(tmp_path)])


@pytest.mark.parametrize("name", ["folder", "fifo"])
def test_what_is_there_and_no_file_is_not_said_to_be_missing(tmp_path, name):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    result = CliRunner().invoke(cli.app, ["send", "h1", "h3", str(tmp_path / name), "--world", "sim"])
    assert str(result.exception) == f"{tmp_path / name} is not a regular file; name one to send"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seed={", "--set seed: this is not valid YAML: expected the node content"),
        ("seed=[1", "--set seed: this is not valid YAML: expected ',' or ']'"),
        ("traffic=null", "with traffic=null: traffic: this field is missing"),
    ],
)
def test_a_value_that_is_no_yaml_is_explained(text, said):
    result = CliRunner().invoke(cli.app, ["plan", "true-speed", "--set", text])
    assert said in str(result.exception)


@pytest.mark.parametrize(("keep", "remedy"), [(True, "see --place"), (False, "set XDG_RUNTIME_DIR")])
def test_a_place_that_cannot_be_made_names_what_chose_it(tmp_path, keep, remedy):
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match=f"{remedy}$"):
        places.Mirror(None, tmp_path / "file" / "x", keep=keep)


def test_a_file_that_grows_while_it_is_sent_is_not_called_damaged(tmp_path, monkeypatch):
    growing, wait = tmp_path / "growing", send._wait
    growing.write_bytes(b"first")

    def grown(*arguments):
        growing.write_bytes(b"first and second")
        wait(*arguments)

    monkeypatch.setattr(send, "_wait", grown)
    result = CliRunner().invoke(cli.app, ["send", "h1", "h3", str(growing), "--world", "sim"])
    assert str(result.exception) == f"{growing} changed while it was sent; send a copy of it"
