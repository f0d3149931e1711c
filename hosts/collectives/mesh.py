"""The ranks of a job joined by lanes, and the thread that carries their collectives.

An operation is resumed when the segment that it waits for has arrived. Operations run concurrently. One that fails
breaks its group: every rank of the group is notified, and each of its operations, waiting or new, ends with an error
that names rank, peer and reason.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import json
import os
import select
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Any, Final, Protocol, TypeVar

from mrclab.hosts.collectives.lane import CREDIT, HEADER, RECEIVE, Lane, Outgoing
from mrclab.hosts.collectives.operation import (
    ANY,
    GOODBYE,
    MESSAGE,
    NOTICE,
    CollectiveError,
    CollectiveTimeoutError,
    Group,
    MeshOperation,
)
from mrclab.hosts.libmrc.mrc import CQ, PD, Completion, CompletionChannel, Context

_PROBE_S: Final = 1.0  # seconds that a rank waits for a peer before it probes it
_PEER_TIMEOUT_S: Final = 15.0  # default: seconds without an acknowledgement after which a peer is lost
_POLL_S: Final = 0.1  # seconds between two checks of deadlines
_GOODBYE_S: Final = 10.0  # seconds for the last messages to arrive when a mesh is closed
_CQ_ENTRIES: Final = 1 << 14
_NOTICE_BYTES: Final = 1024  # bytes of a notice


Number = TypeVar("Number", int, float)


def environment_setting(name: str, default: Number, most: float) -> Number:
    """Return the number in an environment variable, at least 1, and whole as the default is; ValueError names it."""
    text = os.environ.get(name, str(default))
    try:
        number = type(default)(text)
    except ValueError:
        number = type(default)(0)
    if not 1 <= number <= most:
        noun = "whole number" if isinstance(default, int) else "number"
        raise ValueError(f"{name} {text!r} is not a {noun} from 1 to {most:g}; correct it, or unset it")
    return number


class Rendezvous(Protocol):
    """Key-value store, such as PyTorch's, in which ranks find each other. `get` waits for the key."""

    def set(self, key: str, value: str, /) -> Any:
        """Put a value under a key."""

    def get(self, key: str, /) -> bytes:
        """Return the value of a key; raises an exception after the store's own time-out."""


class MeshPeer:
    """Another rank of the job."""

    def __init__(self, rank: int, lanes: list[Lane]) -> None:
        self.rank, self.lanes = rank, lanes
        self.host = ""
        self.last_received = time.monotonic()
        self.goodbyes = 0
        self.lost = ""  # why it cannot be reached any more

    @property
    def left(self) -> bool:
        """True once it has closed all lanes."""
        return self.goodbyes >= len(self.lanes)

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.host})"


