"""Just enough Thrift to set BMv2's queues and to read its registers, in the strict binary protocol.

BMv2's own simple_switch_CLI does the same, takes a third of a second to start, and needs Thrift's Python package; a
fabric makes some hundred of these calls. Format: Apache Thrift binary protocol (strict), multiplexed service name,
unframed.
"""

import socket
import struct
from typing import NamedTuple

from mrclab.topo.errors import EmulationError
from mrclab.topo.linux import kernel

_VERSION = 0x8001_0000
_CALL, _REPLY, _EXCEPTION = 1, 2, 3
_STOP = 0
_I32, _I64, _STRING, _LIST = 8, 10, 11, 15
_TIMEOUT = 5.0  # seconds


class Argument(NamedTuple):
    """A typed value."""

    kind: int
    raw: bytes


def i32(value: int) -> Argument:
    """A 32-bit argument."""
    return Argument(_I32, struct.pack("!i", value))


def i64(value: int) -> Argument:
    """A 64-bit argument."""
    return Argument(_I64, struct.pack("!q", value))


def text(value: str) -> Argument:
    """A string as an argument."""
    raw = value.encode()
    return Argument(_STRING, struct.pack("!i", len(raw)) + raw)


def question(service: str, method: str, *arguments: Argument) -> bytes:
    """The bytes of a call."""
    name = f"{service}:{method}".encode()
    fields = b"".join(
        struct.pack("!bh", argument.kind, number) + argument.raw for number, argument in enumerate(arguments, 1)
    )
    return struct.pack("!Ii", _VERSION | _CALL, len(name)) + name + struct.pack("!i", 0) + fields + bytes([_STOP])


def numbers(answer: bytes) -> tuple[int, ...] | None:
    """The list of i64 that a call answered; None while bytes are missing, ValueError where it was refused."""
    if len(answer) < 8:
        return None
    version, length = struct.unpack_from("!Ii", answer)
    if version != _VERSION | _REPLY:
        raise ValueError("the switch refused the Thrift call")
    at = 8 + length + 4  # name and sequence number
    if len(answer) < at + 8:
        return None
    kind, _, item, count = struct.unpack_from("!bhbi", answer, at)
    if (kind, item) != (_LIST, _I64):
        raise ValueError(f"the switch answered with the type {kind} instead of numbers")
    if len(answer) < at + 8 + 8 * count + 1:
        return None
    return struct.unpack_from(f"!{count}q", answer, at + 8)


def connect(namespace: int, port: int, timeout: float = _TIMEOUT) -> socket.socket:
    """Connect to a port of a namespace's loopback; OSError if no process listens."""
    return kernel.in_namespace(namespace, lambda: socket.create_connection(("127.0.0.1", port), timeout))


def answers(namespace: int, port: int, service: str) -> bool:
    """Return True if a service responds on this port of a namespace. BMv2 opens the port before it adds the service."""
    try:
        with ThriftClient(namespace, port, service) as client:
            client.call("get_time_elapsed_us")
    except EmulationError:
        return False
    return True


class ThriftClient:
    """A connection to one Thrift service of a process in another network namespace."""

    def __init__(self, namespace: int, port: int, service: str) -> None:
        self._service = service
        try:
            self._socket = connect(namespace, port)
        except OSError as error:
            raise EmulationError(
                f"BMv2's Thrift port {port} does not respond: {error}; was it built with Thrift?"
            ) from None
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> "ThriftClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def call(self, method: str, *arguments: Argument) -> None:
        """Call a method; EmulationError if it is refused or the response is invalid."""
        try:
            self._socket.sendall(question(self._service, method, *arguments))
            self._read_reply(method)
        except OSError as error:
            raise EmulationError(f"Thrift call {method} failed: {error}") from None

    def _read_reply(self, method: str) -> None:
        version, length = struct.unpack("!Ii", self._take(8))
        self._take(length + 4)  # name and sequence number
        if version != _VERSION | _REPLY:
            raise EmulationError(f"the switch refused the Thrift call {method}: {self._read_exception()}")
        while (kind := self._take(1)[0]) != _STOP:
            if kind not in {_I32, _I64}:
                raise EmulationError(f"BMv2 answered the Thrift call {method} with an unexpected type {kind}")
            self._take(2 + (4 if kind == _I32 else 8))

    def _read_exception(self) -> str:
        """Read a TApplicationException; return its message."""
        text = ""
        while (kind := self._take(1)[0]) != _STOP:
            self._take(2)
            if kind == _STRING:
                text = self._take(int.from_bytes(self._take(4), "big")).decode(errors="replace")
            else:
                self._take(8 if kind == _I64 else 4)
        return text

    def _take(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise EmulationError("BMv2 closed its Thrift connection")
        return data
