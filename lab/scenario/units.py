"""Sizes, percentages and durations, parsed and formatted."""

import math
import re
from typing import Annotated, NamedTuple

from pydantic import BeforeValidator, Field, PlainSerializer

from mrclab.topo.input import quantities
from mrclab.topo.input.sentences import brief, shown

_SHARE_OF = re.compile(r"\s*(\d+(?:\.\d*)?)\s*%\s+of\s+([\w-]+)\s*")
_RTTS = re.compile(r"\s*(\d+(?:\.\d*)?)\s*rtts?\s*")
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?)\s*([kKMGT]?i?)B?\s*")
_FACTOR = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_IN_BITS = 0.25e9  # bytes per second from which rates are shown in Gb/s
_IN_TERABITS = 9999.5  # Gb/s from which they are shown in Tb/s
_LONGEST_NUMBER = 1e15  # beyond it a number is shown with an exponent
_MIN_SHARE = 1e-15
_PERCENT = re.compile(r"\s*(\d+(?:\.\d*)?)\s*%\s*")


def parse_size(value: object) -> object:
    """Parse `"64 MiB"` into bytes. Other types are left for pydantic to accept or refuse."""
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(brief(value))
    if match is None or match[2] not in _FACTOR:
        raise ValueError(f"{value!r} is not a size; write, for example, 64MiB, 4 KiB or 1000")
    number = float(match[1]) * _FACTOR[match[2]]
    return round(number) if math.isfinite(number) else number  # infinity, which pydantic refuses


def parse_percent(value: object) -> object:
    """Parse `"90%"` into 0.9; accepts 0.9 itself and refuses numbers above 1, since 5 would be 500%.

    Refuses shares so small that a count of packets over them is no number.
    """
    if isinstance(value, (int, float)) and 1 < value < math.inf:
        raise ValueError(f"{value:g} would be {value * 100:g}%; write {value:g}% if that is meant")
    share = value
    if isinstance(value, str):
        share = float(quantities.matched(_PERCENT, value, "percentage; write, for example, 90%")[1]) / 100
    if isinstance(share, (int, float)) and 0 < share < _MIN_SHARE:
        raise ValueError(f"{shown(value)} is hardly any; write 0, or {_MIN_SHARE:g} at least")
    return share


def share_of(value: object) -> tuple[float, str] | None:
    """Return the share and the name that `75% of NAME` has; None for anything else."""
    match = _SHARE_OF.fullmatch(brief(value))
    return (float(match[1]) / 100, match[2]) if match else None


def rtts_of(value: object) -> float | None:
    """Return the number of round trips that `5rtt` has; None for anything else."""
    match = _RTTS.fullmatch(brief(value))
    return float(match[1]) if match else None


def parse_line_share(value: object) -> object:
    """Parse `"80% of line"` into 0.8. Other types are left for pydantic to accept or refuse."""
    if not isinstance(value, str):
        return value
    share, name = share_of(value) or (0.0, "")
    if name != "line":
        raise ValueError(f"{value!r} is not a rate; write, for example, 80% of line")
    return share


def _show_line_share(share: float) -> str:
    return f"{share * 100:g}% of line"


Duration = quantities.Duration  # seconds
Size = Annotated[int, BeforeValidator(parse_size), Field(ge=0, le=2**40)]  # bytes
Percent = Annotated[float, BeforeValidator(parse_percent), Field(ge=0)]  # as a fraction of one
LineShare = Annotated[  # of a host's payload line rate, as a fraction of one
    float, BeforeValidator(parse_line_share), Field(gt=0, le=1), PlainSerializer(_show_line_share, when_used="json")
]


class Units(NamedTuple):
    """Units of a report's tables for times and rates: `seconds` and `bytes_per_second` of one unit."""

    time: str = "s"
    seconds: float = 1.0
    rate: str = "MB/s"
    bytes_per_second: float = 1e6

    @classmethod
    def of(cls, seconds: float, true_speed: bool) -> "Units":
        """Return the units that fit a run of this length, on links with their true speed or scaled down."""
        if not true_speed:
            return cls()
        time = ("s", 1.0) if seconds >= 10 else ("ms", 1e-3) if seconds >= 0.01 else ("µs", 1e-6)
        return cls(*time, "Gb/s", 1e9 / 8)

    def clock(self, seconds: float, digits: int = 2) -> str:
        """Format a time without its unit."""
        return f"{seconds / self.seconds:.{digits}f}"

    def flow(self, bytes_per_second: float) -> str:
        """Format a rate without its unit."""
        return f"{bytes_per_second / self.bytes_per_second:.2f}"


def show_number(value: float, digits: int = 4) -> str:
    """Format a number with some digits, and all before the point: `0.1235`, `12346`."""
    return f"{value:.0f}" if 10**digits <= abs(value) + 0.5 < _LONGEST_NUMBER else f"{value:.{digits}g}"


def scale_of(unit: str, largest: float) -> tuple[float, str]:
    """Return the factor by which figures are shown, and what follows them: `ms` where it fits seconds, `% of line`."""
    if unit == "s":
        units = Units.of(abs(largest), true_speed=True)
        return 1 / units.seconds, f" {units.time}"
    return (100, f"% {unit}") if unit.startswith("of ") else (1, f" {unit}".rstrip())


def show_value(value: float, unit: str) -> str:
    """Format a figure with its unit: `12 ms`, `95% of line`, `4 RTT`."""
    if unit == "s":
        return show_seconds(value)
    factor, shown = scale_of(unit, value)
    return show_number(factor * value) + shown


def show_bytes(count: float) -> str:
    """Format bytes: `64 MiB`, `1.5 KiB`, `17 bytes`."""
    for factor, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= factor:
            return f"{show_number(count / factor)} {unit}"
    return f"{count:.0f} byte{'' if count == 1 else 's'}"


def show_rate(bytes_per_second: float) -> str:
    """Format bytes per second: `8.19 MB/s`; for links at true speed in bits: `96.6 Gb/s`."""
    if bytes_per_second >= _IN_BITS:
        gigabits = bytes_per_second * 8 / 1e9
        return f"{gigabits:.4g} Gb/s" if gigabits < _IN_TERABITS else f"{show_number(gigabits / 1e3)} Tb/s"
    for factor, unit in ((1e6, "MB/s"), (1e3, "kB/s")):
        if bytes_per_second >= factor:
            return f"{show_number(bytes_per_second / factor, 3)} {unit}"
    return f"{bytes_per_second:.0f} B/s"


def write_seconds(seconds: float) -> str:
    """Write a duration as a scenario has it: `850ns`, `2us`, `16ms`, `0.5s`, `200s`."""
    for least, factor, unit in ((0.1, 1.0, "s"), (1e-3, 1e3, "ms"), (1e-6, 1e6, "us")):
        if abs(seconds) >= least or seconds == 0:
            return f"{seconds * factor:.12g}{unit}"
    return f"{seconds * 1e9:.12g}ns"


def show_seconds(seconds: float) -> str:
    """Format a duration: `850 ns`, `8.6 µs`, `16 ms`, `2.13 s`, `3 min 20 s`."""
    if seconds >= 100:
        return f"{round(seconds) // 60} min {round(seconds) % 60} s"
    if abs(seconds) >= 1 or seconds == 0:
        return f"{seconds:.2f} s"
    for factor, unit in ((1e3, "ms"), (1e6, "µs")):
        if abs(seconds) * factor >= 1:
            return f"{show_number(seconds * factor, 3)} {unit}"
    return f"{show_number(seconds * 1e9, 3)} ns"
