"""Operations on a running lab, and its background work: faults, traffic and the passing of time.

One lock guards everything: commands take it for each step, alternating between terminals, and a thread of the session
takes it for due events. On the wire that thread follows the machine's clock; in virtual time it advances time, at a
configurable speed.
"""

import math
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from mrclab.lab.errors import LabError, plain
from mrclab.lab.prompt.commands.capturing import CaptureCommand
from mrclab.lab.prompt.remote.turnlock import TurnLock, caller
from mrclab.lab.run.world import World
from mrclab.lab.session.lab import Lab
from mrclab.topo.errors import TopoError

T = TypeVar("T")

_PARTS = 1000  # of a whole, in which progress is reported
_POLL_S = 0.05  # seconds of the machine's clock between two steps
_SLICE = 0.01  # seconds of virtual time, at a speed of one, between two chances for commands
_LONG = 0.25  # seconds of the machine's clock that a slice may take before the next is a shorter one


class ClientGone(LabError):  # noqa: N818 - the sentence is the error
    """The client of a command has disconnected."""


class LabSession:
    """A lab's faults and traffic. `speed` is seconds of virtual time per second of real time; None on the wire.

    `observers` are called after each step, for displays of the lab elsewhere. `controller` asks the controller over a
    connection of its own, so that the lab goes on while it takes its time; without it, it is asked as any node of the
    world. `setting` has a scenario's settings of the lab, besides fabric and seed. Without `threaded` the owner
    calls `step` again and again, as where there are no threads.
    """

    def __init__(
        self,
        world: World,
        speed: float | None = None,
        observers: Iterable[Callable[[], None]] = (),
        controller: Callable[..., dict[str, Any]] | None = None,
        setting: Mapping[str, Any] | None = None,
        threaded: bool = True,
    ) -> None:
        self.world = world
        self.lock = TurnLock()
        self.lab = Lab(world)
        self.capture = CaptureCommand(world, self.lock)
        self.setting = dict(setting or {})
        self.errors: list[str] = []  # errors of background work
        self.observers = list(observers)
        self._speed = speed
        self._anchor = time.monotonic(), world.now
        self._before: tuple[float, float] | None = None  # the speed to return to, and when (time.monotonic)
        self.interrupted = False  # by a signal received in virtual time
        self._controller = controller
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="session", daemon=True) if threaded else None
        if self._thread is not None:
            self._thread.start()

    # --- faults -----------------------------------------------------------------------------------------------------

    def inject(self, kind: str, fields: dict[str, Any]) -> str:
        """Inject a fault given by kind and fields; return a phrase. ValueError for invalid fields."""
        with self.lock:
            phrase = self.lab.inject(self.lab.fault_of(kind, fields))
            self.capture.note(phrase)
            self.lab.apply_due()
            return phrase

    def clear(self, name: str | None = None) -> list[str]:
        """Clear one fault, or all, the last first; returns a phrase for each. LabError where none has this name."""
        with self.lock:
            line = self.lab.time_line
            phrases = line.clear_all() if name is None else [line.clear(name)]
            for phrase in phrases:
                self.capture.note(phrase)
            return phrases

    @property
    def faults(self) -> dict[str, str]:
        """Name and phrase of each fault in force."""
        with self.lock:
            return {fault.name: fault.text(self.world.fabric) for fault in self.lab.time_line.active}

    def down(self) -> dict[str, list[str]]:
        """Cables with a fault in force, and the faults."""
        with self.lock:
            found: dict[str, list[str]] = {}
            for fault in self.lab.time_line.active:
                for link in fault.links(self.world.fabric):
                    found.setdefault(link, []).append(f"{fault.name} ({fault.kind_name})")
            return found

    def ask(self, op: str, seconds: float = 0.0, /, **arguments: Any) -> dict[str, Any]:
        """Send a request to the lab's controller; `seconds` limits the operation itself. RunError with its message."""
        if self._controller is not None:
            return self._controller(op, seconds, **arguments)
        with self.lock:
            return self.world.call("controller", op, **arguments)

    # --- time -------------------------------------------------------------------------------------------------------

    @property
    def speed(self) -> float | None:
        """Seconds of virtual time per second of real time; None on the wire."""
        return self._speed

    @speed.setter
    def speed(self, value: float) -> None:
        with self.lock:
            self._before = None
            self._set_speed(value)

    def slow(self, speed: float, seconds: float) -> None:
        """Slow virtual time down for `seconds` of the machine's clock, then return to the former speed.

        Where time is slower than that already, or real, nothing changes.
        """
        with self.lock:
            usual = self._before[0] if self._before else self._speed
            if usual is None or usual <= speed:
                return
            self._before = usual, time.monotonic() + seconds
            self._set_speed(speed)

    def _set_speed(self, value: float) -> None:
        self._speed = value
        self._anchor = time.monotonic(), self.world.now

    def wait_until(
        self,
        happened: Callable[[], T | None],
        seconds: float = math.inf,
        stage: str = "",
        share: Callable[[], float] | None = None,
    ) -> T | None:
        """Let the lab run until a condition returns a value, at most `seconds` of its clock.

        Virtual time passes as fast as it can meanwhile, whatever the speed. `share` is the done share of the `stage`, 0
        to 1; by default that of the time. ClientGone where the client has disconnected.
        """
        with self.lock:
            began = self.world.now
            deadline = began + seconds
        requester, step = caller(), _SLICE
        while True:
            if requester.gone.is_set():
                raise ClientGone("the client of this command has disconnected")
            self.lock.hand_over()
            with self.lock:
                found = happened()
                if stage:
                    done = share() if share else (self.world.now - began) / seconds if seconds > 0 else 1.0
                    requester.progress(stage, round(_PARTS * done), _PARTS)
                if found is not None or self.world.now >= deadline:
                    return found
                if self._speed is not None:
                    at = time.monotonic()
                    self.lab.advance_to(min(deadline, self.world.now + step))
                    self._anchor = time.monotonic(), self.world.now
                    step = step / 2 if self._anchor[0] - at > _LONG else min(2 * step, _SLICE)
                    continue
            time.sleep(_POLL_S / 5)

    @contextmanager
    def open(self) -> Iterator["LabSession"]:
        """Open the session for the block; afterwards all faults are cleared and all traffic is ended."""
        try:
            yield self
        finally:
            self._ended.set()
            if self._thread is not None:
                self._thread.join()
            with self.lock:
                try:
                    self.capture.close()
                finally:
                    self.lab.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            with self.lock:
                try:
                    self.step()
                except KeyboardInterrupt:
                    self.interrupted = True
                    return
            self._ended.wait(_POLL_S)

    def step(self) -> None:
        """Run due events; in virtual time advance it by the speed."""
        with self.lock:
            for work in (self._pass, *self.observers):
                try:
                    work()
                except (LabError, TopoError, OSError) as error:
                    self._note(plain(error))
                except Exception as error:  # a bug, of a plug-in perhaps: time goes on
                    if self._note(f"{type(error).__name__}: {error}"):
                        traceback.print_exc()

    def _note(self, error: str) -> bool:
        """Keep an error for the next `faults`; return False where it waits there already."""
        if error in self.errors:
            return False
        self.errors.append(error)
        return True

    def _pass(self) -> None:
        if self._speed is None:
            self.lab.apply_due()
            self.lab.step(self.world.now)
            return
        if self._before and time.monotonic() >= self._before[1]:
            self.speed = self._before[0]
        since, began = self._anchor
        target = began + (time.monotonic() - since) * self._speed
        limit = time.monotonic() + _POLL_S  # commands wait no longer than this
        while self.world.now < target and time.monotonic() < limit:
            self.lab.advance_to(min(target, self.world.now + _SLICE * self._speed))
        if self.world.now < target:  # this machine is slower than the speed: restart from here
            self._anchor = time.monotonic(), self.world.now
