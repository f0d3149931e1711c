"""Names in the small real lab of the self-test, for the `example` and `self_test` of a kind of fault."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mrclab.lab.faults.selftest import FaultProbe
else:
    FaultProbe = object  # it needs a running lab, and models load without one

FRAMES = list(range(40))  # numbers of the frames that `FaultProbe.cross` sends in each direction
LONG = 200  # bytes: as `min_length` it spares the frame that ends a crossing
CABLE, OTHER, UPLINK = "h1-p1/t0-p1-1", "h1-p2/t0-p2-1", "t0-p1-1/t1-p1-2"  # frames cross the first
SWITCH = "t1-p1-2"

__all__ = ["CABLE", "FRAMES", "LONG", "OTHER", "SWITCH", "UPLINK", "FaultProbe"]
