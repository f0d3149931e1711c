"""The control interface of a host for programs: calls to bytes and back; its objects are profiles of EVs and CC."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

from mrclab.hosts.agent.provider import wire
from mrclab.hosts.agent.provider.profiles import (
    FORMATS,
    MAX_PROFILES,
    STATES,
    CcProfiles,
    EvOp,
    EvProfileMask,
    EvProfiles,
    invalid,
)
from mrclab.hosts.agent.provider.rings import Channel
from mrclab.hosts.agent.provider.wire import Op
from mrclab.hosts.mrc.ctl import MAX_PROBES
from mrclab.hosts.mrc.endpoint import MrcEndpoint
from mrclab.hosts.mrc.endpoint_ops import ProbeResult
from mrclab.hosts.mrc.evs.evformat import uplink_of
from mrclab.hosts.mrc.evs.evprofile import MAX_EVS, EvEvent, EvEvents
from mrclab.hosts.mrc.packets.headers import Dscp
from mrclab.hosts.nic.interface import Loop
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.topo import srv6

Response = tuple[list[int], bytes]
Call = Callable[[list[int], bytes], Response]


def check_controller(is_controller: bool) -> None:
    """EPERM for a program that may not use the control interface."""
    if not is_controller:
        raise VerbsError("EPERM", "the control interface is for processes with CAP_NET_ADMIN")


class EvQueue:
    """A program's queue of EV events; if `armed`, the program is notified of the next one."""

    def __init__(self, handle: int, depth: int, channel: Channel | None) -> None:
        self.handle, self.channel = handle, channel
        self._events = EvEvents(depth)
        self.armed = False

    def add(self, event: EvEvent) -> None:
        """An EV changed its state."""
        if self._events.add(event) and self.armed and self.channel is not None:
            self.armed = False
            self.channel.notify(self.handle)

    def take(self, most: int) -> list[bytes]:
        """Remove and return up to `most` events, oldest first."""
        return [
            wire.EV_EVENT.pack(
                event.profile, event.value.ljust(32, b"\0"), event.port, event.dropped, STATES[event.state]
            )
            for event in self._events.take(most)
        ]


def required(control: ProgramCtl | None) -> ProgramCtl:
    """Return the control interface; EOPNOTSUPP for a transport without one."""
    if control is None:
        raise VerbsError("EOPNOTSUPP", "this host runs RoCEv2, which has no EVs and no control interface of MRC")
    return control


