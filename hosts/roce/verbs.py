"""The verbs of a RoCEv2 host: what its QPs are. The calls are those of MRC, so that one agent serves both."""

from __future__ import annotations

from typing import Any

from mrclab.hosts.rdma import endpoint as rc
from mrclab.hosts.rdma.completion import CompletionQueue
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.roce.cc import CONTROLS
from mrclab.hosts.roce.codec import RoceCodec
from mrclab.hosts.roce.port import RocePort
from mrclab.hosts.roce.qp import ControlItem, RoceQueuePair
from mrclab.hosts.roce.settings import qp_settings
from mrclab.topo import srv6


class RoceVerbs(rc.Hosted[RocePort, RoceQueuePair]):
    """Tables of a host and the calls on them. The packet side is in Endpoint."""

    transport = "the lab's RoCE"
    codec: RoceCodec

    def send_control(self, port: int, item: ControlItem) -> None:
        """Queue a control packet; the packet side fills it in."""
        raise NotImplementedError

    def query_device(self) -> dict[str, Any]:
        """Limits and capabilities."""
        own = {"transport": "roce", "capabilities": [], "cc_profiles": list(CONTROLS.profiles), "ev_profiles": []}
        return super().query_device() | own

    def _make_qp(
        self, qpn: int, peer: str, pd: int, send: CompletionQueue, recv: CompletionQueue, attributes: dict[str, Any]
    ) -> RoceQueuePair:
        """`attributes` are those of QpSettings; `port` and `udp_sport` choose the QP's path."""
        try:
            template = self.config.template_for(peer)
        except (KeyError, ValueError):
            raise VerbsError("EINVAL", f"{peer} is no host address that the node config has a template for") from None
        address = srv6.from_text(peer)
        self._not_self(peer, address)
        settings = qp_settings(self.config, template, **attributes)
        return RoceQueuePair(self, qpn, srv6.text(address), settings, pd, send, recv)

    def query_qp(self, number: int) -> dict[str, Any]:
        """State, attributes and counters of a QP."""
        qp = self.qp(number)
        return {**super().query_qp(number), "port": qp.port.number, "udp_sport": qp.sport}
