"""Parameters of a QP of either transport, and the algorithms that they name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from mrclab.hosts.rdma.errors import VerbsError
from mrclab.topo.config.nodeconfig import ACK_TIMEOUT_UNIT, MPR_UNIT, TransportSection
from mrclab.topo.config.registry import Registry
from mrclab.topo.input import sentences


@dataclass(frozen=True, eq=False, repr=False)  # subclasses would compare and show these fields alone
class QpSettings:
    """Attributes of a QP. Times in seconds, sizes in bytes."""

    path_mtu: int
    base_rtt: float
    mpr: int  # units of 128 PSNs
    wimm: int
    timeout_exponent: int
    cc_profile: str
    cc_config: Mapping[str, Any]  # settings of that congestion control

    @property
    def ack_timeout(self) -> float:
        """Local ACK timeout, 1.024 µs × 2^t."""
        return ACK_TIMEOUT_UNIT * float(1 << self.timeout_exponent)

    @property
    def mpr_psns(self) -> int:
        """Window in PSNs."""
        return self.mpr * MPR_UNIT


def check_names(given: Iterable[str], known: Collection[str]) -> None:
    """EINVAL for an attribute that no QP of this transport has."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise VerbsError("EINVAL", f"a QP has no attribute {unknown[0]!r}; it has {', '.join(sorted(known))}")


def checked_section(section: TransportSection, overrides: Mapping[str, Any]) -> TransportSection:
    """Return the transport section with `overrides`; EINVAL for one that its limits and types do not allow."""
    if not overrides:
        return section
    try:
        return TransportSection.model_validate({**section.model_dump(), **overrides}, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise VerbsError("EINVAL", f"{name} {overrides.get(name)!r}: {sentences.mistake(first)}") from None


def make_algorithm(registry: Registry, name: str, settings: Mapping[str, Any], *facts: Any) -> Any:
    """Return a new congestion control, path selection or scheduler; EINVAL for an unknown name or setting."""
    try:
        made, chosen = registry.choose(name, settings)
    except ValueError as error:
        raise VerbsError("EINVAL", str(error)) from None
    return made(*facts, **chosen)
