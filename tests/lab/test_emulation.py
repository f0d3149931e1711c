"""A fabric comes up, lives and goes without a trace, however it ends. A stand-in takes the switch program's place."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from topo_helpers import StandIn, named_namespaces, remains, run_dir, small_fabric

from mrclab.topo.errors import EmulationError, LabRunning
from mrclab.topo.linux import processes, state
from mrclab.topo.linux.emulation import Emulation
from mrclab.topo.linux.switches import targets

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and cables need root"),
]

# Builds a fabric in a process of its own and dies as told: argv is run directory, stage, done, signal number.
_BUILDER = """
import os, sys
from pathlib import Path
sys.path.insert(0, {helpers!r})
from topo_helpers import StandIn, small_fabric
from mrclab.topo.linux.emulation import Emulation

directory, stage, done, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
def progress(now, count, total):
    if (now, count) == (stage, done):
        os.kill(os.getpid(), number)
lab = Emulation(small_fabric(), directory, StandIn())
lab.start(progress)
try:
    lab.popen("h1", [sys.executable, "-c", "import signal; signal.pause()"], log="agent")
    if stage == "up":
        os.kill(os.getpid(), number)
    sys.stdin.read()
finally:
    lab.close()
"""


@pytest.fixture
def directory(request):
    path = run_dir(f"-{request.node.name[-20:].strip(']')}".replace("[", "-").replace("_", "-"))
    yield path
    state.clean(path.parent)


@pytest.fixture
def lab(directory):
    with Emulation(small_fabric(), directory, StandIn()) as running:
        yield running


def builder(directory, stage="up", done=0, number=signal.SIGKILL):
    script = textwrap.dedent(_BUILDER).format(helpers=str(Path(__file__).parent))
    argv = [sys.executable, "-c", script, str(directory), stage, str(done), str(int(number))]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def namespace_of(pid):
    return str(Path(f"/proc/{pid}/ns/net").readlink())


def marked(directory):
    return processes.of_labs().get(directory.parent.resolve(), set())


# --- life -----------------------------------------------------------------------------------------------------------


def test_all_nodes_and_switch_processes_are_there_in_namespaces_of_their_own(lab):
    names = [node.name for node in (*lab.fabric.switches, *lab.fabric.hosts)]
    assert len({namespace_of(pid) for pid in (os.getpid(), *map(lab.pid, names))}) == len(names) + 1
    running = lab.processes()
    assert set(running) == {switch.name for switch in lab.fabric.switches}
    for name, pid in running.items():
        assert namespace_of(pid) == namespace_of(lab.pid(name))
        assert os.fstat(lab.namespace(name)).st_ino == Path(f"/proc/{pid}/ns/net").stat().st_ino


def test_switches_are_scheduled_ahead_of_other_work_where_the_kernel_lets_us(lab):
    policies = {os.sched_getscheduler(pid) for pid in lab.processes().values()}
    assert policies == ({os.SCHED_RR} if lab.real_time else {os.SCHED_OTHER})
    lab.restart("t0-p1-1")
    assert os.sched_getscheduler(lab.processes()["t0-p1-1"]) in policies


def test_the_threads_of_a_switch_share_one_cpu_and_the_switches_all_of_them(lab):
    allowed = os.sched_getaffinity(0)
    lab.restart("t0-p1-1")
    of_switches = [os.sched_getaffinity(pid) for pid in lab.processes().values()]
    if not lab.real_time:
        assert of_switches == [allowed] * len(of_switches)
        return
    assert {len(cpus) for cpus in of_switches} == {1}
    assert len(set().union(*of_switches)) == min(len(allowed), len(of_switches))


def test_whatever_the_umask_what_processes_make_is_written_by_nobody_else(directory):
    listens = "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])"
    before = os.umask(0)
    try:
        with Emulation(small_fabric(), directory, StandIn()) as lab:
            for node in (None, "h1"):
                path = directory / f"{node}.sock"
                lab.popen(node, [sys.executable, "-c", listens, str(path)], log=f"listens-{node}").wait()
                assert path.stat().st_mode & 0o022 == 0
            umasks = {_umask(pid) for pid in lab.processes().values()}
            assert directory.stat().st_mode & 0o077 == 0
    finally:
        os.umask(before)
    assert umasks == {0o022}


def _umask(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1], 8) for line in lines if line.startswith("Umask:"))


def test_nobody_speaks_on_a_fresh_fabric(lab):
    assert {lab.cables.forwarded(link) for link in lab.fabric.links} == {(0, 0)}


def test_progress_tells_stages_and_reaches_each_total(directory):
    told = []
    lab = Emulation(small_fabric(), directory, StandIn())
    try:
        lab.start(lambda *step: told.append(step))
        assert list(dict.fromkeys(stage for stage, _, _ in told)) == ["nodes", "cables", "switches"]
        assert {("nodes", 5, 5), ("cables", 4, 4), ("switches", 3, 3)} <= set(told)
    finally:
        lab.close()


def test_mininets_own_commands_work_on_the_lab(lab):
    assert "up" in lab.network["h1"].cmd("cat /sys/class/net/h1-p1/operstate")
    lab.network.configLinkStatus("h1", "t0-p1-1", "down")
    assert not lab.cables.is_up("h1-p1")
    lab.network.configLinkStatus("h1", "t0-p1-1", "up")
    assert lab.cables.is_up("h1-p1")
    lab.network["t1-p1-1"].stop()
    assert not lab.is_alive("t1-p1-1")
    lab.network["t1-p1-1"].start([])
    assert lab.is_alive("t1-p1-1")


def test_popen_runs_in_the_node_or_on_the_machine_and_survives_the_terminals_ctrl_c(lab):
    inside = lab.popen("h1", ["readlink", "/proc/self/ns/net"], stdout=subprocess.PIPE).communicate()[0]
    outside = lab.popen(None, ["readlink", "/proc/self/ns/net"], stdout=subprocess.PIPE).communicate()[0]
    assert inside.decode().strip() == namespace_of(lab.pid("h1"))
    assert outside.decode().strip() == namespace_of(os.getpid())
    sleeper = lab.popen("h1", ["sleep", "1000"], log="agent-h1")
    assert lab.processes()["agent-h1"] == sleeper.pid
    sessions = {os.getsid(pid) for pid in lab.processes().values()}
    assert os.getsid(0) not in sessions
    assert len(sessions) == len(lab.processes())


def test_output_goes_to_the_log(lab):
    lab.popen("h1", ["sh", "-c", "echo out; echo err >&2"], log="talker").wait()
    assert (lab.run_dir / "log" / "talker.log").read_text() == "out\nerr\n"


def test_a_switch_crashes_freezes_and_restarts(lab):
    lab.kill("t0-p1-1")
    assert not lab.is_alive("t0-p1-1")
    assert set(lab.processes()) == {"t0-p1-2", "t1-p1-1"}
    lab.kill("t0-p1-1")
    with pytest.raises(EmulationError, match="t0-p1-1 is not running"):
        lab.freeze("t0-p1-1")
    assert not lab.is_frozen("t0-p1-1")
    lab.restart("t0-p1-1")
    assert lab.is_alive("t0-p1-1")
    before = lab.processes()["t1-p1-1"]
    lab.freeze("t1-p1-1")
    assert Path(f"/proc/{before}/stat").read_text().split()[2] == "T"
    lab.freeze("t1-p1-1")
    lab.thaw("t1-p1-1")
    lab.restart("t1-p1-1")
    assert lab.processes()["t1-p1-1"] != before


def test_switches_are_forks_of_one_process_and_outlive_it(lab, directory):
    names = {pid: _words(pid) for pid in marked(directory)}
    (server,) = (pid for pid, words in names.items() if "mrclab.topo.linux.forkserver.server" in words)
    before = lab.processes()
    for name, pid in before.items():
        assert names[pid] == lab.target.argv(targets.Launch(lab.fabric.switch(name), lab.fabric.spec, lab.run_dir))
        assert _space(pid, "mnt") == _space(lab.pid(name), "mnt") != _space(os.getpid(), "mnt")
    os.kill(server, signal.SIGKILL)
    lab.restart("t0-p1-1")
    assert lab.endings() == {}
    after = lab.processes()
    assert after.pop("t0-p1-1") != before.pop("t0-p1-1")
    assert after == before
    lab.kill("t1-p1-1")
    assert lab.endings() == {"t1-p1-1": "was killed by SIGKILL"}


def _words(pid):
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").split()


def _space(pid, kind):
    return str(Path(f"/proc/{pid}/ns/{kind}").readlink())


# --- end ------------------------------------------------------------------------------------------------------------


def test_stop_leaves_files_only_and_close_nothing(directory):
    lab = Emulation(small_fabric(), directory, StandIn())
    lab.start()
    lab.popen("h1", ["sh", "-c", "trap '' TERM; echo deaf; sleep 1000 & wait"], log="deaf")
    lab.popen("h2", [sys.executable, "-c", "import os; os.fork(); import signal; signal.pause()"], log="forker")
    lab.freeze("t0-p1-1")
    lab.stop()
    assert not marked(directory)
    assert (directory / "log" / "deaf.log").exists()
    lab.close()
    assert remains(directory) == []
    lab.close()


def test_agents_get_to_end_by_themselves(directory):
    lab = Emulation(small_fabric(), directory, StandIn())
    lab.start()
    script = (
        "import signal,sys; signal.signal(15, lambda *_: (print('goodbye'), sys.exit())); print('ready', flush=True)"
    )
    agent = lab.popen("h1", [sys.executable, "-uc", script + "\nwhile True: signal.pause()"], stdout=subprocess.PIPE)
    assert agent.stdout.readline() == b"ready\n"
    lab.stop()
    assert agent.stdout.read() == b"goodbye\n"
    lab.close()


class Broken(StandIn):
    """Its third switch dies at start."""

    def argv(self, launch):
        if launch.switch.device_id == 3:
            return [sys.executable, "-S", "-c", "raise SystemExit('no such pipeline')"]
        return super().argv(launch)


def test_a_switch_that_dies_at_start_is_named_with_its_words_and_all_is_rolled_back(directory):
    with pytest.raises(
        EmulationError, match=r"switch t1-p1-1 ended with status 1 at start: its last output was: no such pipeline"
    ):
        Emulation(small_fabric(), directory, Broken()).start()
    assert remains(directory) == []


def test_an_occupied_namespace_name_is_refused_and_not_removed(directory):
    name = state.namespace(directory.parent, "cables")
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        with pytest.raises(EmulationError, match=f"namespace {name} exists already, perhaps of a running lab"):
            Emulation(small_fabric(), directory, StandIn()).start()
        assert name in named_namespaces()
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)
    assert not directory.parent.exists()


def test_a_run_directory_with_files_is_refused_and_kept(directory):
    directory.mkdir(parents=True)
    (directory / "precious").write_text("mine")
    with pytest.raises(EmulationError, match="holds files already"):
        Emulation(small_fabric(), directory, StandIn()).start()
    assert (directory / "precious").read_text() == "mine"
    (directory / "precious").unlink()
    directory.rmdir()
    directory.parent.rmdir()


def test_a_run_directory_too_deep_for_sockets_is_refused_before_anything_is_made():
    deep = run_dir("-" + "x" * 90)
    with pytest.raises(EmulationError, match="too long a path for Unix sockets; use a shorter one"):
        Emulation(small_fabric(), deep, StandIn()).start()
    assert not deep.parent.exists()


def test_a_second_lab_is_refused_with_the_pid_of_the_first(lab, directory):
    with pytest.raises(LabRunning, match=rf"a lab is running already \(process {os.getpid()}\)") as caught:
        Emulation(small_fabric(), directory.parent / "other", StandIn()).start()
    assert caught.value.pid == state.running(directory.parent) == os.getpid()
    with pytest.raises(LabRunning):
        state.clean(directory.parent)
    assert lab.is_alive("t0-p1-1")


# --- violent ends ---------------------------------------------------------------------------------------------------

MOMENTS = [
    ("nodes", 0),
    ("nodes", 3),
    ("nodes", 5),
    ("cables", 0),
    ("cables", 4),
    ("switches", 0),
    ("switches", 2),
    ("up", 0),
]


@pytest.mark.parametrize(("stage", "done"), MOMENTS)
def test_clean_removes_what_a_killed_run_left(directory, stage, done):
    dead = builder(directory, stage, done)
    assert dead.wait(60) == -signal.SIGKILL, dead.stderr.read()
    assert remains(directory)
    bystander = subprocess.Popen(["sleep", "1000"])
    try:
        removed = state.clean(directory.parent)
        assert f"directory {directory}" in removed
        assert remains(directory) == []
        assert bystander.poll() is None
        assert state.clean(directory.parent) == []
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize(("stage", "done"), MOMENTS)
def test_ctrl_c_at_any_moment_leaves_nothing(directory, stage, done):
    stopped = builder(directory, stage, done, signal.SIGINT)
    assert stopped.wait(60) != 0
    assert "KeyboardInterrupt" in stopped.stderr.read()
    assert not directory.parent.exists()
    assert not [name for name in named_namespaces() if name.startswith(directory.parent.name)]


def test_a_shell_that_dies_while_the_fabric_comes_up_is_the_reason_and_not_what_follows_from_it(directory):
    lab = Emulation(small_fabric(), directory, StandIn())

    def kills(stage, done, _total):
        if (stage, done) == ("switches", 0):
            lab.network["t0-p1-1"].shell.kill()
            lab.network["t0-p1-1"].shell.wait()

    with pytest.raises(
        EmulationError, match="the shell of t0-p1-1, which holds its namespaces, was killed by SIGKILL; then switch"
    ):
        lab.start(kills)
    assert not directory.parent.exists()


def test_a_new_lab_starts_over_the_remains_of_a_killed_one(directory):
    dead = builder(directory, "up")
    assert dead.wait(60) == -signal.SIGKILL
    left = marked(directory)
    assert left
    told = []
    lab = Emulation(small_fabric(), directory, StandIn())
    lab.start(lambda stage, *_: told.append(stage))
    try:
        assert not left & marked(directory)
        assert any(line.startswith("left by an earlier run: process") for line in told)
    finally:
        lab.close()
