"""NSCC, the network-signalled congestion control of UET 1.0, in the dimensionless form that an emulated fabric needs.

Facts: docs/mrc-protocol.md §3.1–3.4. The standard's constants are for 12 µs and 150 kB; here the emulated base RTT and
bandwidth-delay product take their place, so that the law stays the same per RTT: a = BDP / MTU / 36, b = target_delay
/ base_rtt.

`NsccParameters` has the fields of the OCP config struct (times in seconds); `Nscc` has all that changes, and the
algorithm.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from mypy_extensions import mypyc_attr

from mrclab.hosts.mrc.cc import CONTROLS, MAX_WINDOW_BDPS, PathFacts
from mrclab.hosts.mrc.cc.windowed import Windowed
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
    base_rtt: float  # as configured, the same for all destinations; Nscc.base_rtt is what the path has
    target_delay: float
    alpha: float  # bytes per second of slack; not in the headers, so derived
    fi: float  # bytes added per RTT by fair increase
    eta: float  # bytes added per adjustment period
    fi_scale: float  # gain of fast increase
    gamma: float
    max_md_jump: float  # least factor of one decrease
    max_cwnd: float  # at first
    qa_gate: float
    qa_threshold: float  # seconds of delay that triggers a quick adapt
    adjust_bytes_threshold: float
    adjust_period_threshold: float
    disable_qa: bool = False


def parameters(facts: PathFacts, **config: Any) -> NsccParameters:
    """Return the defaults for a path, with `config` over them."""
    return _parameters(facts, tuple(config.items()))


@functools.lru_cache(256)
def _parameters(facts: PathFacts, given: tuple[tuple[str, Any], ...]) -> NsccParameters:
    config = dict(given)
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


@mypyc_attr(allow_interpreted_subclasses=True)
class Nscc(Windowed):
    """NSCC of UET 1.0: ECN marks and queueing delay in four quadrants, and quick adapt under heavy incast."""

    name: ClassVar[str] = "nscc"
    profile: ClassVar[str] = "uet-1.0-nscc"
    settings: ClassVar[Mapping[str, Setting]] = {
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

    def __init__(self, facts: PathFacts, now: float, **config: Any) -> None:
        self.parameters = parameters(facts, **config)
        super().__init__(facts, self.parameters.max_cwnd)
        self._facts = facts
        self._config = config
        self.base_rtt = config.get("base_rtt", facts.base_rtt)
        self.achieved_bytes = 0.0  # delivered in this quick-adapt period
        self.received_bytes = 0.0  # delivered since the last adjustment
        self.inc_bytes = 0.0  # increase so far, bytes²
        self.fi_count = 0.0
        self.increase = False
        self.trigger_qa = False
        self.qa_endtime = 0.0
        self.bytes_to_ignore = 0.0
        self.bytes_ignored = 0.0
        self.last_adjust_time = self.last_dec_time = now
        self.avg_delay = 0.0
        self.saved_cwnd = 0.0

    def wants_ack(self) -> bool:
        """The window is about to close, so the SACK should not wait for its threshold."""
        return self.cwnd - self.inflight < self.mtu or self.cwnd < self.parameters.adjust_bytes_threshold

    def on_sack(self, newly: int, marked: bool, rtt: float | None, penalty: int, restore: bool, now: float) -> None:
        """Apply one of the four quadrants: marked or not, much delay or little."""
        if rtt is not None:
            self._learn(rtt)
        self.inflight -= newly
        self.bytes_ignored += newly
        self.received_bytes += newly
        self.achieved_bytes += newly
        limited = self._penalise(penalty, restore, newly)
        if rtt is None:
            return
        p = self.parameters
        delay = max(rtt - self.base_rtt, 0.0)
        self.avg_delay += _EWMA * (delay - self.avg_delay)
        if self.quick_adapt(False, marked, delay, now):
            return
        if marked:
            if delay >= p.target_delay:
                self.decrease(now)
        elif not limited:
            if delay >= p.target_delay:
                self.inc_bytes += p.fi * newly
            else:
                self._proportional(newly, delay)
        self._adjust(now)

    def _proportional(self, newly: int, delay: float) -> None:
        """No mark and little delay: grow with the slack, and fast after a whole window without any delay."""
        p = self.parameters
        if delay < _NO_DELAY * p.base_rtt:
            self.fi_count += newly
            if self.increase or self.fi_count > self.cwnd:
                self.cwnd = min(self.max_cwnd, self.cwnd + newly * p.fi_scale)
                self.increase = True
                return
        else:
            self.fi_count = 0.0
        self.increase = False
        self.inc_bytes += p.alpha * newly * (p.target_delay - delay)

    def _adjust(self, now: float) -> None:
        p = self.parameters
        period = now - self.last_adjust_time >= p.adjust_period_threshold
        if self.received_bytes <= p.adjust_bytes_threshold and not period:
            return
        cwnd = self.cwnd + self.inc_bytes / self.cwnd
        if period:
            cwnd += p.eta
            self.last_adjust_time = now
        self.set_window(cwnd)
        self.inc_bytes = self.received_bytes = 0.0

    def decrease(self, now: float) -> None:
        """Mark and delay agree: shrink, at most once per RTT, by how far the mean delay is above target."""
        p, mean = self.parameters, self.avg_delay
        self.increase = False
        self.fi_count = 0.0
        if mean > p.target_delay and now - self.last_dec_time > self.base_rtt:
            self.cwnd *= max(1 - p.gamma * (mean - p.target_delay) / mean, p.max_md_jump)
            self.cwnd = max(self.cwnd, self.mtu)
            self.last_dec_time = now

    def quick_adapt(self, loss: bool, marked: bool, delay: float, now: float) -> bool:
        """Under heavy incast set the window to the bytes delivered in one period; True: nothing else should react."""
        p = self.parameters
        if p.disable_qa:
            return False
        done = False
        if self.bytes_ignored < self.bytes_to_ignore and marked:
            done = True  # packets from before the last quick adapt are still coming in
        elif now >= self.qa_endtime:
            triggered = self.trigger_qa or loss or delay > p.qa_threshold
            if self.qa_endtime and triggered and self.achieved_bytes < self.max_cwnd / 2.0**p.qa_gate:
                self.cwnd = max(self.achieved_bytes, self.mtu)
                self.bytes_to_ignore = self.inflight
                self.bytes_ignored = 0.0
                self.trigger_qa = False
                done = True
            self.achieved_bytes = 0.0
            self.qa_endtime = now + self.base_rtt + p.target_delay
        if done:
            self.inc_bytes = self.received_bytes = 0.0
        return done

    def on_nack(self, size: int, trimmed: bool, rtt: float | None, now: float) -> None:
        """A trimmed packet is a sign of a full queue, at the last hop too (there is no receiver credit)."""
        if rtt is not None:
            self._learn(rtt)
        self.inflight -= size
        if not trimmed:
            return
        self.avg_delay += _EWMA * (self.parameters.base_rtt - self.avg_delay)
        self.bytes_ignored += size
        self.trigger_qa = True
        if not self.quick_adapt(True, True, 0.0, now):
            self.cwnd = max(self.cwnd - size, self.mtu)

    def on_loss(self, size: int, now: float) -> None:
        """Shrink by the packet."""
        self.inflight -= size
        self.bytes_ignored += size
        self.cwnd = max(self.cwnd - size, self.mtu)

    def _penalise(self, penalty: int, restore: bool, newly: int) -> bool:
        """Apply the receiver's penalty: shrink by penalty/128 of the delivered bytes, or restore the saved window."""
        if penalty > 0:
            if self.saved_cwnd == 0:
                self.saved_cwnd = self.cwnd
            self.cwnd = max(self.mtu, min(self.cwnd, self.inflight) - (penalty * newly >> _FULL_PENALTY_SHIFT))
            return True
        if restore and self.saved_cwnd > 0:
            self.cwnd = self.saved_cwnd
            self.saved_cwnd = 0.0
        return False

    def _learn(self, rtt: float) -> None:
        """Lower the base RTT to the least sample: a first sample may include queueing."""
        rtt = max(rtt, min(_MIN_RTT, self._facts.base_rtt))
        if rtt >= self.base_rtt:
            return
        self.base_rtt = rtt
        if "max_cwnd" in self._config:
            return
        grown = self.cwnd >= self.max_cwnd
        self.max_cwnd = _window_cap(self._facts, rtt)
        if grown or self.cwnd > self.max_cwnd:
            self.cwnd = self.max_cwnd

    def snapshot(self) -> dict[str, Any]:
        """Window and delays."""
        delays = {"avg_delay": self.avg_delay, "target_delay": self.parameters.target_delay}
        return {**super().snapshot(), **delays}


CONTROLS.register(Nscc)
