"""World of runs on the wire: fabric, controller and agents as processes, watched from bring-up to teardown.

`wire_world` leaves nothing behind: an exception or a signal during bring-up rolls back everything begun.
"""

import contextlib
import functools
import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from typing_extensions import Unpack

from mrclab.events.event import Event
from mrclab.events.run import LabUp
from mrclab.lab import history
from mrclab.lab.errors import Interrupted, Refused, RunError, Stopped, as_run_error, exhausted, exhausted_by_log
from mrclab.lab.run.interrupts import Interrupts, guarded
from mrclab.lab.run.wire.attach import LabClients
from mrclab.lab.run.wire.watch import Watch
from mrclab.lab.run.wire.watchdog import Stops, Watchdog, deleted_files
from mrclab.lab.run.wire.wireinjector import WireFaultInjector
from mrclab.lab.run.world import Progress, WorldOptions
from mrclab.rpc.client import Client
from mrclab.rpc.errors import RpcError
from mrclab.rpc.peers import STOPPED_S
from mrclab.topo import fabricfile
from mrclab.topo.config.transport import FILE_NAME as TRANSPORT_FILE
from mrclab.topo.config.transport import TransportSpec
from mrclab.topo.config.transport import store as store_transport
from mrclab.topo.economy import CompressedLog
from mrclab.topo.errors import EmulationError, TopoError
from mrclab.topo.linux.adaptivetimeout import AdaptiveTimeout
from mrclab.topo.linux.emulation import Emulation
from mrclab.topo.linux.paths import RUN_DIR
from mrclab.topo.model import Fabric
from mrclab.topo.process import realtime

VERIFY_TIMEOUT = 60.0  # seconds
_FORKS = ("mrclab.controller", "mrclab.hosts.agent")
_MAKE_TIMEOUT = 30.0  # seconds for a process to start and create what others wait for; it needs one or two
_LOOK = 0.1  # seconds between two liveness checks of a waiting caller
_DYING = 2.0  # seconds that the kernel may need to end a process
_POLL = 0.05  # seconds between two looks at the controller


