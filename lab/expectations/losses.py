"""Expectations of losses: how many, retransmitted or not, and how soon a fault was noticed and overcome."""

from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from mrclab.lab.expectations.base import (
    EXPECTATIONS,
    BaseExpectation,
    Bounds,
    LevelField,
    Selected,
    Verdict,
    needs_one,
    show_share,
)
from mrclab.lab.measure.fabric.paths import OUT
from mrclab.lab.measure.series import binned_total, edges
from mrclab.lab.measure.traffic.flows import QpKey, Selection
from mrclab.lab.measure.validity.evidence import NoEvidence, senders_sampled
from mrclab.lab.scenario.names import FaultName, KnownWindow
from mrclab.lab.scenario.units import Duration, Percent, show_number, show_rate, show_seconds
from mrclab.topo.input.sentences import quantity, several

if TYPE_CHECKING:
    from mrclab.lab.measure.fabric.paths import PacketLoss
    from mrclab.lab.measure.measures import Measures


_STARTS = 10
"""Begins of samples within the length of one, where the moment of a recovery is sought."""

_LOST_LIMITS = ("at_least", "at_most", "within_rtts", "share_at_least", "share_at_most")


def one_or_list(value: object) -> object:
    """A single name is a list of one."""
    return [value] if isinstance(value, str) else value


@EXPECTATIONS.register
class Lost(Selected):
    """Number of packets declared lost: over faults' cables or in a window, by the worst QP, the mean one or all."""

    by_cables = True
    kind: Literal["lost"]
    fault: Annotated[list[FaultName], BeforeValidator(one_or_list)] = Field(
        default=[], description="on paths over its cables, or over those of any of a list"
    )
    window: KnownWindow | None = None
    per: Literal["qp", "mean", "run"] = Field(
        default="qp", description="count by QP and judge the worst, the mean of all senders, or count all"
    )
    at_least: int | None = Field(default=None, ge=0)
    at_most: int | None = Field(default=None, ge=0)
    share_at_least: Percent | None = Field(default=None, description="of the data packets sent meanwhile")
    share_at_most: Percent | None = None
    within_rtts: float | None = Field(default=None, gt=0, description="the last one, after the fault began")

    _complete = model_validator(mode="after")(needs_one(*_LOST_LIMITS, example="at_most: 10"))

    @model_validator(mode="after")
    def _after_what(self) -> "Lost":
        if self.within_rtts is not None and not self.fault:
            raise ValueError("within_rtts counts from a fault; name the fault")
        return self

    def _losses(self, measures: "Measures") -> "list[PacketLoss]":
        found = measures.paths.losses
        if self.fault:
            found = sorted({loss for fault in self.fault for loss in measures.losses_of(fault)})
        if self.window:
            begin, end = measures.window(self.window)
            found = [loss for loss in found if begin <= loss.t <= end]
        if self.subject:
            senders = self._senders(measures)
            found = [loss for loss in found if (loss.host, loss.qp) in senders]
        return found

    def _senders(self, measures: "Measures") -> set[QpKey]:
        return {key for flow in measures.flows.select(self.selection()) for key in flow.senders}

    def judge(self, measures: "Measures") -> Verdict:
        """The count, and the last one's time."""
        for begin, end in self._spans(measures):
            senders_sampled(measures, self.selection(), begin, end)
        losses = self._losses(measures)
        per_qp: dict[QpKey, int] = {}
        for loss in losses:
            per_qp[loss.host, loss.qp] = per_qp.get((loss.host, loss.qp), 0) + loss.packets
        count = self._count(per_qp, measures)
        shares = Bounds(self.share_at_least, self.share_at_most)
        share = self._share(measures, losses) if shares.text() else 0.0
        cause = several(self.fault, 2) or str(self.window or "the run")
        limits = [f"{self.limits.text()} packets"] if self.limits.text() else []
        limits += [f"{shares.text(show_share)} of those sent"] if shares.text() else []
        whom = {"qp": "a QP", "mean": "a QP on average", "run": "all QPs"}[self.per]
        expected = f"{cause} costs {whom}{self.subject} {', '.join(limits)}".rstrip()
        ok, when = self.limits.contain(count) and shares.contain(share), ""
        observed = f"{show_number(count)} packets" + (f", {len(per_qp)} QPs lost some" if len(per_qp) > 1 else "")
        observed += f", {share * 100:.3g}% of those sent" if shares.text() else ""
        if self.within_rtts:
            expected += f", the last within {self.within_rtts:g} RTT"
        if losses and self.fault:
            rtts = (losses[-1].t - min(measures.times[fault] for fault in self.fault)) / measures.rtt
            when = f"last one {rtts:.1f} RTT after the fault"
            ok = ok and (self.within_rtts is None or rtts <= self.within_rtts)
        elif losses:
            when = f"at {measures.span_text(losses[0].t, losses[-1].t)}"
        if shares.text():
            return self.verdict(ok, expected, observed, when, share, "of packets")
        return self.verdict(ok, expected, observed, when, count, "packets")

    def _count(self, per_qp: dict[QpKey, int], measures: "Measures") -> float:
        total = sum(per_qp.values())
        if self.per == "mean":
            return total / max(1, len(self._senders(measures)))
        return max(per_qp.values(), default=0) if self.per == "qp" else total

    def _spans(self, measures: "Measures") -> list[tuple[float, float]]:
        """Return when losses count: in the window, or during each fault; KeyError names a fault that never began."""
        faults = [measures.faults[fault] for fault in self.fault]
        if faults and not self.window:
            return [measures.lasting(fault) for fault in faults]
        return [measures.window(self.window)]

    def _share(self, measures: "Measures", losses: "list[PacketLoss]") -> float:
        """Losses of all QPs over the data packets that they sent in the window, or while the fault lasted."""
        spans = self._spans(measures)
        begin, end = min(first for first, _ in spans), max(last for _, last in spans)
        sent = sum(
            measures.samples.qps[key].count("sent_packets").growth(begin, end) for key in self._senders(measures)
        )
        if not sent:
            raise NoEvidence(f"the senders{self.subject} sent no packet then", measures.span_text(begin, end))
        return sum(loss.packets for loss in losses) / sent


