"""Watchdog: reports at once when a process of the lab, or the directory that all of them write to, ends unexpectedly.

The first such event ends the run. Its message has all that is known: how the process ended, its last output, the
place of its log, a remedy. A process stopped by a signal does not end the run: it is reported while it is stopped.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from mrclab.events.processes import ProcessResume, ProcessStop
from mrclab.lab.errors import exhausted_by_log
from mrclab.lab.run.wire.watch import ProcessWatcher
from mrclab.rpc.peers import stopped_text
from mrclab.topo.model import Fabric

_INTERVAL = 0.1  # seconds between two looks
_FULL = 65_536  # free bytes of a file system on which nothing can be written any more
_WORDS = 300  # characters of a process's last output in a message
_REPORT_AFTER = 1.0  # seconds that a process is stopped before a line is written about it
_CONTROLLER = "controller"


def title_of(fabric: Fabric, process: str) -> str:
    """Return the name of a process for a sentence: `the agent of h1`."""
    if fabric.has_host(process):
        return f"the agent of {process}"
    if fabric.has_switch(process):
        return f"switch {process}"
    return "the controller" if process == _CONTROLLER else f"the process {process}"


class Stops:
    """Processes stopped by a signal: each is recorded, and reported once if it remains stopped.

    `record` gets `process.stopped` and `process.resumed` with their fields, `notify` one line per stop. Times of
    records are monotonic, of the first and last look at which the process was stopped.
    """

    def __init__(self, fabric: Fabric, record: Callable[..., object], notify: Callable[[str], None]) -> None:
        self._fabric, self._record, self.notify = fabric, record, notify
        self._since: dict[str, tuple[float, int]] = {}
        self._recorded: set[str] = set()
        self._reported: set[str] = set()

    def poll(self, now: float, stopped: Mapping[str, int]) -> None:
        """Update the set of stopped processes (name → pid)."""
        for name in set(self._since) - set(stopped):
            since, _ = self._since.pop(name)
            if name in self._recorded:
                self._record(ProcessResume(process=name, seconds=round(now - since, 3)))
            if name in self._reported:
                self.notify(f"{title_of(self._fabric, name)} goes on after {now - since:.1f} s")
            self._recorded.discard(name)
            self._reported.discard(name)
        for name, pid in stopped.items():
            since, _ = self._since.setdefault(name, (now, pid))
            if now > since and name not in self._recorded:  # a process that was just resumed is seen as stopped once
                self._recorded.add(name)
                self._record(ProcessStop(process=name, pid=pid), since)
            if now - since >= _REPORT_AFTER and name not in self._reported:
                self._reported.add(name)
                self.notify(f"{title_of(self._fabric, name)} {stopped_text(pid)}")

    def stopped_line(self, seconds: float) -> str:
        """Return the line on the first process stopped for `seconds`; empty if there is none."""
        now = time.monotonic()
        every = list(self._since.items())
        found = [(name, pid) for name, (since, pid) in every if now - since >= seconds]
        return f"{title_of(self._fabric, found[0][0])} {stopped_text(found[0][1])}" if found else ""


class Watchdog(ProcessWatcher):
    """Thread that watches the processes of a lab. `endings` describes how each ended one did (`was killed by …`);
    `on_look` is called at every look.
    """

    def __init__(
        self,
        fabric: Fabric,
        run_dir: Path,
        endings: Callable[[], Mapping[str, str]],
        on_look: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self._fabric, self._run_dir, self._endings, self._on_look = fabric, run_dir, endings, on_look
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._on_problem: Callable[[], None] = lambda: None
        self.problem = ""  # the first one, a sentence
        self._woken = ""  # the one already reported

    def start(self, on_problem: Callable[[], None]) -> None:
        """Start; `on_problem` is called in the watchdog's thread at the first problem."""
        self._on_problem = on_problem
        self._thread.start()

    def stop(self) -> None:
        """Stop watching: from now on everything may end."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def poll(self) -> str:
        """Look now; return the problem so far, if any."""
        with self._lock:
            if not self.problem and not self._stopped.is_set():
                self.problem = self._what_happened()
            return self.problem

    def accept(self) -> None:
        """Accept the processes that have ended so far; the lab goes on without them."""
        with self._lock:
            self._excused.update(self._endings())
            self.problem = ""

    def _run(self) -> None:
        while not self._stopped.wait(_INTERVAL):
            self._on_look()
            problem = self.poll()
            if problem != self._woken:
                self._woken = problem
                self._on_problem()

    def _what_happened(self) -> str:
        try:
            left = os.statvfs(self._run_dir / "log")
        except FileNotFoundError:
            return f"the run directory {self._run_dir} was removed while the lab ran; leave it alone until the lab ends"
        if left.f_blocks and left.f_bavail * left.f_frsize < _FULL:
            place = self._run_dir
            return f"the file system of the run directory {place} is full; free space there, or give another --run-dir"
        ended = [(name, how) for name, how in self._endings().items() if name not in self._excused]
        if not ended:
            return ""
        name, how = ended[0]
        if why := exhausted_by_log(self._run_dir / "log" / f"{name}.log"):
            return f"{title_of(self._fabric, name)} {how}: {why}"
        more = f"; so did {len(ended) - 1} more" if len(ended) > 1 else ""
        hint = "; the kernel does that when memory runs out (`dmesg`), or a user did" if "SIGKILL" in how else ""
        log = f"its log is log/{name}.log" if (self._run_dir / "log" / f"{name}.log").exists() else "it has no log"
        return (
            f"{title_of(self._fabric, name)} {how}{more}: its last output was: {self.last_output(name)} ({log}{hint})"
        )

    def last_output(self, process: str) -> str:
        """Return the last line of a process's log."""
        try:
            lines = (self._run_dir / "log" / f"{process}.log").read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1][:_WORDS] if lines else "nothing"


def deleted_files(run_dir: Path, pids: Mapping[str, int]) -> dict[str, bytes]:
    """Return the files of a removed directory that processes still hold open: path inside it → content."""
    found: dict[str, bytes] = {}
    prefix, suffix = f"{run_dir}/", " (deleted)"
    for pid in (os.getpid(), *pids.values()):
        try:
            descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            continue
        for descriptor in descriptors:
            try:
                target = str(descriptor.readlink())
                if target.startswith(prefix) and target.endswith(suffix):
                    found[target[len(prefix) : -len(suffix)]] = descriptor.read_bytes()
            except OSError:
                continue
    return found
