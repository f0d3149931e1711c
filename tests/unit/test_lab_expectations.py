"""Expectations judged on a history whose every number is known."""

import pytest
from lab_history import CORE, END, NIC, PLANE_RATE, REPAIRED, RTT, START, measures, records, scenario

from mrclab.lab.expectations import Verdict, judge_all
from mrclab.lab.expectations.base import Level, parse_level
from mrclab.lab.history import Record
from mrclab.lab.measure.traffic.flows import Selection
from mrclab.lab.scenario.units import show_rate, show_seconds


def judge(expect: str, change=lambda r: r) -> Verdict:
    return judge_all(measures(scenario(expect), change))[0]


def without(kind: str):
    return lambda rs: [r for r in rs if r.kind != kind]


def test_a_run_as_it_should_be_fulfils_every_expectation_of_the_demo():
    verdicts = judge_all(measures())
    assert [v for v in verdicts if not v.ok] == []
    assert len(verdicts) == len(scenario().scenario.expect)


def test_goodput_is_told_in_bytes_and_as_a_share_with_its_window():
    verdict = judge("  - {kind: goodput, window: nic-link .. nic-link.end, at_least: 70% of line}\n")
    assert verdict.ok
    assert verdict.observed == f"{show_rate(3 * PLANE_RATE)} = 75.0% of line"
    assert verdict.when == "4.00 to 7.00 s"


@pytest.mark.parametrize(
    ("section", "rest", "value", "unit"),
    [
        ("measure", "", 0.75, "of line"),
        ("measure", ", unit: B/s", 3 * PLANE_RATE, "B/s"),
        ("expect", ", at_least: 1 B/s, unit: line", 0.75, "of line"),
        ("expect", ", at_least: 70% of line, unit: B/s", 3 * PLANE_RATE, "B/s"),
    ],
)
def test_a_goodput_is_a_figure_in_the_unit_that_it_names(section, rest, value, unit):
    entry = f"  - {{kind: goodput, window: nic-link .. nic-link.end{rest}}}\n"
    before = "  - {kind: qp_errors, at_most: 0}\n" + ("measure:\n" if section == "measure" else "")
    *_, verdict = judge_all(measures(scenario(before + entry)))
    assert (verdict.value, verdict.unit) == (pytest.approx(value), unit)


@pytest.mark.parametrize(("level", "holds"), [("74%", True), ("74.9%", True), ("75.1%", False)])
def test_a_floor_is_kept_or_not(level, holds):
    assert judge(f"  - {{kind: goodput, window: nic-link .. nic-link.end, at_least: {level} of line}}\n").ok is holds


@pytest.mark.parametrize("text", ["40 Gb/s", "40Gbit/s", "5 GB/s", "5000 MB/s"])
def test_a_level_is_in_bits_or_bytes(text):
    level = parse_level(text)
    assert level == Level(5e9, "")
    assert parse_level(str(level)) == level


@pytest.mark.parametrize(("share", "within", "holds"), [(75, 1, True), (80, 5, False), (80, 7, True), (70, 5, False)])
def test_a_level_is_met_from_both_sides_relative_to_the_level_itself(share, within, holds):
    expect = (
        f"  - {{kind: goodput, window: nic-link .. nic-link.end, about: {share}% of before, within: {within}%}}\n"
        "  - {kind: goodput, name: before, window: start .. core-link, at_least: 90% of line}\n"
    )
    assert judge(expect).ok is holds


def test_a_window_whose_fault_never_struck_fails_instead_of_passing_by_accident():
    verdict = judge("  - {kind: goodput, window: core-link .. end, at_least: 0% of line}\n", without("fault.begin"))
    assert not verdict.ok
    assert verdict.observed == "core-link never came"


def test_integrity_fails_when_the_digests_differ():
    def damage(rs):
        return [
            Record(r.t, r.node, r.kind, {**r.data, "received_sha256": "cd" * 32}) if r.kind == "traffic.end" else r
            for r in rs
        ]

    expect = "  - {kind: integrity, traffic: file}\n"
    assert judge(expect).ok
    assert not judge(expect, damage).ok
    assert judge(expect, without("traffic.end")).observed == "the transfer did not end"


def test_a_qp_in_error_is_counted_with_its_reason():
    error = Record(NIC, "h1", "qp.state", {"qp": 1, "state": "ERROR", "reason": "Retry Counter Exceeded"})
    verdict = judge("  - {kind: qp_errors, at_most: 0}\n", lambda rs: [*rs, error])
    assert not verdict.ok
    assert verdict.observed == "1: Retry Counter Exceeded"
    assert judge("  - {kind: qp_errors, at_most: 1}\n", lambda rs: [*rs, error]).ok


def test_a_loss_without_retransmission_fails_and_is_named():
    def forget(rs):
        return [r for r in rs if not (r.kind == "packet.retx" and r["psn"] == 5002)]

    verdict = judge("  - {kind: retransmitted}\n", forget)
    assert (verdict.ok, verdict.observed) == (False, "9 of 10")
    assert "PSN 5002" in verdict.when


