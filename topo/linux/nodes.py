"""The fabric's nodes and links as Mininet knows them, so that its life cycle and command line work on the lab.

Mininet gives each node a shell in namespaces of its own (network and mount). Everything about interfaces is done by
`Cables` in one batch; the classes here tell Mininet what there is. Mininet's "link down" goes to the cable, because a
port that a switch holds must not be touched: BMv2 freezes as a whole when one of its ports goes down.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mininet.link import Intf
from mininet.link import Link as MininetLink
from mininet.net import Mininet
from mininet.node import Host, Switch

from mrclab.topo.linux.adaptivetimeout import Pace
from mrclab.topo.linux.shells import WatchedShell
from mrclab.topo.model import Fabric, Link

if TYPE_CHECKING:
    from mrclab.topo.linux.emulation import Emulation


class _Bare(WatchedShell):
    """A node about which Mininet configures nothing."""

    def config(self, **_: object) -> dict[str, object]:
        """Nothing: addresses and flags are the fabric's business."""
        return {}


class FabricHost(_Bare, Host):  # type: ignore[misc]
    """A host in its own namespaces."""

    def __init__(self, name: str, *, environment: Mapping[str, str], pace: Pace, **params: Any) -> None:
        self.environment, self.pace = environment, pace
        params.update(ip=None, mac=None)
        super().__init__(name, **params)


class FabricSwitch(_Bare, Switch):  # type: ignore[misc]
    """A P4 switch in its own namespaces; `start` and `stop` start and kill its process."""

    def __init__(self, name: str, *, environment: Mapping[str, str], emulation: "Emulation", **params: Any) -> None:
        self.environment, self.pace, self.emulation = environment, emulation.pace, emulation
        self.controlIntf = None  # Mininet's name; P4Runtime is on a Unix socket
        params["inNamespace"] = True
        super().__init__(name, **params)

    def start(self, _controllers: list[object]) -> None:
        """Start the switch process if none runs, and wait until it responds."""
        self.emulation.restart(self.name)

    def stop(self, deleteIntfs: bool = False) -> None:  # noqa: N803 - Mininet's signature
        """Kill the switch process."""
        self.emulation.kill(self.name)


class PortInterface(Intf):  # type: ignore[misc]
    """A port of a node; up and down act on the cable behind it."""

    def config(self, **_: object) -> dict[str, object]:
        """Nothing: done by Cables."""
        return {}

    def ifconfig(self, *args: str) -> str:
        """`up` and `down` go to the cable; anything else to ifconfig in the node."""
        if args in {("up",), ("down",)}:
            getattr(self.link, args[0])()
            return ""
        return str(super().ifconfig(*args))

    def delete(self) -> None:
        """Forget the interface; it goes with its cable."""
        self.node.delIntf(self)
        self.link = None


class MininetCable(MininetLink):  # type: ignore[misc]
    """A cable of the fabric as a Mininet link."""

    def __init__(self, node1: Any, node2: Any, *, link: Link, emulation: "Emulation", **_: object) -> None:
        self.model, self._emulation = link, emulation
        ends = []
        for node, end in ((node1, link.a), (node2, link.b)):
            ends.append(
                PortInterface(
                    end.interface, node, port=end.number, link=self, mac=end.mac, moveIntfFn=lambda *_, **__: None
                )
            )
        self.intf1, self.intf2 = ends

    def down(self) -> None:
        """Take the carrier from both ports."""
        self._emulation.cables.down(self.model)

    def up(self) -> None:
        """Give the carrier back."""
        self._emulation.cables.up(self.model)

    def status(self) -> str:
        """`OK` or `DOWN`."""
        return "OK" if self._emulation.cables.is_up(self.model) else "DOWN"


def empty_network() -> Any:
    """A Mininet without nodes, controller and machine-wide sysctl changes."""
    Mininet.inited = True  # its init raises sysctl limits of the whole machine for good; the lab needs none of them
    return Mininet(controller=None, switch=FabricSwitch, host=FabricHost, link=MininetCable, build=False)


def add_node(network: Any, node: Any) -> None:
    """Register an existing node with Mininet."""
    add = network.addHost if isinstance(node, FabricHost) else network.addSwitch
    add(node.name, cls=lambda *_, **__: node)


def add_links(network: Any, fabric: Fabric, emulation: "Emulation") -> None:
    """Register all cables with Mininet."""
    for link in fabric.links:
        network.addLink(link.a.node, link.b.node, link=link, emulation=emulation)
