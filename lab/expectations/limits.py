"""Limits of durations: seconds, round-trip times, or a share of another expectation's figure."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, ValidationInfo

from mrclab.lab.scenario.names import hinted
from mrclab.lab.scenario.units import show_seconds
from mrclab.topo.input.quantities import parse_duration
from mrclab.topo.input.sentences import brief

if TYPE_CHECKING:
    from mrclab.lab.measure import Measures

_SHARE = re.compile(r"\s*(\d+(?:\.\d*)?)\s*%\s+of\s+([\w-]+)\s*")
_RTTS = re.compile(r"\s*(\d+(?:\.\d*)?)\s*rtts?\s*")


@dataclass(frozen=True)
class Limit:
    """A duration: `amount` seconds, RTTs (`of` is "rtt"), or multiples of the figure of expectation `of`."""

    amount: float
    of: str = ""

    def seconds(self, measures: "Measures") -> float:
        """The duration in a run; KeyError when the other expectation measured none."""
        if not self.of:
            return self.amount
        if self.of == "rtt":
            return self.amount * measures.rtt
        return self.amount * _other(self.of, measures)

    def __str__(self) -> str:
        if not self.of:
            return show_seconds(self.amount)
        return f"{self.amount:g} RTT" if self.of == "rtt" else f"{self.amount * 100:g}% of {self.of}"


def parse_limit(value: object) -> object:
    """`20ms`, `3 rtt`, `110% of calm` → Limit."""
    if isinstance(value, Limit):
        return value
    share, rtts = _SHARE.fullmatch(brief(value)), _RTTS.fullmatch(brief(value))
    if share:
        return Limit(float(share[1]) / 100, share[2])
    if rtts:
        return Limit(float(rtts[1]), "rtt")
    try:
        return Limit(float(str(parse_duration(value if isinstance(value, str) else float(str(value))))))
    except ValueError:
        raise ValueError(
            f"{value!r} is no duration; write for example 20ms, 3rtt, or 110% of NAME (an expectation's name)"
        ) from None


def _known(limit: Limit, info: ValidationInfo) -> Limit:
    known = ["rtt", *(info.context or {}).get("goodput", [limit.of])]
    if limit.of and limit.of not in known:
        raise ValueError(f"no expectation is named {limit.of!r}; {hinted(info, limit.of, known)}")
    return limit


def _other(name: str, measures: "Measures") -> float:
    for entry in measures.scenario.expect:
        if entry.name == name and hasattr(entry, "measured_seconds"):
            return float(entry.measured_seconds(measures))
    raise KeyError(f"the duration {name}")


_text: Any = PlainSerializer(str, return_type=str)
LimitField = Annotated[Limit, BeforeValidator(parse_limit), AfterValidator(_known), _text]
