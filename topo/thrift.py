"""Just enough Thrift to set BMv2's queues: calls with integer arguments and an integer result, strict binary protocol.

BMv2's own simple_switch_CLI does the same, takes a third of a second to start, and needs Thrift's Python package; a
fabric makes some hundred of these calls. Format: Apache Thrift binary protocol (strict), multiplexed service name,
unframed.
"""

import socket
import struct
from typing import NamedTuple

from topo import kernel
from topo.errors import EmulationError

_VERSION = 0x8001_0000
_CALL, _REPLY, _EXCEPTION = 1, 2, 3
_STOP = 0
_I32, _I64, _STRING = 8, 10, 11
_TIMEOUT = 5.0  # seconds


class Argument(NamedTuple):
    """A typed integer."""

    kind: int
    raw: bytes


def i32(value: int) -> Argument:
    """A 32-bit argument."""
    return Argument(_I32, struct.pack("!i", value))


def i64(value: int) -> Argument:
    """A 64-bit argument."""
    return Argument(_I64, struct.pack("!q", value))


def answers(namespace: int, port: int, service: str) -> bool:
    """Whether a service answers calls on this port of a namespace. BMv2 opens the port before it adds the service."""
    try:
        with Client(namespace, port, service) as client:
            client.call("get_time_elapsed_us")
    except EmulationError:
        return False
    return True


class Client:
    """A connection to one Thrift service of a process in another network namespace."""

    def __init__(self, namespace: int, port: int, service: str) -> None:
        self._service = service
        try:
            self._socket = kernel.in_namespace(
                namespace, lambda: socket.create_connection(("127.0.0.1", port), _TIMEOUT)
            )
        except OSError as error:
            raise EmulationError(
                f"BMv2's Thrift port {port} does not answer: {error}; was it built with Thrift?"
            ) from None
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def call(self, method: str, *arguments: Argument) -> None:
        """Call a method; EmulationError where it is refused or the answer cannot be read."""
        name = f"{self._service}:{method}".encode()
        fields = b"".join(
            struct.pack("!bh", argument.kind, number) + argument.raw for number, argument in enumerate(arguments, 1)
        )
        header = struct.pack("!Ii", _VERSION | _CALL, len(name)) + name + struct.pack("!i", 0)
        try:
            self._socket.sendall(header + fields + bytes([_STOP]))
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
