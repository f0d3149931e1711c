"""Driver of open-loop traffic: records the flows of the world's driver in the history."""

import gc
from collections.abc import Collection
from typing import Any

from mrclab.events.traffic import FlowEnd
from mrclab.lab.errors import RunError
from mrclab.lab.run.world import World
from mrclab.lab.traffic.kinds.openloop import OpenLoop
from mrclab.lab.traffic.running.flows import Running

_COLLECT_EVERY = 1000
"""Flows that end between two collections of garbage: a QP's parts refer to each other, and while virtual time passes
the collector is off."""


class RunningOpenLoop(Running):
    """Open-loop traffic: runs from its first arrival until its last flow has ended."""

    entry: OpenLoop

    def __init__(self, world: World, entry: OpenLoop, qps: int, seed: int) -> None:
        super().__init__(world, entry, qps, seed)
        self._driver: Any = None
        self._delivered = 0
        self._done = 0
        self._last = 0.0
        self._errors: list[str] = []

    def prepare(self, absent: Collection[str] = ()) -> None:
        """Do nothing: nothing exists before it begins; a flow of an absent host fails when it arrives."""
        self.ready = True

    def start(self, at: float) -> None:
        """Let flows arrive from a time on."""
        open_loop = getattr(self._world, "open_loop", None)
        if open_loop is None:
            raise RunError(f"{self.name}: open_loop needs virtual time; run it with --world sim")
        self.began = self._last = at
        self._record_start(at, {}, {})
        arrivals = self.entry.arrivals(self._world.fabric, self._seed)
        self._driver = open_loop(arrivals, dict(self.entry.attributes), self._ended)
        self._driver.start(at)

    def _ended(self, flow: Any, at: float, error: str) -> None:
        """Record the end of a flow."""
        self._done += 1
        if self._done % _COLLECT_EVERY == 0:
            gc.collect()
        self._last = max(self._last, at)
        if error:
            self._errors.append(f"{flow.source}>{flow.destination}: {error}")
        else:
            self._delivered += flow.size
        self._world.record(
            FlowEnd(
                traffic=self.name,
                flow=f"{self.name}/{flow.source}>{flow.destination}#{flow.number}",
                bytes=0 if error else flow.size,
                seconds=round(at - flow.began, 9),
                error=error,
            ),
            at,
        )

    @property
    def over(self) -> bool:
        """True if all flows have begun and ended."""
        return self._driver is not None and bool(self._driver.over)

    @property
    def _has_all(self) -> bool:
        return self._done == self.entry.count

    def share(self, now: float) -> float:
        """Return the share of flows that have ended; 1 only at its end."""
        return 1.0 if self.ended is not None else min(self._done / self.entry.count, 0.9999)

    @property
    def acked(self) -> int:
        """Bytes of the flows that have ended."""
        return self._delivered

    def finish(self, error: str = "") -> None:
        """Stop it if it still runs, and record its end."""
        if self._driver is not None and not self.over:
            self._driver.stop()
        self.ended = self._last
        errors = [error] if error else self._errors
        self._record_end(errors, bytes=self._delivered, flows=self._done, iteration_ends=[])
