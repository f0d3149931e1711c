"""Traffic generator: offers frames at a rate, counts and times those that leave the switch.

Frames go out by sendmmsg(2), many with one call. Frames that come back are counted by the kernel (PACKET_STATISTICS of
a socket that filters by their destination MAC address), so that no receiver can be the bottleneck; the latency run
alone reads it, with the kernel's time of arrival. One thread on one CPU does it all and never sleeps while it sends.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from mrclab.bench.switch import frames
from mrclab.bench.switch.wire import BenchWire
from mrclab.topo.linux.kernel import in_namespace

BATCH = 32
"""Most frames of one call."""
MAX_BACKLOG_S = 0.002
"""Backlog beyond which a delayed generator drops frames rather than send them as one burst."""
IDLE_S = 0.03
"""Idle time after which all frames have arrived."""

_ETH_P_ALL = 3
_SOL_PACKET, _STATISTICS, _QDISC_BYPASS, _IGNORE_OUTGOING = 263, 6, 20, 23
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE, _SO_ATTACH_FILTER, _SO_TIMESTAMPNS = 32, 33, 26, 35
_BUFFER_BYTES = 32 << 20
_SNAP = 160  # bytes kept of a received frame
_ONE_FRAME_S = 2.0  # until a single frame must have left the switch


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _MsgHdr(ctypes.Structure):  # struct mmsghdr on 64-bit Linux
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("vectors", ctypes.c_void_p),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
        ("padding", ctypes.c_uint32),
        ("sent", ctypes.c_uint32),
    )


@dataclass(frozen=True)
class Trial:
    """One trial: frames sent and received, seconds of sending and until the last arrival, the sender's CPU time."""

    sent: int
    received: int
    seconds: float
    until_last: float
    cpu_seconds: float

    @property
    def rate(self) -> float:
        """Frames per second that were offered."""
        return self.sent / self.seconds

    @property
    def throughput(self) -> float:
        """Frames per second received."""
        return self.received / self.until_last

    @property
    def loss(self) -> float:
        """Share of lost frames."""
        return 1 - self.received / self.sent if self.sent else 0.0


