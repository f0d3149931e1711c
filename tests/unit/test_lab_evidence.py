"""No expectation holds for want of evidence: what never ran, was never sampled or never read fails, and says so."""

import pytest
from lab_flows_history import END, FREEZE, INCAST, QP, RTT, START, ev, judge, measures

from mrclab.lab.expectations.base import EXPECTATIONS
from mrclab.lab.history import Record


def line(text: str) -> str:
    return f"  - {{{text}}}\n"


def without(*kinds, **fields):
    """Leave out records of these kinds, only those with certain fields where some are given."""
    return lambda rs: [
        r for r in rs if not (r.kind in kinds and all(r.get(name) == value for name, value in fields.items()))
    ]


def changed(kind, new, **fields):
    """Other values for some fields of certain records."""

    def change(rs):
        return [
            Record(r.t, r.node, r.kind, {**r.data, **new})
            if r.kind == kind and all(r.get(name) == value for name, value in fields.items())
            else r
            for r in rs
        ]

    return change


def moved(fault, by):
    """A fault that began and was cleared at another time."""
    return lambda rs: [
        Record(r.t + by, r.node, r.kind, r.data) if r.kind.startswith("fault.") and r["fault"] == fault else r
        for r in rs
    ]


def rows(host, name, keep):
    """Samples of a host with some of the rows only."""

    def change(rs):
        return [
            Record(r.t, r.node, r.kind, {**r.data, name: [row for row in r.data.get(name, []) if keep(row)]})
            if r.kind == "sample" and r.node == host
            else r
            for r in rs
        ]

    return change


def same(rs):
    return rs


def silent_after(t):
    return lambda rs: [r for r in rs if r.kind != "sample" or r.t < t]


def no_evs(rs):
    for host in ("h1", "h2", "h3"):
        rs = rows(host, "paths", lambda row: not row)(rs)
    return without("ev.state")(rs)


def of_host(host):
    return lambda rs: [r for r in rs if r.node != host]


def cut_off(t):
    return lambda rs: [r for r in rs if r.t < t]


def read_once(rs):
    first = next(r for r in rs if r.kind == "counters")
    return [*without("counters", "switches")(rs), first]


BROKE_OFF = changed("flow.end", {"error": "h3: Retry Counter Exceeded"}, flow="incast/h3>h5")
NO_PACKET = changed("fault.counters", {"seen": 0, "dropped": 0})
OTHER_QP = rows("h5", "qps", lambda row: row["qp"] != QP["incast/h3>h5"] + 1)
NOT_COUNTED = rows("h1", "qps", lambda row: not row)

CASES = [
    ("kind: goodput, window: start .. start + 1s, traffic: incast, at_least: 90% of line", same, "no flow of incast"),
    ("kind: goodput, window: start .. start + 1s, traffic: incast, at_most: 1 MB/s", same, "no flow of incast ran"),
    ("kind: goodput, window: freeze + 1s .. end, at_most: 50% of line", silent_after(FREEZE), "no samples of"),
    ("kind: goodput_floor, window: start .. start + 1s, traffic: incast, at_least: 90% of mean", same, "no flow of"),
    ("kind: goodput_floor, window: freeze + 1s .. end, at_least: 90% of mean", silent_after(FREEZE), "no samples of"),
    ("kind: isolation, victim: incast, window: incast .. end, alone: start .. start + 1s, at_most: 9%", same, "no f"),
    ("kind: recover, fault: gray, traffic: ring, to: 90% of line, within: 1s", same, "no flow of ring ran"),
    ("kind: recover, fault: gray, to: 1% of line, within: 1s", moved("gray", END - START - 6.15), "1 of 3 samples"),
    ("kind: stall, window: incast .. end, traffic: incast, max_rtts: 30", OTHER_QP, "6.00 s"),
    ("kind: jain, window: start .. end, traffic: victim, at_least: 0.98", same, "one flow"),
    ("kind: spread, window: start .. end, traffic: victim, at_least: 0.98", same, "one flow"),
    ("kind: jain, window: start .. start + 1s, traffic: incast, at_most: 0.9", same, "nothing arrived"),
    ("kind: spread, window: start .. start + 1s, traffic: incast, at_most: 0.9", same, "nothing arrived"),
    ("kind: completion, traffic: incast, of: flows, at_most: 7s", BROKE_OFF, "incast/h3>h5 broke off"),
    ("kind: latency, traffic: near, at_most: 1s", changed("traffic.start", {"traffic": "near"}, traffic="ring"), "end"),
    ("kind: drops, at_most: 0", read_once, "reading"),
    ("kind: drops, switch: t1-p2-2, at_most: 0", same, "reading of the counters of t1-p2-2"),
    ("kind: trims, at_most: 0", read_once, "reading"),
    ("kind: injected, fault: gray, at_most: 9", NO_PACKET, "no packet"),
    ("kind: detect, fault: freeze, within_rtts: 9", without("ev.state", qp=QP["incast/h3>h5"]), "1 stayed in use"),
    ("kind: lost, window: ring.end + 60s .. ring.end + 70s, at_most: 0", same, "ended before"),
    ("kind: lost, window: ring.end + 5s .. gray, at_most: 100", same, "empty"),
    ("kind: lost, fault: gray, at_most: 0", moved("gray", 9), "no flow ran"),
    ("kind: lost, window: start .. end, traffic: victim, share_at_most: 1%", NOT_COUNTED, "sent no packet"),
    ("kind: ev_swaps, window: ring.end + 5s .. gray, at_most: 0", same, "empty"),
    ("kind: ev_swaps, window: start .. end, at_most: 0", no_evs, "no EV"),
    ("kind: ev_swaps, window: start .. end, fault: gray, at_most: 0", moved("gray", 9), "no flow ran"),
    ("kind: stall, window: start .. end, traffic: victim, at_least_rtts: 1", silent_after(START - 1), "no samples of"),
    ("kind: lost, window: start .. end, at_most: 8, per: run", of_host("h3"), "no samples of h3"),
    ("kind: detect, fault: freeze, within_rtts: 2", of_host("h3"), "no samples of h3"),
    ("kind: goodput_floor, window: start .. end, traffic: victim, at_least: 9% of mean", cut_off(INCAST + 1), "never"),
    ("kind: integrity", same, "near"),
    ("kind: clean", without("fault.begin", "fault.end", fault="gray"), "gray never began"),
    ("kind: health", without("cpu"), "CPU"),
    ("kind: health", without("sample"), "sample"),
    ("kind: retransmitted", without("traffic.start"), "no flow"),
    ("kind: qp_errors", without("traffic.start"), "no flow"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "change", "observed"), CASES, ids=[f"{n}-{c[0].split(',')[0]}" for n, c in enumerate(CASES)]
)
def test_an_expectation_without_evidence_fails_and_says_what_is_missing(text, change, observed):
    verdict = judge(line(text), change)
    assert not verdict.ok, verdict
    assert observed in verdict.observed
    assert verdict.expected


