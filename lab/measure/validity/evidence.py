"""Evidence for figures: traffic that ran, hosts that were sampled. Without it no limit counts as kept or missed."""

from typing import TYPE_CHECKING

from mrclab.lab.measure.traffic.flows import MeasuredFlow, Selection

if TYPE_CHECKING:
    from mrclab.lab.measure.measures import Measures

_MARGIN = 2.5  # sampling intervals around a window within which a host must have been sampled at least once


class NoEvidence(Exception):  # noqa: N818 - the sentence is the error
    """Data to judge by is missing: the text says which, `when` the window searched."""

    def __init__(self, text: str, when: str = "") -> None:
        super().__init__(text)
        self.when = when


def ran(measures: "Measures", chosen: Selection, begin: float, end: float) -> list[MeasuredFlow]:
    """Return the selected flows that ran between two times; NoEvidence where none did."""
    try:
        flows = [flow for flow in measures.flows.select(chosen) if flow.ran(begin, end)]
    except KeyError:
        flows = []
    if not flows:
        what = chosen.flow or chosen.traffic
        raise NoEvidence(f"no flow{f' of {what}' if what else ''} ran then", measures.span_text(begin, end))
    return flows


def receivers_sampled(measures: "Measures", chosen: Selection, begin: float, end: float) -> None:
    """NoEvidence where none of the selected flows ran between two times, or no receiver was sampled."""
    flows = ran(measures, chosen, begin, end)
    by_acks = chosen.plane is not None and bool(chosen.flow or chosen.traffic)
    hosts = {flow.source if by_acks else flow.destination for flow in flows}
    if not any(_sampled(measures, host, begin, end) for host in hosts):
        raise NoEvidence(f"no samples of {', '.join(sorted(hosts)[:3])} then", measures.span_text(begin, end))


def senders_sampled(measures: "Measures", chosen: Selection, begin: float, end: float) -> None:
    """NoEvidence where none of the chosen flows ran between two times, or one of their senders was not sampled then."""
    hosts = {flow.source for flow in ran(measures, chosen, begin, end)}
    silent = sorted(host for host in hosts if not _sampled(measures, host, begin, end))
    if silent:
        raise NoEvidence(f"no samples of {', '.join(silent[:3])} then", measures.span_text(begin, end))


def _sampled(measures: "Measures", host: str, begin: float, end: float) -> bool:
    around = _MARGIN * measures.fabric.spec.sample_interval
    return any(begin - around <= t <= end + around for t in measures.samples.times.get(host, ()))


def completed(measures: "Measures", chosen: Selection, until: float = float("inf")) -> None:
    """NoEvidence where a selected flow failed before a time, or never ended: its duration is unknown."""
    ends = {r["flow"]: r for r in measures.history.of("flow.end")}
    whole = {r["traffic"]: r for r in measures.history.of("traffic.end")}
    for flow in measures.flows:
        if chosen.flow not in {"", flow.name} or (chosen.traffic and flow.traffic != chosen.traffic):
            continue
        end = ends.get(flow.name) or whole.get(flow.traffic)
        if end is None and until == float("inf"):
            raise NoEvidence(f"{flow.name} did not end")
        if end is not None and end.get("error") and end.t <= until:
            raise NoEvidence(f"{flow.name} broke off: {end['error']}", f"at {measures.time_text(end.t)}")
