"""DCQCN, the rate control of RoCEv2 (Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015).

A sender cuts its rate when a congestion notification packet (CNP) comes, and raises it in stages by a timer and a byte
counter: fast recovery halves the way back to the rate before the cut, additive increase adds a little, hyper increase
more and more. Published constants speak of 50 µs, 10 MB and 40 Mb/s; here they are multiples of base RTT,
bandwidth-delay product and line rate (reference: 12 µs as for NSCC, 40 Gb/s, hence 60 kB), so that the law is the same
per RTT in a network thousands of times slower. The values and why some differ from the published ones: docs/roce.md.

`DcqcnParameters` and `DcqcnState` are plain values and the functions the algorithm; time is always an argument. There
are no timers: `advance` catches up with the timers' steps before anything else is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from mypy_extensions import mypyc_attr

from mrclab.hosts.rdma.timers import NEVER
from mrclab.hosts.roce.cc import CONTROLS, RateControl, RateFacts
from mrclab.topo.config.nodeconfig import DcqcnSection
from mrclab.topo.config.registry import Setting
from mrclab.topo.economy import IdentityCache

_AS_GOOD_AS_LINE: Final = 0.999  # of the line rate: the limiter is released


@dataclass(frozen=True)
class DcqcnParameters:
    """The tunables of one QP. Bytes, seconds, bytes per second."""

    line_rate: float
    least_rate: float
    g: float
    alpha_period: float
    increase_period: float
    byte_counter: float
    fast_recovery_steps: int
    additive: float
    hyper: float


@dataclass
class DcqcnState:
    """State of one rate limiter. `rate` is the current rate, `target` the one before the last cut, or beyond."""

    rate: float
    target: float
    alpha: float = 1.0
    limited: bool = False
    timer_stage: int = 0
    byte_stage: int = 0
    bytes_left: float = 0.0  # until the byte counter ticks
    alpha_due: float = NEVER
    increase_due: float = NEVER
    cuts: int = 0

    @property
    def limit(self) -> float | None:
        """The current rate; None where the limiter is released."""
        return self.rate if self.limited else None


def parameters(config: DcqcnSection, line_rate: float, base_rtt: float) -> DcqcnParameters:
    """The constants of a node config for a line rate (bytes per second) and base RTT (seconds)."""
    return DcqcnParameters(
        line_rate=line_rate,
        least_rate=config.least_share * line_rate,
        g=config.g,
        alpha_period=config.alpha_period_rtts * base_rtt,
        increase_period=config.increase_period_rtts * base_rtt,
        byte_counter=config.byte_counter_bdps * line_rate * base_rtt,
        fast_recovery_steps=config.fast_recovery_steps,
        additive=config.additive_share * line_rate,
        hyper=config.hyper_share * line_rate,
    )


def start(p: DcqcnParameters) -> DcqcnState:
    """A new flow sends at line rate."""
    return DcqcnState(rate=p.line_rate, target=p.line_rate)


def on_cnp(s: DcqcnState, p: DcqcnParameters, now: float) -> None:
    """Handle a CNP: remember the rate, cut it by alpha/2, and begin to recover from the start."""
    advance(s, p, now)
    s.target = s.rate
    s.rate = max(s.rate * (1 - s.alpha / 2), p.least_rate)
    s.alpha = (1 - p.g) * s.alpha + p.g
    s.timer_stage = s.byte_stage = 0
    s.bytes_left = p.byte_counter
    s.alpha_due = now + p.alpha_period
    s.increase_due = now + p.increase_period
    s.limited = True
    s.cuts += 1


def on_sent(s: DcqcnState, p: DcqcnParameters, size: int) -> None:
    """Count sent bytes; every `byte_counter` of them raise the rate once."""
    if not s.limited:
        return
    s.bytes_left -= size
    while s.limited and s.bytes_left <= 0:
        s.bytes_left += p.byte_counter
        s.byte_stage += 1
        _increase(s, p)


def advance(s: DcqcnState, p: DcqcnParameters, now: float) -> None:
    """Take the two timers' steps until `now`, in order."""
    while s.limited and min(s.alpha_due, s.increase_due) <= now:
        if s.alpha_due <= s.increase_due:
            s.alpha *= 1 - p.g
            s.alpha_due += p.alpha_period
        else:
            s.timer_stage += 1
            s.increase_due += p.increase_period
            _increase(s, p)


def _increase(s: DcqcnState, p: DcqcnParameters) -> None:
    """Take one step up; its kind depends on the steps of timer and byte counter since the last cut."""
    steps = p.fast_recovery_steps
    low, high = sorted((s.timer_stage, s.byte_stage))
    if low > steps:
        s.target += (low - steps) * p.hyper
    elif high > steps:
        s.target += p.additive
    s.target = min(s.target, p.line_rate)
    s.rate = (s.rate + s.target) / 2
    if s.rate >= _AS_GOOD_AS_LINE * p.line_rate:
        s.rate = s.target = p.line_rate
        s.limited = False
        s.alpha_due = s.increase_due = NEVER


_shared: Final[IdentityCache[DcqcnParameters]] = IdentityCache(64)  # of QPs with alike ports and destinations


@mypyc_attr(allow_interpreted_subclasses=True)
class Dcqcn(RateControl):
    """DCQCN: a QP's rate is cut by CNPs and raised by a timer and a byte counter."""

    name: ClassVar[str] = "dcqcn"
    settings: ClassVar[Mapping[str, Setting]] = {
        "g": Setting("weight of one alpha update", 1e-9, 1.0),
        "alpha_period_rtts": Setting("base RTTs without a CNP after which alpha decays", 1e-9),
        "increase_period_rtts": Setting("base RTTs of the increase timer", 1e-9),
        "byte_counter_bdps": Setting("BDPs of the byte counter", 1e-9),
        "additive_share": Setting("additive increase as a share of the line rate", 1e-9, 1.0),
        "hyper_share": Setting("hyper increase as a share of the line rate", 1e-9, 1.0),
        "least_share": Setting("least rate as a share of the line rate", 1e-9, 1.0),
    }

    def __init__(self, facts: RateFacts, now: float, **config: float) -> None:
        section = facts.dcqcn.model_copy(update=config) if config else facts.dcqcn
        line, rtt = facts.line_rate, facts.base_rtt
        self.parameters = _shared.get((section,), (line, rtt), lambda: parameters(section, line, rtt))
        self._state: DcqcnState | None = None

    @property
    def state(self) -> DcqcnState:
        """State, made with the first CNP: most limiters never limit."""
        found = self._state
        if found is None:
            found = self._state = start(self.parameters)
        return found

    def rate(self, now: float) -> float | None:
        """Return the bytes per second that the QP may send now; None for line rate."""
        s = self._state
        if s is None:
            return None
        if s.limited:
            advance(s, self.parameters, now)
        return s.limit  # read again: mypyc assumes that a fact from before a call still holds

    def on_sent(self, size: int, now: float) -> None:
        """A packet of `size` bytes leaves."""
        if self._state is not None:
            on_sent(self._state, self.parameters, size)

    def on_cnp(self, now: float) -> None:
        """The receiver saw a mark."""
        on_cnp(self.state, self.parameters, now)

    def snapshot(self) -> dict[str, float]:
        """Rate (bytes per second), target and alpha, for samples."""
        s = self._state or start(self.parameters)
        return {"rate": round(s.rate), "target_rate": round(s.target), "alpha": round(s.alpha, 4)}


CONTROLS.register(Dcqcn)
