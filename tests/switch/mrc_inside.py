"""One switch of a fabric in this process: the compiled program with the controller's entries, frame by frame.

What became of a frame is told in the program's own words, so that a model of the switch can be held to it.
"""

from enum import IntEnum

from mrclab.lab.p4.inside import EGRESS, INGRESS, MrcSwitch
from mrclab.softswitch.inprocess import FrameOutcome
from mrclab.topo.model import Fabric
from mrclab.topo.numbers import CONTROL_PRIORITY, DATA_PRIORITY


class Drop(IntEnum):
    """Reasons for which the program drops a packet: the cells of its counter `drops`."""

    MALFORMED = 1
    FOREIGN = 2
    HOP_LIMIT = 3
    UNKNOWN_USID = 4
    USID_MISS = 5
    IPV6_MISS = 6
    WRONG_SOURCE = 7


class MrcInside(MrcSwitch):
    """`switch` of `fabric`, its queues and policies as the lab sets them. Times are in nanoseconds and begin at 0."""

    def __init__(self, fabric: Fabric, switch: str, seed: int = 0) -> None:
        super().__init__(seed=seed)
        queue = fabric.spec.queue
        self.runtime.set_queue_rate(fabric.spec.link.rate_pps, priority=DATA_PRIORITY)
        self.runtime.set_queue_depth(queue.depth, priority=DATA_PRIORITY)
        self.runtime.set_queue_depth(queue.control_depth, priority=CONTROL_PRIORITY)
        self.provision(fabric, switch)


def dropped(outcome: FrameOutcome) -> Drop | None:
    """Return why ingress dropped a frame; None if it did not."""
    return next((Drop(cell) for counter, cell in outcome.counted if counter == f"{INGRESS}.drops"), None)


def trimmed(outcome: FrameOutcome) -> bool:
    """Return True if ingress cut a frame to its headers."""
    return any(counter == f"{INGRESS}.trims" for counter, _ in outcome.counted)


def marked(outcome: FrameOutcome) -> bool:
    """Return True if egress marked a frame's packet with ECN."""
    return any(counter == f"{EGRESS}.ecn_marks" for copy in outcome.copies for counter, _ in copy.counted)


def lost_in_queue(outcome: FrameOutcome) -> bool:
    """Return True if a frame's packet came to a full queue."""
    return any(copy.full for copy in outcome.copies)
