"""The `--thrift-port`: BMv2's Thrift service `simple_switch`, as far as simple_switch_CLI's queue commands need it.

Calls come in Apache Thrift's binary protocol (strict), unframed, the service's name before the method's, on loopback.
Served are the six `set_…egress_queue…` calls, the two clocks, `mirroring_mapping_…` (simple_switch.thrift), and
`bm_get_config` of the service `standard` (standard.thrift), which the CLI reads first. Every other call is answered
with a TApplicationException. Arguments are numbers; anything else in a call is skipped.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mrclab.softswitch.objects.runtime_api import CloneSession, Replica, RuntimeApiError
from mrclab.softswitch.process.connections import Connections
from mrclab.softswitch.process.ports import PortError

if TYPE_CHECKING:
    from mrclab.softswitch.switch import SoftSwitch

MAX_CALL_BYTES = 1 << 16
VERSION = 0x8001_0000
CALL, REPLY, EXCEPTION, ONEWAY = 1, 2, 3, 4
STOP, STRUCT, LIST, SET, MAP, STRING, I32, I64 = 0, 12, 15, 14, 13, 11, 8, 10
SIZES = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8}
"""Bytes of the types of fixed size: bool, byte, double, i16, i32, i64."""
UNKNOWN_METHOD, INTERNAL_ERROR = 1, 6  # TApplicationException's types
MAX_NESTING = 16


class ThriftError(Exception):
    """Bytes that are no call; the connection is closed."""


class _ShortError(Exception):
    """A call of which the rest has not come yet."""


class ThriftReader:
    """Reads one message from bytes that may end too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        if not 0 <= count <= MAX_CALL_BYTES:
            raise ThriftError(f"a length of {count} bytes")
        end = self.at + count
        if end > len(self._data):
            raise _ShortError
        part, self.at = self._data[self.at : end], end
        return part

    def number(self, kind: int) -> int:
        """Return a signed number."""
        return int.from_bytes(self.take(SIZES[kind]), "big", signed=True)

    def text(self) -> str:
        """Return a string."""
        return self.take(self.number(I32)).decode(errors="replace")

    def arguments(self) -> dict[int, int]:
        """Return a call's integers by field number."""
        found: dict[int, int] = {}
        while (kind := self.take(1)[0]) != STOP:
            field = int.from_bytes(self.take(2), "big")
            if kind in {I32, I64}:
                found[field] = self.number(kind)
            else:
                self.skip(kind)
        return found

    def skip(self, kind: int, depth: int = 0) -> None:
        """Pass over a value."""
        if depth > MAX_NESTING:
            raise ThriftError("values within values without end")
        if kind in SIZES:
            self.take(SIZES[kind])
        elif kind == STRING:
            self.take(self.number(I32))
        elif kind == STRUCT:
            while (inner := self.take(1)[0]) != STOP:
                self.take(2)
                self.skip(inner, depth + 1)
        elif kind in {LIST, SET, MAP}:
            kinds = list(self.take(2 if kind == MAP else 1))
            for _ in range(self.number(I32)):
                for inner in kinds:
                    self.skip(inner, depth + 1)
        else:
            raise ThriftError(f"type {kind}")


def _field(kind: int, number: int, raw: bytes) -> bytes:
    return struct.pack("!bh", kind, number) + raw


def _string(text: bytes) -> bytes:
    return struct.pack("!i", len(text)) + text


def _result(kind: int, value: Any) -> bytes:
    """Return the result field of a call; a call that sets something has the result 0."""
    return _field(kind, 0, _string(value) if kind == STRING else struct.pack("!i" if kind == I32 else "!q", value or 0))


Method = Callable[[dict[int, int]], Any]