def test_a_level_of_nothing_is_not_reached_by_nothing():
    nothing = line("kind: goodput, name: before, window: start .. start + 1s, traffic: incast, at_most: 1 MB/s")
    verdict = judge(line("kind: goodput, window: incast .. end, at_least: 75% of before") + nothing)
    assert not verdict.ok
    assert "before" in verdict.observed


def test_a_moment_that_never_came_is_told_with_what_was_wanted():
    verdict = judge(line("kind: lost, fault: gray, at_most: 3"), without("fault.begin", fault="gray"))
    assert (verdict.ok, verdict.observed) == (False, "gray never came")
    assert verdict.expected == "lost: fault gray, at_most 3"


def test_an_expectation_that_cannot_be_judged_fails_and_leaves_the_others_alone():
    verdict = judge(line("kind: injected, fault: gray, at_most: 9"), changed("fault.counters", {"dropped": "many"}))
    assert not verdict.ok
    assert "could not be judged" in verdict.observed


def test_an_expectation_that_returns_no_verdict_fails(monkeypatch):
    monkeypatch.setattr(EXPECTATIONS["qp_errors"], "judge", lambda *_: "well")
    verdict = judge(line("kind: qp_errors, at_most: 0"))
    assert not verdict.ok
    assert verdict.observed.endswith("it returned 'well', not a verdict")


def test_the_evs_of_receivers_are_no_evidence_for_those_of_senders():
    receiver = {"qp": QP["victim/h1>h4"] + 1, "ev": ev(1, 2), "old": "GOOD", "new": "ASSUMED_BAD", "reason": "time"}

    def other_end(rs):
        return [*without("ev.state")(rs), Record(FREEZE + RTT, "h4", "ev.state", receiver)]

    assert not judge(line("kind: ev_state, fault: freeze, returns: false"), other_end).ok


def test_losses_of_other_traffic_are_left_to_other_expectations():
    forgotten = without("packet.retx", qp=QP["victim/h1>h4"], psn=2)
    assert not judge(line("kind: retransmitted"), forgotten).ok
    assert not judge(line("kind: retransmitted, traffic: victim"), forgotten).ok
    assert judge(line("kind: retransmitted, traffic: incast"), forgotten).ok


def test_a_pause_counts_from_the_begin_of_the_window():
    gap = {"ports": [], "paths": [], "qps": [{"qp": QP["victim/h1>h4"] + 1, "max_gap": 60 * RTT}]}
    text = line("kind: stall, window: incast .. end, traffic: victim, max_rtts: 5")
    assert judge(text, lambda rs: [*rs, Record(INCAST + RTT, "h4", "sample", gap)]).value == pytest.approx(1)
    assert judge(text, lambda rs: [*rs, Record(INCAST + 2, "h4", "sample", gap)]).value == pytest.approx(60)


def test_a_fabric_without_delay_has_a_round_trip_time_to_count_in():
    run = measures()
    spec = run.fabric.spec.model_copy(update={"link": run.fabric.spec.link.model_copy(update={"delay": 0.0})})
    still = type(run)(run.history, run.scenario, type(run.fabric)(spec))
    assert still.rtt == pytest.approx(1 / spec.link.rate_pps)
    assert all(verdict.expected for verdict in [entry.check(still) for entry in still.scenario.expect])
