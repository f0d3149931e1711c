"""Duration of a collective: a number of iterations, or iterations that begin until a time.

With a time limit, hosts cannot decide alone: one that ends an iteration just before the limit begins another, and would
wait for ever for one that ended it just after. So a host past the limit rests: it notes that in its record of the
iteration, and continues when data of the next iteration arrives, which shows that a peer has begun it. Once all hosts
rest after the same iteration none has, and the lab stops them all
(`mrclab.lab.traffic.running.flows`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class WorkloadBounds:
    """Either limit; `until` is a time on the transport's clock, seconds, known once the workload has its start."""

    iterations: int | None
    until: float | None = None

    @property
    def by_time(self) -> bool:
        """True for a time limit."""
        return self.iterations is None

    def over(self, done: int, now: float) -> bool:
        """Return True if no further iteration should begin after this many."""
        if self.iterations is not None:
            return done >= self.iterations
        return self.until is not None and now >= self.until

    def may_reach(self, number: int) -> bool:
        """Return True if an iteration of this number, counted from 0, may come."""
        return self.iterations is None or number < self.iterations
