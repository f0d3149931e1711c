"""The verbs of an MRC host: what its QPs are, and the peers that they lead to."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from mrclab.hosts.mrc.cc import CONTROLS, Qpcc
from mrclab.hosts.mrc.evs.evprofile import EvProfile, EvProfileState
from mrclab.hosts.mrc.evs.profiles import Profiles
from mrclab.hosts.mrc.packets.codec import MrcCodec
from mrclab.hosts.mrc.packets.controlpackets import ControlItem
from mrclab.hosts.mrc.packets.outbox import MrcPort
from mrclab.hosts.mrc.peer import OwnSide, Peer
from mrclab.hosts.mrc.qp import MrcQueuePair
from mrclab.hosts.mrc.recovery.intake import Intake
from mrclab.hosts.mrc.recovery.rnr import RNR_SPACING
from mrclab.hosts.mrc.settings import qp_settings
from mrclab.hosts.rdma import endpoint as rc
from mrclab.hosts.rdma.completion import CompletionQueue
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.rdma.keys import Secrets
from mrclab.topo import srv6
from mrclab.topo.nodeconfig import NodeConfig


class MrcVerbs(rc.Hosted[MrcPort, MrcQueuePair]):
    """Tables of a host and the calls on them. The packet side is in Endpoint."""

    transport = "MRC"
    of_peer = ("qpn", "psn", "mpr", "wimm")
    codec: MrcCodec
    own: OwnSide
    urgent: bool
    intake: Intake | None

    def __init__(
        self,
        config: NodeConfig,
        rng: random.Random,
        log: Callable[[dict[str, Any]], None],
        secrets: Secrets | None = None,
    ) -> None:
        super().__init__(config, rng, log, secrets)
        self.peers: dict[bytes, Peer] = {}
        self.profiles = Profiles()
        self._rnr_free_at = 0.0  # when the next refused packet of any QP may be sent because its RNR timer expired

    # --- hooks that the packet side fills in ------------------------------------------------------

    def send_control(self, item: ControlItem, peer: Peer, port: int | None = None, besides: int | None = None) -> None:
        """Queue a control packet."""
        raise NotImplementedError

    def probe_slot(self, plane: int, now: float) -> float:
        """Reserve the time from which a probe of a retired path may go."""
        raise NotImplementedError

    def room(self, qpcc: Qpcc) -> bool:
        """There may be room in the window of a destination."""
        raise NotImplementedError

    def ask_ports(self, peer: Peer, now: float, at_once: bool = False) -> None:
        """Ask a peer about the ports that it reported down."""
        raise NotImplementedError

    def ask_credit(self, peer: Peer, now: float) -> None:
        """Ask a peer for credit, where its window wants more."""
        raise NotImplementedError

    def was_trimmed(self, peer: Peer, size: int) -> None:
        """A packet of a peer came without its payload."""
        raise NotImplementedError

    def drop_control(self, qp: MrcQueuePair) -> None:
        """Send nothing that a QP had to say."""
        raise NotImplementedError

    def forget(self, qp: MrcQueuePair) -> None:
        """A QP is gone."""
        raise NotImplementedError

    def rnr_turn(self, now: float) -> float:
        """Take a turn among all QPs whose RNR timer expired; return its time, `now` where nobody is before it."""
        turn = max(now, self._rnr_free_at)
        self._rnr_free_at = turn + RNR_SPACING / (self.config.link.rate_pps * len(self.config.ports))
        return turn

    # --- device -----------------------------------------------------------------------------------

    def query_device(self) -> dict[str, Any]:
        """Limits and capabilities."""
        return super().query_device() | {
            "capabilities": ["TRIM_NACK", "DYNAMIC_MPR", "SVC_TIME"],
            "cc_profiles": list(CONTROLS.profiles),
            "ev_profiles": [profile.name for profile in self.config.ev_profiles],
        }

    # --- QPs --------------------------------------------------------------------------------------

    def _make_qp(
        self, qpn: int, peer: str, pd: int, send: CompletionQueue, recv: CompletionQueue, attributes: dict[str, Any]
    ) -> MrcQueuePair:
        """`attributes` are those of QpSettings: mpr, wimm, timeout_exponent, …

        `ev_profile` is a name of the node config or the number of a profile made by Ctl, and so is `cc_profile`.
        """
        entry = self._entry(peer)
        self._not_self(peer, entry.address)
        cc_profile = attributes.get("cc_profile")
        ev_profile = self._profiles(attributes)
        settings = qp_settings(self.config, entry.template, **attributes)
        entry = self.peers.get(entry.address_bytes, entry)
        qp = MrcQueuePair(self, qpn, entry, settings, pd, send, recv, self.now, ev_profile)
        if ev_profile is not None:
            ev_profile.users += 1
        qp.cc_profile = cc_profile if isinstance(cc_profile, int) else None
        self.peers[entry.address_bytes] = entry
        entry.qps += 1
        return qp

    def _entry(self, peer: str) -> Peer:
        """The peer with this address: the one that is known, else a new one, which joins the others with its QP."""
        try:
            known = self.peers.get(srv6.to_bytes(srv6.from_text(peer)))
        except ValueError:
            known = None
        if known is None or not known.is_of(self.config):
            return Peer(self.config, peer, self.rng, self.codec, self.own)
        known.draw_again(self.config, self.rng)
        return known

    def _profiles(self, attributes: dict[str, Any]) -> EvProfile | None:
        """Replace the numbers of Ctl's profiles in `attributes` by what they stand for."""
        profile: EvProfile | None = None
        if isinstance(attributes.get("ev_profile"), int):
            profile = self.profiles.ev(attributes.pop("ev_profile"))
            if profile.state is not EvProfileState.ONLINE:
                raise VerbsError(
                    "EINVAL", f"EV profile {profile.number} is {profile.state.value}; bring it ONLINE first"
                )
        if isinstance(attributes.get("cc_profile"), int):
            attributes["cc_profile"], attributes["cc_config"] = self.profiles.cc(attributes["cc_profile"])
        elif "cc_profile" in attributes:  # settings of the node config are those of its own profile
            attributes.setdefault("cc_config", {})
        return profile

    def destroy_qp(self, number: int) -> None:
        """End a QP; what is outstanding is dropped without completion."""
        qp = self.qp(number)
        super().destroy_qp(number)
        qp.peer.qps -= 1
        if qp.ev_profile is not None:
            qp.ev_profile.users -= 1
        self.forget(qp)
        if not qp.peer.qps:
            del self.peers[qp.peer.address_bytes]
