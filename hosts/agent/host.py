"""One host in any process: its transport on a NIC, its operations, samples and probes.

No process, socket, file or clock: the NIC brings the time and carries frames (`hosts.nic.interface`), `memory` has the
bytes of regions, `record` takes events for the history. The agent's process is one way to run it.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Callable
from typing import Any

from mrclab.hosts.agent.api import CheckedOperations, HostOperations
from mrclab.hosts.agent.ctl import CtlOperations
from mrclab.hosts.agent.sampling import INTERVAL_S, KEPT, Sampler
from mrclab.hosts.agent.verbs import VerbOperations
from mrclab.hosts.mapper import Mapper
from mrclab.hosts.memory.memory import Memory
from mrclab.hosts.mrc.endpoint import MrcEndpoint
from mrclab.hosts.mrc.packets.headers import MrcOpcode
from mrclab.hosts.nic.interface import HostNic, Transport
from mrclab.hosts.transports import WIRE, Codecs, endpoint
from mrclab.hosts.workloads.api import WorkloadOperations
from mrclab.hosts.workloads.digests import SharedDigests
from mrclab.rpc.errors import RpcError
from mrclab.topo.config.nodeconfig import NodeConfig, NodeConfigError
from mrclab.topo.economy import Secrets

Record = dict[str, Any]


class RunningHost:
    """A host on the NIC that `make_nic(config, transport)` gives.

    `record(t, record)` writes a record of that time into the history, publishes it and returns it whole; `publish`
    only publishes an event to listeners. `began` is the time before there is a NIC that keeps it. Keys and first
    PSNs are drawn from `secrets`, by default from `rng`. The newest `samples` are kept for the operation of that name;
    without `sampled` none is taken, and QPs are only checked for progress. `shared_digests`: of hosts of one process.
    """

    def __init__(
        self,
        config: NodeConfig,
        rng: random.Random,
        make_nic: Callable[[NodeConfig, Transport], HostNic],
        memory: Memory,
        record: Callable[[float, Record], Record],
        publish: Callable[[float, Record], None],
        transport: str | None = None,
        began: float = 0.0,
        secrets: Secrets | None = None,
        codecs: Codecs = WIRE,
        samples: int = KEPT,
        sampled: bool = True,
        shared_digests: SharedDigests | None = None,
    ) -> None:
        self.name = config.host.name
        self.config = config
        self._write, self._publish_at, self._began = record, publish, began
        self.nic: HostNic | None = None
        self.transport = endpoint(config, rng, self.record, transport, secrets, codecs)
        nic = self.nic = make_nic(config, self.transport)
        self.sampler = Sampler(nic, self.transport, self.record, samples)
        self.operations = CheckedOperations(*self._parts(nic, memory, config.link.time_scale, shared_digests))
        if sampled:
            nic.call_soon(self.sampler.take)  # counts start at 0 however early traffic begins
        nic.every(INTERVAL_S * config.link.time_scale, self.sampler.take if sampled else self.transport.check_progress)
        self._probe_links(config, nic)

    def call(self, operation: str, /, **arguments: Any) -> Any:
        """Call an operation; RpcError for an unknown or refused one, or a wrong argument."""
        try:
            found = self.operations[operation]
        except KeyError:
            raise RpcError("EINVAL", f"{self.name} has no operation {operation!r}") from None
        return found(**arguments)

    def record(self, record: Record) -> Record:
        """Write a record with the current time."""
        return self._write(self._now, record)

    def update(self, read: Callable[[], NodeConfig]) -> dict[str, int]:
        """Apply the node config that `read` returns, if it is newer; return the version in force."""
        assert self.nic is not None
        try:
            config = read()
            if config.version > self.config.version:
                self.nic.configure(config)
                self.transport.update_config(config, self._now)
                self.record({"kind": "agent.configured", "config_version": config.version})
                self.config = config
        except (NodeConfigError, ValueError) as error:
            raise RpcError("EINVAL", str(error)) from error
        return {"version": self.config.version}

    def address(self, peer: str) -> str:
        """Return the inner address of a host, given by name or address; RpcError for an unknown one."""
        directory = self.config.directory
        try:
            return str(ipaddress.IPv6Address(directory.get(peer, peer)))
        except ValueError:
            known = ", ".join(directory)
            raise RpcError(
                "EINVAL", f"peer {peer!r} is neither a known host nor an IPv6 address; known: {known}"
            ) from None

    @property
    def _now(self) -> float:
        # The transport logs while it is made, before there is a NIC.
        return self._began if self.nic is None else self.nic.now

    def _parts(
        self, nic: HostNic, memory: Memory, time_scale: float, shared_digests: SharedDigests | None
    ) -> list[object]:
        verbs = VerbOperations(self.transport, nic, memory, self.address)
        workloads = WorkloadOperations(
            self.transport, nic, memory, lambda: self.config.directory, self.record,
            lambda event: self._publish_at(self._now, event), time_scale, shared_digests,
        )  # fmt: skip
        parts: list[object] = [HostOperations(self, nic), verbs, workloads]
        if isinstance(self.transport, MrcEndpoint):
            parts.append(CtlOperations(self.transport, nic, self.address, self.record))
        return parts

    def _probe_links(self, config: NodeConfig, nic: HostNic) -> None:
        """Start Clustermapper's probes if the node config has them."""
        section = config.mapper
        if section is not None:
            mapper = Mapper(config, nic.inject, self.record, section.cycle, section.timeout)
            nic.divert(int(MrcOpcode.ENDPOINT_REQUEST), mapper.receive)
            nic.every(mapper.interval, mapper.tick)