@EXPECTATIONS.register
class Retransmitted(Selected):
    """Every packet that was declared lost was retransmitted; and no more than that, where limits are given."""

    kind: Literal["retransmitted"]
    at_most: int | None = Field(default=None, ge=0, description="packets by any one QP")
    share_at_most: Percent | None = Field(default=None, description="of all data packets sent")
    share_at_least: Percent | None = None

    def judge(self, measures: "Measures") -> Verdict:
        """Losses without a retransmission, and the senders' counts."""
        senders_sampled(measures, self.selection(), measures.start, measures.end)
        if self.at_most is None and self.share_at_most is None and self.share_at_least is None:
            return self._all_sent_again(measures)
        sent = again = worst = 0.0
        for flow in measures.flows.select(self.selection()):
            for key in flow.senders:
                retransmitted = measures.samples.last([key], "retx_packets")
                worst, again = max(worst, retransmitted), again + retransmitted
                sent += measures.samples.last([key], "sent_packets")
        share = again / sent if sent else 0.0
        bounds = Bounds(self.share_at_least, self.share_at_most)
        limits = f" {bounds.text(show_share)} of packets" if bounds.text() else ""
        expected = f"retransmissions{self.subject}{limits}"
        expected += f" ≤ {self.at_most} by a QP" if self.at_most is not None else ""
        ok = sent > 0 and bounds.contain(share) and (self.at_most is None or worst <= self.at_most)
        observed = f"{again:.0f} of {sent:.0f} packets = {share * 100:.3g}%, {worst:.0f} by the worst QP"
        return self.verdict(ok, expected, observed, "", share, "of packets")

    def _all_sent_again(self, measures: "Measures") -> Verdict:
        names = {flow.name for flow in measures.flows.select(self.selection())}

        def meant(loss: "PacketLoss") -> bool:
            flow = measures.flows.of_sender(loss.host, loss.qp)
            return not self.subject or (flow is not None and flow.name in names)

        open_losses = [loss for loss in measures.paths.not_retransmitted if meant(loss)]
        count = sum(map(meant, measures.paths.losses))
        observed = f"{count - len(open_losses)} of {count}"
        when = ", ".join(f"PSN {x.psn} lost at {measures.time_text(x.t)}" for x in open_losses[:3])
        expected = f"every lost packet{self.subject} is retransmitted"
        return self.verdict(not open_losses, expected, observed, when, len(open_losses), "packets")


