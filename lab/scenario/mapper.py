"""Clustermapper in a lab: how often the hosts probe, and what is denied on its word."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from mrclab.lab.scenario.units import Duration

Deny = bool | Literal["all"]

_POLICIES: dict[Deny, str] = {True: "default", False: "observe", "all": "all"}


class MapperSpec(BaseModel):
    """`mapper:` of a scenario. `deny` false: faults are named and nothing is denied; true: a NIC–T0 cable that loses.

    `all`: every cable and T1 at fault is denied, dead ones too, as before a job starts.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    cycle: Duration = Field(default=0.5, ge=1e-5, le=60, description="seconds in which every host probes every path")
    deny: Deny = Field(default=True, description="true, false or all")

    def options(self) -> list[str]:
        """The controller's command line for it."""
        return ["--mapper-cycle", f"{self.cycle:g}", "--mapper-policy", _POLICIES[self.deny]]