class WireWorld(LabClients):
    """The lab that this process owns; made by `wire_world` only."""

    def __init__(self, fabric: Fabric, interrupts: Interrupts | None = None, **options: Unpack[WorldOptions]) -> None:
        run_dir = options.get("run_dir", RUN_DIR)
        super().__init__(run_dir, fabric)
        self._interrupts = interrupts
        self.seed = options.get("seed", 1)
        self.repeatable = options.get("repeatable", False)
        self.transport = options.get("transport") or TransportSpec()
        self.mapper = options.get("mapper")
        self.emulation = Emulation(fabric, run_dir, options.get("target"), _FORKS)
        self.slowness = self.emulation.slowness
        self.injector = WireFaultInjector(self.emulation, self)
        self._real_time = True
        self.bring_up_seconds = 0.0
        self.log: history.HistoryWriter | None = None
        self._watch: Watch | None = None
        self._watchdog = Watchdog(fabric, run_dir, self.emulation.endings, self._look_for_stops)
        self._stops = Stops(fabric, self._record_stop, lambda _line: None)
        self.forgiving = False  # an unexpected end is reported once, and the lab goes on
        self._leftovers: list[str] = []  # of an earlier run
        self._rescued: dict[str, bytes] = {}  # files of a removed run directory

    def start(self, progress: Progress) -> None:
        """Bring everything up and wait until the controller has verified every cable.

        After a failure the run directory stays, to be collected, until `close`. RunError once something was made.
        """
        try:
            self._bring_up(progress)
        except EmulationError as error:
            if self.emulation.begun:
                raise as_run_error(error) from None
            raise
        except OSError as error:
            raise self._unwritable(error, "files") from None

    def _unwritable(self, error: OSError, what: str) -> RunError:
        """Return the error of a run directory that takes no more; raises that of a process that ended before."""
        self.check()
        return RunError(
            exhausted(error) or f"no more {what} can be written to the run directory {self.run_dir}: {error.strerror}"
        )

    def _bring_up(self, progress: Progress) -> None:
        began = time.monotonic()
        self.emulation.start(functools.partial(self._on_cleanup, progress), keep_files=True)
        self._watchdog.start(self._abort)
        for folder in ("history", "node", "files"):
            (self.run_dir / folder).mkdir()
        fabricfile.store(self.fabric.spec, self.run_dir / "fabric.yaml")
        store_transport(self.transport, self.run_dir / TRANSPORT_FILE)
        self.log = history.HistoryWriter(self.run_dir / "history" / "lab.jsonl")
        self._start_controller(progress)
        self._start_agents(progress)
        self._wait_verified(progress)
        depths = self.emulation.queue_depths()
        self._watch = Watch(self.emulation.processes, self.log, depths, self.emulation.endings)
        self._watch.start()
        self.bring_up_seconds = time.monotonic() - began
        self.log.add(LabUp(seconds=round(self.bring_up_seconds, 3)))

    def _on_cleanup(self, progress: Progress, stage: str, done: int, total: int) -> None:
        """Keep the start-up's message on an earlier run that was killed, if that left something for users."""
        if " kept in " in stage:
            self._leftovers.append(stage)
        progress(stage, done, total)

    def record(self, event: Event, t: float | None = None) -> float:
        """Write a record of the lab itself into the history; return its time."""
        if self.log is None:
            raise RunError("the lab is not up")
        try:
            return self.log.add(event, t)
        except OSError as error:
            raise self._unwritable(error, "records") from None

    # --- unexpected ends --------------------------------------------------------------------------------------------

    def on_notice(self, notify: Callable[[str], None]) -> None:
        """Report processes that a signal stops, as it happens; `notify` is called in another thread."""
        self._stops.notify = notify
        for text in self._leftovers:
            notify(text)

    def stopped(self) -> dict[str, int]:
        """Return name → pid of the processes stopped by a signal, not by a fault."""
        return self.emulation.stopped()

    def _look_for_stops(self) -> None:
        self._stops.poll(time.monotonic(), self.emulation.stopped())

    def _record_stop(self, event: Event, t: float | None = None) -> None:
        with contextlib.suppress(OSError, ValueError):  # a full disk is reported by the watchdog
            if self.log is not None:
                self.log.add(event, t)

    def _may_stop(self, node: str) -> bool:
        return self.emulation.is_frozen(node)

    def check(self) -> None:
        """Raise RunError if a process ended unexpectedly; at a prompt, only the first time."""
        if problem := self._watchdog.poll():
            if self.forgiving:
                self._watchdog.accept()
            raise RunError(problem)

    def _abort(self) -> None:
        """Wake all callers that wait for a response; they raise the problem."""
        for client in list(self._clients.values()):
            client.abort()

    def call(self, node: str, op: str, /, **arguments: Any) -> dict[str, Any]:
        """Call an agent (`h1`) or the `controller`; RunError names the node that refused and why, or that has ended."""
        self.check()
        try:
            return super().call(node, op, **arguments)
        except RunError:
            if not self._answers(node):
                self.settle(node)
            self.check()
            raise

    def settle(self, node: str) -> None:
        """Give processes that closed their sockets a moment to end; RunError if the end was unexpected."""
        until = time.monotonic() + _DYING
        while node in self.emulation.processes() and time.monotonic() < until:
            time.sleep(_POLL)
        self.check()

    def pause(self, seconds: float) -> None:
        """Sleep; RunError as soon as a process ends unexpectedly."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK))
            self.check()

    # --- as a World -------------------------------------------------------------------------------------------------

    @property
    def greeting(self) -> str:
        """Return the bring-up time and the kind of switch."""
        return f"lab verified in {self.bring_up_seconds:.1f} s (target {self.emulation.target.name})"

    def stuck(self) -> list[str]:
        """Return nothing: the wire cannot be inspected from outside."""
        return []

    def deadlocked(self) -> bool:
        """Return False: the wire cannot be inspected from outside."""
        return False

    def depths(self) -> dict[str, dict[str, int]]:
        """Return the packets in data queues at the watch's last look, four times a second."""
        return self._watch.depths if self._watch is not None else {}

    def realtime(self) -> AbstractContextManager[None]:
        """Return a context with the real-time priority of switches and NICs, which else starve this process."""
        return realtime.as_real_time()

    def facts(self) -> dict[str, Any]:
        """Return the facts on the machine that carried the run."""
        return {
            "world": "wire",
            "target": self.emulation.target.name,
            "real_time": self._real_time,
            "bring_up_seconds": round(self.bring_up_seconds, 3),
        }

    def hand_over(self) -> CompressedLog:
        """Refuse: every process writes a file of its own."""
        raise RunError("the history of real frames is in files; run it in virtual time, with --world sim")

    def collect(self, directory: Path) -> None:
        """Copy the run directory as it is, without lines that are being written."""
        fabricfile.store(self.fabric.spec, directory / "fabric.yaml")
        for path, content in self._rescued.items():
            place = self.run_dir / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        for folder in ("log", "node", "history"):
            (self.run_dir / folder).mkdir(parents=True, exist_ok=True)
        for folder in ("log", "node"):
            shutil.copytree(self.run_dir / folder, directory / folder)
        history.merge(self.run_dir / "history", directory / "history.jsonl")

    # --- processes --------------------------------------------------------------------------------------------------

    def launch(self, process: str) -> None:
        """Start the `controller`, or the agent of the host with this name, again; return when it serves."""
        self.forget(process)
        if process == "controller":
            self._run_controller()
        else:
            self._run_agent(process)
        self._wait(functools.partial(self._answers, process), process, "its socket")

    def excuse(self, *processes: str) -> None:
        """Let these processes end from now on: their end is intended."""
        self._watchdog.excuse(*processes)
        if self._watch is not None:
            self._watch.excuse(*processes)

    def expect_alive(self, *processes: str) -> None:
        """Report the end of these processes again."""
        self._watchdog.expect_alive(*processes)
        if self._watch is not None:
            self._watch.expect_alive(*processes)

    def stop(self) -> None:
        """End all processes, namespaces and cables; files stay, to be collected. May be repeated.

        From now on signals wait until the lab is gone, so that the collected files are complete.
        """
        if self._interrupts is not None:
            self._interrupts.shield()
        self._watchdog.stop()
        if not (self.run_dir / "history").exists():
            self._rescued |= deleted_files(self.run_dir, self.emulation.processes())
        if self._watch:
            self._watch.stop()
            self._watch = None
        self.disconnect()
        self._real_time = self._real_time and self.emulation.real_time
        self.emulation.stop()
        if self.log:
            with contextlib.suppress(OSError):  # on a full disk
                self.log.close()
            self.log = None

    def close(self) -> None:
        """Stop, and remove the files."""
        try:
            self.stop()
        finally:
            self.emulation.close()

    # --- bring-up ---------------------------------------------------------------------------------------------------

    def _start_controller(self, progress: Progress) -> None:
        progress("controller", 0, 1)
        self._run_controller()
        files = [self.run_dir / "node" / f"{host.name}.json" for host in self.fabric.hosts]
        self._wait(lambda: all(path.exists() for path in files), "controller", "the node config files")
        progress("controller", 1, 1)

    def _start_agents(self, progress: Progress) -> None:
        hosts = self.fabric.hosts
        for host in hosts:
            self._run_agent(host.name)
        for done, host in enumerate(hosts, 1):
            self._wait(functools.partial(self._answers, host.name), host.name, "its socket")
            progress("agents", done, len(hosts))

    def _run_controller(self) -> None:
        argv = [sys.executable, "-m", "mrclab.controller", "--run-dir", str(self.run_dir)]
        argv += ["--stretch", f"{self.slowness.stretch:.2f}"]
        argv += self.mapper.options() if self.mapper else []
        self.emulation.run(None, argv, "controller")

    def _run_agent(self, host: str) -> None:
        argv = [sys.executable, "-m", "mrclab.hosts.agent", "--node-config", f"{self.run_dir}/node/{host}.json"]
        argv += ["--socket", f"{self.run_dir}/{host}.sock", "--seed", str(self.seed)]
        argv += ["--repeatable"] if self.repeatable else []
        argv += ["--history", f"{self.run_dir}/history/{host}.jsonl"]
        self.emulation.run(host, argv, host)

    def _wait_verified(self, progress: Progress) -> None:
        adaptive = AdaptiveTimeout(VERIFY_TIMEOUT, self.slowness)
        while True:
            status = self.call("controller", "status")
            state = str(status["state"])
            if status.get("switches_ready", 0) < status["switches"]:
                progress("switches provisioned", status.get("switches_ready", 0), status["switches"])
            else:
                progress("cables verified", status.get("links_verified", 0), status["links"])
            unanswered = [host for host, version in status.get("agents", {}).items() if not version]
            if state == "verified" and not unanswered:
                return
            if stopped_line := self._stops.stopped_line(STOPPED_S):
                raise Stopped(f"the fabric was not verified: {stopped_line}")
            if state == "failed" or adaptive.over:
                answer = self.call("controller", "wait_verified", timeout=0.0)
                problems = answer.get("problems") or answer.get("failed") or answer.get("not_ready") or []
                problems = problems or [f"the agent of {host} does not respond" for host in unanswered]
                detail = status.get("message") or "; ".join(str(item) for item in problems[:3])
                if state != "failed":
                    what = "get a response from every agent" if state == "verified" else f"verify the fabric ({state})"
                    raise as_run_error(adaptive.error("the controller", f"{what}: {detail}"))
                raise RunError(f"the fabric was not verified ({state}): {detail}")
            self.pause(_POLL)

    def _answers(self, node: str) -> bool:
        try:
            Client(self.run_dir / f"{node}.sock").close()
        except RpcError:
            return False
        return True

    def _wait(self, ready: Callable[[], bool], process: str, what: str, timeout: float = _MAKE_TIMEOUT) -> None:
        """Wait for a file or socket that a process makes; RunError with its last output if it dies or hangs, and
        TooSlow where the machine was the reason.
        """
        adaptive = AdaptiveTimeout(timeout, self.slowness, self.emulation.processes().get(process))
        while not ready():
            self.check()
            if process not in self.emulation.processes():  # excused, as a process that a fault ended
                raise RunError(f"{process} ended before it made {what}: {self.last_output(process)}")
            if adaptive.over:
                raise as_run_error(adaptive.error(process, f"make {what}: {self.last_output(process)}"))
            time.sleep(0.02)

    def exhausted(self) -> str:
        """Return which resource of the machine is exhausted, if a log of a process says so; else an empty string."""
        logs = sorted((self.run_dir / "log").glob("*.log"))
        return next((why for log in logs if (why := exhausted_by_log(log))), "")

    def last_output(self, process: str) -> str:
        """Return the last line of a process's log."""
        return self._watchdog.last_output(process)


