"""Live judging of a run's expectations: decided, or open and so far kept or missed.

The verdicts are those of the report, from the same code, on the history up to now.
"""

import os
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path

from mrclab.lab.errors import LabError
from mrclab.lab.expectations import BaseExpectation, Verdict
from mrclab.lab.history import History, Record
from mrclab.lab.measure.measures import Measures
from mrclab.lab.measure.validity.machine import MachineLoad
from mrclab.lab.scenario.scenario import Loaded, loads
from mrclab.topo.model import Fabric

VerdictRow = dict[str, str]  # state, expected, observed, when

_MAX_JUDGEMENTS = 40  # at a run that is over
_MAX_BEFORE = 10_000  # records of the bring-up, before the run
_NO_FOLDER = Path(os.devnull)  # a history names its files: none is read from this machine
_SHARE = 0.02  # of a core that judging may take while a run goes on
_MIN_INTERVAL = 1.0  # seconds between two judgements


class PartialMeasures(Measures):
    """Measures of a run that goes on. `reached` is True if a judgement needed its end, which is still to come."""

    reached = False

    @property
    def end(self) -> float:
        """Time at which the last traffic ended; until then the present, which changes with the next judgement."""
        self.reached = self.reached or "end" not in self.times
        return super().end

    @property
    def machine(self) -> MachineLoad:
        """Processes, sockets, lateness until now."""
        self.reached = self.reached or "end" not in self.times
        return super().machine


def interim_verdicts(measures: PartialMeasures, over: bool) -> list[VerdictRow]:
    """Every expectation of the scenario: `passed` or `failed` where that is decided, else `open`, `good` or `bad`.

    `open`: no verdict yet. `good`, `bad`: passed, or failed, by the data so far, which can change.
    """
    return [row_of(entry.check(measures)) if over else _now(entry, measures) for entry in measures.scenario.expect]


def _now(entry: BaseExpectation, measures: PartialMeasures) -> VerdictRow:
    measures.reached = False
    try:
        verdict = entry.judge(measures)
    except Exception:  # there is no evidence yet; or it cannot judge half a run, and reports that at its end
        return {"state": "open", "expected": entry.expected_outcome, "observed": "", "when": ""}
    if entry.to_the_end or measures.reached:
        return _row("good" if verdict.ok else "bad", verdict)
    return row_of(verdict)


def row_of(verdict: Verdict) -> VerdictRow:
    """Return a verdict that no longer changes."""
    return _row("passed" if verdict.ok else "failed", verdict)


def _row(state: str, verdict: Verdict) -> VerdictRow:
    return {"state": state, "expected": verdict.expected, "observed": verdict.observed, "when": verdict.when}


class Judge:
    """Judges a run as its records come. Without a record `scenario` there is nothing to judge."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._before: deque[Record] = deque(maxlen=_MAX_BEFORE)
        self._records: list[Record] = []
        self._loaded: Loaded | None = None
        self.error = ""
        """Why the run was aborted; empty where it was not."""
        self._due = 0.0

    def take(self, record: Record) -> None:
        """Take the next record."""
        if record.kind == "scenario":
            try:
                self._loaded = loads(record["text"], "scenario", record.get("files"), _NO_FOLDER)
                self._records = list(self._before)
            except LabError:  # of another version
                self._loaded = None
        elif record.kind == "run.broken":
            self.error = str(record["why"])
        if self._loaded is not None:
            self._records.append(record)
        else:
            self._before.append(record)

    @property
    def title(self) -> str:
        """The scenario's name; empty if there is none."""
        return self._loaded.scenario.name if self._loaded else ""

    def poll(self) -> list[VerdictRow] | None:
        """Return the present outcomes; None where nothing is due: judging takes a small share of a core."""
        began = time.monotonic()
        if self._loaded is None or began < self._due:
            return None
        found = interim_verdicts(self._measures(self._loaded, self._records), over=False)
        ended = time.monotonic()
        self._due = ended + max(_MIN_INTERVAL, (ended - began) / _SHARE)
        return found

    def outcome(self) -> tuple[str, list[VerdictRow]]:
        """Return the outcome of a run that is over: the state that its report gives, and all verdicts."""
        if self._loaded is None:
            return ("aborted", [self._aborted()]) if self.error else ("ended", [])
        measures = self._measures(self._loaded, self._records)
        found = interim_verdicts(measures, over=True)
        if self.error:
            return "aborted", [self._aborted(), *found]
        if measures.invalid:
            return "invalid", found
        return ("passed" if all(each["state"] == "passed" for each in found) else "failed"), found

    def _aborted(self) -> VerdictRow:
        return row_of(Verdict("run", False, "the run completes", self.error))

    def over_time(self) -> list[tuple[float, list[VerdictRow]]]:
        """Return the outcomes at the moments at which something could be decided; of a run that is over."""
        if self._loaded is None:
            return []
        times = [record.t for record in self._records]
        found = []
        for t in self._moments(self._measures(self._loaded, self._records)):
            records = self._records[: bisect_right(times, t)]
            if records:
                found.append((t, interim_verdicts(self._measures(self._loaded, records), over=False)))
        return found

    def _moments(self, measures: Measures) -> list[float]:
        """Begin and end of each traffic, fault and window, a moment later each, so that hosts have reported it."""
        found = set(measures.times.values())
        for entry in measures.scenario.expect:
            window = getattr(entry, "window", None)
            if window is not None:
                try:
                    found.add(window.at(measures.times, measures.rtt)[1])
                except KeyError:
                    continue
        last = measures.history.records[-1].t
        after = 2 * self._fabric.spec.sample_interval
        return _downsampled(sorted(min(t + after, last) for t in found))

    def _measures(self, loaded: Loaded, records: Iterable[Record]) -> PartialMeasures:
        return PartialMeasures(History(records), loaded.scenario, self._fabric)


def _downsampled(times: Sequence[float]) -> list[float]:
    step = max(1, -(-len(times) // _MAX_JUDGEMENTS))
    return list(times[::step])
