"""Peers of one host: those that QPs lead to, and a few others that sent endpoint requests."""

from __future__ import annotations

import random
from typing import Final

from mrclab.hosts.mrc.packets.codec import MrcCodec
from mrclab.hosts.mrc.peer import OwnSide, Peer
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.topo import srv6
from mrclab.topo.nodeconfig import NodeConfig

_MAX_WITHOUT_QP: Final = 256


class PeerTable:
    """Peers by address."""

    def __init__(self, config: NodeConfig, rng: random.Random, codec: MrcCodec) -> None:
        self.own = OwnSide(config)
        self.with_qps: dict[bytes, Peer] = {}
        self._without_qps: dict[bytes, Peer] = {}
        self._config = config
        self._rng = rng
        self._codec = codec

    def use_config(self, config: NodeConfig) -> None:
        """Apply a new node config and its denylist."""
        self._config = config
        self._without_qps.clear()
        for peer in self.with_qps.values():
            peer.apply_denylist(config, self._rng)

    def peer(self, address: str) -> Peer:
        """Return the peer with this inner address; EINVAL if the node config has no template for it."""
        made = Peer(self._config, address, self._rng, self._codec, self.own)
        return self.find(made.address_bytes) or made

    def find(self, address: bytes) -> Peer | None:
        """Return a peer for endpoint packets, which need no QP; None if the node config does not know it."""
        found = self.with_qps.get(address) or self._without_qps.get(address)
        if found is None:
            try:
                text = srv6.text(srv6.from_bytes(address))
                found = Peer(self._config, text, self._rng, self._codec, self.own)
            except VerbsError:
                return None
            if len(self._without_qps) >= _MAX_WITHOUT_QP:
                self._without_qps.clear()
            self._without_qps[address] = found
        return found

    def for_qp(self, address: str) -> Peer:
        """Return the peer of a QP that is being made: the known one, else a new one, which `enter` adds."""
        try:
            known = self.with_qps.get(srv6.to_bytes(srv6.from_text(address)))
        except ValueError:
            known = None
        if known is None or not known.is_of(self._config):
            return Peer(self._config, address, self._rng, self._codec, self.own)
        known.draw_again(self._config, self._rng)
        return known

    def enter(self, peer: Peer) -> None:
        """A QP leads to this peer."""
        self.with_qps[peer.address_bytes] = peer
        peer.qps += 1

    def leave(self, peer: Peer) -> None:
        """A QP to this peer was destroyed."""
        peer.qps -= 1
        if not peer.qps:
            del self.with_qps[peer.address_bytes]
