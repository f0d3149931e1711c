"""Triggers of faults and workloads, and the windows over which expectations are judged.

A trigger is resolved during the run: `3s` after the first workload began, `25% of file`, `after file + 1s` (a workload
ended or a fault was cleared), `cut + 1s` (a workload or a fault began). A moment is looked up after the run: `start`,
`end`, the name of a fault or workload (its begin) or `name.end`, each with an offset, in seconds or in round-trip
times: `core-link + 5 rtt`. A window is `moment .. moment`.
"""

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, PlainSerializer
from pydantic_core.core_schema import IsInstanceSchema, is_instance_schema

from mrclab.lab.scenario.units import rtts_of, share_of, write_seconds
from mrclab.topo.input.quantities import parse_duration
from mrclab.topo.input.sentences import brief

_MOMENT = re.compile(r"\s*([A-Za-z_][\w-]*(?:\.end)?)\s*(?:([+-])\s*(.+?))?\s*")
_AFTER = re.compile(r"\s*(?:(after)\s+)?([A-Za-z][\w-]*)(\.end)?\s*(?:\+\s*(.+?))?\s*")


class Trigger(NamedTuple):
    """Seconds after the first workload began or after a moment, or the completed fraction of a workload."""

    seconds: float = 0.0
    fraction: float | None = None
    traffic: str = ""
    moment: str = ""  # NAME or NAME.end

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> IsInstanceSchema:
        return is_instance_schema(cls)

    def due(self, seconds: float, progress: Mapping[str, float], moments: Mapping[str, float]) -> bool:
        """Return True if the trigger is due, `seconds` after the first workload began.

        `progress` gives the completed share of each traffic, `moments` the seconds at which named events happened.
        """
        if self.fraction is not None:
            return progress.get(self.traffic, 0.0) >= self.fraction
        time = self.time(moments)
        return time is not None and seconds >= time

    def time(self, moments: Mapping[str, float]) -> float | None:
        """Return the seconds after the first workload began; None while unknown, and for a share of a workload."""
        if self.fraction is not None or (self.moment and self.moment not in moments):
            return None
        return moments.get(self.moment, 0.0) + self.seconds

    def precedes(self, other: "Trigger", moments: Mapping[str, float]) -> bool:
        """Return True if it is known to come before another or with it."""
        if self.fraction is not None and other.fraction is not None:
            return self.traffic == other.traffic and self.fraction <= other.fraction
        if self.fraction is not None and other.moment == f"{self.traffic}.end":
            return True
        time, last = self.time(moments), other.time(moments)
        return time is not None and last is not None and time <= last

    @property
    def name(self) -> str:
        """Name of the traffic or fault that it waits for; empty for a plain time."""
        return self.traffic or self.moment.removesuffix(".end")

    def __str__(self) -> str:
        if self.fraction is not None:
            return f"{self.fraction * 100:g}% of {self.traffic}"
        if self.moment:
            name = f"after {self.name}" if self.moment.endswith(".end") else self.moment
            return f"{name} + {write_seconds(self.seconds)}" if self.seconds or name == self.moment else name
        return write_seconds(self.seconds)


class Moment(NamedTuple):
    """A named time and an offset from it, in seconds and round-trip times."""

    name: str
    seconds: float = 0.0
    rtts: float = 0.0

    def at(self, times: Mapping[str, float], rtt: float) -> float:
        """Return the time; KeyError if the named event has not happened."""
        return times[self.name] + self.seconds + self.rtts * rtt

    def __str__(self) -> str:
        if self.seconds:
            return f"{self.name} {'-' if self.seconds < 0 else '+'}{write_seconds(abs(self.seconds))}"
        return f"{self.name} {self.rtts:+g}rtt" if self.rtts else self.name


class Window(NamedTuple):
    """Interval between two moments."""

    begin: Moment
    end: Moment

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> IsInstanceSchema:
        return is_instance_schema(cls)

    def at(self, times: Mapping[str, float], rtt: float) -> tuple[float, float]:
        """Return both times; KeyError if one of them has not come."""
        return self.begin.at(times, rtt), self.end.at(times, rtt)

    def __str__(self) -> str:
        return f"{self.begin} .. {self.end}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def parse_trigger(value: object) -> object:
    """Parse a trigger: `3s`, `25% of file`, `after file + 1s`, `cut + 500ms`."""
    if isinstance(value, Trigger):
        return value
    if progress := share_of(value):
        if progress[0] > 1:
            raise ValueError(f"{value!r} never comes; a transfer ends at 100%")
        return Trigger(fraction=progress[0], traffic=progress[1])
    try:
        match = _AFTER.fullmatch(value) if isinstance(value, str) else None
        if match and (match[1] or match[3] or match[4] or not _is_number(match[2])):
            offset = float(str(parse_duration(match[4]))) if match[4] else 0.0
            if not math.isfinite(offset):
                raise ValueError
            return Trigger(seconds=offset, moment=match[2] + (".end" if match[1] or match[3] else ""))
        seconds = float(str(parse_duration(value if isinstance(value, str) else float(str(value)))))
    except ValueError:
        raise ValueError(
            f"{value!r} is not a time; write, for example, 3s, 25% of NAME where NAME is a workload, or after NAME + 1s"
        ) from None
    if not math.isfinite(seconds):
        raise ValueError(f"{value!r} never comes; write, for example, 3s")
    if seconds < 0:
        raise ValueError(f"{value!r} is before the traffic begins; write, for example, 3s")
    return Trigger(seconds=seconds)


def parse_moment(value: object) -> Moment:
    """Parse a moment: `start`, `core-link + 5rtt`, `core-link.end - 100ms`."""
    match = _MOMENT.fullmatch(brief(value))
    if not match:
        word = str(value).strip()
        raise ValueError(f"{word!r} is not a moment; write, for example, start, FAULT + 5rtt or FAULT.end + 100ms")
    name, sign, offset = match[1], -1 if match[2] == "-" else 1, match[3]
    if offset is None:
        return Moment(name)
    rtts = rtts_of(offset)
    amount = float(str(parse_duration(offset))) if rtts is None else rtts
    if not math.isfinite(amount):
        raise ValueError(f"{value!r} never comes; write, for example, start + 3s")
    return Moment(name, seconds=sign * amount) if rtts is None else Moment(name, rtts=sign * amount)


def parse_window(value: object) -> object:
    """Parse a window: `start .. core-link`."""
    if isinstance(value, Window):
        return value
    begin, dots, end = brief(value).partition("..")
    if not dots:
        raise ValueError(f"{value!r} is not a window; write, for example, start .. FAULT, or FAULT + 5rtt .. FAULT.end")
    return Window(parse_moment(begin), parse_moment(end))


_as_text: Any = PlainSerializer(str, return_type=str)
TriggerField = Annotated[Trigger, BeforeValidator(parse_trigger), _as_text]
WindowField = Annotated[Window, BeforeValidator(parse_window), _as_text]