class ThriftServer:
    """Listens on 127.0.0.1; everything runs in the data-plane thread, between two packets."""

    def __init__(self, switch: SoftSwitch, port: int) -> None:
        self._switch = switch
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen()
        except (OSError, OverflowError) as error:
            listener.close()
            raise PortError(f"--thrift-port {port}: {error}; choose a free port") from error
        self.port: int = listener.getsockname()[1]
        self._connections = Connections(switch, listener, self._take)
        rate, depth = switch.set_queue_rate, switch.set_queue_depth
        self._methods: dict[str, tuple[int, Method]] = {
            "simple_switch:set_egress_priority_queue_depth": (I32, lambda a: depth(a[3], a[1], a[2])),
            "simple_switch:set_egress_queue_depth": (I32, lambda a: depth(a[2], a[1])),
            "simple_switch:set_all_egress_queue_depths": (I32, lambda a: depth(a[1])),
            "simple_switch:set_egress_priority_queue_rate": (I32, lambda a: rate(a[3], a[1], a[2])),
            "simple_switch:set_egress_queue_rate": (I32, lambda a: rate(a[2], a[1])),
            "simple_switch:set_all_egress_queue_rates": (I32, lambda a: rate(a[1])),
            "simple_switch:get_time_elapsed_us": (I64, lambda _: switch.now_us()),
            "simple_switch:get_time_since_epoch_us": (I64, lambda _: time.time_ns() // 1000),
            "simple_switch:mirroring_mapping_add": (I32, lambda a: self._mirror(a[1], a[2])),
            "simple_switch:mirroring_mapping_delete": (I32, lambda a: self._unmirror(a[1])),
            "simple_switch:mirroring_mapping_get_egress_port": (I32, lambda a: self._mirrored(a[1])),
            "standard:bm_get_config": (STRING, lambda _: self._config()),
        }
        """Result type and function of each call; a refusal becomes a TApplicationException."""

    # -- mirroring sessions and the program ---------------------------------------------------------------------------

    def _mirror(self, session: int, port: int) -> None:
        self._switch.replication.sessions[session] = CloneSession((Replica(port, 0),))

    def _unmirror(self, session: int) -> int:
        return int(self._switch.replication.sessions.pop(session, None) is not None)

    def _mirrored(self, session: int) -> int:
        found = self._switch.replication.sessions.get(session)
        return found.replicas[0].port if found and found.replicas else -1

    def _config(self) -> bytes:
        config = self._switch.program().compiled.config
        return config if isinstance(config, bytes) else config.encode()

    # -- calls --------------------------------------------------------------------------------------------------------

    def _take(self, client: socket.socket, pending: bytearray) -> bool:
        try:
            while pending:
                answer, used = self.answer(bytes(pending))
                del pending[:used]
                client.sendall(answer)
        except _ShortError:
            return len(pending) <= MAX_CALL_BYTES
        except ThriftError:
            return False
        return True

    def answer(self, data: bytes) -> tuple[bytes, int]:
        """Answer the first call in `data`; return the answer and how many bytes the call had."""
        reader = ThriftReader(data)
        version = int.from_bytes(reader.take(4), "big")
        if version not in {VERSION | CALL, VERSION | ONEWAY}:
            raise ThriftError("not a call in the strict binary protocol")
        name, sequence = reader.text(), reader.take(4)
        arguments = reader.arguments()
        kind, body = self._call(name, arguments)
        if version & 0xFF == ONEWAY:
            return b"", reader.at
        head = struct.pack("!I", VERSION | kind) + _string(name.partition(":")[2].encode() or name.encode())
        return head + sequence + body + bytes([STOP]), reader.at

    def _call(self, name: str, arguments: dict[int, int]) -> tuple[int, bytes]:
        if name not in self._methods:
            return _exception(UNKNOWN_METHOD, f"softswitch does not serve {name}")
        kind, method = self._methods[name]
        try:
            return REPLY, _result(kind, method(arguments))
        except KeyError as error:
            return _exception(INTERNAL_ERROR, f"{name}: argument {error} is missing")
        except (RuntimeApiError, struct.error) as error:
            return _exception(INTERNAL_ERROR, f"{name}: {error}")

    def close(self) -> None:
        """Stop listening."""
        self._connections.close()


def _exception(kind: int, text: str) -> tuple[int, bytes]:
    """Return a TApplicationException: its message and its type."""
    return EXCEPTION, _field(STRING, 1, _string(text.encode())) + _field(I32, 2, struct.pack("!i", kind))
