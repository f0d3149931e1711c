"""A program's queue pair: its states by the verbs API, and the pump from its rings into the transport.

The transport's QP is made at RTR, when the peer is known; until then there is a number and modify_qp's attributes.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from mrclab.hosts.agent.provider import wire
from mrclab.hosts.agent.provider.control import ProgramCtl, required
from mrclab.hosts.agent.provider.memory import gather
from mrclab.hosts.agent.provider.rings import QpRings, SharedQueue
from mrclab.hosts.agent.provider.wire import IbvQpState, M, V
from mrclab.hosts.mrc.endpoint import MrcEndpoint
from mrclab.hosts.mrc.qp import MrcQueuePair
from mrclab.hosts.nic.interface import Loop
from mrclab.hosts.rdma.completion import WorkCompletion
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.rdma.memory import MemoryRegion
from mrclab.hosts.rdma.verbs import Verbs, check_request
from mrclab.hosts.transports import Endpoint

# attributes that verbs programs often set and MRC does not have: accepted without effect
_IGNORED: Final = (
    V.PKEY_INDEX | V.PORT | V.TIMEOUT | V.RETRY_CNT | V.RNR_RETRY | V.MIN_RNR_TIMER | V.MAX_QP_RD_ATOMIC
    | V.MAX_DEST_RD_ATOMIC
)  # fmt: skip
_IN_EVERY_STEP: Final = V.STATE | V.CUR_STATE | _IGNORED
_PROFILES: Final = M.HINT | M.EV_PROFILE | M.CC_PROFILE | M.VENDOR_CFG
_WINDOWS: Final = M.MAX_WIMM | M.MPR | M.CAP | M.VENDOR_CFG | M.HINT


class Step(NamedTuple):
    """A transition: its required and optional attributes."""

    needs: V
    verbs: V
    mrc: M


STEPS: Final = {
    (IbvQpState.RESET, IbvQpState.INIT): Step(V(0), V.ACCESS_FLAGS, _PROFILES),
    (IbvQpState.INIT, IbvQpState.INIT): Step(V(0), V.ACCESS_FLAGS, _PROFILES),
    (IbvQpState.INIT, IbvQpState.RTR): Step(
        V.AV | V.PATH_MTU | V.DEST_QPN | V.RQ_PSN, V.ACCESS_FLAGS, _WINDOWS | M.MAX_WIMM_DEST | M.MPR_DEST
    ),
    (IbvQpState.RTR, IbvQpState.RTS): Step(V.SQ_PSN, V.ACCESS_FLAGS, _WINDOWS | M.RETRY_CNT | M.TIMEOUT),
    (IbvQpState.RTS, IbvQpState.RTS): Step(V(0), V.ACCESS_FLAGS, M.VENDOR_CFG | M.HINT),
}

_CAP_NO_TRIM, _CAP_DYNAMIC_MPR, _CAP_NO_SERVICE_TIME = 1, 2, 4
_LIMITS: Final = {
    "max_wimm": (M.MAX_WIMM, 1, 0xFFFF),
    "max_wimm_dest": (M.MAX_WIMM_DEST, 1, 0xFFFF),
    "mpr": (M.MPR, 1, 255),
    "mpr_dest": (M.MPR_DEST, 1, 255),
    "timeout": (M.TIMEOUT, 0, 24),
    "linear_cnt": (M.RETRY_CNT, 0, 7),
    "exp_cnt": (M.RETRY_CNT, 0, 25),
    "cap": (M.CAP, 0, _CAP_NO_TRIM | _CAP_DYNAMIC_MPR | _CAP_NO_SERVICE_TIME),
    "ev_profile": (M.EV_PROFILE, 0, (1 << 64) - 1),
    "cc_profile": (M.CC_PROFILE, 0, (1 << 64) - 1),
}
NUMBERS: Final = (
    "qp", "vmask", "mask", "state", "cur_state", "path_mtu", "access", "dest_qpn", "rq_psn", "sq_psn", "max_wimm",
    "max_wimm_dest", "mpr", "mpr_dest", "timeout", "ev_profile", "cc_profile", "linear_cnt", "exp_cnt", "cap", "port",
)  # fmt: skip
_VERBS_LIMITS: Final = {"path_mtu": (V.PATH_MTU, 1, 5), "dest_qpn": (V.DEST_QPN, 0, 0xFFFFFF),
                        "rq_psn": (V.RQ_PSN, 0, 0xFFFFFF), "sq_psn": (V.SQ_PSN, 0, 0xFFFFFF),
                        "access": (V.ACCESS_FLAGS, 0, 0xFFFFFFFF)}  # fmt: skip


class ProgramQp:
    """One QP of a program. `endpoint` is the host's transport."""

    def __init__(
        self, endpoint: Endpoint, control: ProgramCtl | None, rings: QpRings, pd: int, send: SharedQueue,
        recv: SharedQueue, signal_all: bool, loop: Loop,
    ) -> None:  # fmt: skip
        self._endpoint, self._control, self.rings = endpoint, control, rings
        self._verbs: Verbs[Any] = endpoint.verbs
        self.number = endpoint.verbs.reserve_qpn()
        self.pd, self.queues = pd, (send, recv)
        self._send, self._recv = send, recv
        self._signal_all, self._loop = signal_all, loop
        self.state = IbvQpState.RESET
        self.made = False  # the transport has a QP with this number
        self._sent: deque[tuple[int, bool]] = deque()  # wr_id, signalled; posted to the transport
        self._blocked = False  # the next request waits for earlier ones
        self._error_requested = False  # the program requested ERROR
        self._destroyed = False
        self._set: dict[str, int] = {}
        self._peer = b""
        self._enter(IbvQpState.RESET)

    # --- states -------------------------------------------------------------------------------------------------------

    def modify(self, given: Mapping[str, int], gid: bytes) -> None:
        """ibv_modify_qp with MRC's attributes; EINVAL, without any change, for one that is invalid in this step."""
        vmask, mask = V(given["vmask"]), M(given["mask"])
        if vmask & V.CUR_STATE and given["cur_state"] != self.state:
            raise VerbsError("EINVAL", f"QP {self.number} is in {self.state.name}, not in state {given['cur_state']}")
        target = self._target(given["state"]) if vmask & V.STATE else self.state
        if vmask & V.STATE and target in {IbvQpState.RESET, IbvQpState.ERR}:
            if mask or vmask & ~(V.STATE | V.CUR_STATE):
                raise VerbsError("EINVAL", f"the step to {target.name} takes no attributes")
            self._end(target)
            return
        self._check(target, vmask, mask)
        requested = self._set | self._chosen(_VERBS_LIMITS, vmask, given) | self._chosen(_LIMITS, mask, given)
        peer = gid if vmask & V.AV else self._peer
        if mask & M.EV_PROFILE and requested["ev_profile"]:
            required(self._control).evs.online(requested["ev_profile"])
        if mask & M.CC_PROFILE and requested["cc_profile"]:
            required(self._control).ccs.online(requested["cc_profile"])
        if (self.state, target) == (IbvQpState.INIT, IbvQpState.RTR):
            self._make(requested, peer)
        elif (self.state, target) == (IbvQpState.RTR, IbvQpState.RTS):
            self._start(requested, mask)
        self._set, self._peer = requested, peer
        self._apply_access_flags()
        self._enter(target)
        self.pump()

    @staticmethod
    def _target(number: int) -> IbvQpState:
        try:
            return IbvQpState(number)
        except ValueError:
            raise VerbsError("EINVAL", f"there is no QP state {number} in MRC") from None

    def _check(self, target: IbvQpState, vmask: V, mask: M) -> None:
        step = STEPS.get((self.state, target))
        if step is None:
            raise VerbsError("EINVAL", f"a QP cannot go from {self.state.name} to {target.name}")
        if step.needs & ~vmask:
            raise VerbsError("EINVAL", f"the step to {target.name} needs {(step.needs & ~vmask)!r}")
        extra = vmask & ~(_IN_EVERY_STEP | step.needs | step.verbs)
        if extra or mask & ~step.mrc:
            raise VerbsError("EINVAL", f"the step to {target.name} does not take {extra or mask & ~step.mrc!r}")

    @staticmethod
    def _chosen(limits: Mapping[str, tuple[int, int, int]], mask: int, given: Mapping[str, int]) -> dict[str, int]:
        """Return the attributes that a mask names; EINVAL for one outside its limits."""
        chosen = {name: given[name] for name, (bit, _, _) in limits.items() if mask & bit}
        for name, value in chosen.items():
            _, low, high = limits[name]
            if not low <= value <= high:
                raise VerbsError("EINVAL", f"{name} {value} is outside {low}…{high}")
        return chosen

    def _make(self, requested: Mapping[str, int], peer: bytes) -> None:
        """INIT to RTR: make the transport's QP."""
        path_mtu = 128 << requested["path_mtu"]
        verbs, number, now = self._verbs, self.number, self._loop.now
        is_mrc = isinstance(self._endpoint, MrcEndpoint)
        address = str(ipaddress.IPv6Address(peer))
        attributes, theirs = self._windows(requested, path_mtu) if is_mrc else ({}, {})
        verbs.create_qp(address, now, self.pd, self._send.number, self._recv.number, number, **attributes)
        self.made = True
        try:
            verbs.modify_qp(number, "INIT", now)
            verbs.modify_qp(number, "RTR", now, qpn=requested["dest_qpn"], psn=requested["rq_psn"], **theirs)
        except VerbsError:
            self._destroy_qp()
            raise
        if is_mrc and "mpr_dest" in requested:
            verbs.qp(number).responder.window = requested["mpr_dest"] * 128 - 1

    def _windows(self, requested: Mapping[str, int], path_mtu: int) -> tuple[dict[str, Any], dict[str, int]]:
        """Return the attributes of MRC alone: of the QP, and of its peer's limits."""
        attributes: dict[str, Any] = {"path_mtu": path_mtu}
        if path_mtu > self._endpoint.config.path_mtu:
            raise VerbsError("EINVAL", f"path MTU {path_mtu} is more than the port's {self._endpoint.config.path_mtu}")
        default = self._endpoint.config.transport
        attributes["mpr"] = max(requested.get("mpr_dest", default.mpr), requested.get("mpr", 1))
        attributes["wimm"] = max(requested.get("max_wimm_dest", default.wimm), requested.get("max_wimm", 1))
        if "cap" in requested:
            attributes["dynamic_mpr"] = bool(requested["cap"] & _CAP_DYNAMIC_MPR)
            if requested["cap"] & _CAP_NO_TRIM:
                attributes["trimming"] = False
        ctl = required(self._control)
        profile = ctl.evs.online(requested.get("ev_profile", 0))
        control = ctl.ccs.online(requested.get("cc_profile", 0))
        attributes |= {} if profile is None else {"ev_profile": profile}
        attributes |= {} if control is None else {"cc_profile": control}
        return attributes, {"mpr": requested.get("mpr", default.mpr), "wimm": requested.get("max_wimm", default.wimm)}

    def _start(self, requested: Mapping[str, int], mask: M) -> None:
        """RTR to RTS: set this side's attributes."""
        qp = self._verbs.qp(self.number)
        default = self._endpoint.config.transport
        if isinstance(qp, MrcQueuePair) and mask & (M.MPR | M.MAX_WIMM | M.TIMEOUT | M.RETRY_CNT):
            mpr, wimm = requested.get("mpr", default.mpr), requested.get("max_wimm", default.wimm)
            settings = dataclasses.replace(
                qp.settings,
                mpr=max(mpr, qp.settings.mpr),
                wimm=max(wimm, qp.settings.wimm),
                timeout_exponent=requested.get("timeout", qp.settings.timeout_exponent),
                retry_linear=requested.get("linear_cnt", qp.settings.retry_linear),
                retry_exponential=requested.get("exp_cnt", qp.settings.retry_exponential),
            )
            qp.retune(settings, {"mpr": mpr, "wimm": wimm})
        self._verbs.modify_qp(self.number, "RTS", self._loop.now, psn=requested["sq_psn"])

    def _apply_access_flags(self) -> None:
        """Access flags without REMOTE_WRITE refuse all writes; without any access flags, writes are allowed."""
        if self.made:
            allowed = self._set.get("access", wire.ACCESS_REMOTE_WRITE) & wire.ACCESS_REMOTE_WRITE
            self._verbs.qp(self.number).writable_pd = self.pd if allowed else 0

    def _end(self, target: IbvQpState) -> None:
        if target is IbvQpState.RESET:
            self._destroy_qp()
            self._sent.clear()
            self._blocked = False
            self.rings.drop()
            self._set, self._peer = {}, b""
            self._enter(target)
            return
        if self.made:
            self._error_requested = True
            self._verbs.modify_qp(self.number, "ERROR", self._loop.now)
            self._error_requested = False
        self._enter(target)
        self.pump()

    def failed(self) -> bool:
        """The transport put the QP into ERROR; return False if the program requested that.

        The transport flushes its requests, the pump those in the rings.
        """
        self._enter(IbvQpState.ERR)
        self._loop.call_soon(self._pump_later)
        return not self._error_requested

    def _enter(self, state: IbvQpState) -> None:
        self.state = state
        self.rings.set_state(state)

    def _destroy_qp(self) -> None:
        if self.made and self.number in self._verbs.qps:  # other operations of the agent can destroy it, too
            self._verbs.destroy_qp(self.number, self._loop.now, keep_qpn=True)
        self.made = False

    def query(self) -> tuple[list[int], bytes]:
        """Return numbers in the order of NUMBERS, and the peer's GID."""
        default = self._endpoint.config.transport
        found = {
            "path_mtu": 1, "access": wire.ACCESS_REMOTE_WRITE | wire.ACCESS_LOCAL_WRITE, "max_wimm": default.wimm,
            "max_wimm_dest": default.wimm, "mpr": default.mpr, "mpr_dest": default.mpr,
            "timeout": default.timeout_exponent, "linear_cnt": default.retry_linear,
            "exp_cnt": default.retry_exponential,
        } | self._set | {"qp": self.number, "state": self.state, "cur_state": self.state, "port": 1}  # fmt: skip
        return [int(found.get(name, 0)) for name in NUMBERS], self._peer

    def silence(self) -> None:
        """Stop sending anything to the peer."""
        qp = self._verbs.qps.get(self.number)  # None: not made yet, or other operations of the agent destroyed it
        if qp is not None:
            qp.owner_died = True

    def destroy(self) -> None:
        """Destroy the QP with everything outstanding."""
        self._destroy_qp()
        self._verbs.release_qpn(self.number)
        self._destroyed = True
        self.rings.close()

    # --- requests -----------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Post the program's requests to the transport, as far as it accepts them."""
        rings = self.rings
        try:
            for _ in range(rings.receives.waiting()):
                if not self._receive():
                    break
            for _ in range(rings.sends.waiting()):
                if not self._send_next():
                    break
        except VerbsError as error:
            self.rings.drop()
            self._fail("LOC_QP_OP_ERR", str(error))

    def _pump_later(self, _now: float) -> None:
        if not self._destroyed:
            self.pump()

    def _receive(self) -> bool:
        """Post one receive; False where the QP is not connected yet."""
        if self.state is IbvQpState.ERR and not self.made:
            wr_id = self.rings.take_receive()
            entry = self._entry(wr_id, "WR_FLUSH_ERR", wire.WC_RECV_WITH_IMM, self.rings.receives.count_finished())
            self._add(self._recv, entry)
            return True
        if not self.made:
            return False
        self._verbs.post_recv(self.number, self.rings.take_receive(), self._loop.now)
        return True

    def _send_next(self) -> bool:
        """Handle one request; return False if it has to wait."""
        if self.state is not IbvQpState.RTS and self.state is not IbvQpState.ERR:
            return False
        slot = self.rings.next_send()
        wr_id, code, flags, remote, rkey, imm, parts, inline = wire.SEND_HEAD.unpack_from(slot)
        opcode = wire.OPCODES.get(code, "RDMA_WRITE")
        signalled = self._signal_all or bool(flags & wire.SIGNALED)
        if self.state is IbvQpState.ERR:
            self.rings.sends.take()
            self._put(wr_id, "WR_FLUSH_ERR")
            return True
        number = int.from_bytes(imm, "big") if code == wire.WRITE_WITH_IMM else None
        try:
            regions, view = self._bytes_of(slot, flags, parts, inline)
            if code not in wire.OPCODES:
                raise VerbsError("EINVAL", f"there is no operation {code}")
            check_request(self._verbs.transport, opcode, len(view), remote, number)
        except VerbsError as error:
            return self._refuse(wr_id, str(error))
        self._sent.append((wr_id, signalled))
        try:
            self._verbs.post_checked(self.number, wr_id, opcode, regions, view, remote, rkey, number, self._loop.now)
        except VerbsError as error:
            self._sent.pop()
            if error.code != "ENOMEM":
                raise
            self._blocked = True  # the peer's limit of outstanding immediates is reached
            return False
        self.rings.sends.take()
        return True

    def _bytes_of(self, slot: bytes, flags: int, parts: int, inline: int) -> tuple[tuple[MemoryRegion, ...], Any]:
        """Return regions and view of a request's data; EINVAL for data that the program may not send."""
        if flags & wire.INLINE:
            if inline > wire.MAX_INLINE:
                raise VerbsError("EINVAL", f"{inline} bytes inline are more than {wire.MAX_INLINE}")
            return (), memoryview(slot)[wire.SEND_DATA : wire.SEND_DATA + inline]
        if parts > wire.MAX_SGE:
            raise VerbsError("EINVAL", f"a scatter list of {parts} entries is longer than {wire.MAX_SGE}")
        memory = self._verbs.memory
        found = []
        for place in range(parts):
            address, length, lkey = wire.SGE.unpack_from(slot, wire.SEND_DATA + place * wire.SGE.size)
            if length:
                found.append(memory.local(lkey, address - memory.region(lkey).va, length, self.pd))
        return gather(found)

    def _refuse(self, wr_id: int, reason: str) -> bool:
        """Complete an invalid request with an error, after earlier ones; the QP goes to ERROR."""
        if self._sent:
            self._blocked = True
            return False
        self.rings.sends.take()
        self._put(wr_id, "LOC_PROT_ERR")
        self._fail("WR_FLUSH_ERR", reason)
        return True

    def _fail(self, status: str, reason: str) -> None:
        if self.made and self.number in self._verbs.qps:
            self._verbs.qp(self.number).fail(status, reason, self._loop.now, at_fault=False)
        self._enter(IbvQpState.ERR)

    # --- completions --------------------------------------------------------------------------------------------------

    def queue_entry(self, done: WorkCompletion) -> bytes | None:
        """Return the queue entry of a completion; None for an unsignalled successful request."""
        if done.opcode == "RECV_RDMA_WITH_IMM":
            imm = (done.imm or 0).to_bytes(4, "big")
            finished = self.rings.receives.count_finished()
            return self._entry(done.wr_id, done.status, wire.WC_RECV_WITH_IMM, finished, done.byte_len, imm)
        finished = self.rings.sends.count_finished()
        wr_id, signalled = self._sent.popleft()
        if self._blocked:
            self._blocked = False
            self._loop.call_soon(self._pump_later)
        if not signalled and done.status == "SUCCESS":
            return None
        return self._entry(wr_id, done.status, wire.WC_WRITE, finished, done.byte_len)

    def _put(self, wr_id: int, status: str) -> None:
        """Complete a request that was never posted to the transport."""
        self._add(self._send, self._entry(wr_id, status, wire.WC_WRITE, self.rings.sends.count_finished()))

    def _add(self, queue: SharedQueue, entry: bytes) -> None:
        """Add an entry to a queue; report a queue that overflows."""
        known = queue.overflowed
        if not queue.put(entry, solicited=True) and not known:
            self._endpoint.events.report({"event": "CQ_ERR", "cq": queue.number, "qp": self.number})

    def _entry(
        self, wr_id: int, status: str, opcode: int, finished: int, length: int = 0, imm: bytes | None = None
    ) -> bytes:
        code = wire.WC_STATUS.get(status, wire.WC_GENERAL_ERR)
        flags = 0 if imm is None else wire.WC_FLAG_IMM
        return wire.CQE.pack(wr_id, code, opcode, 0, length, imm or bytes(4), self.number, flags, finished)
