"""Transfers of a soak run: two connected QPs, writes in one direction or both, target memory, and completions."""

from __future__ import annotations

import functools
import random
from typing import TYPE_CHECKING, Any, Final

from mrclab.experiments.soak.plan import NEVER, Message, SoakFlow
from mrclab.hosts.mrc.evs.evformat import EvFormat
from mrclab.hosts.mrc.evs.evprofile import Mode, ProfileState
from mrclab.topo import srv6

if TYPE_CHECKING:
    from mrclab.experiments.soak.harness import SoakHarness

GUARD: Final = 64  # bytes around what is written to, which no write may touch
_GUARDED: Final = b"\xa5" * GUARD
_MAX_COMPLETIONS: Final = 100_000


@functools.cache
def _pattern() -> bytes:
    """Return what all messages are cut from; its length is no power of two, so that packets differ."""
    return random.Random("soak").randbytes((1 << 20) + 4093)


class Writes:
    """Writes in one direction, and the receives of their immediates."""

    def __init__(self, connection: SoakConnection, messages: tuple[Message, ...], back: bool, first: int = 0) -> None:
        self.connection = connection
        self.messages = messages
        self.back = back
        self.first = first  # wr_id of the first one
        ends = connection.ends
        self.sender, self.qp, self.cq, _ = ends[back]
        self.receiver, self.far, _, self.recv_cq = ends[not back]
        size = sum(size for size, _ in messages)
        self._around = bytearray(_GUARDED + bytes(size) + _GUARDED)
        self.target = memoryview(self._around)[GUARD : GUARD + size]
        pattern = _pattern()
        self.bytes = (pattern * (1 + size // len(pattern)))[:size]
        self.immediates: list[tuple[int, int, int]] = []  # wr_id, immediate, bytes
        self.completions: list[Any] = []
        self.received: list[Any] = []

    def post(self) -> None:
        """Post all writes; receives are posted by their own call."""
        local = self.sender.verbs.reg_mr(bytearray(self.bytes))
        remote = self.receiver.verbs.reg_mr(self.target)
        at = 0
        for number, (size, with_imm) in enumerate(self.messages, self.first):
            if with_imm:
                self.immediates.append((number, number, size))
            opcode, imm = ("RDMA_WRITE_WITH_IMM", number) if with_imm else ("RDMA_WRITE", None)
            self.sender.verbs.post_send(
                self.qp, number, opcode, local.lkey, at, size, remote.va + at, remote.rkey, imm, self._now
            )
            at += size

    def post_receive(self, number: int) -> None:
        """Post one receive, if the QP still is there."""
        if self.connection.alive[not self.back]:
            self.receiver.verbs.post_recv(self.far, number, self._now)

    @property
    def _now(self) -> float:
        return self.connection.harness.clock.seconds

    def poll(self) -> None:
        """Collect the completions of both ends."""
        self.completions += self.sender.verbs.poll_cq(self.cq, _MAX_COMPLETIONS)
        self.received += self.receiver.verbs.poll_cq(self.recv_cq, _MAX_COMPLETIONS)

    @property
    def done(self) -> bool:
        """True if every write has a completion, and every immediate that is received."""
        self.poll()
        if len(self.completions) < len(self.messages):
            return False
        failed = any(one.status != "SUCCESS" for one in self.completions)
        return failed or len(self.received) >= len(self.immediates)

    @property
    def guards_intact(self) -> bool:
        """True if nothing was written outside the memory region."""
        return self._around[:GUARD] == _GUARDED == self._around[len(self._around) - GUARD :]


class SoakConnection:
    """Two connected QPs and their writes. `ends` are (transport, QP, send CQ, receive CQ), that of the source first."""

    def __init__(self, harness: SoakHarness, flow: SoakFlow) -> None:
        self.flow = flow
        self.harness = harness
        self.hosts = flow.source, flow.destination
        made = [harness.transports[name] for name in self.hosts]
        self.alive = [True, True]  # not destroyed, and the host not restarted
        cqs = [(one.verbs.create_cq(), one.verbs.create_cq()) for one in made]
        qps, now = [], harness.clock.seconds
        for here, there, (send, recv) in zip(made, made[::-1], cqs, strict=True):
            own = _profile(here, flow) if flow.profile else {}
            peer = there.config.host.address
            qps.append(here.verbs.create_qp(peer, now, send_cq=send, recv_cq=recv, **flow.attributes, **own))
        info = [one.verbs.local_info(qp) for one, qp in zip(made, qps, strict=True)]
        made[0].verbs.connect(qps[0], info[1], now)
        made[1].verbs.connect(qps[1], info[0], now)
        self.ends = [(one, qp, *cq) for one, qp, cq in zip(made, qps, cqs, strict=True)]
        both = (flow.messages, False), (flow.back, True)
        self.writes = [Writes(self, messages, back) for messages, back in both if messages]
        late = iter(flow.receives)
        for writes in self.writes:
            writes.post()
            for number, _, _ in writes.immediates:
                if not (after := next(late)):
                    writes.post_receive(number)
                elif after != NEVER:
                    harness.after(after, functools.partial(writes.post_receive, number))

    def write(self, messages: tuple[Message, ...]) -> Writes:
        """Post further writes of the source."""
        first = sum(len(one.messages) for one in self.writes if not one.back)
        made = Writes(self, messages, back=False, first=first)
        self.writes.append(made)
        made.post()
        return made

    @property
    def done(self) -> bool:
        """True if nothing more is to come."""
        return all(one.done for one in self.writes)

    def destroy(self, at: int) -> None:
        """Destroy the QP of one end (0: source), unless it is gone already."""
        if self.alive[at]:
            self.alive[at] = False
            transport, qp, *_ = self.ends[at]
            transport.verbs.destroy_qp(qp, self.harness.clock.seconds)

    def qp_objects(self) -> list[Any]:
        """The QPs that are alive, with their halves."""
        return [one.verbs.qps[qp] for (one, qp, *_), alive in zip(self.ends, self.alive, strict=True) if alive]


def _profile(transport: Any, flow: SoakFlow) -> dict[str, int]:
    """Create an explicit EV profile for one QP and set it online."""
    ctl = transport.ctl
    ports = {port.plane: port.number for port in transport.config.ports}
    number = ctl.create_ev_profile(Mode.EXPLICIT, EvFormat.STEV, len(flow.profile), 1)
    ctl.modify_ev_profile(number, ProfileState.OFFLINE)
    for index, (plane, uplink) in enumerate(flow.profile):
        value = srv6.ev(plane, uplink, srv6.ev_tag(index)).to_bytes(4, "big")
        ctl.replace_ev(number, index, ports[plane], value)
    ctl.modify_ev_profile(number, ProfileState.ONLINE)
    return {"ev_profile": number}
