"""Every fault that a scenario may name: the union of all kinds, told apart by `kind`."""

from typing import Annotated

from pydantic import Field

from mrclab.lab.faults.base import FaultBase, LastingFault
from mrclab.lab.faults.cablemodels import (
    CABLE_KINDS,
    Corruption,
    Delay,
    EvLoss,
    Flap,
    GrayLoss,
    Jitter,
    LinkDown,
    LosePackets,
    RateCut,
    Reorder,
    SilentDrop,
    SwapCables,
)
from mrclab.lab.faults.chaos import Chaos
from mrclab.lab.faults.groupmodels import GROUP_KINDS, HostLoss, NicDown, NicPortDown, PlaneDown, Transceiver
from mrclab.lab.faults.processmodels import (
    PROCESS_KINDS,
    AgentCrash,
    Background,
    ControllerCrash,
    ControllerPartition,
    ControllerRestart,
    ControllerSlow,
    SwitchCrash,
    SwitchFreeze,
    SwitchReboot,
    WrongEntry,
)

__all__ = ["MODELS", "Fault", "FaultBase", "LastingFault", "LinkDown"]

MODELS: tuple[type[FaultBase], ...] = (*CABLE_KINDS, *GROUP_KINDS, *PROCESS_KINDS, Chaos)

Fault = Annotated[
    LinkDown
    | Flap
    | GrayLoss
    | EvLoss
    | SilentDrop
    | Corruption
    | RateCut
    | Delay
    | Jitter
    | Reorder
    | LosePackets
    | SwapCables
    | Transceiver
    | NicPortDown
    | NicDown
    | PlaneDown
    | HostLoss
    | SwitchCrash
    | SwitchFreeze
    | SwitchReboot
    | WrongEntry
    | ControllerCrash
    | ControllerRestart
    | ControllerPartition
    | ControllerSlow
    | AgentCrash
    | Background
    | Chaos,
    Field(discriminator="kind"),
]
