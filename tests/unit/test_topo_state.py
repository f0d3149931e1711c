"""Lock and record of a run, without root: only processes and directories are made here."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mrclab.topo.errors import EmulationError, LabRunning
from mrclab.topo.linux import killed, paths, processes, state
from mrclab.topo.linux.state import RunState

SLEEPER = [sys.executable, "-S", "-c", "import signal; print('up', flush=True); signal.pause()"]
CLAIM_AND_DIE = """
import os, sys
from pathlib import Path
from mrclab.topo.linux.state import RunState
run = RunState.claim(Path(sys.argv[1]))
run.make_directory(Path(sys.argv[1]) / "lab")
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def base(tmp_path):
    return tmp_path / "mrclab"


def sleeper(run):
    process = subprocess.Popen(SLEEPER, env=run.environment, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    return process


def test_a_run_that_is_released_leaves_nothing(base):
    run = RunState.claim(base)
    run.make_directory(base / "lab")
    (base / "lab" / "log").mkdir()
    process = sleeper(run)
    run.release()
    assert process.wait() == -9
    assert not base.exists()


def test_a_directory_that_others_use_stays(base):
    base.mkdir()
    (base / "not-ours").write_text("")
    RunState.claim(base).release()
    assert [path.name for path in base.iterdir()] == ["not-ours"]


def test_processes_are_found_by_token_even_if_nobody_wrote_them_down(base):
    run = RunState.claim(base)
    process = sleeper(run)
    assert processes.with_token(run.token) == {process.pid}
    run.end_processes()
    assert process.wait() == -9
    run.release()


def test_the_second_claim_is_refused_with_the_pid_of_the_first(base):
    run = RunState.claim(base)
    with pytest.raises(LabRunning, match=f"process {os.getpid()}") as caught:
        RunState.claim(base)
    assert caught.value.pid == state.running(base) == os.getpid()
    with pytest.raises(LabRunning):
        state.clean(base)
    run.release()
    assert state.running(base) is None
    assert not base.exists()


def test_a_dead_runs_lock_is_free_and_its_remains_are_told_and_removed(base):
    dead = subprocess.run([sys.executable, "-c", CLAIM_AND_DIE, str(base)], capture_output=True, text=True, check=False)
    assert dead.returncode == -9, dead.stderr
    assert (base / "lab").is_dir()
    told = []
    run = RunState.claim(base, told.append)
    assert told == [f"left by an earlier run: directory {base / 'lab'}"]
    run.release()


def test_history_and_logs_of_a_killed_run_are_kept_and_it_is_said_where(base, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run = RunState.claim(base)
    run.make_directory(base / "lab")
    for name in ("history", "log", "files"):
        (base / "lab" / name).mkdir()
        (base / "lab" / name / "x").write_text(name)
    os.close(run._lock)  # it is gone without a word
    (said,) = state.clean(base)
    assert said.startswith(f"directory {base / 'lab'} (its history and logs are kept in {tmp_path}/mrclab-killed-")
    assert not base.exists()
    (place,) = tmp_path.glob("mrclab-killed-*")
    assert sorted(str(path.relative_to(place)) for path in place.rglob("*")) == ["history", "history/x", "log", "log/x"]
    assert place.stat().st_mode & 0o077 == 0


def test_folders_of_processes_that_ended_are_removed_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    names = [f"mrclab-{ended.pid}-abc", f"mrclab-{os.getpid()}-abc", "mrclab-killed-abc", f"mrclab-{ended.pid}-a b"]
    memory = tmp_path / "shm"
    monkeypatch.setattr(paths, "_MEMORY", memory)
    for name in (*names, f"shm/{names[0]}", f"shm/{names[1]}"):
        (tmp_path / name).mkdir(parents=True)
    assert killed.remove_folders() == [f"directory {place / names[0]}" for place in (tmp_path, memory)]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*names[1:], "shm"])
    assert [path.name for path in memory.iterdir()] == [names[1]]


def test_a_folder_in_memory_is_one_that_clean_finds(tmp_path, monkeypatch):
    for memory in (tmp_path, tmp_path / "absent"):
        monkeypatch.setattr(paths, "_MEMORY", memory)
        with paths.folder_in_memory() as name:
            assert Path(name).parent == (memory if memory.is_dir() else Path(tempfile.gettempdir()))
            assert killed._FOLDER.fullmatch(Path(name).name)


