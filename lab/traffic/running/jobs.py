"""Driver of a job: it ends when every rank has done its last step, and fails when one flow has failed."""

from collections.abc import Mapping
from typing import Any

from mrclab.lab.run.world import World
from mrclab.lab.traffic.base import Flow
from mrclab.lab.traffic.kinds.jobs import JobTraffic
from mrclab.lab.traffic.running.flows import Running


class RunningJob(Running):
    """Ranks from start to end."""

    entry: JobTraffic
    _is_counted = _is_reported = True

    def __init__(self, world: World, entry: JobTraffic, qps: int, seed: int) -> None:
        super().__init__(world, entry, qps, seed)
        self._ranks = entry.ranks
        self._going = set(self.hosts)  # of ranks with remaining steps
        self._lost = ""  # why one of them is gone that has no flow to fail
        self._ended_at = 0.0

    def _end_fields(self, flow: Flow, sends: bool) -> dict[str, Any]:
        return {"rank": self._ranks[flow.destination if sends else flow.source]}

    def take(self, host: str, event: Mapping[str, Any]) -> None:
        """Handle an event of a host's agent."""
        super().take(host, event)
        if event["kind"] == "training.step" and event["step"] == self.entry.steps - 1:
            self._going.discard(host)
            self._ended_at = max(self._ended_at, float(event["ended"]))

    @property
    def over(self) -> bool:
        """True if every rank is done, or one has failed."""
        return self._failed or (not self._going and not self._open)

    @property
    def _has_all(self) -> bool:
        return not self._going

    def _lose(self, host: str, why: str) -> None:
        super()._lose(host, why)
        if host in self._going and not self._by_host[host]:
            self._failed, self._lost = True, self._lost or why

    def _counted(self, receiver: Mapping[str, Any]) -> dict[str, Any]:
        return {"received": int(receiver.get("bytes", 0))}

    def finish(self, error: str = "") -> None:
        """Stop it if it still runs; it ended with its last step, if that was reached."""
        super().finish(error or self._lost)
        self.ended = max(self.ended or 0.0, self._ended_at)
