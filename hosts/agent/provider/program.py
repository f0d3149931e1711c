"""One program on this host's NIC: its connection, and all its objects, which end with it."""

from __future__ import annotations

import contextlib
import ipaddress
import itertools
import mmap
import os
import socket
import struct
from typing import Any, Final, TypeVar, cast

from mrclab.hosts.agent.provider import wire
from mrclab.hosts.agent.provider.control import EvQueue, ProgramCtl, Response, check_controller, required
from mrclab.hosts.agent.provider.memory import RegionView
from mrclab.hosts.agent.provider.qp import NUMBERS, ProgramQp
from mrclab.hosts.agent.provider.rings import FENCE, Channel, QpRings, SharedQueue, map_shared, power_of_two
from mrclab.hosts.agent.provider.wire import Op
from mrclab.hosts.mrc.endpoint import MrcEndpoint
from mrclab.hosts.nic.interface import Loop
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.rdma.memory import Access
from mrclab.hosts.rdma.verbs import MAX_CQE, MAX_QP, MAX_RECV_WR, MAX_SEND_WR, Verbs
from mrclab.hosts.transports import Endpoint

_EMPTY: Final[Response] = ([], b"")
_MAX_OBJECTS: Final = 4096  # of a kind and program
_GIDS: Final = 4
_CAPABILITIES: Final = 7  # TRIM_NACK, DYNAMIC_MPR, SVC_TIME


T = TypeVar("T")


class ProgramObjects(dict[int, T]):
    """Objects of one kind of a program, by handle; `title` names the kind in messages."""

    def __init__(self, title: str, most: int = _MAX_OBJECTS) -> None:
        super().__init__()
        self._title = title
        self._most = most

    def check_room(self) -> None:
        """ENOMEM if the program has as many as it may."""
        if len(self) >= self._most:
            raise VerbsError("ENOMEM", f"a program has at most {self._most} {self._title}s")

    def find(self, handle: int) -> T:
        """Return an object; EINVAL if the program has none with this handle."""
        if handle not in self:
            raise VerbsError("EINVAL", f"this program has no {self._title} {handle}")
        return self[handle]


