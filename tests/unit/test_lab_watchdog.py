"""Unexpected ends of a run, and the files kept of a run whose disk is full or gone."""

import os
import shutil
import threading
from collections import namedtuple
from pathlib import Path

import pytest

from mrclab.lab.errors import LabError, RunError
from mrclab.lab.history import HistoryWriter
from mrclab.lab.report import results
from mrclab.lab.run.virtual import virtual_world
from mrclab.lab.run.wire import watchdog, wireworld
from mrclab.lab.run.wire.watch import Watch
from mrclab.lab.run.wire.watchdog import Watchdog, deleted_files
from mrclab.lab.scenario.scenario import loads
from mrclab.topo.errors import EmulationError
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

LOADED = loads(
    """\
name: small
fabric: {planes: 1, t0s: 1, t1s: 1, hosts_per_t0: 2}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: 1 MiB}
"""
)


@pytest.fixture
def run_dir(tmp_path):
    (tmp_path / "lab" / "log").mkdir(parents=True)
    (tmp_path / "lab" / "log" / "h1.log").write_text("first\nlast\n")
    return tmp_path / "lab"


def test_the_first_that_ends_is_named_with_its_end_its_last_words_and_its_log(run_dir):
    ended = {}
    watched = Watchdog(LOADED.fabric, run_dir, lambda: ended)
    assert watched.poll() == ""
    ended["h1"] = "ended with status 1"
    assert watched.poll() == "the agent of h1 ended with status 1: its last output was: last (its log is log/h1.log)"
    ended.clear()
    assert "the agent of h1" in watched.poll()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("t0-p1-1", "switch t0-p1-1 was killed by SIGKILL"),
        ("controller", "the controller was killed"),
        ("relay-x", "the process relay-x was killed"),
    ],
)
def test_what_was_killed_is_told_with_what_to_look_at(run_dir, name, said):
    told = Watchdog(LOADED.fabric, run_dir, lambda: {name: "was killed by SIGKILL"}).poll()
    assert told.startswith(said)
    assert "`dmesg`" in told


def test_what_a_fault_ends_may_end_until_it_is_healed(run_dir):
    watched = Watchdog(LOADED.fabric, run_dir, lambda: {"h1": "was killed by SIGKILL"})
    watched.excuse("h1")
    assert watched.poll() == ""
    watched.expect_alive("h1")
    assert watched.poll() != ""


def test_who_waits_is_woken_once(run_dir, monkeypatch):
    woken, looked = [], threading.Semaphore(0)
    watched = Watchdog(LOADED.fabric, run_dir, lambda: {"h1": "was killed by SIGKILL"})
    poll = watched.poll
    monkeypatch.setattr(watched, "poll", lambda: (looked.release(), poll())[1])
    watched.start(lambda: woken.append(True))
    for _ in range(3):
        looked.acquire()
    watched.stop()
    assert woken == [True]


def test_a_run_directory_that_is_gone_or_full_is_said(run_dir, monkeypatch):
    watched = Watchdog(LOADED.fabric, run_dir, dict)
    monkeypatch.setattr(watchdog.os, "statvfs", lambda _: namedtuple("Left", "f_blocks f_bavail f_frsize")(9, 1, 512))
    assert "is full; free space there, or give another --run-dir" in watched.poll()
    monkeypatch.undo()
    shutil.rmtree(run_dir)
    assert "was removed while the lab ran" in Watchdog(LOADED.fabric, run_dir, dict).poll()


def test_files_of_a_removed_directory_are_read_from_who_holds_them(tmp_path):
    place = tmp_path / "lab" / "history"
    place.mkdir(parents=True)
    with (place / "h1.jsonl").open("w") as file:
        file.write("a line\n")
        file.flush()
        assert deleted_files(tmp_path / "lab", {}) == {}
        shutil.rmtree(tmp_path / "lab")
        assert deleted_files(tmp_path / "lab", {}) == {"history/h1.jsonl": b"a line\n"}


@pytest.mark.parametrize("parent", ["/proc/foo", "/dev/null/x", "/sys/mrclab"])
def test_a_place_that_only_looks_writable_is_refused_before_anything_starts(parent):
    with pytest.raises(LabError, match="results cannot go to"):
        results.check_parent(Path(parent))


