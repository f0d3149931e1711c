"""What a run's history says in numbers.

Everything is computed from the merged history alone, so that a report can be made again from a result directory.
`Measures` is the whole; its parts are `flows`, `rates`, `stalls`, `paths`, `switches`, `completions` and `machine`.
"""

from lab.measure.completions import Completion
from lab.measure.evidence import NoEvidence
from lab.measure.faults import Strike
from lab.measure.flows import Flow, Selection
from lab.measure.machine import Process
from lab.measure.paths import EvChange, Loss, ev_path
from lab.measure.run import Measures

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