class ProgramContext:
    """Agent's end of one context. `handle` handles a call, by the method of its name; `close` removes everything."""

    def __init__(
        self,
        connection: socket.socket,
        endpoint: Endpoint,
        control: ProgramCtl | None,
        name: str,
        loop: Loop,
    ) -> None:
        self.connection = connection
        self.qps: ProgramObjects[ProgramQp] = ProgramObjects("QP", MAX_QP)
        self.doorbell = -1
        self._endpoint, self._control, self._name, self._loop = endpoint, control, name, loop
        self._verbs: Verbs[Any] = endpoint.verbs
        self._memory = self._events = -1
        self._page: mmap.mmap | None = None
        self._pds: ProgramObjects[int] = ProgramObjects("protection domain")
        self._regions: ProgramObjects[RegionView] = ProgramObjects("memory region")
        self._channels: ProgramObjects[Channel] = ProgramObjects("completion channel")
        self._cqs: ProgramObjects[SharedQueue] = ProgramObjects("completion queue")
        self._ev_cqs: ProgramObjects[EvQueue] = ProgramObjects("EV event queue")
        self._handles = itertools.count(1)  # of channels and queues
        *_, uid, _ = struct.unpack("=iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        self.is_controller = uid == 0

    def handle(self, op: int, numbers: list[int], data: bytes, descriptors: list[int]) -> Response:
        """Execute a program's call; VerbsError if it is refused. Descriptors that are kept leave the list."""
        if op != Op.HELLO and self._memory < 0:
            raise VerbsError("EPROTO", "the first call of a program must be HELLO")
        try:
            call = getattr(self, f"_{Op(op).name.lower()}", None)
            if call is not None:
                return cast(Response, call(numbers, data, descriptors))
            return required(self._control).handle(Op(op), numbers, data, self.is_controller)
        except (ValueError, IndexError, struct.error, OSError) as error:
            # too few numbers or bytes, an unknown operation, or a descriptor of another kind
            raise VerbsError("EINVAL", f"malformed call {op}: {error}") from None

    # --- the program itself -------------------------------------------------------------------------------------------

    def _hello(self, numbers: list[int], _data: bytes, descriptors: list[int]) -> Response:
        if numbers[0] != wire.VERSION:
            raise VerbsError("EPROTO", f"lib_mrc.so uses protocol version {numbers[0]}, this agent {wire.VERSION}")
        if len(descriptors) != 4 or self._memory >= 0:
            raise VerbsError("EINVAL", "HELLO is sent once, with four descriptors")
        self._page = map_shared(descriptors[3], wire.PAGE_BYTES)
        os.close(descriptors.pop())
        self._events, self.doorbell, self._memory = descriptors.pop(), descriptors.pop(), descriptors.pop()
        for descriptor in (self._events, self.doorbell):
            os.set_blocking(descriptor, False)
        config = self._endpoint.config
        guid = int(ipaddress.IPv6Address(config.host.address)) & (1 << 64) - 1
        return [len(config.ports), config.path_mtu, guid], self._name.encode()

    def on_doorbell(self) -> None:
        """Clear the doorbell: from now on the program rings again."""
        assert self._page is not None
        with contextlib.suppress(OSError):
            os.read(self.doorbell, 8)
        self._page[:] = bytes(wire.PAGE_BYTES)
        with FENCE:  # later posts ring; earlier ones are seen below
            self.pump()

    def pump(self) -> None:
        """Process all rings."""
        for qp in self.qps.values():
            qp.pump()

    def notify(self, kind: int, handle: int) -> None:
        """Send an asynchronous event; events are lost if the program does not read them and the pipe is full."""
        with contextlib.suppress(OSError):
            os.write(self._events, wire.EVENT.pack(kind, handle))

    def _on_exit(self) -> None:
        """The program's memory ended before its connection: silence its QPs at once."""
        for qp in self.qps.values():
            qp.silence()
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Remove everything that the program made."""
        for qp in self.qps.values():
            qp.destroy()
        self.qps.clear()
        for lkey in self._regions:
            self._verbs.dereg_mr(lkey)
        for queue in self._cqs.values():
            self._verbs.destroy_cq(queue.number)
            queue.close()
        for ev_queue in self._ev_cqs.values():
            required(self._control).queues.remove(ev_queue)
        for pd in self._pds:
            self._verbs.dealloc_pd(pd)
        for channel in self._channels.values():
            channel.close()
        for descriptor in (self._memory, self._events, self.doorbell):
            if descriptor >= 0:
                os.close(descriptor)
        if self._page is not None:
            self._page.close()
        self.connection.close()

    @staticmethod
    def _descriptor(descriptors: list[int]) -> int:
        if len(descriptors) != 1:
            raise VerbsError("EINVAL", "this call passes one descriptor")
        return descriptors[0]

    # --- queries ------------------------------------------------------------------------------------------------------

    def _query_device(self, _numbers: list[int], _data: bytes, _fds: list[int]) -> Response:
        capabilities = _CAPABILITIES if isinstance(self._endpoint, MrcEndpoint) else 0
        return [MAX_QP, min(MAX_SEND_WR, MAX_RECV_WR), _MAX_OBJECTS, MAX_CQE, 0xFFFF, 255, capabilities], b""

    def _query_port(self, numbers: list[int], _data: bytes, _fds: list[int]) -> Response:
        state = self._port(numbers[0])
        return [state["up"], state["enabled"], state["carrier"]], b""

    def _port(self, number: int) -> dict[str, bool]:
        if all(port.number != number for port in self._endpoint.config.ports):
            raise VerbsError("EINVAL", f"this host has no port {number}")
        return self._endpoint.ports.state(number)

    def _query_gid(self, numbers: list[int], _data: bytes, _fds: list[int]) -> Response:
        """Return the one address of all ports for every index, so that programs for other NICs find it."""
        self._port(numbers[0])
        if numbers[1] >= _GIDS:
            raise VerbsError("EINVAL", f"there is no GID {numbers[1]}; there are {_GIDS}")
        return [], ipaddress.IPv6Address(self._endpoint.config.host.address).packed

    # --- memory -------------------------------------------------------------------------------------------------------

    def _alloc_pd(self, _numbers: list[int], _data: bytes, _fds: list[int]) -> Response:
        self._pds.check_room()
        pd = self._verbs.alloc_pd()
        self._pds[pd] = pd
        return [pd], b""

    def _dealloc_pd(self, numbers: list[int], _data: bytes, _fds: list[int]) -> Response:
        pd = self._pds.find(numbers[0])
        if any(qp.pd == pd for qp in self.qps.values()):
            raise VerbsError("EBUSY", f"protection domain {pd} still has QPs; destroy them first")
        self._verbs.dealloc_pd(pd)
        del self._pds[pd]
        return _EMPTY

    def _reg_mr(self, numbers: list[int], _data: bytes, _fds: list[int]) -> Response:
        pd, address, length, iova, access = numbers
        self._regions.check_room()
        if iova + length > 1 << 64:
            raise VerbsError("EINVAL", f"{length} bytes do not fit behind {iova:#x}")
        rights = Access(access & (wire.ACCESS_LOCAL_WRITE | wire.ACCESS_REMOTE_WRITE))
        view = RegionView(self._memory, address, length, self._on_exit)
        region = view.region = self._verbs.memory.enter(view, self._pds.find(pd), rights, iova)
        self._regions[region.lkey] = view
        return [region.lkey, region.rkey], b""

    def _dereg_mr(self, numbers: list[int], _data: bytes, _fds: list[int]) -> Response:
        self._regions.find(numbers[0])
        self._verbs.dereg_mr(numbers[0])
        del self._regions[numbers[0]]
        return _EMPTY

    # --- completion queues --------------------------------------------------------------------------------------------

    def _create_channel(self, _numbers: list[int], _data: bytes, descriptors: list[int]) -> Response:
        self._channels.check_room()
        handle = next(self._handles)
        self._channels[handle] = Channel(self._descriptor(descriptors))
        descriptors.clear()
        return [handle], b""

    def _channel(self, handle: int) -> Channel | None:
        """Return a channel; None for 0, which means none."""
        return self._channels.find(handle) if handle else None

    def _destroy_channel(self, numbers: list[int], _data: bytes, _fds: list[int]) -> Response:
        channel = self._channels.find(numbers[0])
        queues: list[SharedQueue | EvQueue] = [*self._cqs.values(), *self._ev_cqs.values()]
        users = sum(queue.channel is channel for queue in queues)
        if users:
            raise VerbsError("EBUSY", f"completion channel {numbers[0]} serves {users} queues")
        del self._channels[numbers[0]]
        channel.close()
        return _EMPTY

    def _create_cq(self, numbers: list[int], _data: bytes, descriptors: list[int]) -> Response:
        entries = power_of_two(numbers[0], MAX_CQE, "entries")
        channel, descriptor = self._channel(numbers[1]), self._descriptor(descriptors)
        self._cqs.check_room()
        handle = next(self._handles)
        queue = self._verbs.add_cq(lambda number: SharedQueue(number, entries, descriptor, channel, self.qps))
        queue.handle = handle
        self._cqs[handle] = queue
        return [handle], b""

    def _destroy_cq(self, numbers: list[int], _data: bytes, _fds: list[int]) -> Response:
        queue = self._cqs.find(numbers[0])
        if any(queue in qp.queues for qp in self.qps.values()):
            raise VerbsError("EBUSY", f"completion queue {numbers[0]} serves QPs; destroy them first")
        self._verbs.destroy_cq(queue.number)
        del self._cqs[numbers[0]]
        queue.close()
        return _EMPTY

    # --- queue pairs --------------------------------------------------------------------------------------------------

    def _create_qp(self, numbers: list[int], _data: bytes, descriptors: list[int]) -> Response:
        pd, send, recv, sends, receives, signal_all = numbers
        self.qps.check_room()
        rings = QpRings(
            self._descriptor(descriptors),
            power_of_two(sends, MAX_SEND_WR, "send requests"),
            power_of_two(receives, MAX_RECV_WR, "receives"),
        )
        queues = self._cqs.find(send), self._cqs.find(recv)
        qp = ProgramQp(self._endpoint, self._control, rings, self._pds.find(pd), *queues, bool(signal_all), self._loop)
        self.qps[qp.number] = qp
        return [qp.number], b""

    def _modify_qp(self, numbers: list[int], data: bytes, _fds: list[int]) -> Response:
        given = dict(zip(NUMBERS, numbers, strict=True))
        if given["vmask"] & wire.V.AV and len(data) != 16:
            raise VerbsError("EINVAL", "an address vector needs a GID")
        self.qps.find(given["qp"]).modify(given, data)
        return _EMPTY

    def _query_qp(self, numbers: list[int], _data: bytes, _fds: list[int]) -> Response:
        return self.qps.find(numbers[0]).query()

    def _destroy_qp(self, numbers: list[int], _data: bytes, _fds: list[int]) -> Response:
        qp = self.qps.find(numbers[0])
        qp.destroy()
        del self.qps[qp.number]
        return _EMPTY

    def event(self, event: dict[str, object]) -> None:
        """Handle an asynchronous event of the transport, if it belongs to this program."""
        number = event.get("qp")
        qp = self.qps.get(number) if isinstance(number, int) else None
        if event["event"] == "QP_FATAL" and qp is not None:
            if qp.failed():
                self.notify(wire.EVENT_QP_FATAL, qp.number)
        elif event["event"] == "CQ_ERR":
            for queue in self._cqs.values():
                if queue.number == event.get("cq"):
                    self.notify(wire.EVENT_CQ_ERR, queue.handle)

    # --- EV events ----------------------------------------------------------------------------------------------------

    def _ctl_create_ev_cq(self, numbers: list[int], _data: bytes, _fds: list[int]) -> Response:
        check_controller(self.is_controller)
        control = required(self._control)
        channel = self._channel(numbers[1])
        if not 1 <= numbers[0] <= MAX_CQE:
            raise VerbsError("EINVAL", f"{numbers[0]} entries are outside 1…{MAX_CQE}")
        self._ev_cqs.check_room()
        handle = next(self._handles)
        self._ev_cqs[handle] = EvQueue(handle, numbers[0], channel)
        control.queues.append(self._ev_cqs[handle])
        return [handle], b""

    def _ctl_poll_ev(self, numbers: list[int], _data: bytes, _fds: list[int]) -> Response:
        return [], b"".join(self._ev_cqs.find(numbers[0]).take(numbers[1]))

    def _ctl_arm_ev_cq(self, numbers: list[int], _data: bytes, _fds: list[int]) -> Response:
        self._ev_cqs.find(numbers[0]).armed = True
        return _EMPTY

    def _ctl_destroy_ev_cq(self, numbers: list[int], _data: bytes, _fds: list[int]) -> Response:
        required(self._control).queues.remove(self._ev_cqs.find(numbers[0]))
        del self._ev_cqs[numbers[0]]
        return _EMPTY
