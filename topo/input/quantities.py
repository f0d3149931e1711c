"""Quantities with units in scenario files: durations, bit rates, lengths."""

import math
import re
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

from mrclab.topo.input.sentences import brief

_DURATION = re.compile(r"\s*(\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+)\s*(ns|us|µs|ms|s)?\s*")
_LONG_DELAY = 0.1  # seconds of delay; what is longer has to be written with its unit
_IN_A_SECOND = {"ns": 1e9, "us": 1e6, "µs": 1e6, "ms": 1e3, "s": 1.0, None: 1.0}
_BIT_RATE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kMGT]?)(?:b/s|bit/s|bps)\s*")
_PER_SECOND = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_LENGTH = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(m|km)\s*")


def matched(pattern: re.Pattern[str], value: str, noun: str) -> re.Match[str]:
    """Match all of a text; ValueError otherwise: `'x' is not a duration; write, for example, 2ms`."""
    match = pattern.fullmatch(brief(value))
    if match is None:
        raise ValueError(f"{value!r} is not a {noun}")
    return match


def parse_duration(value: object) -> object:
    """`"2ms"`, `"500 us"`, `"1.5s"` → seconds. Other values than text are passed on for pydantic to take or refuse."""
    if not isinstance(value, str):
        return value
    match = matched(_DURATION, value, "duration; write, for example, 2ms, 500us or 1.5s")
    return float(match[1]) / _IN_A_SECOND[match[2]]


Duration = Annotated[float, BeforeValidator(parse_duration)]  # seconds


def parse_delay(value: object) -> object:
    """Parse a duration of usually milliseconds; refuse a number of many seconds without a unit, likely a mistake."""
    seconds = parse_duration(value)
    bare = not isinstance(value, str) or value.strip()[-1:].isdigit()
    if bare and isinstance(seconds, (int, float)) and _LONG_DELAY < seconds < math.inf:
        raise ValueError(f"{value} would be {seconds:g} seconds; write {seconds:g}ms, or {seconds:g}s if that is meant")
    return seconds


def _show_delay(seconds: float) -> str:
    return f"{seconds!r}s"


Delay = Annotated[  # seconds
    float, BeforeValidator(parse_delay), PlainSerializer(_show_delay, return_type=str, when_used="json")
]


def parse_bit_rate(value: object) -> object:
    """`"100 Gb/s"` → bits per second. Other values than text are passed on for pydantic to take or refuse."""
    if not isinstance(value, str):
        return value
    match = matched(_BIT_RATE, value, "link rate; write, for example, 100 Gb/s or 25 Mb/s")
    return float(match[1]) * _PER_SECOND[match[2]]


BitRate = Annotated[float, BeforeValidator(parse_bit_rate)]  # bits per second


def _parse_length(value: object) -> object:
    """`"30m"`, `"2 km"` → metres. Other values than text are passed on for pydantic to take or refuse."""
    if not isinstance(value, str):
        return value
    match = matched(_LENGTH, value, "length; write, for example, 30m or 2km")
    return float(match[1]) * (1000.0 if match[2] == "km" else 1.0)


Length = Annotated[float, BeforeValidator(_parse_length)]  # metres