class Mesh:
    """This process's place in a job. `host` names its host in messages; `lanes` QPs lead to each peer, and one
    that acknowledges nothing for `silence` seconds is given up, also where its QP would go on trying.

    Raises OSError where the host has no NIC for programs.
    """

    def __init__(self, rank: int, host: str, lanes: int = 1, silence: float = _PEER_TIMEOUT_S) -> None:
        self.rank, self.host = rank, host
        self._lanes_each, self._silence = lanes, silence
        self._context = Context()
        self._path_mtu = self._context.path_mtu
        self._gid = self._context.gid
        self._pd, self._channel = PD(self._context), CompletionChannel(self._context)
        self._cq = CQ(self._context, _CQ_ENTRIES, self._channel)
        self._peers: dict[int, MeshPeer] = {}
        self._lanes: list[tuple[MeshPeer, Lane]] = []
        self._groups: dict[int, Group] = {}
        self._operations: dict[tuple[int, int, int, int, int], MeshOperation] = {}
        self._sending: set[MeshOperation] = set()  # messages, which take nothing in
        self._any_source: dict[tuple[int, int], deque[MeshOperation]] = defaultdict(deque)  # group, tag → receives
        self._inbox: dict[tuple[int, int, int, int, int], dict[tuple[int, int], tuple[int, int, bytearray]]] = {}
        self._early_notices: dict[int, tuple[int, str]] = {}  # group → rank and reason, before it was made here
        self._commands: deque[Callable[[], None]] = deque()
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._broken = ""  # why nothing works any more
        self._pid = os.getpid()
        self._polled = 0.0
        self._stopping = self._stopped = False
        self._thread = threading.Thread(target=self._serve, name="mrc-mesh", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    # --- joining ----------------------------------------------------------------------------------------------------

    def connect(self, store: Rendezvous, ranks: Sequence[int]) -> None:
        """Join with those of `ranks` that are not joined yet; all of them call this with the same store."""
        new = [rank for rank in ranks if rank != self.rank and rank not in self._peers]
        peers = self._on_thread(lambda: [self._make(rank) for rank in new])
        for peer in peers:
            info = {"host": self.host, "gid": self._gid, "lanes": [lane.describe() for lane in peer.lanes]}
            store.set(f"mrc/{self.rank}>{peer.rank}", json.dumps(info))
        for peer in peers:
            theirs = json.loads(store.get(f"mrc/{peer.rank}>{self.rank}"))
            peer.host = str(theirs["host"])
            if theirs["gid"] == self._gid:
                raise self._error(
                    f"ranks {min(self.rank, peer.rank)} and {max(self.rank, peer.rank)} are both on {self.host}:"
                    " a NIC does not reach itself; start one rank per host", peer.rank,
                )  # fmt: skip
            if len(theirs["lanes"]) != len(peer.lanes):
                raise self._error(
                    f"{peer} has {len(theirs['lanes'])} QPs per peer and this rank {len(peer.lanes)}; give all ranks"
                    " the same MRCLAB_QPS", peer.rank,
                )  # fmt: skip
            self._on_thread(functools.partial(self._join, peer, theirs["lanes"]))
            store.set(f"mrc/ready/{self.rank}>{peer.rank}", "1")
        for peer in peers:  # no rank may send to a QP that is not connected yet
            store.get(f"mrc/ready/{peer.rank}>{self.rank}")

    def _make(self, rank: int) -> MeshPeer:
        lanes = [Lane(self._pd, self._cq, len(self._lanes) + number) for number in range(self._lanes_each)]
        peer = self._peers[rank] = MeshPeer(rank, lanes)
        self._lanes += [(peer, lane) for lane in lanes]
        return peer

    def _join(self, peer: MeshPeer, theirs: list[dict[str, Any]]) -> None:
        for lane, other in zip(peer.lanes, theirs, strict=True):
            lane.connect(other, self._path_mtu)

    def group(self, name: str, ranks: Sequence[int]) -> Group:
        """A group of joined ranks; its name is the same on all of them, and unique."""
        made = Group(name, ranks, self.rank)

        def enter() -> None:
            other = self._groups.get(made.number)
            if other is not None:
                raise self._error(f"groups {other.name!r} and {name!r} have the same checksum; rename one", None)
            self._groups[made.number] = made
            if made.number in self._early_notices:
                peer, why = self._early_notices.pop(made.number)
                made.broken = self._error(why, peer)
            for rank in made.ranks:
                if rank != self.rank and (why := self._peers[rank].lost):
                    made.broken = self._error(why, rank)

        self._on_thread(enter)
        return made

    def leave(self, group: Group) -> None:
        """Forget a group; its pending operations end with an error."""

        def out() -> None:
            self._break(group, self._error("the group was destroyed", None), notify=False)
            self._groups.pop(group.number, None)
            for key in [key for key in self._inbox if key[0] == group.number]:
                del self._inbox[key]

        if not self._broken:
            self._on_thread(out)

    def abort(self, group: Group, why: str = "aborted") -> None:
        """End everything of a group here and on its other ranks."""
        self._command(lambda: self._break(group, self._error(f"rank {self.rank} ({self.host}) {why}", self.rank)))

    def close(self, timeout: float = _GOODBYE_S) -> None:
        """Wait for the last messages to arrive, say goodbye, and free everything. Idempotent."""
        if self._stopping or os.getpid() != self._pid:
            return
        self._stopping = True
        atexit.unregister(self.close)
        until = time.monotonic() + timeout
        self._settle(until)
        if not self._broken:
            with contextlib.suppress(CollectiveError):
                self._on_thread(self._send_goodbye)
            self._settle(until)
        self._command(self._stop)
        self._thread.join()
        os.close(self._wakeup)
        with contextlib.suppress(OSError):
            self._context.close()

    def _settle(self, until: float) -> None:
        while time.monotonic() < until and not self._broken:
            if all(lane.drained for peer, lane in self._lanes if not peer.lost and not peer.left):
                return
            time.sleep(0.005)

    def _send_goodbye(self) -> None:
        header = HEADER.pack(GOODBYE, 0, 0, 0, 0, 0, 0, 0, 0)
        for peer, lane in self._lanes:
            if not peer.lost and not peer.left:
                lane.waiting.append(Outgoing(None, header, memoryview(b"")))
        self._pump()

    # --- operations -------------------------------------------------------------------------------------------------

    def submit(self, operation: MeshOperation) -> MeshOperation:
        """Begin an operation."""
        self._command(lambda: self._begin(operation))
        return operation

    def _begin(self, operation: MeshOperation) -> None:
        group = operation.group
        broken = self._broken and self._error(self._broken, None)
        if cause := broken or group.broken:
            operation.finish(self._failure(operation, cause.peer, cause.reason))
            return
        if operation.source == ANY:
            if not self._claim(operation):
                self._any_source[group.number, operation.tag].append(operation)
            return
        if operation.number < 0 and operation.source is not None:
            operation.number = group.next_received(operation.source, operation.tag)
        self._enter(operation)

    def _enter(self, operation: MeshOperation) -> None:
        if operation.kind == MESSAGE and operation.source is None:
            self._sending.add(operation)
        else:
            self._operations[operation.key] = operation
        operation.start()
        self._feed(operation)

    def _claim(self, operation: MeshOperation) -> bool:
        """Match a receive from any source with the first unexpected message."""
        group = operation.group
        for number, kind, tag, sequence, sender in self._inbox:
            if (number, kind, tag) == (group.number, MESSAGE, operation.tag):
                rank = group.ranks.index(sender)
                if sequence == group.received[rank, tag]:
                    operation.source, operation.number = rank, group.next_received(rank, tag)
                    self._enter(operation)
                    return True
        return False

    def _feed(self, operation: MeshOperation) -> None:
        """Give an operation its early messages."""
        box = self._inbox.get(operation.key)
        while box and operation.awaited is not None:
            rank = operation.awaited[0]
            found = box.pop((operation.group.ranks[rank], operation.expected[rank]), None)
            if found is None:
                return
            code, total, payload = found
            self._deliver(operation, rank, code, total, memoryview(payload))
        if box is not None and not box:
            self._inbox.pop(operation.key, None)

    def _deliver(self, operation: MeshOperation, rank: int, code: int, total: int, payload: memoryview) -> None:
        group = operation.group
        if code != operation.code:
            self.fail(
                operation, rank, f"rank {group.ranks[rank]} calls another collective than {operation.name} as number"
                f" {operation.number} of the group: the ranks are out of step",
            )  # fmt: skip
        elif operation.kind == MESSAGE and total != operation.total:
            self.fail(
                operation, rank,
                f"rank {group.ranks[rank]} sent {total} bytes and the tensor here takes {operation.total}",
            )  # fmt: skip
        else:
            operation.take(payload)

    def forget(self, operation: MeshOperation) -> None:
        """An operation is over."""
        self._sending.discard(operation)
        if self._operations.get(operation.key) is operation:
            del self._operations[operation.key]

    def post(self, rank: int, index: int, outgoing: Outgoing) -> None:
        """Send a segment to a rank of the job."""
        lanes = self._peers[rank].lanes
        lane = lanes[index % len(lanes)]
        lane.waiting.append(outgoing)
        lane.pump()

    # --- failure ----------------------------------------------------------------------------------------------------

    def _error(self, why: str, peer: int | None) -> CollectiveError:
        return CollectiveError(why, self.rank, peer, why)

    def _failure(self, operation: MeshOperation, peer: int | None, why: str, late: bool = False) -> CollectiveError:
        text = f"{operation.name} failed on rank {self.rank} ({self.host}): {why}"
        return (CollectiveTimeoutError if late else CollectiveError)(text, self.rank, peer, why)

    def fail(self, operation: MeshOperation, rank: int | None, why: str, late: bool = False) -> None:
        """End an operation, because of a rank of its group if one is given, and break its group."""
        peer = None if rank is None else operation.group.ranks[rank]
        self.forget(operation)
        failure = self._failure(operation, peer, why, late)
        operation.finish(failure)
        self._break(operation.group, self._error(str(failure), peer))

    def _break(self, group: Group, cause: CollectiveError, notify: bool = True, prefix: str = "") -> None:
        """Fail a group: end its operations, and notify its other ranks of the reason."""
        if group.broken is not None:
            return
        group.broken = cause
        for operation in self._under_way():
            if operation.group is group:
                self.forget(operation)
                operation.finish(self._failure(operation, cause.peer, cause.reason))
        for key in [key for key in self._any_source if key[0] == group.number]:
            del self._any_source[key]
        for rank in group.ranks:
            if rank == self.rank:
                continue
            peer = self._peers[rank]
            for lane in peer.lanes:
                kept = [one for one in lane.waiting if one.operation is None or one.operation.group is not group]
                lane.waiting.clear()
                lane.waiting.extend(kept)
            if notify and not peer.lost and not peer.left:
                text = f"{prefix}{cause.reason}".encode()[:_NOTICE_BYTES]
                blamed = self.rank if cause.peer is None else cause.peer
                header = HEADER.pack(NOTICE, 0, 0, group.number, blamed, 0, 0, len(text), 0)
                peer.lanes[0].waiting.append(Outgoing(None, header, memoryview(text)))
        self._pump()

    def _under_way(self) -> list[MeshOperation]:
        unmatched = [one for queue in self._any_source.values() for one in queue]
        return [*self._operations.values(), *self._sending, *unmatched]

    def _lose(self, peer: MeshPeer, why: str) -> None:
        """A peer cannot be reached any more."""
        if peer.lost:
            return
        peer.lost = f"{peer} is gone: {why}"
        for lane in peer.lanes:
            lane.waiting.clear()
        if peer.left:
            return
        for group in list(self._groups.values()):
            if peer.rank in group.ranks:
                text = f"rank {self.rank} ({self.host}) reports: "
                self._break(group, self._error(peer.lost, peer.rank), prefix=text)

    def _lose_nic(self, why: str) -> None:
        """Handle the loss of the NIC itself."""
        self._broken = why
        for group in self._groups.values():
            self._break(group, self._error(why, None), notify=False)

    # --- the thread -------------------------------------------------------------------------------------------------

    def _command(self, work: Callable[[], None]) -> None:
        if not self._stopped:
            self._commands.append(work)
            os.eventfd_write(self._wakeup, 1)

    def _stop(self) -> None:
        self._stopped = True

    def _on_thread(self, work: Callable[[], Any]) -> Any:
        """The result of something that the mesh's thread does."""
        done: Future[Any] = Future()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        self._command(run)
        while not wait([done], 1.0).done:
            if not self._thread.is_alive():
                raise self._error(self._broken or "the mesh is closed", None)
        return done.result()

    def _serve(self) -> None:
        poll = select.poll()
        poll.register(self._channel.fileno(), select.POLLIN)
        poll.register(self._wakeup, select.POLLIN)
        while not self._stopped:
            try:
                if not self._serve_once():
                    self._cq.notify()
                    if not self._serve_once() and not self._stopped:
                        self._sleep(poll)
            except OSError as error:
                why = "the agent of this host has ended" if error.errno == errno.EIO else str(error)
                self._lose_nic(f"the NIC of rank {self.rank} ({self.host}) failed: {why}")
                while not self._stopped:
                    self._run_commands()
                    time.sleep(_POLL_S / 10)

    def _serve_once(self) -> bool:
        """Do pending work; return False if there was none."""
        did = self._run_commands()
        found = self._cq.poll(32)
        for completion in found:
            self._complete(completion)
        if found:
            self._pump()
        now = time.monotonic()
        if now - self._polled >= _POLL_S:
            self._polled = now
            self._check_deadlines(now)
        return did or bool(found)

    def _run_commands(self) -> bool:
        did = False
        while self._commands:
            self._commands.popleft()()
            did = True
        return did

    def _sleep(self, poll: select.poll) -> None:
        busy = self._operations or self._sending or self._any_source
        for descriptor, events in poll.poll(_POLL_S * 1000 if busy else None):
            if descriptor == self._wakeup:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._wakeup)
            elif events & select.POLLIN:
                self._channel.take()
            else:
                raise OSError(errno.EIO, "the completion channel has ended")

    def _pump(self) -> None:
        for peer, lane in self._lanes:
            if lane.waiting and not peer.lost:
                lane.pump()

    def _complete(self, done: Completion) -> None:
        peer, lane = self._lanes[done.wr_id >> 2]
        kind = done.wr_id & 3
        if not done.ok:
            self._lose(peer, f"a QP to it failed with {done.text}")
        elif kind != RECEIVE:
            lane.completed(kind)
        else:
            peer.last_received = time.monotonic()
            lane.receive()
            assert done.imm is not None
            if done.imm & CREDIT:
                lane.credit(done.imm)
            else:
                self._arrive(peer, lane.segment(done.imm, done.byte_len))
                lane.free_slot(not peer.left and not peer.lost)

    def _arrive(self, peer: MeshPeer, segment: memoryview) -> None:
        kind, code, _, number, tag, sequence, index, length, total = HEADER.unpack_from(segment)
        payload = segment[HEADER.size : HEADER.size + length]
        if kind == GOODBYE:
            peer.goodbyes += 1
            return
        if kind == NOTICE:
            self._on_group_broken(number, tag, bytes(payload).decode(errors="replace"))
            return
        key = (number, kind, tag, sequence, peer.rank if kind == MESSAGE else -1)
        operation = self._operations.get(key)
        if operation is not None:
            group = operation.group
            awaited = operation.awaited
            if awaited is not None and group.ranks[awaited[0]] == peer.rank and operation.expected[awaited[0]] == index:
                self._deliver(operation, awaited[0], code, total, payload)
                self._feed(operation)
                return
        known = self._groups.get(number)
        if known is not None and known.broken is not None:
            return
        self._inbox.setdefault(key, {})[peer.rank, index] = code, total, bytearray(payload)
        if kind == MESSAGE and operation is None and (queue := self._any_source.get((number, tag))):
            if self._claim(queue[0]):
                queue.popleft()
            if not queue:
                del self._any_source[number, tag]

    def _on_group_broken(self, number: int, blamed: int, why: str) -> None:
        """A rank reports that a group is broken. It is passed on: that rank may not reach all others any more."""
        group = self._groups.get(number)
        if group is None:
            self._early_notices[number] = blamed, why
        else:
            self._break(group, self._error(why, blamed))

    def _check_deadlines(self, now: float) -> None:
        """Check deadlines, and peers from which nothing was received for long."""
        if self._operations or self._sending:
            for other, lane in self._lanes:
                since = lane.silent_since()
                if since is not None and now - since > self._silence and not other.lost:
                    self._lose(other, f"it has acknowledged nothing for {self._silence:g} s")
        for operation in self._under_way():
            if operation.over:
                continue
            rank = None if operation.awaited is None else operation.awaited[0]
            peer = None if rank is None else self._peers[operation.group.ranks[rank]]
            if now > operation.deadline:
                whom = "sending" if peer is None else f"waiting for {peer}"
                self.fail(operation, rank, f"{whom}, it was not done within {operation.timeout:g} s", late=True)
            elif peer is not None and peer.left and not self._has_more(operation, peer):
                self.fail(operation, rank, f"{peer} has left the job")
            elif peer is not None and not peer.lost and self._is_quiet(operation, peer, now):
                peer.lanes[0].probe()

    @staticmethod
    def _is_quiet(operation: MeshOperation, peer: MeshPeer, now: float) -> bool:
        return now - max(peer.last_received, operation.waiting_since) > _PROBE_S

    def _has_more(self, operation: MeshOperation, peer: MeshPeer) -> bool:
        return any(rank == peer.rank for rank, _ in self._inbox.get(operation.key, ()))
