"""Operations that begin and end the nodes of a lab, switches, hosts and the controller, in either world."""

from typing import Protocol


class NodeControl(Protocol):
    """Nodes by name: a switch, a host (its agent) or `controller`."""

    def kill(self, node: str) -> None:
        """Kill its process; the run is not INVALID for that."""

    def terminate(self, node: str) -> None:
        """End its process in good order; the run is not INVALID for that."""

    def restart(self, node: str) -> None:
        """Start it with no state; hosts and controller serve on return."""

    def freeze(self, node: str) -> None:
        """Stop its process with all its state."""

    def thaw(self, node: str) -> None:
        """Continue its process."""

    def is_alive(self, node: str) -> bool:
        """Return True while its process exists, stopped or not."""


class Clearable(Protocol):
    """A change that can be undone."""

    def clear(self) -> None:
        """Undo it."""
