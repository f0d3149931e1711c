"""Figures of a run, from its history.

Everything is computed from the merged history alone, so that a report can be made again from a result directory.
`Measures` is the whole; its parts are `flows`, `rates`, `stalls`, `paths`, `switches`, `completions` and `machine`.

These names are loaded when they are first used: a run begins without them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mrclab.lab.measure.fabric.faults import FaultSpan
    from mrclab.lab.measure.fabric.paths import EvChange, PacketLoss, ev_path
    from mrclab.lab.measure.measures import Measures
    from mrclab.lab.measure.traffic.completions import CompletedWork
    from mrclab.lab.measure.traffic.flows import MeasuredFlow, Selection
    from mrclab.lab.measure.validity.evidence import NoEvidence
    from mrclab.lab.measure.validity.machine import ProcessLoad

__all__ = [
    "CompletedWork",
    "EvChange",
    "FaultSpan",
    "MeasuredFlow",
    "Measures",
    "NoEvidence",
    "PacketLoss",
    "ProcessLoad",
    "Selection",
    "ev_path",
]

_PLACES = {
    "CompletedWork": "traffic.completions",
    "FaultSpan": "fabric.faults",
    "Measures": "measures",
    "NoEvidence": "validity.evidence",
    "ProcessLoad": "validity.machine",
    **dict.fromkeys(("EvChange", "PacketLoss", "ev_path"), "fabric.paths"),
    **dict.fromkeys(("MeasuredFlow", "Selection"), "traffic.flows"),
}


def __getattr__(name: str) -> Any:
    """A name of this package, loaded at its first use."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    return found
