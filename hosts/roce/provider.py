"""RoCEv2's part of the verbs: makes QPs. The calls are those of MRC, so that one agent serves both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.rdma.qp import QpInit
from mrclab.hosts.rdma.verbs import QpProvider
from mrclab.hosts.roce.cc import CONTROLS
from mrclab.hosts.roce.qp import RoceQueuePair
from mrclab.hosts.roce.settings import qp_settings
from mrclab.topo import srv6

if TYPE_CHECKING:
    from mrclab.hosts.roce.endpoint import RoceEndpoint


class RoceProvider(QpProvider[RoceQueuePair]):
    """QPs of one endpoint."""

    transport: ClassVar[str] = "the lab's RoCE"

    def __init__(self, endpoint: RoceEndpoint) -> None:
        self._endpoint = endpoint

    @override
    def query_device(self) -> dict[str, Any]:
        return {"transport": "roce", "capabilities": [], "cc_profiles": list(CONTROLS.profiles), "ev_profiles": []}

    @override
    def make_qp(self, init: QpInit, peer: str, attributes: dict[str, Any], now: float) -> RoceQueuePair:
        """`attributes` are those of QpSettings; `port` and `udp_sport` choose the QP's path."""
        endpoint = self._endpoint
        try:
            template = endpoint.config.template_for(peer)
        except (KeyError, ValueError):
            raise VerbsError(
                "EINVAL", f"{peer} is not the address of a host with a template in the node config"
            ) from None
        address = srv6.from_text(peer)
        endpoint.verbs.check_remote(peer, address)
        settings = qp_settings(endpoint.config, template, **attributes)
        return RoceQueuePair(endpoint, init, address, settings, now)
