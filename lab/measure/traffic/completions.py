"""Durations: messages, iterations of a collective, whole flows, round trips of a ping-pong."""

from functools import cached_property
from typing import Literal, NamedTuple

from mrclab.lab.history import History

Unit = Literal["messages", "iterations", "flows"]


class CompletedWork(NamedTuple):
    """A message or flow that ended, with when it was posted and done on the history's clock."""

    traffic: str
    flow: str
    posted: float
    done: float
    size: int = 0

    @property
    def seconds(self) -> float:
        """Duration, seconds."""
        return self.done - self.posted


class CompletionTimes:
    """Completion times of one run."""

    def __init__(self, history: History) -> None:
        self._history = history

    @cached_property
    def messages(self) -> list[CompletedWork]:
        """All messages, in the order in which they were done."""
        found = (
            CompletedWork(r["traffic"], r["flow"], row[0], row[1], int(row[2]))
            for r in self._history.of("messages")
            for row in r["done"]
        )
        return sorted(found, key=lambda message: message.done)

    @cached_property
    def flows(self) -> list[CompletedWork]:
        """All flows that ended well; of traffic whose history has no end of a flow, its own begin and end."""
        begun = {r["traffic"]: r.t for r in self._history.of("traffic.start") if r["flows"]}
        found, named = [], set()
        for r in self._history.of("flow.end"):
            named.add(r["traffic"])
            if not r.get("error"):
                found.append(CompletedWork(r["traffic"], r["flow"], r.t - float(r["seconds"]), r.t, int(r["bytes"])))
        whole = [r for r in self._history.of("traffic.end") if r["traffic"] in begun and r["traffic"] not in named]
        found += [
            CompletedWork(r["traffic"], r["traffic"], begun[r["traffic"]], r.t) for r in whole if not r.get("error")
        ]
        return found

    @property
    def workloads(self) -> list[str]:
        """Names of all traffic that began, in the order of time."""
        return list(dict.fromkeys(r["traffic"] for r in self._history.of("traffic.start")))

    def iterations(self, traffic: str, within: tuple[float, float] | None = None) -> list[float]:
        """Seconds of every iteration of a collective; of those that lie wholly within a window, where one is given."""
        found: list[float] = []
        for r in self._history.of("traffic.end"):
            if r["traffic"] == traffic:
                took = [float(seconds) for seconds in r.get("iterations") or ()]
                rows = zip(took, r.get("iteration_ends") or (), strict=False)
                inside = [s for s, end in rows if within and within[0] <= end - s and end <= within[1]]
                found += inside if within else took
        return found

    def seconds(
        self, what: Unit, traffic: str, flow: str = "", within: tuple[float, float] | None = None
    ) -> list[float]:
        """Durations of completed work, by kind; in a window by completion time, iterations as a whole."""
        if what == "iterations":
            return self.iterations(traffic, within)
        done = self.messages if what == "messages" else self.flows
        return [
            entry.seconds
            for entry in done
            if (not traffic or entry.traffic == traffic)
            and (not flow or entry.flow == flow)
            and (within is None or within[0] <= entry.done <= within[1])
        ]

    def round_trips(self, traffic: str) -> list[float]:
        """Completion times of a ping-pong's messages, there and back, seconds."""
        found: list[float] = []
        for r in self._history.of("pingpong"):
            if r["traffic"] == traffic:
                found += map(float, r["rtt"])
        return found

    @cached_property
    def pingpongs(self) -> list[str]:
        """Names of all ping-pongs, in order."""
        return list(dict.fromkeys(r["traffic"] for r in self._history.of("pingpong")))
