"""Links that differ from the fabric's: rate and length by tier, plane or cable.

A rule has the links it applies to and the settings that differ; of several that hold for a cable each later one wins.
Rates are in bits per second, so rules need `link.rate` (virtual time).
"""

from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from mrclab.topo.input.exacttypes import ExactTypes
from mrclab.topo.input.quantities import BitRate, Delay, Length

LinkTier = Literal["nic", "t0-t1", "t1-t2"]
"""Cables of NICs, those between T0s and T1s, and those between T1s and T2s."""

LINK_TIERS: tuple[LinkTier, ...] = ("nic", "t0-t1", "t1-t2")

METRE = 5e-9
"""Seconds that light takes for a metre of fibre."""


class LinkTimes(NamedTuple):
    """Rate in bits per second, and propagation delay in seconds one way."""

    rate: float
    delay: float


def _not_empty(value: tuple[int, ...]) -> tuple[int, ...]:
    if not value:
        raise ValueError("must name a plane; leave it out for all of them")
    return value


class LinkRule(ExactTypes):
    """Cables whose links differ from `link`, and their settings."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True, allow_inf_nan=False)

    tier: LinkTier | None = Field(
        default=None, description="nic: cables of hosts; the others: those between switches of two tiers"
    )
    planes: Annotated[tuple[int, ...], AfterValidator(_not_empty)] | None = Field(
        default=None, description="planes whose cables it is about; default: all"
    )
    cables: tuple[str, ...] = Field(default=(), description="single cables, in place of tier and planes")
    rate: BitRate | None = Field(default=None, ge=1e3, le=1.6e12, description="bits per second and direction")
    delay: Delay | None = Field(default=None, ge=0, le=10, description="seconds one way")
    length: Length | None = Field(
        default=None, ge=0, le=1e8, description="metres, such as 30m or 2km, in place of delay: 5 ns a metre"
    )

    @model_validator(mode="after")
    def _has_a_setting(self) -> "LinkRule":
        if self.rate is None and self.delay is None and self.length is None:
            raise ValueError("says nothing; give rate, delay or length")
        if self.delay is not None and self.length is not None:
            raise ValueError("delay and length say the same; leave one of them out")
        if self.cables and (self.tier or self.planes):
            raise ValueError("cables are named one by one, so tier and planes mean nothing; leave them out")
        return self

    def holds(self, tier: LinkTier, plane: int) -> bool:
        """Return True if it is about all cables of a tier in a plane."""
        return not self.cables and self.tier in {None, tier} and (self.planes is None or plane in self.planes)

    def apply(self, times: LinkTimes) -> LinkTimes:
        """Return a link with this rule applied over its settings."""
        delay = self.delay if self.length is None else METRE * self.length
        return LinkTimes(self.rate or times.rate, times.delay if delay is None else delay)
