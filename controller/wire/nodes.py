"""The controller's side of the hosts: config files, agents, denials."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mrclab.controller import nodefiles
from mrclab.controller.health.denylist import Denylist
from mrclab.controller.health.mapper import MAPPER_REPORT
from mrclab.controller.history import ControllerHistory
from mrclab.controller.wire.agents import AgentLink
from mrclab.events.controller import NodeDamaged, NodesWritten
from mrclab.rpc.errors import RpcError
from mrclab.topo.config.nodeconfig import MapperSection
from mrclab.topo.config.transport import DEFAULT_TRANSPORT, TransportSpec
from mrclab.topo.model import Fabric

log = logging.getLogger(__name__)

DENYLIST_FILE = "denylist.json"


class NodeConfigKeeper:
    """Keeps every host's node config in step with the denylist: the file first, then the running agent."""

    def __init__(
        self,
        fabric: Fabric,
        run_dir: Path,
        history: ControllerHistory,
        on_event: Callable[[str, dict[str, Any]], None],
        mapper: MapperSection | None = None,
        transport: TransportSpec = DEFAULT_TRANSPORT,
    ) -> None:
        self.denylist = Denylist(fabric, run_dir / DENYLIST_FILE)
        self.version = 0
        self._fabric = fabric
        self._directory = run_dir / "node"
        self._history = history
        self._mapper = mapper
        self._transport = transport
        kinds = [MAPPER_REPORT] if mapper is not None else []
        self.agents = {
            host.name: AgentLink(host.name, run_dir / f"{host.name}.sock", history, on_event, kinds)
            for host in fabric.hosts
        }

    def refresh(self) -> None:
        """Load the saved denylist and bring the files up to date."""
        self.denylist.load()
        self.publish()

    async def notified(self) -> None:
        """Wait until every agent that is there uses the current config."""
        await asyncio.gather(*(agent.notified() for agent in self.agents.values()))

    @property
    def unresponsive(self) -> dict[str, str]:
        """Reason why an agent does not respond, by host, of those that do not."""
        return {name: agent.unresponsive for name, agent in self.agents.items() if agent.unresponsive}

    async def poll(self, seconds: float) -> None:
        """Ping every agent, with a timeout in seconds."""
        await asyncio.gather(*(agent.poll(seconds) for agent in self.agents.values() if agent.connected))

    @property
    def versions(self) -> dict[str, int]:
        """Version of the config that each agent uses; 0: no agent."""
        return {name: agent.version for name, agent in self.agents.items()}

    async def ports(self) -> dict[str, Sequence[tuple[str, bool]] | str]:
        """NIC ports by host: name, and whether it is up; or why the agent cannot be reached."""
        found = await asyncio.gather(*map(self._ports_of, self.agents.values()))
        return dict(zip(self.agents, found, strict=True))

    @staticmethod
    async def _ports_of(agent: AgentLink) -> Sequence[tuple[str, bool]] | str:
        try:
            hello = await agent.request("hello")
        except RpcError as error:
            return error.message
        return [(str(port.get("interface", port.get("port"))), bool(port.get("up"))) for port in hello.get("ports", [])]

    async def stats(self) -> dict[str, dict[str, Any]]:
        """Return each agent's counters; agents that ended, or do not respond, are left out."""
        names = [name for name, agent in self.agents.items() if agent.connected]
        answers = await asyncio.gather(*(self.agents[name].request("stats") for name in names), return_exceptions=True)
        return {name: answer for name, answer in zip(names, answers, strict=True) if isinstance(answer, dict)}

    def publish(self) -> None:
        """Bring the files up to date with the denylist, and have the agents use them."""
        configs = nodefiles.publish(
            self._fabric,
            self._directory,
            self.denylist.by_host(),
            self.denylist.version,
            self._mapper,
            self._transport,
            self._damaged,
        )
        version = max(config.version for config in configs.values())
        if version != self.version:
            self.version = version
            self._history.record(NodesWritten(hosts=len(configs), version=version))
        for name, config in configs.items():
            self.agents[name].send(config)

    def _damaged(self, host: str, complaint: str) -> None:
        log.warning("%s; it is written again", complaint)
        self._history.record(NodeDamaged(host=host, reason=complaint))