def check_root() -> None:
    """Raise Refused if this user cannot make network namespaces."""
    if os.geteuid() != 0:
        raise Refused("the lab needs root for network namespaces; run the same command with sudo")


def check_machine() -> None:
    """Raise Refused if this machine or user cannot bring a lab up."""
    check_root()
    if importlib.util.find_spec("mininet") is None:
        raise Refused("Mininet is not installed; run `sudo make setup` (Debian's package mininet)")


@contextmanager
def wire_world(
    fabric: Fabric,
    progress: Progress,
    on_failure: Callable[[WireWorld, Exception], None] = lambda *_: None,
    **options: Unpack[WorldOptions],
) -> Iterator[WireWorld]:
    """Context manager: a lab that is up and verified; files, processes, namespaces and cables are gone after it.

    A lab that does not come up is handed to `on_failure`, stopped and with its files, before the error is raised.
    """
    check_machine()
    with guarded() as interrupts:
        session = WireWorld(fabric, interrupts, **options)
        try:
            yield from _up(session, progress, interrupts, on_failure)
            if interrupts.pending:
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise Interrupted("interrupted; the lab is down") from None
        finally:
            interrupts.shield()  # a signal that cut the clean-up inside short was the last one to raise
            session.close()


def _up(
    session: WireWorld, progress: Progress, interrupts: Interrupts, on_failure: Callable[[WireWorld, Exception], None]
) -> Iterator[WireWorld]:
    try:
        try:
            session.start(progress)
        except Exception as error:
            session.stop()
            if session.emulation.has_files:
                why = session.exhausted() if isinstance(error, (RunError, TopoError)) else ""
                reason = RunError(why) if why else error
                on_failure(session, reason)
                if reason is not error:
                    raise reason from None
            raise
        yield session
    finally:
        interrupts.shield()
        session.close()