def test_a_packet_that_turned_out_to_have_arrived_needs_no_retransmission():
    def late(rs):
        kept = [r for r in rs if not (r.kind == "packet.retx" and r["psn"] == 5002)]
        return [*kept, Record(CORE + 2 * RTT, "h1", "packet.late", {"qp": 1, "psn": 5002})]

    assert judge("  - {kind: retransmitted}\n", late).ok


def test_ev_state_needs_the_transition_and_the_return():
    expect = "  - {kind: ev_state, fault: core-link, state: ASSUMED_BAD}\n"
    verdict = judge(expect)
    assert verdict.ok
    assert verdict.when == f"{show_seconds(RTT)} after the fault; back 800 ms after it was cleared"

    def stays_bad(rs):
        return [r for r in rs if not (r.kind == "ev.state" and r["new"] == "GOOD" and r.t > REPAIRED + 0.5)]

    assert judge(expect, stays_bad).observed == "1 went ASSUMED_BAD, 0 came back"
    assert not judge(expect, stays_bad).ok
    assert judge(expect.replace("}", ", returns: false}"), stays_bad).ok
    assert judge(expect, without("ev.state")).observed == "no EV went ASSUMED_BAD"


def test_port_down_is_looked_for_on_the_paths_of_the_cut_cable_only():
    assert (
        judge("  - {kind: ev_state, fault: nic-link, state: PORT_DOWN}\n").observed == "2 went PORT_DOWN, 2 came back"
    )
    assert not judge("  - {kind: ev_state, fault: core-link, state: PORT_DOWN}\n").ok


def test_lost_counts_the_fault_s_own_losses_and_the_time_to_the_last():
    expect = "  - {kind: lost, fault: core-link, at_most: 4, within_rtts: 2}\n"
    verdict = judge(expect)
    assert (verdict.ok, verdict.observed, verdict.when) == (True, "4 packets", "last one 1.6 RTT after the fault")
    assert not judge(expect.replace("at_most: 4", "at_most: 3")).ok
    assert not judge(expect.replace("within_rtts: 2", "within_rtts: 1.5")).ok


def test_a_stall_is_the_longest_gap_a_receiver_reports():
    def pause(rs):
        gap = {"ports": [], "paths": [], "qps": [{"qp": 1, "max_gap": 6 * RTT}]}
        return [*rs, Record(NIC + 0.05, "h3", "sample", gap)]

    expect = "  - {kind: stall, window: start .. end, max_rtts: 5}\n"
    assert judge(expect).observed == f"4 ms = {0.004 / RTT:.1f} RTT"
    verdict = judge(expect, pause)
    assert (verdict.ok, verdict.observed, verdict.when) == (False, f"{show_seconds(6 * RTT)} = 6.0 RTT", "at 4.05 s")


def test_health_fails_for_dead_processes_dropped_frames_and_a_full_core():
    expect = "  - {kind: health}\n"
    assert judge(expect).observed == "all well; busiest is t0-p1-1 with 40% of a core"
    died = Record(NIC, "lab", "process.died", {"process": "t1-p2-1"})
    assert judge(expect, lambda rs: [*rs, died]).observed == "t1-p2-1 (ended) died"
    busy = [Record(START + 0.25 * n, "lab", "cpu", {"seconds": {"h3": 0.249 * n}}) for n in range(40)]
    assert "h3 used 100% of a core" in judge(expect, lambda rs: [*without("cpu")(rs), *busy]).observed
    late = Record(NIC, "h1", "sample", {"qps": [], "ports": [], "late": 2 * RTT})
    assert f"the machine let h1 wait {show_seconds(2 * RTT)}" in judge(expect, lambda rs: [*rs, late]).observed
    drop = Record(END, "h3", "sample", {"qps": [], "ports": [{"port": 1, "placed_bytes": 0, "socket_drops": 7}]})
    assert "h3-p1 lost 7 frames" in judge(expect, lambda rs: [*rs, drop]).observed


def test_measures_of_the_history():
    m = measures()
    assert m.rates.line() == 4 * PLANE_RATE
    assert m.rtt == pytest.approx(RTT)
    assert m.goodput(NIC, REPAIRED, Selection(plane=2)) == 0
    assert sum(m.paths.packets.values()) == 8 * 125 * 9
    assert m.switches.drops == {"queue": {"t0-p1-1": 5}, "usid_miss": {"t0-p1-1": 0}}
    assert len(m.losses_of("nic-link")) == 6
    assert sorted(m.times) == [
        *("core-link", "core-link.end", "end", "file", "file.end", "nic-link", "nic-link.end", "start")
    ]
    assert len(records()) > 200


def test_recover_takes_the_words_of_the_release_before_with_a_message(caplog):
    line = "  - {kind: recover, fault: nic-link, to: 50% of line, within_rtts: 500, after: WORD}\n"
    now = judge(line.replace("WORD", "clear"))
    assert not caplog.records
    assert judge(line.replace("WORD", "heal")) == now
    assert caplog.messages[-1] == "after: heal is called after: clear now; the next release has only clear"
