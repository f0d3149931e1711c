"""Clustermapper in a scenario: how often the hosts probe, and which of its findings are denied."""

from typing import Literal

from pydantic import ConfigDict, Field

from mrclab.lab.scenario.units import Duration
from mrclab.topo.input.exacttypes import ExactTypes

Deny = bool | Literal["all"]

_POLICIES: dict[Deny, str] = {True: "default", False: "observe", "all": "all"}


class MapperSpec(ExactTypes):
    """`mapper:` of a scenario. `deny` false: faults are named, nothing is denied; true: a NIC–T0 cable that loses.

    `all`: every cable and T1 at fault is denied, dead ones too, as before a job starts.
    """

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    cycle: Duration = Field(
        default=0.5,
        ge=1e-5,
        le=60,
        description="seconds in which every host probes every path; on the wire 0.05 or more",
    )
    deny: Deny = Field(default=True, description="true, false or all")
    t1s: int | None = Field(
        default=None,
        ge=1,
        description="T1s of a plane that a host probes per cycle, in turn; default: all. Virtual time only",
    )
    agents: int | None = Field(
        default=None, ge=1, description="hosts of each T0 group that probe; default: all. Virtual time only"
    )

    def options(self) -> list[str]:
        """Return the controller's command-line options for it."""
        return ["--mapper-cycle", f"{self.cycle:g}", "--mapper-policy", _POLICIES[self.deny]]
