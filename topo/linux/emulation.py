"""A fabric on this machine: nodes in namespaces, cables, one P4 process per switch; all of it is removed at the end.

Order of making: lock, nodes (Mininet), cables, switch processes in parallel, until each answers on its
socket. A failed start is rolled back before the error goes on. `state` cleans up after a kill -9.
"""

import contextlib
import importlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final

from mrclab.rpc import peers
from mrclab.rpc.paths import MAX_PATH_BYTES
from mrclab.topo.cables.cables import Cables
from mrclab.topo.errors import EmulationError
from mrclab.topo.linux import kernel, processes
from mrclab.topo.linux.adaptivetimeout import AdaptiveTimeout, MachineSlowness
from mrclab.topo.linux.forkserver.client import ForkServer, Process
from mrclab.topo.linux.state import RunState
from mrclab.topo.linux.switches import targets
from mrclab.topo.linux.switches.depths import QueueDepths
from mrclab.topo.linux.switches.targets import Launch, Target
from mrclab.topo.model import Fabric
from mrclab.topo.process import realtime

Progress = Callable[[str, int, int], None]  # stage, done, total

_READY_TIMEOUT = 60.0  # seconds until a switch process must answer; two slow cores start 32 in a third of that
_USUAL_SHELL = 0.04  # seconds in which a small, quiet machine starts a node's shell
_SHELLS_AT_ONCE = 4  # shells that start at the same time: each mostly waits for the kernel and for itself
_LOOK_AGAIN = 0.02  # seconds between two attempts to connect
_UMASK = 0o022  # of all processes: other users cannot write their files
_APART: Final[Mapping[str, Any]] = {"start_new_session": True, "umask": _UMASK}
_GRACE = 1.0  # seconds that agents and controllers get to end by themselves


