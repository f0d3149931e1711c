"""Harness of the self-test as a kind's `self_test` sees it: one fault in a small real lab."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

FRAMES = list(range(40))  # numbers of the frames that `cross` sends in each direction
LONG = 200  # bytes: as `min_length` it spares the frame that ends a crossing
CABLE, OTHER, UPLINK = "h1-p1/t0-p1-1", "h1-p2/t0-p2-1", "t0-p1-1/t1-p1-2"  # frames cross the first
SWITCH = "t1-p1-2"


class FaultProbe(Protocol):
    """One fault in a lab of two planes with two T0s, two T1s and two hosts each."""

    @property
    def links(self) -> tuple[str, ...]:
        """Cables of the fault."""

    @property
    def counters(self) -> dict[str, Any]:
        """Counters that the fault recorded when it was cleared last."""

    def inject(self) -> None:
        """Begin the fault."""

    def clear(self) -> None:
        """End the fault."""

    def step(self) -> None:
        """Wait until the fault's next due time, and let it do one step."""

    def wait_until_over(self) -> None:
        """Let a fault that ends without being cleared go on until it has ended."""

    def another(self, kind: str, **fields: Any) -> "FaultProbe":
        """Return a probe of another fault in the same lab."""

    def expect(self, holds: object, detail: str) -> None:
        """Raise TopoError with `detail` where something does not hold."""

    def wait_for(self, look: Callable[[], T], enough: Callable[[T], bool]) -> T:
        """Poll `look` until its result is enough or time is over; return the last result."""

    def records(self, kind: str) -> list[dict[str, Any]]:
        """Return the history's records of this fault and its parts, oldest first."""

    def cross(self) -> tuple[list[int], list[int]]:
        """Send forty frames up and forty down CABLE; return the numbers of those that arrive, in order of arrival."""

    def cross_late(self) -> tuple[list[int], float]:
        """Send forty frames up CABLE; clear the fault; return those that arrived before, and after how many seconds."""

    def cross_swapped(self) -> bool:
        """Return True if all frames into CABLE leave by OTHER, and the reverse."""

    def cross_one(self, payload: bytes) -> bytes:
        """Send one frame up CABLE; return the frame received."""

    def cross_uplinks(self, uplinks: tuple[int, ...]) -> list[bool]:
        """Send one packet by each uplink of plane 1 up CABLE; return True for each that arrives."""

    def ports_of(self, links: tuple[str, ...]) -> list[str]:
        """Return the interfaces at both ends of cables, sorted."""

    def without_carrier(self) -> list[str]:
        """Return the interfaces without carrier, sorted."""

    def forwarded(self, source: str, destination: str, plane: int, uplink: int) -> list[int]:
        """Return the packets that each cable of a path has forwarded so far."""

    def processes(self) -> dict[str, int]:
        """Return the process id of each node that runs."""

    def process_state(self, pid: int) -> str:
        """Return the letter of proc(5): R, S, T for stopped."""

    def is_alive(self, node: str) -> bool:
        """Return True while the node's process exists."""

    def call(self, node: str, op: str, **arguments: Any) -> dict[str, Any]:
        """Send a request to a host or the controller; return its response."""
