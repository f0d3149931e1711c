"""Interface of a world to the controller's core: switches, cables, hosts and time."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from mrclab.controller.provisioning.cables import CableStates
from mrclab.events.event import Event
from mrclab.events.switches import FabricVerified
from mrclab.topo.model import Fabric

if TYPE_CHECKING:
    from mrclab.controller.core import ControllerCore
    from mrclab.controller.health.mapper import Clustermapper


class SwitchState(Enum):
    """State of a switch."""

    CONNECTING = "connecting"  # its socket is not served
    PROVISIONING = "provisioning"
    BACKUP = "backup"  # another controller is primary
    READY = "ready"  # holds exactly the intended entries
    FAILED = "failed"  # refused something; tried again


class SwitchView(NamedTuple):
    """State of a switch, and its last error.

    `unresponsive` is the reason why it does not respond although it runs, as a predicate: `is stopped by a signal`.
    """

    state: SwitchState
    unresponsive: str = ""
    error: str = ""

    @property
    def is_ready(self) -> bool:
        """True if the switch has its intended entries, whether or not it answers."""
        return self.state is SwitchState.READY

    @property
    def not_ready(self) -> str:
        """Reason why it is not ready or does not respond, as a predicate."""
        return self.unresponsive or f"is not ready but {self.state.value}"


class Audit(NamedTuple):
    """Findings of an audit.

    `wrong` has a sentence for each entry that is missing, differs, or is not intended; `unread` by switch the reason
    why its entries could not be read, as a predicate.
    """

    wrong: list[str]
    unread: dict[str, str]


class SwitchAccess(Protocol):
    """The switches of one world. Coroutines raise SwitchError where a switch cannot be reached."""

    def view(self, name: str) -> SwitchView:
        """Return the state of one switch."""

    def unready(self) -> dict[str, SwitchView]:
        """Return the switches that are not ready or do not respond."""

    async def misroute(self, name: str, port: int, to: int) -> None:
        """Make a switch forward packets for `port` out of `to`, or drop them (0). The intended entries stay."""

    async def traffic(self, name: str) -> int:
        """Return the number of QPs' packets that a switch has sent so far."""

    async def counters(self) -> dict[str, Any]:
        """Return the counters of the switches that are ready."""

    async def watch(self, ev: int, on: bool) -> None:
        """Start or stop to count the packets of an EV at every switch."""

    async def ev_counts(self, evs: Iterable[int]) -> Mapping[int, Mapping[str, Mapping[str, int]]]:
        """Return packets and bytes of the watched EVs, by switch."""


class HostAccess(Protocol):
    """The hosts of one world."""

    @property
    def version(self) -> int:
        """Version of the node configs."""

    @property
    def versions(self) -> dict[str, int]:
        """Version of the node config that each host uses; 0: the host is down."""

    @property
    def unresponsive(self) -> dict[str, str]:
        """Reason why a running host does not respond, by host, as a predicate."""

    def publish(self) -> None:
        """Make the node configs again from the denylist, and have the hosts use them."""

    async def notified(self) -> None:
        """Wait until every host that is up uses the current config."""

    async def ports(self) -> dict[str, Sequence[tuple[str, bool]] | str]:
        """Return by host its NIC ports, (name, up), or the reason why it cannot be queried."""


class Driver(Protocol):
    """One world: its switches, cables and hosts, and its time."""

    decimals: int  # to which durations in seconds are rounded
    fabric: Fabric
    fleet: SwitchAccess
    nodes: HostAccess
    cable_states: CableStates  # state of verification of every cable
    core: "ControllerCore"
    mapper: "Clustermapper | None" = None
    began: float  # on its clock
    verified_after: float | None = None  # seconds from the beginning until all was verified for the first time

    def check_verified(self) -> None:
        """Record when all is verified for the first time, and start Clustermapper then."""
        if self.verified_after is None and self.core.all_verified:
            self.verified_after = round(self.now - self.began, self.decimals)
            self.record(FabricVerified(seconds=self.verified_after, links=len(self.fabric.links)))
            if self.mapper is not None:
                self.mapper.begin()

    def last_audit(self) -> Audit:
        """Return the findings of the last audit of all switches."""

    @property
    def now(self) -> float:
        """Seconds on the clock of this world."""

    def record(self, event: Event, /) -> None:
        """Record an event at the current time."""

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""

    async def until(self, ready: Callable[[], bool], seconds: float) -> None:
        """Let time pass until a condition holds, at most `seconds`."""

    async def poll(self, seconds: float) -> None:
        """Check that every switch and host responds, within a time limit."""

    def forget(self, links: Collection[str] | None) -> None:
        """Mark these cables, or all, as unverified, so that they are probed again."""

    async def audit(self, only: str | None = None) -> Audit:
        """Compare the entries of all switches, or one, with the intended ones."""

    async def repair(self, only: str | None) -> dict[str, dict[str, int]]:
        """Write the entries in which an audit finds differences, on all ready switches or on one; return counts by
        switch."""