class Emulation:
    """The realised fabric. `with Emulation(...) as lab:` starts it and removes everything at the end.

    `run_dir` receives sockets and logs; its parent holds the lock and gives the namespace its name, so that
    /run/mrclab/lab makes `mrclab-cables`. `target` is `soft`, `bmv2`, None for the default, or a Target. `forks` names
    Python packages that `run` will start, beside the target's own, so that one process imports them once for all.
    """

    cables: Cables

    def __init__(
        self, fabric: Fabric, run_dir: Path, target: str | Target | None = None, forks: Iterable[str] = ()
    ) -> None:
        self.fabric, self.run_dir = fabric, run_dir
        self.target = targets.choose(target) if target is None or isinstance(target, str) else target
        self.slowness = MachineSlowness()  # measured so far on this machine: timeouts are multiplied by it
        self.network: Any = None  # Mininet's view, for its command line
        self.begun = False  # `start` has made something
        self._state: RunState | None = None
        self._namespaces: dict[str, int] = {}  # node → descriptor
        self._forks = {**self.target.forks, **dict.fromkeys(forks, "")}
        self._fork_server: ForkServer | None = None
        self._switches: dict[str, Process] = {}
        self._others: dict[str, Process] = {}
        self._frozen: set[str] = set()  # processes that `freeze` has stopped
        self._lock = threading.RLock()

    def __enter__(self) -> "Emulation":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- life cycle -------------------------------------------------------------------------------------------------

    def start(self, progress: Progress = lambda *_: None, *, keep_files: bool = False) -> None:
        """Bring the fabric up; returns when every switch answers. Rolls back on any failure and on Ctrl-C.

        LabRunning where another lab is up, EmulationError for anything that the machine refuses.

        With `keep_files` the run directory of a failed start stays until `close`.
        """
        if os.geteuid() != 0:
            raise EmulationError("emulating a fabric needs root; run it with sudo")
        if beyond := self.fabric.spec.beyond_p4:
            raise EmulationError(beyond)
        nodes = _mininet_nodes()
        self._check_paths()
        try:
            with _signals_deferred():
                self._state = RunState.claim(self.run_dir.parent, lambda line: progress(line, 0, 0))
            self._state.make_directory(self.run_dir)
            self.begun = True
            (self.run_dir / "log").mkdir(mode=0o755)
            if self._forks:
                self._fork_server = ForkServer(self._forks, self._state.environment, _UMASK)
            self._start_nodes(nodes, progress)
            self._start_cables(nodes, progress)
            self._start_switches([switch.name for switch in self.fabric.switches], progress)
        except BaseException as error:
            ended = self._ended_shells()
            if keep_files:
                self.stop()
            else:
                self.close()
            if ended and isinstance(error, EmulationError):  # the shell's end is the cause
                node, how = next(iter(ended.items()))
                raise EmulationError(f"the shell of {node}, which holds its namespaces, {how}; then {error}") from None
            raise

    def stop(self) -> None:
        """End all processes, remove all namespaces and cables. Files stay until `close`."""
        if self._state is None:
            return
        with _signals_deferred(), self._lock:
            processes.end(_alive(self._others), _GRACE)
            self._state.end_processes()
            for process in (*self._switches.values(), *self._others.values()):
                process.wait()
            self._switches.clear()
            self._others.clear()
            if self._fork_server is not None:
                self._fork_server.close()
                self._fork_server = None
            if self.network is not None:
                self.network.stop()
                self.network = None
            for descriptor in self._namespaces.values():
                os.close(descriptor)
            self._namespaces.clear()
            if hasattr(self, "cables"):
                self.cables.close()
            self._state.remove_namespace()

    def close(self) -> None:
        """Stop, then remove run directory and lock."""
        with _signals_deferred():
            self.stop()
            if self._state is not None:
                self._state.release()
                self._state = None

    # --- other processes --------------------------------------------------------------------------------------------

    def run(self, node: str | None, argv: Sequence[str], log: str) -> None:
        """Start a process as `popen` does, by a fork where its command line runs one of the packages for that."""
        state = self._running()
        with (self.run_dir / "log" / f"{log}.log").open("ab") as output:
            process = self._start(log, node, argv, output, state)
        with self._lock:
            self._others[log] = process

    def popen(
        self,
        node: str | None,
        argv: Sequence[str],
        *,
        log: str | None = None,
        namespace: int | None = None,
        **keywords: Any,
    ) -> "subprocess.Popen[bytes]":
        """Start a process in a node's namespaces (None: the machine's own), in a session of its own.

        `namespace`: descriptor of another network namespace to start it in instead.

        With `log` its output is appended to log/<log>.log and it is listed under that name in `processes`. It is
        ended with the lab: SIGTERM, a second, SIGKILL. `keywords` go to subprocess.Popen.
        """
        state = self._running()
        command = self._command(node, argv)
        options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "env": state.environment, **_APART, **keywords}
        options["env"] = {**options["env"], **state.marks}
        with contextlib.ExitStack() as files:
            if log is not None:
                output = files.enter_context(Path(self.run_dir / "log" / f"{log}.log").open("ab"))
                options = {"stdout": output, "stderr": subprocess.STDOUT} | options

            def begin() -> "subprocess.Popen[bytes]":
                return subprocess.Popen(command, **options)

            process = begin() if namespace is None else kernel.in_namespace(namespace, begin)
        with self._lock:
            self._others[log or f"{node or 'lab'}:{process.pid}"] = process
        return process

    def pid(self, node: str) -> int:
        """Process that holds a node's namespaces (its Mininet shell)."""
        self.fabric.node(node)
        self._running()
        return int(self.network[node].pid)

    def namespace(self, node: str) -> int:
        """Descriptor on a node's network namespace; stays the emulation's."""
        self.fabric.node(node)
        self._running()
        return self._namespaces[node]

    def processes(self) -> dict[str, int]:
        """Name → pid of each running process: switches by name, others by the name of their log."""
        with self._lock:
            every = {**self._switches, **self._others}
            return {name: process.pid for name, process in every.items() if process.poll() is None}

    def endings(self) -> dict[str, str]:
        """Return the endings of processes by name; includes the shells that hold the nodes' namespaces."""
        with self._lock:
            every = {**self._switches, **self._others}
            statuses = {name: process.poll() for name, process in every.items()}
            found = {name: processes.ending(status) for name, status in statuses.items() if status is not None}
            return found | {f"shell-{node}": how for node, how in self._ended_shells().items()}

    @property
    def has_files(self) -> bool:
        """True if a run directory of this fabric's own is there."""
        return self._state is not None and (self.run_dir / "log").exists()

    @property
    def real_time(self) -> bool:
        """True if the kernel schedules all running switches ahead of ordinary work, as a trustworthy run needs."""
        alive = [process.pid for process in self._switches.values() if process.poll() is None]
        return all(realtime.is_real_time(pid) for pid in alive)

    def queue_depths(self) -> QueueDepths:
        """Return a sampler of the depths of all switches' queues; the caller's, to be closed before `stop`."""
        self._running()
        spec, run_dir, spaces = self.fabric.spec, self.run_dir, self._namespaces
        launches = {switch.name: Launch(switch, spec, run_dir) for switch in self.fabric.switches}
        return QueueDepths({name: self.target.depth_query(launch, spaces[name]) for name, launch in launches.items()})

    # --- failures of processes ----------------------------------------------------------------------------------------

    def kill(self, name: str) -> float:
        """SIGKILL a switch or another process: a crash. Returns the time; no effect if it has ended."""
        process = self._process(name)
        now = time.monotonic()
        if process is not None and process.poll() is None:
            process.kill()
            now = time.monotonic()
            process.wait()
        self._frozen.discard(name)
        return now

    def kill_programs(self, host: str) -> int:
        """SIGKILL the programs on a host, its agent apart; return how many processes these were."""
        killed = 0
        for pid in processes.with_token(self._running().token, host):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
        return killed

    def terminate(self, name: str, grace: float = _GRACE) -> None:
        """SIGTERM a process and wait until it has ended; SIGKILL where that takes more than `grace` seconds."""
        process = self._process(name)
        if process is None or process.poll() is not None:
            return
        process.terminate()
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            self.kill(name)

    def is_frozen(self, name: str) -> bool:
        """Return True between `freeze` and `thaw`."""
        return name in self._frozen

    def stopped(self) -> dict[str, int]:
        """Return name → pid of processes that were stopped from outside (state T)."""
        running = self.processes()
        return {name: pid for name, pid in running.items() if name not in self._frozen and peers.is_stopped(pid)}

    def freeze(self, name: str) -> float:
        """SIGSTOP: ports of a switch stay up, nothing is forwarded. Returns the monotonic time of the stop."""
        self._frozen.add(name)
        try:
            process = self._signal(name, signal.SIGSTOP)
        except EmulationError:
            self._frozen.discard(name)
            raise
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)  # a signal takes effect a little later
        return time.monotonic()

    def thaw(self, name: str) -> float:
        """SIGCONT after `freeze`. Returns the monotonic time."""
        self._signal(name, signal.SIGCONT)
        now = time.monotonic()
        self._frozen.discard(name)
        return now

    def restart(self, switch: str) -> None:
        """Start a switch process again, empty as after power-on (whatever ran is killed), and wait until it answers."""
        self.kill(switch)
        self._start_switches([switch], lambda *_: None)

    def is_alive(self, name: str) -> bool:
        """Return True if the process of a switch, or another one, runs (a frozen one does)."""
        process = self._process(name)
        return process is not None and process.poll() is None

    def _ended_shells(self) -> dict[str, str]:
        """Return the endings of nodes' shells by node."""
        network = self.network
        shells = {node: network[node].shell for node in network or ()}
        return {node: processes.ending(shell.returncode) for node, shell in shells.items() if shell.poll() is not None}

    # --- inside -----------------------------------------------------------------------------------------------------

    def _check_paths(self) -> None:
        longest = max(len(str(Launch(s, self.fabric.spec, self.run_dir).socket)) for s in self.fabric.switches)
        if longest > MAX_PATH_BYTES:
            raise EmulationError(
                f"the run directory {self.run_dir} is too long a path for Unix sockets; use a shorter one"
            )

    def _running(self) -> RunState:
        if self._state is None or self.network is None:
            raise EmulationError("the fabric is not up; start it first")
        return self._state

    def _start_nodes(self, nodes: Any, progress: Progress) -> None:
        assert self._state is not None
        environment = self._state.environment
        began = time.monotonic()
        self.network = nodes.empty_network()
        names = [*(host.name for host in self.fabric.hosts), *(switch.name for switch in self.fabric.switches)]

        started: list[Any] = []

        def make(name: str) -> Any:
            if self.fabric.has_host(name):
                node = nodes.FabricHost(name, environment=environment, slowness=self.slowness)
            else:
                device = f"{self.fabric.switch(name).device_id:x}"
                node = nodes.FabricSwitch(name, dpid=device, environment=environment, emulation=self)
            started.append(node)
            namespace = self._namespaces[name] = kernel.namespace_of(node.pid)  # closed by `stop`, come what may
            kernel.silence(namespace)
            return node

        with ThreadPoolExecutor(_SHELLS_AT_ONCE, thread_name_prefix="shells") as pool:
            made = {name: pool.submit(make, name) for name in names}
            try:
                for done, name in enumerate(names):
                    progress("nodes", done, len(names))
                    nodes.add_node(self.network, made[name].result())
            except BaseException:
                pool.shutdown(cancel_futures=True)
                for node in started:
                    if node.name not in self.network:
                        node.terminate()
                raise
        self.slowness.observe(time.monotonic() - began, _USUAL_SHELL * len(names))
        progress("nodes", len(names), len(names))

    def _start_cables(self, nodes: Any, progress: Progress) -> None:
        assert self._state is not None
        total = len(self.fabric.links)
        progress("cables", 0, total)
        self.cables = Cables(self.fabric, self._state.claim_namespace())
        self.cables.build(self._namespaces)
        nodes.add_links(self.network, self.fabric, self)
        progress("cables", total, total)

    def _start_switches(self, names: Sequence[str], progress: Progress) -> None:
        state = self._running()
        launches = {name: Launch(self.fabric.switch(name), self.fabric.spec, self.run_dir) for name in names}
        order = {switch.name: number for number, switch in enumerate(self.fabric.switches)}
        progress("switches", 0, len(names))
        for name, launch in launches.items():
            launch.socket.unlink(missing_ok=True)
            with launch.log.open("ab") as log:
                self._switches[name] = self._start(name, name, self.target.argv(launch), log, state)
        for done, name in enumerate(self._as_ready(launches), 1):
            self.target.set_queues(launches[name], self._namespaces[name])
            if not self.target.schedules_itself:
                realtime.to_real_time(self._switches[name].pid)
                realtime.pin_to_cpu(self._switches[name].pid, order[name])
            progress("switches", done, len(names))

    def _start(self, name: str, node: str | None, argv: Sequence[str], output: IO[bytes], state: RunState) -> Process:
        """Start a process in a node's namespaces, by a fork where that can be."""
        if self._fork_server is not None and self._fork_server.serves(argv):
            forked = self._fork_server.start(name, argv, None if node is None else self.pid(node), output)
            if forked is not None:
                return forked
        streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
        return subprocess.Popen(self._command(node, argv), env=state.environment, **streams, **_APART)

    def _command(self, node: str | None, argv: Sequence[str]) -> list[str]:
        """Return a command line that runs another in a node's namespaces."""
        return list(argv) if node is None else ["mnexec", "-a", str(self.pid(node)), *argv]

    def _as_ready(self, launches: Mapping[str, Launch]) -> Iterator[str]:
        """Yield switches in the order in which they become ready; EmulationError if one exits or does not respond."""
        waiting = dict(launches)
        adaptive = AdaptiveTimeout(_READY_TIMEOUT, self.slowness)
        while waiting:
            adaptive.waited_for = {f"switch {name}": self._switches[name].pid for name in waiting}
            for name, launch in launches.items():
                if (status := self._switches[name].poll()) is not None:
                    last = f"its last output was: {processes.last_line(launch.log)} (its log is log/{launch.log.name})"
                    raise EmulationError(f"switch {name} {processes.ending(status)} at start: {last}")
            for name, launch in list(waiting.items()):
                if self.target.answers(launch, self._namespaces[name]):
                    del waiting[name]
                    yield name
            if waiting and adaptive.over:
                first = next(iter(waiting))
                last = f"the last output of {first} was: {processes.last_line(launches[first].log)}"
                raise adaptive.error(", ".join(waiting), f"answer; {last} (its log is log/{first}.log)")
            if waiting:
                processes.wait_for_end((self._switches[name].pid for name in waiting), _LOOK_AGAIN)

    def _process(self, name: str) -> Process | None:
        with self._lock:
            if name in self._others:
                return self._others[name]
            self.fabric.switch(name)
            return self._switches.get(name)

    def _signal(self, name: str, number: signal.Signals) -> Process:
        process = self._process(name)
        if process is None or process.poll() is not None:
            raise EmulationError(f"{name} is not running")
        process.send_signal(number)
        return process


def _mininet_nodes() -> Any:
    try:
        return importlib.import_module("mrclab.topo.linux.nodes")
    except ImportError as error:
        raise EmulationError(f"Mininet cannot be loaded ({error}); install Debian's mininet package") from None
    except SystemExit:
        raise EmulationError("a program of Mininet's is missing; install Debian's mininet package") from None


def _alive(running: Mapping[str, Process]) -> dict[int, int]:
    pids = (process.pid for process in running.values() if process.poll() is None)
    return {pid: began for pid in pids if (began := processes.start_time(pid)) is not None}


@contextlib.contextmanager
def _signals_deferred() -> Iterator[None]:
    """Defer Ctrl-C and SIGTERM until the block, a clean-up, is complete."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    before = {
        number: signal.signal(number, lambda received, _frame: arrived.append(received))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        if arrived:
            signal.raise_signal(arrived[0])