@EXPECTATIONS.register
class Detect(BaseExpectation):
    """Time until the senders took the EVs over a fault's cables out of use."""

    by_cables = by_qps = True
    kind: Literal["detect"]
    fault: FaultName
    within_rtts: float | None = Field(default=None, gt=0)
    first: bool = Field(default=False, description="judge the first EV taken out instead of the last")

    _complete = model_validator(mode="after")(needs_one("within_rtts", example="within_rtts: 3"))

    def judge(self, measures: "Measures") -> Verdict:
        """From the begin until EVs of sending QPs went out; each counts the first time."""
        fault = measures.faults[self.fault]
        begin, end = measures.lasting(fault)
        which = "first" if self.first else "last"
        within = "" if self.within_rtts is None else f" within {self.within_rtts:g} RTT"
        expected = f"the {which} EV over {fault.where} is out{within}"
        senders_sampled(measures, Selection(), begin, end)
        out: dict[Any, float] = {}
        for change in measures.changes_over(fault, begin, end):
            if change.new in OUT:
                out.setdefault(change.key, change.t)
        if not out:
            return self.verdict(False, expected, "no EV was taken out")
        from mrclab.lab.expectations.evs import used_over  # noqa: PLC0415 - its kinds are loaded where a run has them

        stayed = 0 if self.first else len(used_over(measures, fault, begin, end) - set(out))
        times = sorted(out.values())
        seconds = (times[0] if self.first else times[-1]) - begin
        rtts = seconds / measures.rtt
        observed = f"{rtts:.1f} RTT = {show_seconds(seconds)}; {quantity(len(out), 'EV')} went out"
        observed += f", {stayed} stayed in use" if stayed else ""
        when = (
            f"{(times[0] - begin) / measures.rtt:.1f} to {(times[-1] - begin) / measures.rtt:.1f} RTT after the fault"
        )
        in_time = self.within_rtts is None or rtts <= self.within_rtts
        return self.verdict(in_time and not stayed, expected, observed, when, rtts, "RTT")


def _edge(word: object) -> object:
    """Return an edge of a fault, of which earlier versions had other words."""
    new = {"strike": "begin", "heal": "clear"}.get(word) if isinstance(word, str) else None
    if new is not None:
        import logging  # noqa: PLC0415 - it takes a moment, and files with the old words are rare

        text = "after: %s is called after: %s now; the next release has only %s"
        logging.getLogger(__name__).warning(text, word, new, new)
    return new or word


@EXPECTATIONS.register
class Recover(Selected):
    """Time after a fault began, or ended, until goodput reached a level and kept it."""

    kind: Literal["recover"]
    fault: FaultName
    to: LevelField
    within_rtts: float | None = Field(default=None, gt=0)
    within: Duration | None = Field(default=None, gt=0)
    after: Annotated[Literal["begin", "clear"], BeforeValidator(_edge)] = "begin"
    sample: Duration | None = Field(
        default=None, gt=0, description="seconds over which goodput is averaged; default: fabric.sample_every"
    )
    keep: int = Field(default=3, ge=1, description="samples for which the level must be kept")

    _complete = model_validator(mode="after")(needs_one("within_rtts", "within", example="within_rtts: 5"))

    def judge(self, measures: "Measures") -> Verdict:
        """The first moment from which on each sample keeps the level; 0 where goodput never fell below.

        Samples may begin at each tenth of their length: the answer is finer than they are.
        """
        moment = measures.times[self.fault if self.after == "begin" else f"{self.fault}.end"]
        chosen = self.selection()
        from mrclab.lab.expectations.throughput import rate_of  # noqa: PLC0415 - as above

        level = rate_of(self.to, measures, chosen, (moment, measures.end))
        limit = self.within if self.within is not None else (self.within_rtts or 0.0) * measures.rtt
        what = "began" if self.after == "begin" else "was cleared"
        expected = f"goodput{self.subject} ≥ {self.to}{self._limit()} after {self.fault} {what}"
        sample = self.sample or measures.fabric.spec.sample_interval
        at = [t for t in edges(moment, measures.end, sample / _STARTS) if t <= measures.end + 1e-9]
        fine = binned_total(measures.rates.counters(chosen), at) if len(at) > 1 else []
        sums = [0.0, *accumulate(fine)]
        rates = [(last - first) / _STARTS for first, last in zip(sums, sums[_STARTS:], strict=False)]
        good = [rate >= level * (1 - 1e-9) for rate in rates]
        found = next((i for i in range(len(good)) if all(good[i : i + self.keep * _STARTS : _STARTS])), None)
        if found is None:
            best = f"at best {show_rate(max(rates))}" if rates else "nothing was measured"
            return self.verdict(False, expected, f"never; {best}", measures.span_text(moment, measures.end))
        kept = len(good[found::_STARTS])
        if kept < self.keep:
            left = f"the traffic ended after {kept} of {self.keep} samples that should keep the level"
            raise NoEvidence(f"{left}; let it last longer, or lower keep", measures.span_text(moment, measures.end))
        seconds = at[found] - moment
        lowest = min(rates[: found + 1])
        observed = f"after {show_seconds(seconds)} = {seconds / measures.rtt:.1f} RTT, down to {show_rate(lowest)}"
        when = f"at {measures.time_text(at[found])}"
        return self.verdict(seconds <= limit + 1e-9, expected, observed, when, seconds / measures.rtt, "RTT")

    def _limit(self) -> str:
        if self.within is not None:
            return f" within {show_seconds(self.within)}"
        return "" if self.within_rtts is None else f" within {self.within_rtts:g} RTT"
