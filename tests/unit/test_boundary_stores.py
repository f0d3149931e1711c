"""Boundary: files of earlier runs that a batch goes on from, and parts of a history: regular ones only, no links."""

import os

import pytest

from mrclab.experiments.campaign.journal import Journal
from mrclab.experiments.paper.comparison import read_runs
from mrclab.experiments.runs.store import RunStore
from mrclab.lab import history
from mrclab.lab.errors import LabError

ROW = '{"digest": "a"}\n'


def hostile(path, kind):
    if kind == "a link":
        other = path.with_name("other")
        other.write_text(ROW)
        path.symlink_to(other)
    elif kind == "a FIFO":
        os.mkfifo(path)
    elif kind == "a directory":
        path.mkdir()
    else:
        with path.open("wb") as file:
            file.truncate(2 << 30)


KINDS = ["a link", "a FIFO", "a directory", "too large"]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_earlier_runs_are_read_from_a_regular_file_only(tmp_path, kind):
    hostile(tmp_path / "runs.jsonl", kind)
    with pytest.raises(LabError, match=r"runs\.jsonl cannot be read: .*; name another directory with --output"):
        RunStore(tmp_path / "runs.jsonl", lambda row: row["digest"], "a table").open()


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_campaign_was_is_read_from_a_regular_file_only(tmp_path, kind):
    hostile(tmp_path / "campaign.json", kind)
    with pytest.raises(LabError, match=r"campaign\.json cannot be read: "):
        Journal(tmp_path).about()


def test_a_suite_that_is_nested_too_deeply_or_a_link_is_refused(tmp_path):
    (tmp_path / "suite.json").write_text("[" * 100_000)
    with pytest.raises(LabError, match="is not what a suite writes"):
        read_runs(tmp_path)
    (tmp_path / "suite.json").unlink()
    hostile(tmp_path / "suite.json", "a link")
    with pytest.raises(LabError, match="symbolic link"):
        read_runs(tmp_path)


@pytest.mark.parametrize("kind", ["a link", "a FIFO"])
def test_parts_of_a_history_are_merged_from_regular_files_only(tmp_path, kind):
    (tmp_path / "parts").mkdir()
    hostile(tmp_path / "parts" / "h1.jsonl", kind)
    with pytest.raises(OSError, match=r"symbolic link|FIFO"):
        history.merge(tmp_path / "parts", tmp_path / "whole.jsonl")
    assert not (tmp_path / "whole.jsonl").exists()


def test_a_merged_history_replaces_a_link_and_leaves_its_target(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "h1.jsonl").write_text('{"t": 1.0, "node": "h1", "kind": "x"}\n')
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "whole.jsonl").symlink_to(tmp_path / "victim")
    history.merge(tmp_path / "parts", tmp_path / "whole.jsonl")
    assert (tmp_path / "victim").read_text() == "mine"
    assert len(history.load(tmp_path / "whole.jsonl").records) == 1