class ProgramCtl:
    """mrc_ctl of one host, shared by all programs; each EV event goes to all `queues`.

    The method of an operation has its name.
    """

    def __init__(self, endpoint: MrcEndpoint, loop: Loop) -> None:
        self._endpoint, self._loop = endpoint, loop
        self.queues: list[EvQueue] = []
        self.ctl = endpoint.ctl
        self.evs = EvProfiles(endpoint, self.ctl, self._deliver, loop)
        self.ccs = CcProfiles(self.ctl)

    def handle(self, op: Op, numbers: list[int], data: bytes, is_controller: bool) -> Response:
        """Handle a call; EPERM unless the program is a controller."""
        if op is not Op.CTL_QUERY_DEVICE:
            check_controller(is_controller)
        call: Call = getattr(self, f"_{op.name.lower()}")
        return call(numbers, data)

    def _deliver(self, event: EvEvent) -> None:
        for queue in self.queues:
            queue.add(event)

    # --- device, ports ------------------------------------------------------------------------------------------------

    def _ctl_query_device(self, _numbers: list[int], _data: bytes) -> Response:
        ports = sum(1 << port.number for port in self._endpoint.config.ports)
        free = self.evs.free()
        numbers = [MAX_PROFILES, MAX_PROFILES, MAX_PROFILES * MAX_EVS, free, MAX_EVS, 1, 256, sum(FORMATS), 7, 1024]
        return [*numbers, MAX_PROFILES, ports], b""

    def _ctl_query_port(self, numbers: list[int], _data: bytes) -> Response:
        return [int(self.ctl.query_port(numbers[0])["enabled"])], b""

    def _ctl_modify_port(self, numbers: list[int], _data: bytes) -> Response:
        self.ctl.set_port_admin(numbers[0], bool(numbers[1]), self._loop.now)
        return [], b""

    # --- EV formats ---------------------------------------------------------------------------------------------------

    def _ctl_modify_ev_fmt(self, numbers: list[int], data: bytes) -> Response:
        number, mask, to, current, mode, fields = numbers
        vendor, widths = data[: wire.VENDOR_BYTES], tuple(data[wire.VENDOR_BYTES : wire.VENDOR_BYTES + fields])
        self.evs.modify_format(number, mask, to, current, mode=mode, widths=widths, vendor=vendor)
        return [], b""

    def _ctl_query_ev_fmt(self, numbers: list[int], _data: bytes) -> Response:
        profile = self.evs.formats.profile(numbers[0])
        return [profile.state, profile.mode, len(profile.widths)], profile.vendor + bytes(profile.widths)

    # --- EV profiles --------------------------------------------------------------------------------------------------

    def _ctl_modify_ev(self, numbers: list[int], data: bytes) -> Response:
        number, mask, to, current, mode, fmt, count, least, events, op, entries, _, fields = numbers
        at = wire.VENDOR_BYTES
        self.evs.modify(
            number, EvProfileMask(mask), to, current, op,
            [wire.EV_ENTRY.unpack_from(data, at + n * wire.EV_ENTRY.size) for n in range(entries)],
            mode=mode, format=fmt, count=count, min_active=least, events=events, vendor=data[:at],
            fields=[wire.FIELD.unpack_from(data, at + n * wire.FIELD.size) for n in range(fields)],
        )  # fmt: skip
        return [], b""

    def _ctl_query_ev(self, numbers: list[int], data: bytes) -> Response:
        number, mask, *_, op, entries, _, _ = numbers
        profile = self.evs.profile(number)
        found = b""
        given = fields = 0
        if EvProfileMask(mask) & EvProfileMask.EV_OP and op == EvOp.QUERY_STATE:
            at, size = wire.VENDOR_BYTES, wire.EV_ENTRY.size
            given_evs = [wire.EV_ENTRY.unpack_from(data, at + n * size) for n in range(entries)]
            named = [(port, value) for value, port, *_ in given_evs]
            for (port, value), state in zip(named, self.evs.states(profile, named), strict=True):
                found += wire.EV_ENTRY.pack(value, port, bytes(32), 0, state, 0)
            given = entries
        elif EvProfileMask(mask) & EvProfileMask.EV_OP:
            rows = self.evs.array(profile)
            found = b"".join(wire.EV_ENTRY.pack(value, port, bytes(32), 0, state, 0) for value, port, state in rows)
            given = len(rows)
        elif EvProfileMask(mask) & EvProfileMask.FIELDS_OP:
            found = b"".join(wire.FIELD.pack(*one) for one in profile.fields)
            fields = len(profile.fields)
        numbers = [profile.state, profile.mode, profile.format, profile.count, profile.min_active, profile.events]
        return [*numbers, given, fields], profile.vendor + found

    # --- congestion control -------------------------------------------------------------------------------------------

    def _ctl_modify_cc(self, numbers: list[int], data: bytes) -> Response:
        number, mask, to, current, *config = numbers
        algorithm = data[wire.VENDOR_BYTES :].decode("ascii", "replace")
        vendor = data[: wire.VENDOR_BYTES]
        self.ccs.modify(number, mask, to, current, algorithm=algorithm, config=config, vendor=vendor)
        return [], b""

    def _ctl_query_cc(self, numbers: list[int], _data: bytes) -> Response:
        profile = self.ccs.profile(numbers[0])
        config = [*(profile.config or ()), *[0] * 13][:13]
        return [profile.state, int(bool(profile.algorithm)), *config], profile.vendor

    # --- probes -------------------------------------------------------------------------------------------------------

    def probe(self, numbers: list[int], data: bytes, done: Callable[[Response], None]) -> None:
        """Probe paths; `done` gets the responses in order of arrival, once all arrived or the time is over."""
        traffic_class, timeout_ns = numbers
        count, rest = divmod(len(data), wire.PROBE.size)
        if rest or not 1 <= count <= MAX_PROBES:
            raise invalid(f"a batch has 1…{MAX_PROBES} probes")
        idents, paths = [], []
        for n, (gid, value, port, fmt, ident) in enumerate(wire.PROBE.iter_unpack(data)):
            if fmt not in FORMATS:
                raise invalid(f"there is no EV format mode {fmt}")
            self.ctl.query_port(port)
            plane = next(one.plane for one in self._endpoint.config.ports if one.number == port)
            peer = self._endpoint.peers.peer(str(ipaddress.IPv6Address(gid)))
            size = FORMATS[fmt].value
            uplink = uplink_of(FORMATS[fmt], value[:size], plane, peer.uplinks(plane), hashed=True)
            idents.append(ident)
            paths.append((peer, peer.path(srv6.ev(plane, uplink, srv6.ev_tag(n)))))

        def respond(results: list[tuple[int, ProbeResult]]) -> None:
            answered = [
                wire.PROBE_ANSWER.pack(idents[at], result.port or 0, min(int(result.rtt * 1e9), 0xFFFFFFFF), 1)
                for at, result in results
                if result.rtt is not None
            ]
            done(([], b"".join(answered)))

        self.ctl.probe(paths, timeout_ns * 1e-9, respond, self._loop.now, control=traffic_class >> 2 == Dscp.CONTROL)
