"""MRC's side of the verbs: makes QPs with their profiles and peers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from mrclab.hosts.mrc.cc import CONTROLS
from mrclab.hosts.mrc.evs.evprofile import EvProfile, ProfileState
from mrclab.hosts.mrc.qp import MrcQueuePair
from mrclab.hosts.mrc.settings import qp_settings
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.rdma.qp import QpInit
from mrclab.hosts.rdma.verbs import QpProvider

if TYPE_CHECKING:
    from mrclab.hosts.mrc.endpoint import MrcEndpoint


class MrcProvider(QpProvider[MrcQueuePair]):
    """QPs of one endpoint."""

    transport: ClassVar[str] = "MRC"
    remote_attributes: ClassVar[tuple[str, ...]] = ("qpn", "psn", "mpr", "wimm")

    def __init__(self, endpoint: MrcEndpoint) -> None:
        self._endpoint = endpoint

    @override
    def query_device(self) -> dict[str, Any]:
        return {
            "capabilities": ["TRIM_NACK", "DYNAMIC_MPR", "SVC_TIME"],
            "cc_profiles": list(CONTROLS.profiles),
            "ev_profiles": [profile.name for profile in self._endpoint.config.ev_profiles],
        }

    @override
    def make_qp(self, init: QpInit, peer: str, attributes: dict[str, Any], now: float) -> MrcQueuePair:
        """Make a QP. `attributes` are those of QpSettings: mpr, wimm, timeout_exponent, …

        `ev_profile` is a name of the node config or the number of a profile made by Ctl; so is `cc_profile`.
        """
        endpoint = self._endpoint
        entry = endpoint.peers.for_qp(peer)
        endpoint.verbs.check_remote(peer, entry.address)
        cc_profile = attributes.get("cc_profile")
        ev_profile = self._replace_numbers(attributes)
        config, template = endpoint.config, entry.template
        own = endpoint.peers.own
        settings = qp_settings(config, template, **attributes) if attributes else own.usual_settings(config, template)
        entry = endpoint.peers.with_qps.get(entry.address_bytes, entry)
        qp = MrcQueuePair(endpoint, init, entry, settings, now, ev_profile)
        if ev_profile is not None:
            ev_profile.users += 1
        qp.cc_profile = cc_profile if isinstance(cc_profile, int) else None
        endpoint.peers.enter(entry)
        return qp

    def _replace_numbers(self, attributes: dict[str, Any]) -> EvProfile | None:
        """Replace the numbers of Ctl's profiles in `attributes` by their settings; return the EV profile."""
        ctl = self._endpoint.ctl
        profile: EvProfile | None = None
        if isinstance(attributes.get("ev_profile"), int):
            profile = ctl.ev_profile(attributes.pop("ev_profile"))
            if profile.state is not ProfileState.ONLINE:
                raise VerbsError(
                    "EINVAL", f"EV profile {profile.number} is {profile.state.name}; bring it ONLINE first"
                )
        if isinstance(attributes.get("cc_profile"), int):
            attributes["cc_profile"], attributes["cc_config"] = ctl.cc_profile(attributes["cc_profile"])
        elif "cc_profile" in attributes:  # settings of the node config are those of its own profile
            attributes.setdefault("cc_config", {})
        return profile

    @override
    def connected(self, qp: MrcQueuePair, now: float) -> None:
        """Notify the peer of ports that are down here, and query it about ports that it reported down."""
        endpoint = self._endpoint
        endpoint.query_ports(qp.peer, now, at_once=True)
        if qp.settings.port_status_update and endpoint.port_mask != endpoint.peers.own.planes:
            endpoint.ops.announce_ports(qp.peer, now)

    @override
    def destroyed(self, qp: MrcQueuePair) -> None:
        endpoint, peer = self._endpoint, qp.peer
        if qp.ev_profile is not None:
            qp.ev_profile.users -= 1
        endpoint.scheduler.remove(qp)
        endpoint.peers.leave(peer)
        if not peer.qps:
            endpoint.ops.forget(peer)
            endpoint.credits.forget(peer)
            endpoint.control.drop_peer(peer)
