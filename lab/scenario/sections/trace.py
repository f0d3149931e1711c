"""Section `trace` of a scenario: which packets of a run are kept with its results."""

import functools
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from mrclab.lab.scenario.base import Strict

COLUMNS = (
    "t_ns", "port", "link", "direction", "length", "transport", "kind", "source", "destination", "qp", "psn",
    "retransmission", "plane", "uplink", "ce", "trimmed",
)  # fmt: skip
"""Fields of a packet in the table of `mrclab.lab.capture.packets`."""
KINDS = (
    "ack", "cnp", "data", "endpoint_request", "endpoint_response", "nack", "other", "probe", "sack", "write_first",
    "write_last", "write_last_imm", "write_middle", "write_only", "write_only_imm",
)  # fmt: skip
"""Opcodes of both transports; `data` matches every write, `other` packets of neither MRC nor RoCEv2."""

_RANGE = re.compile(r"(\d{1,10})(?:\.\.(\d{1,10}))?")
_MAX_PACKETS = 2_000_000


@functools.cache
def _ends(text: int | str) -> tuple[int, int]:
    """Return first and last number of `5` or `100..200`; ValueError for anything else."""
    match = _RANGE.fullmatch(str(text).strip())
    if match is None:
        raise ValueError(f"invalid value {text!r}: expected a number or a range such as 100..200")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise ValueError(f"the range {text} ends before it begins; write the smaller number first")
    return first, last


def _span(value: int | str) -> int | str:
    _ends(value)
    return value


def _kinds(value: str | list[str]) -> str | list[str]:
    for word in _words(value):
        if word not in KINDS:
            raise ValueError(f"invalid value {word!r}: expected one of {', '.join(KINDS)}")
    return value


def _words(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


Span = Annotated[int | str, AfterValidator(_span)]


class PacketFilter(Strict):
    """Conditions that a packet must meet; an absent condition is always met."""

    kind: Annotated[str | list[str], AfterValidator(_kinds)] | None = Field(
        default=None, description="opcodes in lower case, such as sack, nack, probe, ack, cnp; data: every write"
    )
    direction: Literal["in", "out"] | None = Field(
        default=None, description="out: as its port sent it; in: as the next port got it"
    )
    qp: Span | None = Field(default=None, description="destination QP number, or a range such as 16..31")
    psn: Span | None = Field(default=None, description="packet sequence number, or a range such as 100..200")
    plane: int | None = Field(default=None, description="plane of the EV (MRC)")
    uplink: int | None = Field(default=None, description="uplink of the EV (MRC)")
    ce: bool | None = Field(default=None, description="marked (ECN)")
    trimmed: bool | None = Field(default=None)
    retransmission: bool | None = Field(default=None, description="the sender says that it is one (MRC)")

    def accepts(self, row: tuple[Any, ...]) -> bool:
        """Return True if a row of the table meets every condition."""
        found = dict(zip(COLUMNS, row, strict=True))
        kind = found["kind"]
        if self.kind is not None:
            kinds = _words(self.kind)
            if kind not in kinds and not ("data" in kinds and kind.startswith("write")):
                return False
        for name, span in (("qp", self.qp), ("psn", self.psn)):
            if span is not None:
                first, last = _ends(span)
                if found[name] is None or not first <= found[name] <= last:
                    return False
        fields = ("direction", "plane", "uplink", "ce", "trimmed", "retransmission")
        return all(getattr(self, name) in {None, found[name]} for name in fields)


class TraceSpec(PacketFilter):
    """Packets to keep, at which cables, and how many; each as its port sent it and as the next port received it."""

    where: list[str] = Field(
        default=[], description="cables, ports, nodes or planes: t0-p1-1/t1-p1-2, h1-p2, h1, p1; left out: all"
    )
    most: int = Field(default=100_000, ge=1, le=_MAX_PACKETS, description="packets kept; later ones are counted")
