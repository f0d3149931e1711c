"""DCQCN, the rate control of RoCEv2 (Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015).

A sender cuts its rate when a congestion notification packet (CNP) comes, and raises it in stages by a timer and a byte
counter: fast recovery halves the way back to the rate before the cut, additive increase adds a little, hyper increase
more and more. Published constants are for 50 µs, 10 MB and 40 Mb/s; here they are multiples of base RTT,
bandwidth-delay product and line rate (reference: 12 µs as for NSCC, 40 Gb/s, hence 60 kB), so that the law is the same
per RTT in a network thousands of times slower. The values and why some differ from the published ones: docs/roce.md.

There are no timers: `advance` catches up with the timers' steps before anything else is done.
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
        self.current = self.target = line  # bytes per second: now, and before the last cut, or beyond
        self.alpha = 1.0
        self.limited = False  # else the limiter is released
        self.timer_stage = self.byte_stage = 0
        self._bytes_left = 0.0  # until the byte counter ticks
        self._alpha_due = self._increase_due = NEVER

    def rate(self, now: float) -> float | None:
        """Return the bytes per second that the QP may send now; None for line rate."""
        self.advance(now)
        return self.current if self.limited else None

    def on_cnp(self, now: float) -> None:
        """The receiver saw a mark: remember the rate, cut it by alpha/2, and begin to recover from the start."""
        p = self.parameters
        self.advance(now)
        self.target = self.current
        self.current = max(self.current * (1 - self.alpha / 2), p.least_rate)
        self.alpha = (1 - p.g) * self.alpha + p.g
        self.timer_stage = self.byte_stage = 0
        self._bytes_left = p.byte_counter
        self._alpha_due = now + p.alpha_period
        self._increase_due = now + p.increase_period
        self.limited = True

    def on_sent(self, size: int, now: float) -> None:
        """Count sent bytes; every `byte_counter` of them raise the rate once."""
        if not self.limited:
            return
        self._bytes_left -= size
        while self.limited and self._bytes_left <= 0:
            self._bytes_left += self.parameters.byte_counter
            self.byte_stage += 1
            self._increase()

    def advance(self, now: float) -> None:
        """Take the two timers' steps until `now`, in order."""
        p = self.parameters
        while self.limited and min(self._alpha_due, self._increase_due) <= now:
            if self._alpha_due <= self._increase_due:
                self.alpha *= 1 - p.g
                self._alpha_due += p.alpha_period
            else:
                self.timer_stage += 1
                self._increase_due += p.increase_period
                self._increase()

    def _increase(self) -> None:
        """Take one step up; its kind depends on the steps of timer and byte counter since the last cut."""
        p = self.parameters
        steps = p.fast_recovery_steps
        low, high = sorted((self.timer_stage, self.byte_stage))
        if low > steps:
            self.target += (low - steps) * p.hyper
        elif high > steps:
            self.target += p.additive
        self.target = min(self.target, p.line_rate)
        self.current = (self.current + self.target) / 2
        if self.current >= _AS_GOOD_AS_LINE * p.line_rate:
            self.current = self.target = p.line_rate
            self.limited = False
            self._alpha_due = self._increase_due = NEVER

    def snapshot(self) -> dict[str, float]:
        """Rate (bytes per second), target and alpha, for samples."""
        return {"rate": round(self.current), "target_rate": round(self.target), "alpha": round(self.alpha, 4)}


CONTROLS.register(Dcqcn)
