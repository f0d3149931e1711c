"""The control interface of one host (`mrc_ctl`): EV profiles, congestion control profiles, EV probes, port admin state.

Names and errors follow the OCP headers; simplifications of the lab are named where they apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from mrclab.hosts.mrc.cc import controller_config
from mrclab.hosts.mrc.endpoint_ops import ProbeResult
from mrclab.hosts.mrc.evs.evformat import EvFormat, Expansion, uplink_of
from mrclab.hosts.mrc.evs.evprofile import API_STATES, ApiState, EvEvent, EvProfile, EvProfileEntry, Mode, ProfileState
from mrclab.hosts.mrc.evs.paths import EvRoute
from mrclab.hosts.mrc.peers import Peer
from mrclab.hosts.rdma.errors import VerbsError
from mrclab.topo import srv6

if TYPE_CHECKING:
    from mrclab.hosts.mrc.endpoint import MrcEndpoint
    from mrclab.hosts.mrc.qp import MrcQueuePair

MAX_PROBES: Final = 256
_MAX_PROBE_TIMEOUT: Final = 10.0  # seconds
_PROBE_CLASSES: Final = ("NO_TRIM", "CONTROL")


class Ctl:
    """Operations of a controller on a host, and its profiles, by numbers that both kinds share."""

    def __init__(self, endpoint: MrcEndpoint) -> None:
        self._endpoint = endpoint
        self._ev_profiles: dict[int, EvProfile] = {}
        self._cc_profiles: dict[int, tuple[str, dict[str, Any]]] = {}
        self._numbers = count(1)

    # --- EV profiles --------------------------------------------------------------------------------

    def create_ev_profile(
        self,
        mode: Mode,
        fmt: EvFormat,
        ev_count: int,
        ev_min_active: int,
        event_mask: Iterable[ApiState] = (),
        expansion: Expansion | None = None,
    ) -> int:
        """Make a profile in INIT and return its number; a GENERATED one has its entries from the start."""
        made = self.add_ev_profile(mode, fmt, ev_count, ev_min_active, frozenset(event_mask), expansion=expansion)
        if mode is Mode.GENERATED:
            made.generate([port.number for port in self._endpoint.config.ports], self._endpoint.rng)
        return made.number

    def add_ev_profile(
        self, mode: Mode, fmt: EvFormat, count: int, min_active: int, event_mask: frozenset[ApiState], **others: Any
    ) -> EvProfile:
        """Make and keep an EV profile with the next number; `others` are fields of EvProfile."""
        made = EvProfile(next(self._numbers), mode, fmt, count, min_active, event_mask, **others)
        self._ev_profiles[made.number] = made
        return made

    def ev_profile(self, number: int) -> EvProfile:
        """EINVAL if there is no such profile."""
        try:
            return self._ev_profiles[number]
        except KeyError:
            raise VerbsError("EINVAL", f"there is no EV profile {number}") from None

    def modify_ev_profile(self, number: int, state: ProfileState) -> None:
        """Take one step of INIT ⇄ OFFLINE ⇄ ONLINE."""
        self.ev_profile(number).transition(state)

    def destroy_ev_profile(self, number: int) -> None:
        """EBUSY while QPs use it."""
        self.ev_profile(number).check_unused()
        del self._ev_profiles[number]

    def replace_ev(self, number: int, index: int, port: int, value: bytes, all_copies: bool = False) -> None:
        """REPLACE_EV. EBUSY while QPs use the profile: in this lab a QP's set does not change under it."""
        profile = self.ev_profile(number)
        profile.check_unused()
        plane = self._plane(port)
        if profile.format is not EvFormat.UDP:
            uplinks = {0, *self._endpoint.config.uplinks(plane)}
            uplink_of(profile.format, value, plane, tuple(sorted(uplinks)))
        profile.replace(index, port, value, all_copies)

    def modify_ev_state(self, number: int, port: int, value: bytes, state: ApiState, now: float) -> int:
        """MODIFY_EV_STATE to GOOD or DENIED; return how many EVs it changed. ENOENT if none."""
        if state not in {ApiState.GOOD, ApiState.DENIED}:
            raise VerbsError("EINVAL", f"an EV can be set to GOOD or DENIED, not to {state.value}")
        profile = self.ev_profile(number)
        changed = entries = sum((entry.port, entry.value) == (port, value) for entry in profile.entries)
        for qp in self.qps_of(number):
            for ev in qp.evs.by_value.values():
                if not profile.same((ev.path.port, ev.api_value), (port, value)):
                    continue
                changed += not entries
                if state is ApiState.DENIED:
                    qp.evs.deny(ev, now)
                else:
                    qp.evs.allow(ev, now)
                    qp.evs.restore(ev, now, "controller")
            qp.wake()
        if not changed:
            raise VerbsError("ENOENT", f"EV profile {number} has no EV {value.hex()} on port {port}")
        if state is ApiState.DENIED:
            profile.deny(port, value)
        else:
            profile.allow(port, value)
        return changed

    def query_ev_array(self, number: int) -> list[EvProfileEntry]:
        """QUERY_EV_ARRAY: the entries as configured."""
        return list(self.ev_profile(number).entries)

    def query_ev_state(self, qp: int) -> list[tuple[int, bytes, ApiState]]:
        """QUERY_EV_STATE of a QP: port, value and state of each EV."""
        evs = self._endpoint.verbs.qp(qp).evs.by_value.values()
        return [(ev.path.port, ev.api_value, API_STATES[ev.state.value]) for ev in evs]

    def poll_ev_events(self, number: int) -> list[EvEvent]:
        """Events of a profile since the last call."""
        return self.ev_profile(number).events.take()

    def qps_of(self, number: int) -> list[MrcQueuePair]:
        """QPs that were made with an EV profile."""
        qps = self._endpoint.verbs.qps.values()
        return [qp for qp in qps if qp.ev_profile is not None and qp.ev_profile.number == number]

    def _plane(self, port: int) -> int:
        for candidate in self._endpoint.config.ports:
            if candidate.number == port:
                return candidate.plane
        raise VerbsError("EINVAL", f"this host has no port {port}; it has 1…{len(self._endpoint.config.ports)}")

    # --- congestion control profiles ------------------------------------------------------------------

    def create_cc_profile(self, algorithm: str, **config: Any) -> int:
        """Make a profile of a congestion control with its settings (bytes and seconds); return its number."""
        controller_config(algorithm, config)
        number = next(self._numbers)
        self._cc_profiles[number] = algorithm, config
        return number

    def cc_profile_users(self, number: int) -> int:
        """Return the number of QPs made with this profile."""
        self.cc_profile(number)
        return sum(qp.cc_profile == number for qp in self._endpoint.verbs.qps.values())

    def destroy_cc_profile(self, number: int) -> None:
        """EBUSY while QPs use it."""
        users = self.cc_profile_users(number)
        if users:
            raise VerbsError("EBUSY", f"congestion control profile {number} serves {users} QPs; destroy them first")
        del self._cc_profiles[number]

    def cc_profile(self, number: int) -> tuple[str, dict[str, Any]]:
        """Algorithm and parameters; EINVAL if there is no such profile."""
        try:
            return self._cc_profiles[number]
        except KeyError:
            raise VerbsError("EINVAL", f"there is no congestion control profile {number}") from None

    # --- EV probes ------------------------------------------------------------------------------------

    def probe_evs(
        self,
        peer: str,
        evs: list[int],
        timeout: float,
        done: Callable[[list[ProbeResult]], None],
        now: float,
        dscp: str = "NO_TRIM",
    ) -> None:
        """Probe a batch of EVs (32-bit values) of a peer; `done` gets all results, in order, when the last is known.

        `dscp` NO_TRIM takes the queues of data, CONTROL those of acknowledgements.
        """
        if dscp not in _PROBE_CLASSES:
            raise VerbsError("EINVAL", f"dscp {dscp!r} is not for probes; use one of {', '.join(_PROBE_CLASSES)}")
        if not 1 <= len(evs) <= MAX_PROBES:
            raise VerbsError("E2BIG", f"a batch has 1…{MAX_PROBES} probes, not {len(evs)}")
        entry = self._endpoint.peers.peer(peer)
        paths = [(entry, self._path(entry, value)) for value in evs]

        def in_order(results: list[tuple[int, ProbeResult]]) -> None:
            done([result for _, result in sorted(results, key=lambda each: each[0])])

        self.probe(paths, timeout, in_order, now, control=dscp == "CONTROL")

    def probe(
        self,
        paths: Sequence[tuple[Peer, EvRoute]],
        timeout: float,
        done: Callable[[list[tuple[int, ProbeResult]]], None],
        now: float,
        control: bool,
    ) -> None:
        """Probe paths of peers; `done` gets their places and results, in order of arrival, when the last is known."""
        if not 0 < timeout <= _MAX_PROBE_TIMEOUT:
            raise VerbsError("EINVAL", f"timeout {timeout} s is outside 0…{_MAX_PROBE_TIMEOUT} s")
        results: list[tuple[int, ProbeResult]] = []

        def store(at: int, result: ProbeResult) -> None:
            results.append((at, result))
            if len(results) == len(paths):
                done(results)

        for at, (peer, path) in enumerate(paths):
            self._endpoint.ops.probe(peer, path, timeout, partial(store, at), now, control=control)

    def _path(self, peer: Peer, value: int) -> EvRoute:
        fields = srv6.ev_fields(value)
        if not peer.reaches(fields.plane) or fields.uplink not in peer.uplinks(fields.plane):
            raise VerbsError("EINVAL", f"EV {value:#010x} is not a path to {peer.text}")
        return peer.path(value)

    # --- ports ----------------------------------------------------------------------------------------

    def set_port_admin(self, port: int, enabled: bool, now: float) -> None:
        """Disable a port administratively, or allow it again; peers are notified as if the link had failed."""
        self._plane(port)
        self._endpoint.ports.set_admin(port, enabled, now)

    def query_port(self, port: int) -> dict[str, bool]:
        """Administrative state and carrier of a port; up is both."""
        self._plane(port)
        return self._endpoint.ports.state(port)