def test_a_link_to_nowhere_is_no_place_for_results(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(LabError, match=f"results cannot go to {tmp_path}/link: .* is not a directory that can be"):
        results.check_parent(tmp_path / "link")
    with pytest.raises(LabError, match=r"the result directory .*/link/run-.* cannot be made: File exists"):
        results.new_directory(tmp_path / "link", "run")


def test_a_place_below_a_folder_that_one_may_not_enter_is_refused_with_the_option(tmp_path):
    (tmp_path / "locked").mkdir(mode=0)
    me = os.geteuid()
    try:
        os.seteuid(me or 65534)  # root may enter
        with pytest.raises(LabError, match=r"results cannot go to .*/new: .* is not a directory .* see --results"):
            results.check_parent(tmp_path / "locked" / "new")
    finally:
        os.seteuid(me)


def test_a_place_without_room_is_refused_and_left_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(results.shutil, "disk_usage", lambda _: namedtuple("Usage", "free")(1 << 20))
    with pytest.raises(LabError, match="has room for 1024 KiB, of 16 MiB at least; make room"):
        results.check_parent(tmp_path / "results")
    assert list(tmp_path.iterdir()) == []


class Leaves:
    """A world that was stopped and left a history; `refuses` says where that does not fit."""

    def __init__(self, refuses):
        self._refuses = refuses

    def facts(self):
        return {}

    def collect(self, directory):
        if self._refuses(directory):
            raise OSError(28, "No space left on device")
        (directory / "history.jsonl").write_text("")


def test_results_that_do_not_fit_go_elsewhere_whole_and_nothing_half_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(results.tempfile, "tempdir", str(tmp_path))
    full = tmp_path / "full"
    directory = results.collect(Leaves(lambda place: full in place.parents), LOADED, full, "")
    assert (directory / "run.json").exists()
    assert full not in directory.parents
    assert list(full.iterdir()) == []
    with pytest.raises(RunError, match=r"nothing of the run could be kept: [^\[]*$"):
        results.collect(Leaves(lambda _: True), LOADED, full, "")


def test_a_history_that_just_fitted_is_whole_where_the_results_go_instead(tmp_path, monkeypatch):
    monkeypatch.setattr(results.tempfile, "tempdir", str(tmp_path))
    whole, refusals = results.machine.versions, [OSError(28, "No space left on device")]
    monkeypatch.setattr(results.machine, "versions", lambda: whole() if not refusals else _raise(refusals.pop()))
    with virtual_world(Fabric(FabricSpec(planes=1, t0s=2, t1s=1, hosts_per_t0=1))) as world:
        world.pause(0.01)
        world.stop()
        directory = results.collect(world, LOADED, tmp_path / "full", "")
    assert (directory / "history.jsonl").stat().st_size
    assert tmp_path / "full" not in directory.parents


def _raise(error):
    raise error


@pytest.mark.parametrize(("begun", "kind"), [(True, RunError), (False, EmulationError)])
def test_a_lab_that_does_not_come_up_has_broken_off_unless_nothing_was_begun(run_dir, monkeypatch, begun, kind):
    lab = wireworld.WireWorld(LOADED.fabric, target="soft", run_dir=run_dir)

    def fails(_progress, keep_files):
        assert keep_files
        lab.emulation.begun = begun
        raise EmulationError("no space")

    monkeypatch.setattr(lab.emulation, "start", fails)
    with pytest.raises(kind, match="no space") as caught:
        lab.start(lambda *_: None)
    assert type(caught.value) is kind


def test_a_run_directory_that_vanishes_while_the_lab_comes_up_is_said(run_dir, monkeypatch):
    lab = wireworld.WireWorld(LOADED.fabric, target="soft", run_dir=run_dir)
    monkeypatch.setattr(lab.emulation, "start", lambda *_, **__: shutil.rmtree(run_dir))
    with pytest.raises(RunError, match="was removed while the lab ran"):
        lab.start(lambda *_: None)
    lab._watchdog.stop()


def test_a_watch_whose_thread_could_not_be_started_is_stopped_all_the_same(run_dir, monkeypatch):
    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    watch = Watch(dict, HistoryWriter(run_dir / "lab.jsonl"))
    with pytest.raises(RuntimeError, match="thread"):
        watch.start()
    watch.stop()


def test_what_the_machine_ran_out_of_is_said_of_what_ended_for_that(run_dir):
    (run_dir / "log" / "h1.log").write_text("RuntimeError: can't start new thread\n")
    told = Watchdog(LOADED.fabric, run_dir, lambda: {"h1": "ended with status 1"}).poll()
    assert told.startswith("the agent of h1 ended with status 1: this machine has run out of processes and threads; ")
