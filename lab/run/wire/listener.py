"""Events of all agents of a lab: one connection to each, waited for together."""

import select
import time
from collections.abc import Collection, Iterable

from mrclab.lab.errors import RunError
from mrclab.lab.run.wire.attach import LabClients
from mrclab.lab.run.world import GONE, KINDS, Event
from mrclab.rpc.client import Client
from mrclab.rpc.errors import RpcError


class Listener:
    """Subscriber to the agents of some hosts; connects when created."""

    def __init__(self, lab: LabClients, hosts: Iterable[str], kinds: Collection[str] = KINDS) -> None:
        self._lab = lab
        self._kinds = list(kinds)
        self._clients: dict[str, Client] = {}
        for host in hosts:
            self.join(host)

    def join(self, host: str) -> None:
        """Subscribe to a host, again if it was gone; RunError where its agent does not answer."""
        self.leave(host)
        try:
            client = Client(self._lab.run_dir / f"{host}.sock")
            client.subscribe(self._kinds)
        except RpcError as error:
            raise RunError(f"{host} does not tell of its events: {error.message}") from None
        self._clients[host] = client

    def leave(self, host: str) -> None:
        """Unsubscribe from a host."""
        client = self._clients.pop(host, None)
        if client is not None:
            client.close()

    def is_subscribed(self, host: str) -> bool:
        """Return True if a host is connected."""
        return host in self._clients

    def wait(self, until: float) -> list[Event]:
        """Return (host, event) of all that arrived; returns at the first arrivals, or at a monotonic time."""
        found: list[Event] = []
        while not found:
            by_descriptor = {client.fileno(): host for host, client in self._clients.items()}
            left = max(0.0, until - time.monotonic())
            self._lab.check()
            ready, _, _ = select.select(list(by_descriptor), (), (), left)
            for descriptor in ready:
                host = by_descriptor[descriptor]
                found += self._take(host)
            if not ready:
                break
        return found

    def _take(self, host: str) -> list[Event]:
        client = self._clients[host]
        events: list[Event] = [(host, event) for event in client.events(0.0)]
        if client.fileno() < 0:
            self._lab.settle(host)
            self.leave(host)
            events.append((host, {"kind": GONE}))
        return events

    def close(self) -> None:
        """Close all connections."""
        for host in list(self._clients):
            self.leave(host)
