"""Swept values as numbers with a unit: `1%`, `600ns`, `2 MiB` and `400 Gb/s` are texts in a scenario."""

import contextlib
import json
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mrclab.lab.scenario.units import parse_line_share, parse_percent, parse_size
from mrclab.topo.input.quantities import parse_bit_rate, parse_duration

_KINDS: Final[tuple[tuple[str, Callable[[object], Any]], ...]] = (
    ("1", parse_percent),
    ("of line", parse_line_share),
    ("s", parse_duration),
    ("b/s", parse_bit_rate),
    ("B", parse_size),
)
_BARE = re.compile(r"\s*\d+(?:\.\d*)?(?:e[+-]?\d+)?\s*")  # which any kind of quantity could be
_DECIMAL_BYTES: Final = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}
_SHOWN: Final[Mapping[str, Mapping[str, float]]] = {  # by unit: those that an axis has, the smallest first
    "1": {"%": 0.01},
    "of line": {"% of line": 0.01},
    "s": {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0},
    "b/s": {"b/s": 1.0, "kb/s": 1e3, "Mb/s": 1e6, "Gb/s": 1e9, "Tb/s": 1e12},
    "B": {"B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30},
}


def plain(value: Any) -> Any:
    """Return a swept value as a column holds it: lists and mappings as JSON."""
    return value if isinstance(value, str | int | float | bool) or value is None else json.dumps(value)


def numbers(values: Iterable[Any]) -> tuple[dict[Any, float], str] | None:
    """Return value → number and their SI unit (`1` of shares); None where they are not quantities of one kind.

    Numbers stay as they are; their unit is empty where no text among them names one.
    """
    given = {value for value in values if value is not None}
    texts = [value for value in given if isinstance(value, str)]
    if any(isinstance(value, bool) for value in given):
        return None
    if all(_BARE.fullmatch(text) for text in texts):
        return {value: float(value) if isinstance(value, str) else value for value in given}, ""
    for unit, parse in _KINDS:
        with contextlib.suppress(ValueError):
            return {value: parse(value) for value in given}, unit
    return None


@dataclass(frozen=True)
class Axis:
    """The places of one field's values: numbers in `unit`, or words, whose unit is empty."""

    places: Mapping[Any, float | str]
    unit: str

    @classmethod
    def of(cls, values: Iterable[Any], scale: float = 1.0) -> "Axis":
        """Return the axis of some values, in the unit in which the lower half of them begins with a whole number."""
        given = list(dict.fromkeys(plain(value) for value in values if value is not None))
        if (found := numbers(given)) is None:
            return cls({value: value if isinstance(value, str) else json.dumps(value) for value in given}, "")
        scaled = {value: number * scale for value, number in found[0].items()}
        unit, factor = _display_unit(found[1], [abs(number) for number in scaled.values() if number])
        # A microsecond is not 0.6000000000000001 of one because floats say so.
        return cls({value: float(f"{number / factor:.12g}") for value, number in scaled.items()}, unit)

    def at(self, value: Any) -> float | str | None:
        """Return the place of a value; None of a run without the field."""
        return None if value is None else self.places[plain(value)]


def _display_unit(unit: str, sizes: Sequence[float]) -> tuple[str, float]:
    """Return the unit for display, and its factor."""
    known = _SHOWN.get(unit)
    if known is None:
        return unit, 1.0
    if unit == "B" and any(size >= 1000 and size % 1024 for size in sizes):
        known = _DECIMAL_BYTES
    usual = statistics.median_low(sizes) if sizes else 1.0
    fitting = [one for one in known.items() if one[1] <= usual * (1 + 1e-9)]
    return fitting[-1] if fitting else next(iter(known.items()))


def order(place: float | str | None) -> tuple[bool, float, list[Any]]:
    """Key of the order along an axis: numbers, then words by the numbers in them (`9ms` before `10ms`), then None."""
    if place is None:
        return True, 0.0, []
    if not isinstance(place, str):
        return False, place, []
    parts = re.split(r"(\d+)", place)
    return False, 0.0, [int(part) if at % 2 else part for at, part in enumerate(parts)]
