"""NSCC, the network-signalled congestion control of UET 1.0, in the dimensionless form that an emulated fabric needs.

Facts: docs/mrc-protocol.md §3.1–3.4. The standard's constants speak of 12 µs and 150 kB; here the emulated base RTT and
bandwidth-delay product take their place, so that the law stays the same per RTT: a = BDP / MTU / 36, b = target_delay
/ base_rtt.

`NsccParameters` has the fields of the OCP config struct (times in seconds); `NsccState` is all that changes; the
functions below are the algorithm and look at nothing else. `Nscc` puts them behind the registry's interface.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from mypy_extensions import mypyc_attr

from mrclab.hosts.mrc.cc import CONTROLS, MAX_WINDOW_BDPS, CongestionController, PathFacts
from mrclab.topo.config.registry import Setting

_REFERENCE_PACKETS: Final = 36.0  # BDP in packets where a = 1 (150 kB of 4 KiB)
_NO_DELAY: Final = 0.08  # of a base RTT: less counts as none (1 µs of 12 µs)
_EWMA: Final = 0.0125  # weight of one delay sample
_MIN_RTT: Final = 1e-6  # seconds, unless the path is configured as shorter; without delay a sample may be 0
_NEVER: Final = 1e9  # seconds; a threshold that no delay reaches
_FULL_PENALTY_SHIFT: Final = 7  # penalty is in 1/128


@dataclass(frozen=True)
class NsccParameters:
    """The tunables, with the names of the OCP headers. Bytes and seconds."""

    mtu: int
    base_rtt: float  # as configured, the same for all destinations; NsccState.base_rtt is what the path has
    target_delay: float
    alpha: float  # bytes per second of slack; not in the headers, so derived
    fi: float  # bytes added per RTT by fair increase
    eta: float  # bytes added per adjustment period
    fi_scale: float  # gain of fast increase
    gamma: float
    max_md_jump: float  # least factor of one decrease
    max_cwnd: float
    qa_gate: int
    qa_threshold: float  # seconds of delay that ask for a quick adapt
    adjust_bytes_threshold: int
    adjust_period_threshold: float
    disable_qa: bool = False


SETTINGS: Final = {
    "base_rtt": Setting("round trip of a full-size packet without queues", 1e-6, 60.0, seconds=True),
    "target_delay": Setting("queueing delay at which the window stays as it is", 1e-6, 60.0, seconds=True),
    "fi": Setting("bytes added per RTT by fair increase"),
    "eta": Setting("bytes added per adjustment period"),
    "fi_scale": Setting("gain of fast increase"),
    "gamma": Setting("gain of multiplicative decrease", 0.0, 1.0),
    "max_md_jump": Setting("least factor of one decrease", 0.0, 1.0),
    "max_cwnd": Setting("bytes of the largest window", 1.0),
    "qa_gate": Setting("quick adapt where less than the largest window / 2^n was delivered", 0, 31),
    "qa_threshold": Setting("queueing delay that triggers a quick adapt", seconds=True),
    "adjust_bytes_threshold": Setting("bytes delivered after which the window is adjusted"),
    "adjust_period_threshold": Setting("time after which it is adjusted", 1e-6, 60.0, seconds=True),
    "disable_qa": Setting("no quick adapt", boolean=True),
}


class NsccState:
    """State of one controller that begins at a time. `cwnd` and `inflight` in bytes."""

    __slots__ = (
        "achieved_bytes",
        "avg_delay",
        "base_rtt",
        "bytes_ignored",
        "bytes_to_ignore",
        "cwnd",
        "fi_count",
        "inc_bytes",
        "increase",
        "inflight",
        "last_adjust_time",
        "last_dec_time",
        "qa_endtime",
        "received_bytes",
        "saved_cwnd",
        "trigger_qa",
    )  # fmt: skip

    def __init__(self, cwnd: float, base_rtt: float, now: float = 0.0) -> None:
        self.cwnd = cwnd
        self.base_rtt = base_rtt
        self.inflight = 0.0
        self.achieved_bytes = 0.0  # delivered in this quick-adapt period
        self.received_bytes = 0.0  # delivered since the last adjustment
        self.inc_bytes = 0.0  # increase so far, bytes²
        self.fi_count = 0.0
        self.increase = False
        self.trigger_qa = False
        self.qa_endtime = 0.0
        self.bytes_to_ignore = 0.0
        self.bytes_ignored = 0.0
        self.last_adjust_time = now
        self.last_dec_time = now
        self.avg_delay = 0.0
        self.saved_cwnd = 0.0


def parameters(facts: PathFacts, **config: Any) -> NsccParameters:
    """The defaults for a path, with `config` over them."""
    return _parameters(facts, config) if config else _defaults(facts)


@functools.lru_cache(256)
def _defaults(facts: PathFacts) -> NsccParameters:
    return _parameters(facts, {})


def _parameters(facts: PathFacts, config: dict[str, Any]) -> NsccParameters:
    base_rtt = config.get("base_rtt", facts.longest_rtt or facts.base_rtt)
    bdp = facts.bdp * base_rtt / facts.base_rtt
    a = bdp / facts.mtu / _REFERENCE_PACKETS
    if facts.trimming:
        target, qa_threshold = 0.75 * base_rtt, _NEVER
    else:
        target = base_rtt
        qa_threshold = max(facts.drop_threshold / max(facts.plane_bdp_packets, 1.0) - 1.0, 1.0) * base_rtt
    made = NsccParameters(
        mtu=facts.mtu,
        base_rtt=base_rtt,
        target_delay=target,
        alpha=4 * facts.mtu * a / base_rtt,
        fi=5 * facts.mtu * a,
        eta=0.15 * facts.mtu * a,
        fi_scale=0.25 * a,
        gamma=0.8,
        max_md_jump=0.5,
        max_cwnd=_window_cap(facts, config.get("base_rtt", facts.base_rtt)),
        qa_gate=3,
        qa_threshold=qa_threshold,
        adjust_bytes_threshold=8 * facts.mtu,
        adjust_period_threshold=base_rtt,
    )
    return replace(made, **config)


def _window_cap(facts: PathFacts, rtt: float) -> float:
    """The largest window of a path with this base RTT, in bytes."""
    return max(MAX_WINDOW_BDPS * facts.bdp * rtt / facts.base_rtt, facts.mtu)


# --- the algorithm ------------------------------------------------------------------------------


def on_sack(
    s: NsccState,
    p: NsccParameters,
    newly: int,
    marked: bool,
    rtt: float | None,
    penalty: int,
    restore: bool,
    now: float,
) -> None:
    """A SACK: `newly` bytes were delivered; `rtt` is None where it is ambiguous."""
    s.inflight -= newly
    s.bytes_ignored += newly
    s.received_bytes += newly
    s.achieved_bytes += newly
    limited = _penalise(s, p, penalty, restore, newly)
    if rtt is None:
        return
    delay = max(rtt - s.base_rtt, 0.0)
    s.avg_delay += _EWMA * (delay - s.avg_delay)
    if quick_adapt(s, p, False, marked, delay, now):
        return
    if marked:
        if delay >= p.target_delay:
            decrease(s, p, now)
    elif not limited:
        if delay >= p.target_delay:
            s.inc_bytes += p.fi * newly
        else:
            _proportional(s, p, newly, delay)
    _adjust(s, p, now)


def _proportional(s: NsccState, p: NsccParameters, newly: int, delay: float) -> None:
    """No mark and little delay: grow with the slack, and fast after a whole window without any delay."""
    if delay < _NO_DELAY * p.base_rtt:
        s.fi_count += newly
        if s.increase or s.fi_count > s.cwnd:
            s.cwnd = min(p.max_cwnd, s.cwnd + newly * p.fi_scale)
            s.increase = True
            return
    else:
        s.fi_count = 0.0
    s.increase = False
    s.inc_bytes += p.alpha * newly * (p.target_delay - delay)


def _adjust(s: NsccState, p: NsccParameters, now: float) -> None:
    period = now - s.last_adjust_time >= p.adjust_period_threshold
    if s.received_bytes <= p.adjust_bytes_threshold and not period:
        return
    s.cwnd += s.inc_bytes / s.cwnd
    if period:
        s.cwnd += p.eta
        s.last_adjust_time = now
    s.cwnd = min(max(s.cwnd, p.mtu), p.max_cwnd)
    s.inc_bytes = s.received_bytes = 0.0


def decrease(s: NsccState, p: NsccParameters, now: float) -> None:
    """Mark and delay agree: shrink, at most once per RTT, by how far the mean delay is above target."""
    s.increase = False
    s.fi_count = 0.0
    if s.avg_delay > p.target_delay and now - s.last_dec_time > s.base_rtt:
        s.cwnd *= max(1 - p.gamma * (s.avg_delay - p.target_delay) / s.avg_delay, p.max_md_jump)
        s.cwnd = max(s.cwnd, p.mtu)
        s.last_dec_time = now


def quick_adapt(s: NsccState, p: NsccParameters, loss: bool, marked: bool, delay: float, now: float) -> bool:
    """Under heavy incast set the window to the bytes delivered in one period; True where nothing else should react."""
    if p.disable_qa:
        return False
    done = False
    if s.bytes_ignored < s.bytes_to_ignore and marked:
        done = True  # packets from before the last quick adapt are still coming in
    elif now >= s.qa_endtime:
        triggered = s.trigger_qa or loss or delay > p.qa_threshold
        if s.qa_endtime and triggered and s.achieved_bytes < p.max_cwnd / (1 << p.qa_gate):
            s.cwnd = max(s.achieved_bytes, p.mtu)
            s.bytes_to_ignore = s.inflight
            s.bytes_ignored = 0.0
            s.trigger_qa = False
            done = True
        s.achieved_bytes = 0.0
        s.qa_endtime = now + s.base_rtt + p.target_delay
    if done:
        s.inc_bytes = s.received_bytes = 0.0
    return done


def on_nack(s: NsccState, p: NsccParameters, size: int, trimmed: bool, now: float) -> None:
    """A refused packet; a trimmed one is a sign of a full queue, at the last hop too (there is no receiver credit)."""
    s.inflight -= size
    if not trimmed:
        return
    s.avg_delay += _EWMA * (p.base_rtt - s.avg_delay)
    s.bytes_ignored += size
    s.trigger_qa = True
    if not quick_adapt(s, p, True, True, 0.0, now):
        s.cwnd = max(s.cwnd - size, p.mtu)


def on_loss(s: NsccState, p: NsccParameters, size: int) -> None:
    """A packet inferred lost."""
    s.inflight -= size
    s.bytes_ignored += size
    s.cwnd = max(s.cwnd - size, p.mtu)


def _penalise(s: NsccState, p: NsccParameters, penalty: int, restore: bool, newly: int) -> bool:
    """Apply the receiver's penalty: shrink by penalty/128 of the delivered bytes, or restore the saved window."""
    if penalty > 0:
        if s.saved_cwnd == 0:
            s.saved_cwnd = s.cwnd
        s.cwnd = max(p.mtu, min(s.cwnd, s.inflight) - (penalty * newly >> _FULL_PENALTY_SHIFT))
        return True
    if restore and s.saved_cwnd > 0:
        s.cwnd = s.saved_cwnd
        s.saved_cwnd = 0.0
    return False


