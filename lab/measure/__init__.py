"""What a run's history says in numbers.

Everything is computed from the merged history alone, so that a report can be made again from a result directory.
`Measures` is the whole; its parts are `flows`, `rates`, `stalls`, `paths`, `switches`, `completions` and `machine`.
"""

from mrclab.lab.measure.completions import Completion
from mrclab.lab.measure.evidence import NoEvidence
from mrclab.lab.measure.faults import Strike
from mrclab.lab.measure.flows import Flow, Selection
from mrclab.lab.measure.machine import Process
from mrclab.lab.measure.measures import Measures
from mrclab.lab.measure.paths import EvChange, Loss, ev_path

__all__ = [
    "Completion",
    "EvChange",
    "Flow",
    "Loss",
    "Measures",
    "NoEvidence",
    "Process",
    "Selection",
    "Strike",
    "ev_path",
]
