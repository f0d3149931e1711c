"""All kinds of traffic that a scenario may have."""

from typing import Annotated

from pydantic import Field

from mrclab.lab.scenario.jobtraffic import Trace, Training
from mrclab.lab.scenario.matrixtraffic import ConnectionMatrix
from mrclab.lab.scenario.traffic import (
    AllToAll,
    Incast,
    Permutation,
    PingPong,
    Programs,
    RingAllReduce,
    SendRecvRing,
    Stream,
    Write,
)

Traffic = Annotated[
    Write
    | Stream
    | PingPong
    | Permutation
    | Incast
    | AllToAll
    | RingAllReduce
    | SendRecvRing
    | ConnectionMatrix
    | Training
    | Trace
    | Programs,
    Field(discriminator="kind"),
]