class TrafficGenerator:
    """Sends into one port of the switch and receives from the other. OSError where packet sockets are not allowed."""

    def __init__(self, wire: BenchWire) -> None:
        self._mac = wire.port_mac
        self._send = _packet_socket(wire.outside, wire.far(frames.IN_PORT))
        self._send.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _BUFFER_BYTES)
        self._send.setsockopt(_SOL_PACKET, _QDISC_BYPASS, 1)
        self._count = _packet_socket(wire.outside, wire.far(frames.OUT_PORT))
        self._listen = _packet_socket(wire.outside, wire.far(frames.OUT_PORT))
        self._listen.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
        self._listen.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._listen.setblocking(False)
        self._filters = [_destination_filter(frames.OUT_DESTINATION, length) for length in (1, _SNAP, 0)]
        _attach(self._count, self._filters[0])
        _attach(self._listen, self._filters[2])
        self._library = ctypes.CDLL(None, use_errno=True)

    def close(self) -> None:
        """Close the sockets."""
        for end in (self._send, self._count, self._listen):
            end.close()

    def arrived(self) -> int:
        """Return how many forwarded frames have arrived since the last call."""
        packets, _ = struct.unpack("@II", self._count.getsockopt(_SOL_PACKET, _STATISTICS, 8))
        return int(packets)

    def offer(self, size: int, rate: float, seconds: float, mac: bytes | None = None) -> Trial:
        """Send frames of `size` bytes for a while at `rate` per second (infinite: as fast as possible)."""
        call, keep = self._batch(frames.frame(size, mac or self._mac))
        self.arrived()
        sent, begun, cpu = 0, time.perf_counter(), time.thread_time()
        base, end = begun, begun + seconds
        now = begun
        while now < end:
            due = BATCH if math.isinf(rate) else int((now - base) * rate)
            if due > rate * MAX_BACKLOG_S + BATCH:
                base, due = now, BATCH
            done = 0
            while done < due:
                done += max(call(min(due - done, BATCH)), 0)  # retried on an interface that refuses
            if done:
                sent += done
                base += done / rate
            now = time.perf_counter()
        cpu = time.thread_time() - cpu
        received, last = self._drain()
        del keep
        return Trial(sent, received, now - begun, max(last, now) - begun, cpu)

    def latencies(self, size: int, rate: float, count: int) -> list[float]:
        """Send `count` frames one by one at `rate` per second; return the seconds that each took through the switch."""
        _attach(self._listen, self._filters[1])
        raw = bytearray(frames.frame(size, self._mac))
        sent_at: dict[int, int] = {}  # ns, by number from 1: frames of a rate, which may still arrive, have 0
        result = []
        number, begun, last = 0, time.perf_counter(), time.perf_counter()
        while number < count or time.perf_counter() - last < IDLE_S:
            if number < count and time.perf_counter() - begun >= number / rate:
                number += 1
                struct.pack_into(">Q", raw, frames.NUMBER_AT, number)
                sent_at[number] = time.time_ns()
                self._send.send(raw)
                last = time.perf_counter()
            with contextlib.suppress(BlockingIOError):
                data, ancillary, _, _ = self._listen.recvmsg(_SNAP, 64)
                seconds, nanoseconds = struct.unpack("@qq", ancillary[0][2])
                (which,) = struct.unpack_from(">Q", data, frames.NUMBER_AT)
                at = sent_at.pop(which, None)
                if at is not None:
                    result.append((seconds * 10**9 + nanoseconds - at) / 1e9)
        _attach(self._listen, self._filters[2])
        return result

    def send_one(self, size: int) -> bytes | None:
        """Send one frame; return the frame that leaves the switch, None if there is none."""
        _attach(self._listen, _destination_filter(frames.OUT_DESTINATION, 1 << 16))
        try:
            self._send.send(frames.frame(size, self._mac))
            self._listen.settimeout(_ONE_FRAME_S)
            return self._listen.recv(1 << 16)
        except TimeoutError:
            return None
        finally:
            self._listen.setblocking(False)
            _attach(self._listen, self._filters[2])

    def _drain(self) -> tuple[int, float]:
        """Return the number of arrived frames once no more come, and the time of the last."""
        received, last = self.arrived(), time.perf_counter()
        while time.perf_counter() - last < IDLE_S:
            time.sleep(IDLE_S / 30)
            more = self.arrived()
            if more:
                received, last = received + more, time.perf_counter()
        return received, last

    def _batch(self, raw: bytes) -> tuple[Callable[[int], int], object]:
        """Return the function that sends n copies of a frame, and the buffers that it needs."""
        data = ctypes.create_string_buffer(raw, len(raw))
        vector = _IoVec(ctypes.addressof(data), len(raw))
        messages = (_MsgHdr * BATCH)()
        for message in messages:
            message.vectors, message.vector_count = ctypes.addressof(vector), 1
        sendmmsg, descriptor = self._library.sendmmsg, self._send.fileno()
        sendmmsg.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int)
        address = ctypes.addressof(messages)

        def send(count: int) -> int:
            return int(sendmmsg(descriptor, address, count, 0))

        return send, (data, vector, messages)


def _packet_socket(namespace: int, interface: str) -> socket.socket:
    def body() -> socket.socket:
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        end.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
        end.bind((interface, _ETH_P_ALL))
        return end

    return in_namespace(namespace, body)


def _destination_filter(destination: int, length: int) -> bytes:
    """Return a classic BPF program that lets the first `length` bytes of frames to a MAC address in."""
    low, high = destination & 0xFFFFFFFF, destination >> 32
    return b"".join(
        struct.pack("@HBBI", *step)
        for step in (
            (0x20, 0, 0, 2),  # ld [2]: the last four bytes of the destination
            (0x15, 0, 3, low),  # jeq
            (0x28, 0, 0, 0),  # ldh [0]
            (0x15, 0, 1, high),  # jeq
            (0x06, 0, 0, length),  # ret length
            (0x06, 0, 0, 0),  # ret 0
        )
    )


def _attach(end: socket.socket, program: bytes) -> None:
    buffer = ctypes.create_string_buffer(program, len(program))
    end.setsockopt(
        socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HL", len(program) // 8, ctypes.addressof(buffer))
    )


def pin(cpu: int) -> None:
    """Keep this thread on one CPU."""
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, {cpu})
