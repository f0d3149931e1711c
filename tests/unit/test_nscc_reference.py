"""NSCC beside an independent reading of the specification (docs/mrc-protocol.md §3.1 to 3.4), feedback by feedback.

Written from the text alone, with names of its own: sizes in bytes, times in seconds. The two may not differ by more
than a millionth after any feedback.
"""

import random
from math import inf

import pytest

from mrclab.hosts.mrc.cc import PathFacts
from mrclab.hosts.mrc.cc.nscc import Nscc


class Reading:
    """The algorithm as the text tells it. `line` is bytes per second over all ports."""

    def __init__(self, mtu, line, rtt, longest, trimming, drop_bdps, now):
        self.mtu, self.line = mtu, line
        self.config_rtt, self.base_rtt = longest, rtt
        bdp = line * longest
        a = bdp / mtu / 36
        self.target = (0.75 if trimming else 1.0) * longest
        self.alpha, self.fi, self.eta = 4 * mtu * a / longest, 5 * mtu * a, 0.15 * mtu * a
        self.fi_scale, self.gamma, self.floor = 0.25 * a, 0.8, 0.5
        self.qa_delay = inf if trimming else max(drop_bdps - 1, 1) * longest
        self.cwnd = self.max_wnd()
        self.inflight = self.achieved = self.received = self.inc = self.run = self.avg = self.saved = 0.0
        self.fast = self.asked = False
        self.qa_end = self.to_ignore = self.ignored = 0.0
        self.adjusted = self.decreased = now

    def max_wnd(self):
        return max(1.5 * self.line * self.base_rtt, self.mtu)

    def learn(self, rtt):
        if rtt < self.base_rtt:
            self.base_rtt = rtt
            self.cwnd = min(self.cwnd, self.max_wnd())

    def sack(self, newly, marked, rtt, penalty, restore, now):
        if rtt is not None:
            self.learn(rtt)
        self.inflight -= newly
        self.ignored += newly
        self.received += newly
        self.achieved += newly
        limited = False
        if penalty:
            self.saved = self.saved or self.cwnd
            self.cwnd = max(self.mtu, min(self.cwnd, self.inflight) - (penalty * newly >> 7))
            limited = True
        elif restore and self.saved:
            self.cwnd, self.saved = self.saved, 0.0
        if rtt is None:
            return
        delay = rtt - self.base_rtt
        self.avg += 0.0125 * (delay - self.avg)
        if self.quick_adapt(False, marked, delay, now):
            return
        if marked and delay >= self.target:
            self.decrease(now)
        elif not marked and not limited:
            if delay >= self.target:
                self.inc += self.fi * newly
            else:
                self.proportional(newly, delay)
        due = now - self.adjusted >= self.config_rtt
        if due or self.received > 8 * self.mtu:
            self.cwnd += self.inc / self.cwnd
            if due:
                self.cwnd += self.eta
                self.adjusted = now
            self.cwnd = min(max(self.cwnd, self.mtu), self.max_wnd())
            self.inc = self.received = 0.0

    def proportional(self, newly, delay):
        if delay < 0.08 * self.config_rtt:
            self.run += newly
            if self.fast or self.run > self.cwnd:
                self.fast = True
                self.cwnd = min(self.max_wnd(), self.cwnd + newly * self.fi_scale)
                return
        else:
            self.run = 0.0
        self.fast = False
        self.inc += self.alpha * newly * (self.target - delay)

    def decrease(self, now):
        self.fast, self.run = False, 0.0
        if self.avg > self.target and now - self.decreased > self.base_rtt:
            self.cwnd *= max(1 - self.gamma * (self.avg - self.target) / self.avg, self.floor)
            self.cwnd = max(self.cwnd, self.mtu)
            self.decreased = now

    def quick_adapt(self, loss, marked, delay, now):
        reacts = False
        if marked and self.ignored < self.to_ignore:
            reacts = True
        elif now >= self.qa_end:
            bad = self.asked or loss or delay > self.qa_delay
            if bad and self.qa_end and self.achieved < self.max_wnd() / 8:
                self.cwnd = max(self.achieved, self.mtu)
                self.to_ignore, self.ignored, self.asked, reacts = self.inflight, 0.0, False, True
            self.achieved = 0.0
            self.qa_end = now + self.base_rtt + self.target
        if reacts:
            self.inc = self.received = 0.0
        return reacts

    def nack(self, size, trimmed, rtt, now):
        if rtt is not None:
            self.learn(rtt)
        self.inflight -= size
        if trimmed:
            self.avg += 0.0125 * (self.config_rtt - self.avg)
            self.ignored += size
            self.asked = True
            if not self.quick_adapt(True, True, 0.0, now):
                self.cwnd = max(self.cwnd - size, self.mtu)

    def lost(self, size):
        self.inflight -= size
        self.ignored += size
        self.cwnd = max(self.cwnd - size, self.mtu)