def test_old_empty_folders_are_removed_and_nothing_that_is_in_use_or_another_kind_of_file(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(paths, "_MEMORY", tmp_path / "absent")
    old, new, full, live = (
        "mrclab-2e2y5x_3",
        "mrclab-0ue50_5k",
        "mrclab-killed-abcdefgh",
        f"mrclab-{os.getpid()}-abcdefgh",
    )
    for name in (old, "mrclab-ui-abcdefgh", new, full, live, "mrclab-results"):
        (tmp_path / name).mkdir()
    (tmp_path / full / "history").write_text("x")
    (tmp_path / "mrclab-aaaaaaaa").symlink_to(tmp_path / new)
    for name in (old, "mrclab-ui-abcdefgh", full, live, "mrclab-results"):
        os.utime(tmp_path / name, (0, 0))
    os.utime(tmp_path / "mrclab-aaaaaaaa", (0, 0), follow_symlinks=False)
    removed = {f"directory {tmp_path / name}" for name in (old, "mrclab-ui-abcdefgh")}
    assert set(killed.remove_folders()) == removed
    assert {path.name for path in tmp_path.iterdir()} == {new, full, live, "mrclab-results", "mrclab-aaaaaaaa"}


def test_asking_whether_a_lab_runs_leaves_no_lock_where_one_has_just_gone(base):
    base.mkdir()
    assert state.running(base) is None
    assert list(base.iterdir()) == []
    run = RunState.claim(base)
    assert state.running(base) == os.getpid()
    run.release()
    assert state.running(base) is None


def test_clean_without_a_run_does_nothing(base):
    assert state.clean(base) == []
    assert not base.exists()


def test_a_second_clean_is_refused_with_the_pid_of_the_first(base, monkeypatch):
    base.mkdir()
    monkeypatch.setattr(state, "_remove_remains", state.clean)  # a second one while the first is at work
    with pytest.raises(LabRunning, match=rf"another `mrclab clean` is running \(process {os.getpid()}\); wait"):
        state.clean(base)


def test_a_process_that_ignores_sigterm_is_killed_after_its_grace():
    script = "import signal; signal.signal(15, signal.SIG_IGN); print('up', flush=True); signal.pause()"
    process = subprocess.Popen([sys.executable, "-S", "-c", script], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    assert processes.end({process.pid: processes.start_time(process.pid)}, grace=0.05) == {process.pid}
    assert process.wait() == -9


def test_a_pid_with_another_start_time_is_left_alone():
    process = subprocess.Popen(SLEEPER, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"up\n"
    assert processes.end({process.pid: processes.start_time(process.pid) + 1}) == set()
    assert process.poll() is None
    process.kill()
    process.wait()
    assert processes.start_time(process.pid) is None


def test_whatever_the_umask_nobody_else_may_write_or_look_inside(base):
    before = os.umask(0)
    try:
        run = RunState.claim(base)
        run.make_directory(base / "lab")
        modes = {path.name: path.stat().st_mode & 0o777 for path in (base, *base.iterdir())}
        run.release()
    finally:
        os.umask(before)
    assert modes == {base.name: 0o755, "lock": 0o600, "lab": 0o700}


def test_two_labs_of_directories_with_one_name_have_namespaces_of_their_own(tmp_path):
    names = {state.namespace(tmp_path / place / "lab", "cables") for place in ("a", "b")}
    assert len(names) == 2
    assert state.namespace(state.BASE, "cables") == "mrclab-cables"


def test_a_place_that_is_held_stays_taken_between_runs_and_is_free_after_them(base):
    imports = "import sys; from pathlib import Path; from mrclab.topo.linux import state"
    other = f"{imports}; print(state.running(Path(sys.argv[1])))"

    def seen_by_others():
        argv = [sys.executable, "-c", other, str(base)]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()

    with state.hold(base):
        for _ in range(2):
            run = RunState.claim(base)
            run.make_directory(base / "lab")
            assert seen_by_others() == str(os.getpid())
            run.release()
            assert seen_by_others() == str(os.getpid())
            assert not (base / "lab").exists()
    assert seen_by_others() == "None"
    assert not base.exists()


def test_a_directory_that_holds_files_is_refused_and_stays(base):
    run = RunState.claim(base)
    (base / "full").mkdir()
    (base / "full" / "x").write_text("")
    with pytest.raises(EmulationError, match="holds files already"):
        run.make_directory(base / "full")
    run.release()
    assert (base / "full" / "x").exists()


def test_clean_removes_marked_directories_inside_its_own_and_nothing_else(base, tmp_path):
    precious = tmp_path / "precious"
    for place in (precious, base / "not-ours"):
        place.mkdir(parents=True)
        (place / "file").write_text("")
    (precious / ".mrclab").touch()
    (base / "link").symlink_to(precious)
    run = RunState.claim(base)
    with pytest.raises(EmulationError, match="is not inside"):
        run.make_directory(tmp_path / "elsewhere")
    run.make_directory(base / "lab")
    process, stranger = sleeper(run), subprocess.Popen(SLEEPER, stdout=subprocess.PIPE)
    os.close(run._lock)  # as if its process had died
    try:
        assert state.clean(base) == [f"process {process.pid}", f"directory {base / 'lab'}"]
        assert process.wait() == -9
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
    assert sorted(path.name for path in base.iterdir()) == ["link", "not-ours"]
    assert (precious / "file").exists()
    assert (base / "not-ours" / "file").exists()
    assert state.clean(base) == []


def test_clean_finds_processes_that_a_killed_run_left_though_its_files_are_gone(base):
    run = RunState.claim(base)
    process = sleeper(run)
    os.close(run._lock)  # as if its process had died
    shutil.rmtree(base)
    assert state.clean(base) == [f"process {process.pid}"]
    assert process.wait() == -9
    assert not base.exists()


def test_a_run_ends_its_own_processes_although_its_files_are_gone(base):
    run = RunState.claim(base)
    run.make_directory(base / "lab")
    process = sleeper(run)
    shutil.rmtree(base)
    run.release()
    assert process.wait() == -9
