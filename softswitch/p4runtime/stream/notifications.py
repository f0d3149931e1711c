"""Messages that the data plane causes: packet-in, digest lists, idle entries.

The data plane's callbacks run between two packets, so all they do is to put the raw event, with the pipeline it belongs
to, into the queues of the primaries; each stream's own thread makes the protobuf message out of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import SimpleQueue

from finsy.proto import p4r

from mrclab.softswitch.objects.runtime_api import DigestList, TableEntry
from mrclab.softswitch.p4runtime.messages.matches import key_to_proto
from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError
from mrclab.softswitch.p4runtime.messages.values import to_bytes
from mrclab.softswitch.p4runtime.p4info import Digest, P4InfoTable
from mrclab.softswitch.p4runtime.stream.packet_io import HeaderCodec

MessageMaker = Callable[[], p4r.StreamMessageResponse | None]
"""Makes an event's message, or None if there is none after all; called in the stream's thread."""
MAX_WAITING = 4096  # events; a controller that reads slower than they come loses the newest


def packet_in(codec: HeaderCodec, data: bytes) -> p4r.StreamMessageResponse | None:
    """Return a packet-in message; None for a frame that is shorter than the header."""
    packet = codec.unpack(data)
    return None if packet is None else p4r.StreamMessageResponse(packet=packet)


def digest_list(digest: Digest, found: DigestList) -> p4r.StreamMessageResponse:
    """Return a digest message."""
    message = p4r.DigestList(digest_id=digest.id, list_id=found.list_id, timestamp=found.timestamp_ns)
    for values in found.messages:
        data = message.data.add()
        if digest.shape == "bitstring":
            data.bitstring = to_bytes(values[0])
            continue
        members = data.struct.members if digest.shape == "struct" else data.tuple.members
        for value in values:
            members.add(bitstring=to_bytes(value))
    return p4r.StreamMessageResponse(digest=message)


def idle_entries(table: P4InfoTable, entries: list[TableEntry], at_ns: int) -> p4r.StreamMessageResponse:
    """Return a notification of entries that were idle at a time; each has its controller's notes."""
    message = p4r.IdleTimeoutNotification(timestamp=at_ns)
    for entry in entries:
        item = message.table_entry.add(
            table_id=table.id,
            priority=entry.priority,
            controller_metadata=entry.notes.controller_metadata,
            idle_timeout_ns=entry.notes.idle_timeout_ns,
        )
        item.match.extend(key_to_proto(entry.match, table))
    return p4r.StreamMessageResponse(idle_timeout_notification=message)


class StreamChannel:
    """One controller's stream. `send`, `offer` and `close` may be called from any thread and never block."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[p4r.StreamMessageResponse | MessageMaker | P4RuntimeError | None] = SimpleQueue()
        self._is_closing = False
        self.dropped = 0  # events that found the queue full

    def send(self, message: p4r.StreamMessageResponse) -> None:
        """Queue a response. A controller that sends requests without reading loses its stream."""
        if self._queue.qsize() < 2 * MAX_WAITING:
            self._queue.put(message)
        elif not self._is_closing:
            self.close(P4RuntimeError(Code.RESOURCE_EXHAUSTED, "Too many answers are waiting to be read"))

    def offer(self, make: MessageMaker) -> None:
        """Queue an event, unless too many are waiting. `make` is called in the stream's thread."""
        if self._queue.qsize() >= MAX_WAITING:
            self.dropped += 1
        else:
            self._queue.put(make)

    def close(self, error: P4RuntimeError | None = None) -> None:
        """End the stream after the queued messages, with `error` or normally."""
        self._is_closing = True
        self._queue.put(error)

    def messages(self) -> Iterator[p4r.StreamMessageResponse]:
        """Yield queued messages until the stream is closed; raise the error it was closed with."""
        while True:
            item = self._queue.get()
            if item is None:
                return
            if isinstance(item, P4RuntimeError):
                raise item
            message = item if isinstance(item, p4r.StreamMessageResponse) else item()
            if message is not None:
                yield message