MTU = 4180


def weather(rng, rtt):
    """One feedback after the other: (kind, arguments), with times of congestion and times without."""
    now, crowded, heavy = 0.0, False, False
    for _ in range(1500):
        now += rng.expovariate(20 / rtt)
        if rng.random() < 0.01:
            crowded, heavy = rng.random() < 0.6, rng.random() < 0.3
        delay = rng.uniform(0.0, 2.5 if crowded else 0.1) * rtt
        roll = rng.random()
        if roll < (0.5 if heavy else 0.04):
            yield now, "nack", (MTU, rng.random() < 0.9, rtt + delay if rng.random() < 0.5 else None)
        elif roll < (0.6 if heavy else 0.05):
            yield now, "lost", (MTU,)
        else:
            newly = rng.choice((0, 256, MTU, 4 * MTU, 20 * MTU)) // 256 * 256
            sample = None if rng.random() < 0.1 else max(rng.uniform(0.97, 1.0), 0.97) * rtt + delay
            penalty = rng.choice((1, 40, 127)) if rng.random() < 0.02 else 0
            yield now, "sack", (newly, crowded and rng.random() < 0.6, sample, penalty, rng.random() < 0.05)


@pytest.mark.parametrize("seed", range(8))
def test_the_window_is_what_the_text_says_after_every_feedback(seed):
    rng = random.Random(seed)
    ports, rtt = rng.choice((1, 4, 8)), rng.choice((6e-6, 12e-6, 16e-3))
    line, trimming = ports * rng.choice((20, 50, 150)) * MTU / rtt, bool(seed % 2)
    longest = rng.choice((1.0, 1.6)) * rtt
    plane_bdp, drop = line / ports * rtt / MTU, 5
    ours = Nscc(PathFacts(rtt, line * rtt, MTU, trimming, round(drop * plane_bdp), plane_bdp, longest), 0.0)
    text = Reading(MTU, line, rtt, longest, trimming, round(drop * plane_bdp) / plane_bdp, 0.0)
    seen = set()
    for now, kind, arguments in weather(rng, rtt):
        while ours.allows(MTU):
            ours.on_send(MTU, now)
            text.inflight += MTU
        before = text.cwnd
        if kind == "sack":
            ours.on_sack(*arguments, now)
            text.sack(*arguments, now)
        elif kind == "nack":
            ours.on_nack(*arguments, now)
            text.nack(*arguments, now)
        else:
            ours.on_loss(*arguments, now)
            text.lost(*arguments)
        assert ours.cwnd == pytest.approx(text.cwnd, rel=1e-6), (now, kind, arguments)
        assert ours.avg_delay == pytest.approx(text.avg, rel=1e-6, abs=1e-15)
        assert ours.inflight == text.inflight
        seen.add((kind, text.cwnd > before, text.cwnd < before))
    assert {("sack", True, False), ("sack", False, True), ("nack", False, True), ("lost", False, True)} < seen
