"""The verbs of one host: protection domains, memory regions, completion queues, QPs and work requests.

Names and meaning follow the OCP headers; a call that they refuse raises VerbsError with their errno. Only
RDMA_WRITE and RDMA_WRITE_WITH_IMM can be posted.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from hosts.mrc.control import ControlItem
from hosts.mrc.ctl import Ctl
from hosts.mrc.errors import VerbsError
from hosts.mrc.evprofile import EvProfile, ProfileState
from hosts.mrc.peer import Peer
from hosts.mrc.psn import PSN_MASK
from hosts.mrc.qp import QueuePair
from hosts.mrc.sent import Message
from hosts.mrc.settings import qp_settings
from hosts.mrc.states import QpState, check_transition
from hosts.resources import FIRST_QPN, MAX_CQE, MAX_MESSAGE, MAX_QP, MAX_RECV_WR, MAX_SEND_WR, Resources, check_request
from topo import srv6
from topo.nodeconfig import MPR_UNIT, NodeConfig


class Verbs(Resources):
    """Tables of a host and the calls on them. The packet side is in Endpoint."""

    ctl: Ctl
    urgent: bool

    def __init__(self, config: NodeConfig, rng: random.Random, log: Callable[[dict[str, Any]], None]) -> None:
        super().__init__(config, rng, log)
        self.peers: dict[bytes, Peer] = {}
        self.qps: dict[int, QueuePair] = {}
        self._next_qpn = FIRST_QPN

    # --- hooks that the packet side fills in ------------------------------------------------------

    def wake(self, qp: QueuePair) -> None:
        """The QP may have something to send."""
        raise NotImplementedError

    def send_control(self, item: ControlItem, peer: Peer, port: int | None = None) -> None:
        """Queue a control packet."""
        raise NotImplementedError

    def plane_up(self, plane: int) -> bool:
        """Whether the local port of a plane is up."""
        raise NotImplementedError

    def connected(self, qp: QueuePair) -> None:
        """A QP reached RTR: its peer is known now."""
        raise NotImplementedError

    def forget(self, qp: QueuePair) -> None:
        """A QP is gone."""
        raise NotImplementedError

    # --- device -----------------------------------------------------------------------------------

    def query_device(self) -> dict[str, Any]:
        """Limits and capabilities."""
        config = self.config
        return {
            "address": config.host.address,
            "ports": len(config.ports),
            "path_mtu": config.path_mtu,
            "max_qp": MAX_QP,
            "max_cqe": MAX_CQE,
            "max_send_wr": MAX_SEND_WR,
            "max_recv_wr": MAX_RECV_WR,
            "max_message": MAX_MESSAGE,
            "mpr_unit": MPR_UNIT,
            "max_mpr": 255,
            "max_wimm": 0xFFFF,
            "capabilities": ["TRIM_NACK", "DYNAMIC_MPR", "SVC_TIME"],
            "opcodes": ["RDMA_WRITE", "RDMA_WRITE_WITH_IMM"],
            "cc_profiles": ["none", "uet-1.0-nscc"],
            "ev_profiles": [profile.name for profile in config.ev_profiles],
        }

    # --- QPs --------------------------------------------------------------------------------------

    def create_qp(
        self,
        peer: str,
        pd: int | None = None,
        send_cq: int | None = None,
        recv_cq: int | None = None,
        **attributes: Any,
    ) -> int:
        """A QP towards the host with this inner address, in RESET; returns its number.

        `attributes` override the node config: mpr, wimm, timeout_exponent, … (see QpSettings). `ev_profile` is a name
        of the node config or the number of a profile made by Ctl, and so is `cc_profile`.
        """
        if len(self.qps) >= MAX_QP:
            raise VerbsError("ENOMEM", f"a host has at most {MAX_QP} QPs; destroy one first")
        pd = self.default_pd if pd is None else pd
        self.memory.check_pd(pd)
        send = self._cq(self.default_cq if send_cq is None else send_cq)
        recv = self._cq(self.default_cq if recv_cq is None else recv_cq)
        entry = Peer(self.config, peer, self.rng)
        if entry.address == srv6.from_text(self.config.host.address):
            raise VerbsError("EINVAL", f"{peer} is this host itself; a QP needs another one")
        cc_profile = attributes.get("cc_profile")
        ev_profile, cc_config = self._profiles(attributes)
        settings = qp_settings(self.config, entry.template, **attributes)
        entry = self.peers.get(entry.address_bytes, entry)
        qp = QueuePair(self, self._next_qpn, entry, settings, pd, send, recv, self.now, ev_profile, cc_config)
        if ev_profile is not None:
            ev_profile.users += 1
        qp.cc_profile = cc_profile if isinstance(cc_profile, int) else None
        self._next_qpn += 1
        self.qps[qp.qpn] = qp
        self.peers[entry.address_bytes] = entry
        entry.qps += 1
        self.memory.use_pd(pd, +1)
        send.users += 1
        recv.users += 1
        qp.set_state(QpState.RESET)
        return qp.qpn

    def _profiles(self, attributes: dict[str, Any]) -> tuple[EvProfile | None, dict[str, Any]]:
        """Replace the numbers of Ctl's profiles in `attributes` by what they stand for."""
        profile: EvProfile | None = None
        cc_config: dict[str, Any] = {}
        if isinstance(attributes.get("ev_profile"), int):
            profile = self.ctl.ev_profile(attributes.pop("ev_profile"))
            if profile.state is not ProfileState.ONLINE:
                raise VerbsError(
                    "EINVAL", f"EV profile {profile.number} is {profile.state.value}; bring it ONLINE first"
                )
        if isinstance(attributes.get("cc_profile"), int):
            attributes["cc_profile"], cc_config = self.ctl.cc_profile(attributes["cc_profile"])
        return profile, cc_config

    def qp(self, number: int) -> QueuePair:
        """EINVAL if there is no such QP."""
        try:
            return self.qps[number]
        except KeyError:
            raise VerbsError("EINVAL", f"there is no QP {number}") from None

    def local_info(self, number: int) -> dict[str, Any]:
        """What the peer must be told to connect: address, qpn, first PSN, MPR and WIMM of this side."""
        qp = self.qp(number)
        if qp.first_psn is None:
            qp.first_psn = self.rng.getrandbits(24)
        return {
            "address": self.config.host.address,
            "qpn": qp.qpn,
            "psn": qp.first_psn,
            "mpr": qp.settings.mpr,
            "wimm": qp.settings.wimm,
        }

    def modify_qp(self, number: int, state: QpState | str, **attributes: Any) -> None:
        """One step of the state machine, see states.TRANSITIONS for what each needs.

        RTR: qpn, psn (the peer's first), mpr, wimm of the peer. RTS: psn (one's own first).
        """
        qp = self.qp(number)
        try:
            target = QpState(state)
        except ValueError:
            raise VerbsError("EINVAL", f"there is no QP state {state!r}") from None
        check_transition(qp.state, target, attributes)
        for name, low, high in (("qpn", 0, PSN_MASK), ("psn", 0, PSN_MASK), ("mpr", 1, 255), ("wimm", 1, 0xFFFF)):
            if name in attributes and not low <= attributes[name] <= high:
                raise VerbsError("EINVAL", f"{name} {attributes[name]} is outside {low}…{high}")
        if target is QpState.ERROR:
            qp.fail("WR_FLUSH_ERR", "set by the application")
            return
        if target is QpState.RESET:
            qp.reset(self.now)
            return
        if target is QpState.RTR:
            qp.ready_to_receive(attributes["qpn"], attributes["psn"], attributes["mpr"], attributes["wimm"])
        elif target is QpState.RTS and qp.state is QpState.RTR:
            qp.ready_to_send(attributes["psn"])
        qp.set_state(target)
        if target is QpState.RTR:
            self.connected(qp)

    def connect(self, number: int, remote: dict[str, Any]) -> None:
        """RESET → INIT → RTR → RTS with the peer's `local_info`."""
        qp = self.qp(number)
        missing = sorted({"qpn", "psn", "mpr", "wimm"} - set(remote))
        if missing:
            raise VerbsError("EINVAL", f"the peer's side lacks {', '.join(missing)}; pass what its local_info returned")
        own = self.local_info(number)
        self.modify_qp(qp.qpn, QpState.INIT)
        self.modify_qp(qp.qpn, QpState.RTR, **{name: remote[name] for name in ("qpn", "psn", "mpr", "wimm")})
        self.modify_qp(qp.qpn, QpState.RTS, psn=own["psn"])

    def query_qp(self, number: int) -> dict[str, Any]:
        """State, attributes and counters of a QP."""
        qp = self.qp(number)
        return {
            **self.local_info(number),
            **qp.snapshot(),
            "remote_qpn": qp.remote_qpn,
            "pd": qp.pd,
            "cc_profile": qp.settings.cc_profile,
        }

    def destroy_qp(self, number: int) -> None:
        """End a QP; what is outstanding is dropped without completion."""
        qp = self.qp(number)
        qp.close()
        del self.qps[number]
        self.memory.use_pd(qp.pd, -1)
        qp.send_cq.users -= 1
        qp.recv_cq.users -= 1
        qp.peer.qps -= 1
        if qp.ev_profile is not None:
            qp.ev_profile.users -= 1
        self.forget(qp)
        if not qp.peer.qps:
            del self.peers[qp.peer.address_bytes]

    # --- work requests ----------------------------------------------------------------------------

    def post_send(
        self,
        number: int,
        wr_id: int,
        opcode: str,
        lkey: int,
        offset: int,
        length: int,
        remote_va: int,
        rkey: int,
        imm: int | None = None,
    ) -> None:
        """Post RDMA_WRITE or RDMA_WRITE_WITH_IMM of `length` bytes at `offset` of the region `lkey`."""
        qp = self.qp(number)
        check_request("MRC", opcode, length, remote_va, imm)
        region, view = self.memory.local(lkey, offset, length, qp.pd)
        if qp.state is QpState.ERROR:
            message = Message(wr_id, opcode, None, view, remote_va, rkey, None, 1)
            qp.complete(message, "WR_FLUSH_ERR")
            return
        if qp.state is not QpState.RTS:
            raise VerbsError("EINVAL", f"QP {number} is in {qp.state.value}; bring it to RTS before posting")
        requestor = qp.requestor
        if len(requestor.incomplete) >= MAX_SEND_WR:
            raise VerbsError(
                "ENOMEM", f"QP {number} has {MAX_SEND_WR} work requests outstanding; poll completions first"
            )
        if imm is not None and requestor.wimm_in_flight >= qp.remote_wimm:
            raise VerbsError(
                "ENOMEM", f"QP {number} has {qp.remote_wimm} immediates outstanding, as many as the peer takes"
            )
        region.users += 1
        packets = max(1, -(-length // qp.settings.path_mtu))
        requestor.post(Message(wr_id, opcode, region, view, remote_va, rkey, imm, packets))
        self.wake(qp)

    def post_recv(self, number: int, wr_id: int) -> None:
        """Post a receive for one immediate."""
        qp = self.qp(number)
        if qp.state is QpState.RESET:
            raise VerbsError("EINVAL", f"QP {number} is in RESET; bring it to INIT before posting receives")
        if qp.state is QpState.ERROR:
            qp.complete_receive(wr_id, 0, 0, "WR_FLUSH_ERR")
            return
        if len(qp.responder.receives) >= MAX_RECV_WR:
            raise VerbsError("ENOMEM", f"QP {number} has {MAX_RECV_WR} receives posted")
        qp.responder.receives.append(wr_id)