# --- behind the registry ------------------------------------------------------------------------


@mypyc_attr(allow_interpreted_subclasses=True)
class Nscc(CongestionController):
    """NSCC of UET 1.0: ECN marks and queueing delay in four quadrants, and quick adapt under heavy incast."""

    name: ClassVar[str] = "nscc"
    profile: ClassVar[str] = "uet-1.0-nscc"
    settings: ClassVar[Mapping[str, Setting]] = SETTINGS

    def __init__(self, facts: PathFacts, now: float, **config: Any) -> None:
        self._facts = facts
        self._config = config
        self.parameters = parameters(facts, **config)
        self.state = NsccState(self.parameters.max_cwnd, config.get("base_rtt", facts.base_rtt), now)

    def allows(self, size: int) -> bool:
        """Room for one more packet; always for the first, however small the window."""
        s = self.state
        return s.inflight <= 0 or s.inflight + self.parameters.mtu <= s.cwnd

    def wants_ack(self) -> bool:
        """The window is about to close, so the SACK should not wait for its threshold."""
        s, p = self.state, self.parameters
        return s.cwnd - s.inflight < p.mtu or s.cwnd < p.adjust_bytes_threshold

    def on_send(self, size: int, now: float) -> None:
        """Bytes in flight."""
        self.state.inflight += size

    def on_sack(self, newly: int, marked: bool, rtt: float | None, penalty: int, restore: bool, now: float) -> None:
        """Apply one of the four quadrants."""
        if rtt is not None:
            self._learn(rtt)
        on_sack(self.state, self.parameters, newly, marked, rtt, penalty, restore, now)

    def on_nack(self, size: int, trimmed: bool, rtt: float | None, now: float) -> None:
        """Trims shrink the window by a packet each, or adapt it at once."""
        if rtt is not None:
            self._learn(rtt)
        on_nack(self.state, self.parameters, size, trimmed, now)

    def on_loss(self, size: int, now: float) -> None:
        """One packet less."""
        on_loss(self.state, self.parameters, size)

    def on_requeue(self, size: int) -> None:
        """Book-keeping only."""
        self.state.inflight -= size

    def snapshot(self) -> dict[str, Any]:
        """Window and delays."""
        s = self.state
        return {
            "cwnd": int(s.cwnd),
            "cc_inflight": int(s.inflight),
            "base_rtt": s.base_rtt,
            "avg_delay": s.avg_delay,
            "target_delay": self.parameters.target_delay,
        }

    def _learn(self, rtt: float) -> None:
        """Lower the base RTT to the least sample: a first sample may include queueing."""
        s = self.state
        rtt = max(rtt, min(_MIN_RTT, self._facts.base_rtt))
        if rtt >= s.base_rtt:
            return
        s.base_rtt = rtt
        if "max_cwnd" in self._config:
            return
        grown = s.cwnd >= self.parameters.max_cwnd
        self.parameters = replace(self.parameters, max_cwnd=_window_cap(self._facts, s.base_rtt))
        if grown or s.cwnd > self.parameters.max_cwnd:
            s.cwnd = self.parameters.max_cwnd


CONTROLS.register(Nscc)
