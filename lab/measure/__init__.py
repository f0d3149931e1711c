"""Figures of a run, from its history.

Everything is computed from the merged history alone, so that a report can be made again from a result directory.
`Measures` is the whole; its parts are `flows`, `rates`, `stalls`, `paths`, `switches`, `completions` and `machine`.
"""

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
