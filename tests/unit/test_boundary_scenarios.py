"""Boundary: scenario files of somebody else: every check takes linear time, and any mistake is a sentence."""

import cProfile
import os
import pstats
from pathlib import Path

import pytest

from mrclab.lab.command import cli
from mrclab.lab.errors import ScenarioError
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.files import finding

BASE = "name: x\ntraffic:\n  - {name: a, kind: write, from: h1, to: h3, size: 1 MiB}\n"
LINK = "t0-p1-1/t1-p1-2"


def faults(rows):
    return BASE + "timeout: 86400s\nfaults:\n" + "".join(f"  - {{{row}}}\n" for row in rows)


def timed(count):
    rows = range(1, count + 1)
    return [f"name: f{n}, kind: delay, delay: 5ms, link: {LINK}, at: {n}ms, until: {n + 0.5}ms" for n in rows]


def chained(count):
    first = f"name: f1, kind: delay, delay: 5ms, link: {LINK}, at: 10% of a, until: f1 + 1ms"
    others = (
        f"name: f{n}, kind: delay, delay: 5ms, link: {LINK}, at: f{n - 1}.end + 1ms, until: f{n} + 1ms"
        for n in range(count, 1, -1)
    )
    return [first, *others]


def overlapping(count):
    return [f"name: f{n}, kind: delay, delay: 5ms, link: {LINK}, at: 1s, until: 2s" for n in range(count)]


def unknown(count):
    return [f"name: f{n}, kind: delay, delay: 5ms, link: t0-p9-{n}, at: 1s, until: 2s" for n in range(count)]


def misnamed(count):
    return [f"name: f{n}, kind: delay, delay: 5ms, link: {LINK}, at: after g{n}, until: 2s" for n in range(count)]


def calls(text):
    profile = cProfile.Profile()
    profile.enable()
    try:
        scenario.loads(text)
        told = 0
    except ScenarioError as error:
        told = len(error.mistakes)
    finally:
        profile.disable()
    return pstats.Stats(profile).total_calls, told


@pytest.mark.parametrize("make", [timed, chained, overlapping, unknown, misnamed])
def test_checks_of_faults_take_linear_time(make):
    calls(faults(make(4)))  # what is made once
    (few, _), (many, told) = calls(faults(make(30))), calls(faults(make(120)))
    assert many < 6 * few
    assert (told == 0) == (make in {timed, chained})
    assert told <= 101


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BASE + "seed: 0x" + "f" * 60_000 + "\n", "is too large"),
        (BASE + "seed: 0x" + "f" * 400 + "\n", "… is too large; write a smaller one"),
        (BASE + "0x" + "f" * 6_000 + ": 1\n", "scenario:4: "),
        (BASE.replace("name: a", "name: 0x" + "f" * 6_000), "is too large"),
        (BASE + "title: !!int " + "9" * 60_000 + "\n", "a value cannot be read"),
        (BASE.replace("1 MiB", "1" + " " * 90_000 + "x"), "write at most"),
    ],
)
def test_huge_values_are_one_short_sentence(text, says):
    with pytest.raises(ScenarioError, match=says) as caught:
        scenario.loads(text)
    assert all(len(line) < 600 for line in caught.value.mistakes)


def test_a_value_from_the_command_line_may_be_huge(tmp_path, capsys):
    (tmp_path / "x.yaml").write_text(BASE)
    for value in ("0x" + "f" * 9_000, "[" * 300):
        status = command("run", "--dry-run", str(tmp_path / "x.yaml"), "--set", f"seed={value}")
        said = capsys.readouterr().err
        assert (status, said.count("\n")) == (2, 1), said
        assert len(said) < 600


def command(*words):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli.sys, "argv", ["mrclab", *words])
        with pytest.raises(SystemExit) as end:
            cli.main()
    return end.value.code


@pytest.mark.parametrize("kind", ["fifo", "device", "large"])
def test_files_that_never_end_are_one_sentence(tmp_path, capsys, kind):
    path = tmp_path / "m.cm"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(1 << 40)
    scenario_file = tmp_path / "x.yaml"
    scenario_file.write_text("name: x\ntraffic:\n  - {name: a, kind: matrix, file: m.cm}\n")
    says = {"fifo": "it is a FIFO", "device": "it is a device", "large": "it has more than"}[kind]
    path.with_name("t.goal").hardlink_to(path)
    for traffic in ("matrix, file: m.cm", "trace, file: t.goal"):
        scenario_file.write_text(f"name: x\ntraffic:\n  - {{name: a, kind: {traffic}}}\n")
        assert command("run", "--dry-run", str(scenario_file)) == 2
        said = capsys.readouterr().err
        assert says in said or "MiB together" in said
        assert said.count("\n") == 1
    with pytest.raises(ScenarioError, match=says):
        scenario.load(path)


@pytest.mark.parametrize(("word", "what"), [("/dev/zero", "is not a regular file"), ("", "holds no scenario file")])
def test_what_is_there_and_no_scenario_is_not_said_to_be_missing(tmp_path, word, what):
    with pytest.raises(ScenarioError, match=what):
        finding.find_one(Path(word or tmp_path))
