"""Server for programs: a SOCK_SEQPACKET socket next to the agent's own, served by the agent's loop."""

from __future__ import annotations

import errno
import logging
import os
import select
import socket
from pathlib import Path
from typing import Final

from mrclab.hosts.agent.provider import wire
from mrclab.hosts.agent.provider.control import ProgramCtl, Response, check_controller, required
from mrclab.hosts.agent.provider.program import ProgramContext
from mrclab.hosts.agent.provider.wire import Op
from mrclab.hosts.mrc.endpoint import MrcEndpoint
from mrclab.hosts.nic.interface import Loop
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.transports import Endpoint
from mrclab.rpc.listener import ListeningSocket
from mrclab.rpc.paths import check_length

log = logging.getLogger(__name__)

_PORT_INTERVAL_S: Final = 0.05  # interval of checks whether a port went down or up
_MAX_FDS: Final = 4
_MAX_MESSAGE: Final = wire.MAX_BYTES + 1024


class Provider:
    """Serves programs on `path`. Have the loop call `service` whenever `fileno` is readable."""

    def __init__(self, path: Path, endpoint: Endpoint, loop: Loop) -> None:
        self._path, self._endpoint, self._loop = path, endpoint, loop
        self._control = ProgramCtl(endpoint, loop) if isinstance(endpoint, MrcEndpoint) else None
        self._programs: dict[int, ProgramContext] = {}  # by connection
        self._by_doorbell: dict[int, ProgramContext] = {}
        self._ports = {port.number: True for port in endpoint.config.ports}
        check_length(path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        path.unlink(missing_ok=True)
        listening.bind(str(path))
        listening.listen(64)
        self._listener = ListeningSocket(listening)
        self._poll = select.epoll()
        self._poll.register(self._listener, select.EPOLLIN)
        endpoint.events.subscriber = self._event
        loop.every(_PORT_INTERVAL_S, self._check_ports)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when there is work."""
        return self._poll.fileno()

    def service(self) -> None:
        """Handle the calls of programs that have arrived."""
        for descriptor, _ in self._poll.poll(0):
            if descriptor == self._listener.fileno():
                self._accept()
            elif descriptor in self._by_doorbell:
                self._by_doorbell[descriptor].on_doorbell()
            elif descriptor in self._programs:
                self._serve(self._programs[descriptor])

    def close(self) -> None:
        """Disconnect all programs; their next call fails."""
        for program in list(self._programs.values()):
            self._drop(program)
        self._poll.close()
        self._listener.close()
        self._path.unlink(missing_ok=True)

    # --- connections --------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        connection = self._listener.accept()
        if connection is None:
            return
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * _MAX_MESSAGE)
        name = self._endpoint.config.host.name
        self._programs[connection.fileno()] = ProgramContext(
            connection, self._endpoint, self._control, name, self._loop
        )
        self._poll.register(connection.fileno(), select.EPOLLIN)

    def _watch_doorbell(self, program: ProgramContext) -> None:
        try:
            self._poll.register(program.doorbell, select.EPOLLIN)
        except OSError as error:
            raise VerbsError("EINVAL", f"the doorbell is no eventfd: {error.strerror}") from None
        self._by_doorbell[program.doorbell] = program

    def _serve(self, program: ProgramContext) -> None:
        try:
            data, descriptors, flags, _ = socket.recv_fds(program.connection, _MAX_MESSAGE, _MAX_FDS)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors, flags = b"", [], 0
        if not data:
            self._drop(program)
            return
        try:
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) or len(data) < wire.HEAD.size:
                raise VerbsError("E2BIG", "a call has one packet and four descriptors at most")
            op, count = wire.HEAD.unpack_from(data)
            end = wire.HEAD.size + 8 * count
            if count > wire.MAX_NUMBERS or end > len(data):
                raise VerbsError("EINVAL", f"a call of {len(data)} bytes holds no {count} numbers")
            numbers = [number for (number,) in wire.U64.iter_unpack(data[wire.HEAD.size : end])]
            if op == Op.CTL_PROBE:
                self._probe(program, numbers, data[end:])
                return
            response = program.handle(op, numbers, data[end:], descriptors)
            if op == Op.HELLO:
                self._watch_doorbell(program)
            self._respond(program, 0, response)
        except VerbsError as error:
            self._respond(program, error.errno, ([], str(error).encode()))
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _probe(self, program: ProgramContext, numbers: list[int], data: bytes) -> None:
        """Respond once the probes are done; the program waits on a separate connection."""
        check_controller(program.is_controller)
        if len(numbers) != 2:
            raise VerbsError("EINVAL", "a batch of probes has a traffic class and a timeout")
        required(self._control).probe(numbers, data, lambda response: self._respond(program, 0, response))

    def _respond(self, program: ProgramContext, error: int, response: Response) -> None:
        if program.connection.fileno() < 0:
            return  # it disconnected while its probes were running
        numbers, data = response
        packet = wire.ANSWER.pack(error, len(numbers)) + b"".join(map(wire.U64.pack, numbers)) + data
        try:
            program.connection.send(packet, socket.MSG_NOSIGNAL)
        except OSError as failure:
            if failure.errno != errno.EPIPE:
                log.warning("a program does not read its responses (%s); it is disconnected", failure)
            self._drop(program)

    def _drop(self, program: ProgramContext) -> None:
        if self._programs.pop(program.connection.fileno(), None) is None:
            return
        self._poll.unregister(program.connection.fileno())
        if self._by_doorbell.pop(program.doorbell, None) is not None:
            self._poll.unregister(program.doorbell)
        program.close()

    # --- events -------------------------------------------------------------------------------------------------------

    def _event(self, event: dict[str, object]) -> None:
        for program in self._programs.values():
            program.event(event)

    def _check_ports(self, _now: float) -> None:
        for number, known in self._ports.items():
            up = self._endpoint.ports.state(number)["up"]
            if up != known:
                self._ports[number] = up
                for program in self._programs.values():
                    program.notify(wire.EVENT_PORT_ACTIVE if up else wire.EVENT_PORT_ERR, number)
