"""Reliability probes of one QP: path probes of retired EVs, and SACK probes of a peer that does not respond.

docs/mrc-protocol.md §1.4.4 and §2.7: each ASSUMED_BAD EV is probed at an interval that doubles with every failure; it
returns after K clean responses in a row, K doubling when it fails again soon. Probes ride the data class, use no PSN,
and count in no loss statistics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mrclab.hosts.mrc.evs.ev import Ev, ProbeState
from mrclab.hosts.mrc.evs.states import EvState
from mrclab.hosts.mrc.packets import headers as h
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.packets.path import Frame

if TYPE_CHECKING:
    from mrclab.hosts.mrc.qp import MrcQueuePair

_TRAFFIC_CLASS: Final = h.TC_NO_TRIM
_ID_MASK: Final = 0xFFFF
_JITTER: Final = 0.25  # of an interval: most by which a probe after a failed one is delayed
_LATE_MARGIN: Final = 1.5  # factor on the time of a late response, until the next probe has failed
_SAME_PEER_INTERVALS: Final = 2  # longest intervals for another QP of the same peer to restore a path
_MAX_OUTSTANDING: Final = 1024  # probes without a response; the oldest are forgotten


class Outstanding:
    """A probe without a response so far: `path_test` True for a path probe, False for a SACK probe."""

    __slots__ = ("ev", "path_test", "sent_at")

    def __init__(self, ev: Ev, sent_at: float, path_test: bool) -> None:
        self.ev = ev
        self.sent_at = sent_at
        self.path_test = path_test


_NONE_QUEUED: Final[dict[int, list[Ev]]] = {}  # stay empty: most QPs send no probe
_NONE_SENT: Final[dict[int, Outstanding]] = {}


class Prober:
    """Probes of one QP."""

    __slots__ = (
        "_next_id", "_overdue", "_policy", "_qp", "_rtt", "_sack_plane", "_sent", "_slowest", "last_sack_probe",
        "queued", "sack_backoff", "sack_probe_due", "sack_probe_rtt",
    )  # fmt: skip

    def __init__(self, qp: MrcQueuePair) -> None:
        self._qp = qp
        self._policy = qp.settings.ev
        self._rtt = qp.settings.base_rtt
        self.last_sack_probe = float("-inf")
        self.sack_backoff = 1  # doubles with each SACK probe without a response
        self.sack_probe_due = False
        self.sack_probe_rtt = 0.0  # of the last SACK probe with a response, until data gives a round-trip time
        self._sack_plane = 0  # plane of the next SACK probe
        self.queued: dict[int, list[Ev]] = _NONE_QUEUED  # plane -> EVs whose probe waits for the port
        self._sent: dict[int, Outstanding] = _NONE_SENT
        self._overdue: dict[int, Outstanding] = _NONE_SENT  # timed out, but perhaps only late
        self._slowest = 0.0  # seconds of the last late response to a path probe; 0: none since one in time
        self._next_id = 0

    # --- what to probe ----------------------------------------------------------------------------

    def watch(self, ev: Ev, now: float, by_same_peer: bool = False) -> None:
        """Schedule the recovery of a retired EV; another QP of the same peer that reported it probes first."""
        state = ev.probing
        if state is None:
            state = ev.probing = ProbeState(self._qp.endpoint.timers.timer(lambda at: self._due(ev, at)))
        policy = self._policy
        again = now - state.failed_at < policy.refail_window
        state.needed = min(2 * state.needed, policy.successes_cap) if again else policy.successes_needed
        state.failed_at = now
        state.successes = 0
        state.probe_id = None
        state.by_same_peer = by_same_peer
        state.reserved = False
        state.interval = policy.probe_interval_rtts * self._rtt
        first = state.interval
        if by_same_peer:
            first = _SAME_PEER_INTERVALS * policy.probe_backoff_cap * state.interval
        state.timer.arm(now + max(first, policy.hold_down))

    @staticmethod
    def is_by_same_peer(ev: Ev) -> bool:
        """Return True if another QP of the same peer reported this EV."""
        return ev.probing is not None and ev.probing.by_same_peer

    def unwatch(self, ev: Ev) -> None:
        """Stop probing this EV."""
        if ev.probing is not None:
            ev.probing.timer.cancel()

    def next_sack_probe(self, last_progress: float, srtt: float) -> float:
        """Return the time of the next SACK probe: after an idle time that doubles up to the ACK timeout.

        Probes that wait longer in the queues than the data before them are sent as slowly as responses come: where
        ports count packets and not bytes they would fill the queue, and all data would be trimmed forever.
        """
        settings = self._qp.settings
        quiet = settings.tail_probe_rtts * max(settings.base_rtt, srtt, self.sack_probe_rtt)
        longer = min(quiet * self.sack_backoff, max(quiet, settings.ack_timeout))
        return max(last_progress + quiet, self.last_sack_probe + longer)

    def request_sack(self, now: float) -> None:
        """Queue a SACK probe; each takes the next usable plane."""
        self.last_sack_probe = now
        evs = self._qp.evs
        planes = sorted(plane for plane in evs.planes if evs.usable(plane)) or sorted(evs.planes)
        self._sack_plane = next((plane for plane in planes if plane > self._sack_plane), planes[0])
        self.sack_backoff = min(2 * self.sack_backoff, 1 << 20)
        self.sack_probe_due = True
        self._qp.urgent()

    def stop(self) -> None:
        """End all probes with the QP."""
        self.sack_backoff = 1
        self.sack_probe_due = False
        self.queued = _NONE_QUEUED
        self._sent = self._overdue = _NONE_SENT
        evs = self._qp.known_evs
        for ev in evs.by_value.values() if evs is not None else ():
            self.unwatch(ev)

    def _due(self, ev: Ev, now: float) -> None:
        state = ev.probing
        if state is None or ev.state is not EvState.ASSUMED_BAD:
            return
        if state.probe_id is not None:
            self._failed(ev, state, now)
            return
        reserved, state.reserved = state.reserved, False
        if self._qp.evs.planes[ev.plane].up:
            if not reserved:
                slot = self._qp.endpoint.probe_slot(ev.plane, now)
                if slot > now:
                    state.reserved = True
                    state.timer.arm(slot)
                    return
            if self.queued is _NONE_QUEUED:
                self.queued = {}
            waiting = self.queued.setdefault(ev.plane, [])
            if ev not in waiting:
                waiting.append(ev)
            self._qp.urgent()
        state.timer.arm(now + state.interval)

    def _failed(self, ev: Ev, state: ProbeState, now: float) -> None:
        given_up = self._sent.pop(state.probe_id or 0, None)
        if given_up is not None:
            if self._overdue is _NONE_SENT:
                self._overdue = {}
            elif len(self._overdue) >= _MAX_OUTSTANDING:
                del self._overdue[next(iter(self._overdue))]
            self._overdue[state.probe_id or 0] = given_up
        state.probe_id = None
        state.successes = 0
        policy = self._policy
        first = policy.probe_interval_rtts * self._rtt
        state.interval = min(2 * state.interval, policy.probe_backoff_cap * first)
        # Probes of several QPs that failed together would queue behind each other, each response too late to count.
        wait = state.interval * (1 + _JITTER * self._qp.endpoint.rng.random())
        state.timer.arm(now + wait)
        self._qp.log("probe.lost", ev=ev.value, next_in=wait)

    def _timeout(self) -> float:
        """Return the seconds until a path probe has failed; longer if responses came too late."""
        policy = self._policy
        longest = policy.probe_interval_rtts * policy.probe_backoff_cap * self._rtt
        return max(policy.probe_timeout_rtts * self._rtt, min(_LATE_MARGIN * self._slowest, longest))

    # --- frames -----------------------------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        """True if a probe waits for a port."""
        return self.sack_probe_due or bool(self.queued)

    def has_probe(self, plane: int) -> bool:
        """Return True if a probe waits for this plane."""
        return bool(self.queued.get(plane)) or (self.sack_probe_due and plane == self._sack_plane)

    def frame(self, plane: int, now: float) -> Frame | None:
        """Return the next probe of this plane."""
        waiting = self.queued.get(plane)
        while waiting:
            ev = waiting.pop(0)
            if ev.state is EvState.ASSUMED_BAD and ev.probing is not None:
                ev.probing.probe_id = self._next_id
                ev.probing.timer.arm(now + self._timeout())
                self._qp.stats.path_probes += 1
                if not waiting:
                    del self.queued[plane]
                return self._build(ev, now, path_test=True)
        self.queued.pop(plane, None)
        if not self.sack_probe_due or plane != self._sack_plane:
            return None
        if self._qp.requestor.in_flight:
            chosen = self._qp.evs.select(plane, now)
            if chosen is not None:
                self.sack_probe_due = False
                self._qp.stats.tail_probes += 1
                return self._build(chosen, now, path_test=False)
        else:
            self.sack_probe_due = False
        return None

    def _build(self, ev: Ev, now: float, path_test: bool) -> Frame:
        probe_id = self._next_id
        self._next_id = probe_id + 1 & _ID_MASK
        if self._sent is _NONE_SENT:
            self._sent = {}
        elif len(self._sent) >= _MAX_OUTSTANDING:
            del self._sent[next(iter(self._sent))]
        self._sent[probe_id] = Outstanding(ev, now, path_test)
        content = h.Probe(probe_id, h.timestamp(now))
        return ev.path.packet(_TRAFFIC_CLASS, h.MrcOpcode.PROBE, self._qp.remote_qpn, 0, content, wire.FLAG_ACK_REQUEST)

    # --- responses --------------------------------------------------------------------------------

    def on_reply(self, probe_id: int, mark: int, now: float) -> float | None:
        """Take in a SACK with PR; return the sending time of its probe, None for an unknown one."""
        probe = self._sent.pop(probe_id, None)
        if probe is None:
            late = self._overdue.pop(probe_id, None)
            if late is not None:
                self._slowest = now - late.sent_at
            return None
        self._qp.stats.probe_replies += 1
        if probe.path_test:
            self._on_path_response(probe, probe_id, mark, now)
        else:
            self.sack_probe_rtt = now - probe.sent_at
        return probe.sent_at

    def _on_path_response(self, probe: Outstanding, probe_id: int, mark: int, now: float) -> None:
        ev = probe.ev
        state = ev.probing
        if state is None or ev.state is not EvState.ASSUMED_BAD or state.probe_id != probe_id:
            return
        if mark == h.Mark.ALWAYS_SKIP:
            self._failed(ev, state, now)
            return
        if now - probe.sent_at <= self._policy.probe_timeout_rtts * self._rtt:
            self._slowest = 0.0
        state.probe_id = None
        state.successes += 1
        state.interval = self._policy.probe_interval_rtts * self._rtt
        self._qp.log(
            "probe.reply", ev=ev.value, successes=state.successes, needed=state.needed, rtt=now - probe.sent_at
        )
        if state.successes >= state.needed:
            # a response with SKIP_ONCE sends the EV to SKIP (two of three sources; the third says GOOD)
            self._qp.evs.restore(ev, now, "probe", marked=mark == h.Mark.SKIP_ONCE)
        else:
            state.timer.arm(now + state.interval)
