"""When something happens: triggers of faults, and the windows of time over which expectations are judged.

A trigger is known only while the run goes on (`3s` after the traffic began, `25% of file`). A moment is looked up when
it is over: `start`, `end`, a fault's name (it struck) or `name.end` (it was healed), each with an offset, in seconds or
in round-trip times: `core-link + 5 rtt`. A window is `moment .. moment`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from topo.spec import parse_duration

_PROGRESS = re.compile(r"\s*(\d+(?:\.\d*)?)\s*%\s+of\s+([\w-]+)\s*")
_MOMENT = re.compile(r"\s*([A-Za-z_][\w-]*(?:\.end)?)\s*(?:([+-])\s*(.+?))?\s*")
_RTTS = re.compile(r"(\d+(?:\.\d*)?)\s*rtts?")


@dataclass(frozen=True)
class Trigger:
    """Seconds after the traffic began, or the fraction of a transfer that has arrived."""

    seconds: float = 0.0
    fraction: float | None = None
    traffic: str = ""

    def __str__(self) -> str:
        return f"{self.seconds:g}s" if self.fraction is None else f"{self.fraction * 100:g}% of {self.traffic}"


@dataclass(frozen=True)
class Moment:
    """A named time and an offset from it, partly in seconds and partly in round-trip times."""

    name: str
    seconds: float = 0.0
    rtts: float = 0.0

    def at(self, times: Mapping[str, float], rtt: float) -> float:
        """The time itself; KeyError when what it is named after has not happened."""
        return times[self.name] + self.seconds + self.rtts * rtt

    def __str__(self) -> str:
        offset = f" {self.seconds:+g}s" if self.seconds else f" {self.rtts:+g}rtt" if self.rtts else ""
        return self.name + offset


@dataclass(frozen=True)
class Window:
    """A stretch of time between two moments."""

    begin: Moment
    end: Moment

    def at(self, times: Mapping[str, float], rtt: float) -> tuple[float, float]:
        """Both times; KeyError when one of them has not come."""
        return self.begin.at(times, rtt), self.end.at(times, rtt)

    def __str__(self) -> str:
        return f"{self.begin} .. {self.end}"


def parse_trigger(value: object) -> object:
    """`3s`, `25% of file` → Trigger."""
    if isinstance(value, Trigger):
        return value
    match = _PROGRESS.fullmatch(str(value))
    if match:
        fraction = float(match[1]) / 100
        if fraction > 1:
            raise ValueError(f"{value!r} never comes; a transfer ends at 100%")
        return Trigger(fraction=fraction, traffic=match[2])
    try:
        seconds = parse_duration(value if isinstance(value, str) else float(str(value)))
        return Trigger(seconds=float(str(seconds)))
    except ValueError:
        raise ValueError(
            f"{value!r} is no time; write for example 3s, or 25% of NAME where NAME is a traffic"
        ) from None


def parse_moment(value: object) -> Moment:
    """`start`, `core-link + 5rtt`, `core-link.end - 100ms` → Moment."""
    match = _MOMENT.fullmatch(str(value))
    if not match:
        raise ValueError(f"{value!r} is no moment; write for example start, FAULT + 5rtt or FAULT.end + 100ms")
    name, sign, offset = match[1], -1 if match[2] == "-" else 1, match[3]
    if offset is None:
        return Moment(name)
    rtts = _RTTS.fullmatch(offset)
    if rtts:
        return Moment(name, rtts=sign * float(rtts[1]))
    return Moment(name, seconds=sign * float(str(parse_duration(offset))))


def parse_window(value: object) -> object:
    """`start .. core-link` → Window."""
    if isinstance(value, Window):
        return value
    begin, dots, end = str(value).partition("..")
    if not dots:
        raise ValueError(f"{value!r} is no window; write for example start .. FAULT, or FAULT + 5rtt .. FAULT.end")
    return Window(parse_moment(begin), parse_moment(end))


_as_text: Any = PlainSerializer(str, return_type=str)
TriggerField = Annotated[Trigger, BeforeValidator(parse_trigger), _as_text]
WindowField = Annotated[Window, BeforeValidator(parse_window), _as_text]
