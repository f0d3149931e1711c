"""Files copied into memory, where a mapping would be a copy: the same run as on mapped files, byte by byte."""

import sys
from pathlib import Path

import pytest

from mrclab.hosts.memory.memory import Copies, Memory, local_memory
from mrclab.lab.run.runner import run_scenario
from mrclab.lab.scenario import scenario
from mrclab.sim import world

SCENARIO = """\
name: copied
world: sim
traffic:
  - {name: file, kind: write, from: h1, to: h3, size: 300 KiB}
expect:
  - {kind: integrity}
"""


def history(folder: Path) -> str:
    outcome = run_scenario(
        scenario.loads(SCENARIO, "copied.yaml"), folder, lambda *_: None, lambda _: None, report=False
    )
    assert outcome.ok, outcome.verdicts
    return (outcome.directory / "history.jsonl").read_text(encoding="utf-8")


def test_a_run_on_copies_has_the_history_of_one_on_mapped_files(tmp_path, monkeypatch):
    found = []
    for kind in (Memory, Copies):
        monkeypatch.setattr(world, "local_memory", kind)
        found.append(history(tmp_path / kind.__name__))
    assert found[0] == found[1]


@pytest.mark.parametrize(("platform", "kind"), [("linux", Memory), ("darwin", Memory), ("emscripten", Copies)])
def test_files_are_copied_where_mappings_are_copies(platform, kind, monkeypatch):
    monkeypatch.setattr(sys, "platform", platform)
    assert type(local_memory()) is kind


def test_a_copy_reaches_its_file_at_sync_and_when_it_is_unmapped(tmp_path):
    held, file = Copies(), tmp_path / "file"
    buffer = held.map(str(file), 5, "write")
    buffer[:2] = b"ab"
    assert file.read_bytes() == bytes(5)
    held.sync(buffer)
    assert file.read_bytes() == b"ab\0\0\0"
    buffer[4:] = b"c"
    held.unmap(buffer)
    assert file.read_bytes() == b"ab\0\0c"
    assert held.map(str(file), None, "read") == b"ab\0\0c"
