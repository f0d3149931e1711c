"""Driver of a connection matrix: connections begin at their own times, or when another one triggers them.

An agent reports that a connection is acknowledged or has arrived; connections triggered by it are started from here,
on any host: in virtual time at the same moment, on the wire after a round trip of control messages.
"""

from collections.abc import Mapping
from typing import Any

from mrclab.lab.run.world import World
from mrclab.lab.traffic.base import Flow
from mrclab.lab.traffic.kinds.connections import ConnectionMatrix
from mrclab.lab.traffic.matrix import Connection, Triggers
from mrclab.lab.traffic.running.flows import Running


class RunningMatrix(Running):
    """Connections from start to end."""

    _is_reported = True

    def __init__(self, world: World, entry: ConnectionMatrix, qps: int, seed: int) -> None:
        super().__init__(world, entry, qps, seed)
        self._triggers = Triggers(entry.matrix)
        timed = list(entry.timed(world.fabric))
        self._in_order = [flow for flow, _ in timed]
        self._starts = {flow.name: start for flow, start in timed}
        self._connections: dict[str, Connection] = {
            flow.name: one for flow, one in zip(self._in_order, entry.matrix.connections, strict=True)
        }

    def _end_fields(self, flow: Flow, sends: bool) -> dict[str, Any]:
        if sends:
            return {"size": flow.size, "start": self._starts[flow.name]}
        return {"size": flow.size, "reports_arrival": bool(self._connections[flow.name].recv_done)}

    def take(self, host: str, event: Mapping[str, Any]) -> None:
        """Handle an event of a host's agent, and begin the connections that it triggers."""
        super().take(host, event)
        if event["kind"] == "flow.done" and not event["error"]:
            self._begin(self._triggers.fire(self._connections[event["flow"]].send_done))
        elif event["kind"] == "flow.received":
            self._begin(self._triggers.fire(self._connections[event["flow"]].recv_done))

    def _begin(self, places: list[int]) -> None:
        by_host: dict[str, list[str]] = {}
        for place in places:
            flow = self._in_order[place]
            by_host.setdefault(flow.source, []).append(flow.name)
        for host, names in by_host.items():
            self._call(host, "start_flows", name=self.name, flows=names)
