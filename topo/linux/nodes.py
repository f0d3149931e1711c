"""The fabric's nodes and links as Mininet knows them, so that its life cycle and command line work on the lab.

Mininet gives each node a shell in namespaces of its own (network and mount). Everything about interfaces is done by
`Cables` in one batch; the classes here tell Mininet what there is. Mininet's "link down" goes to the cable, because a
port that a switch holds must not be touched: BMv2 freezes as a whole when one of its ports goes down.
"""

import select
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mininet.link import Intf
from mininet.link import Link as MininetLink
from mininet.net import Mininet
from mininet.node import Host, Switch

from mrclab.topo.errors import EmulationError
from mrclab.topo.linux.adaptivetimeout import AdaptiveTimeout, MachineSlowness
from mrclab.topo.model import Fabric, Link

if TYPE_CHECKING:
    from mrclab.topo.linux.emulation import Emulation

START_TIMEOUT = 20.0  # seconds for a shell's first prompt; it takes some hundredths
_LOOK_AGAIN = 0.1  # seconds between two checks that the shell still runs


class _WatchedPoll:
    """A node's `pollOut` that gives up where `shell` has ended, or where `adaptive` has."""

    def __init__(self, name: str, shell: Any, terminal: int, adaptive: AdaptiveTimeout) -> None:
        self._name, self._shell = name, shell
        self.adaptive: AdaptiveTimeout | None = adaptive
        self._output = ""
        self._poll = select.poll()
        self._poll.register(terminal, select.POLLIN)

    def poll(self, timeout: float | None = None) -> list[tuple[int, int]]:
        """As select.poll: `timeout` in milliseconds, None for no limit."""
        if timeout is not None:
            return self._poll.poll(timeout)
        while not (ready := self._poll.poll(_LOOK_AGAIN * 1000)):
            status = self._shell.poll()
            if status is not None and not self._poll.poll(0):
                output = " ".join(self._output.split()) or "it wrote nothing"
                raise EmulationError(
                    f"the shell of {self._name} ended (status {status}): {output}; see `mrclab doctor`"
                )
            if self.adaptive is not None and self.adaptive.over:
                raise self.adaptive.error(f"the shell of {self._name}", "give its first prompt")
        return ready

    def subscribe(self, text: str) -> None:
        """Keep the last output, for a message."""
        self._output = (self._output + text)[-200:]


class _FabricNode:
    """For a Mininet node: gives its shell the run's environment and never waits for one that is not there."""

    name: str
    shell: Any
    stdout: Any
    readbuf: str
    pollOut: Any  # noqa: N815 - Mininet's name
    environment: Mapping[str, str]
    slowness: MachineSlowness

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802 - Mininet's name
        """Start the shell; EmulationError where it ends or gives no prompt."""
        self._watched: _WatchedPoll | None = None
        try:
            super().startShell(mnopts)  # type: ignore[misc]
        except EmulationError:
            self.shell.kill()
            self.shell.wait()
            raise
        assert self._watched is not None
        self._watched.adaptive = None  # commands may take as long as they like

    def read(self, size: int = 1024) -> str:
        """Return the terminal's output, `size` characters at most; Mininet's first call comes before it has waited."""
        if self._watched is None:
            adaptive = AdaptiveTimeout(START_TIMEOUT, self.slowness, self.shell.pid)
            self._watched = self.pollOut = _WatchedPoll(self.name, self.shell, self.stdout.fileno(), adaptive)
        if not self.readbuf:
            self._watched.poll()
        text = str(super().read(size))  # type: ignore[misc]
        self._watched.subscribe(text)
        return text

    def _popen(self, cmd: list[str], **params: Any) -> Any:
        params.setdefault("env", dict(self.environment))
        return super()._popen(cmd, **params)  # type: ignore[misc]

    def config(self, **_: object) -> dict[str, object]:
        """Nothing: addresses and flags are the fabric's business."""
        return {}


class FabricHost(_FabricNode, Host):  # type: ignore[misc]
    """A host in its own namespaces."""

    def __init__(self, name: str, *, environment: Mapping[str, str], slowness: MachineSlowness, **params: Any) -> None:
        self.environment, self.slowness = environment, slowness
        params.update(ip=None, mac=None)
        super().__init__(name, **params)


class FabricSwitch(_FabricNode, Switch):  # type: ignore[misc]
    """A P4 switch in its own namespaces; `start` and `stop` start and kill its process."""

    def __init__(self, name: str, *, environment: Mapping[str, str], emulation: "Emulation", **params: Any) -> None:
        self.environment, self.slowness, self.emulation = environment, emulation.slowness, emulation
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
