"""Every kind of expectation judged on a history of several flows: a limit that it keeps, and one that it misses."""

from pathlib import Path
from typing import get_args

import pytest
from lab_flows_history import END, FREEZE, INCAST, LINE, QP, RTT, START, THAW, ev, judge, measures, scenario

import mrclab
from mrclab.lab.errors import ScenarioError
from mrclab.lab.expectations import EXPECTATIONS, judge_all
from mrclab.lab.history import Record
from mrclab.lab.measure.traffic.flows import Selection


def line(text: str) -> str:
    return f"  - {{{text}}}\n"


# (expectation, holds, what it says it observed); the two lines of a pair differ in the limit alone
CASES = [
    ("kind: goodput, window: incast + 100ms .. freeze, traffic: incast, at_least: 90% of line", True, "95.0% of line"),
    ("kind: goodput, window: incast + 100ms .. freeze, traffic: incast, at_least: 96% of line", False, "95.0% of line"),
    ("kind: goodput, window: incast + 100ms .. freeze, flow: incast/h2>h5, about: 50% of line", True, "50.0% of line"),
    ("kind: goodput, window: incast + 100ms .. freeze, flow: incast/h2>h5, about: 60% of line", False, "50.0% of line"),
    ("kind: goodput, window: incast .. freeze, traffic: victim, at_most: 98.5% of line", True, "98.0%"),
    ("kind: goodput, window: incast .. freeze, traffic: victim, at_most: 95% of line", False, "98.0%"),
    ("kind: goodput, window: start .. start + 1s, plane: 2, at_least: 99% of line", True, "100.0% of line"),
    ("kind: goodput, window: start .. start + 1s, plane: 2, at_least: 0.3 MB/s", False, "205 kB/s"),
    ("kind: goodput_floor, window: start .. freeze, traffic: victim, at_least: 97% of line", True, "0 of 40 below"),
    ("kind: goodput_floor, window: start .. end, traffic: victim, at_least: 97% of line", False, "1 of 80 below"),
    ("kind: goodput_floor, window: start .. end, traffic: victim, at_least: 90% of mean, allow: 1", True, "1 of 80"),
    ("kind: goodput_floor, window: start .. end, traffic: victim, at_least: 90% of mean", False, "lowest"),
    ("kind: stall, window: start .. end, traffic: victim, max_rtts: 1", True, "3 ms = 0.2 RTT"),
    ("kind: stall, window: start .. end, traffic: victim, at_least_rtts: 1", False, "3 ms = 0.2 RTT"),
    ("kind: isolation, victim: victim, window: incast .. freeze, alone: start .. incast, at_least: 95%", True, "98.0%"),
    (
        "kind: isolation, victim: victim, window: incast .. freeze, alone: start .. incast, at_least: 99%",
        False,
        "98.0%",
    ),
    ("kind: isolation, victim: victim, window: incast .. end, percentile: 0, at_least: 90%", False, "49.0%"),
    ("kind: recover, fault: freeze, traffic: victim, to: 97% of line, within: 150ms", True, "after 100 ms"),
    ("kind: recover, fault: freeze, traffic: victim, to: 97% of line, within_rtts: 3", False, "after 100 ms = 6."),
    ("kind: recover, fault: freeze, traffic: victim, to: 97% of line, within: 150ms, sample: 400ms", True, "120 ms"),
    ("kind: recover, fault: freeze, traffic: victim, to: 95% of line, within: 90ms, sample: 400ms", True, "after 80"),
    ("kind: recover, fault: freeze, traffic: victim, to: 99% of line, within: 9s", False, "never"),
    ("kind: detect, fault: freeze, within_rtts: 2.1", True, "2.0 RTT"),
    ("kind: detect, fault: freeze, within_rtts: 1.9", False, "3 EVs went out"),
    ("kind: detect, fault: freeze, within_rtts: 1.1, first: true", True, "1.0 RTT"),
    ("kind: detect, fault: gray, within_rtts: 9", False, "no EV was taken out"),
    ("kind: lost, window: start .. end, at_most: 4", True, "4 packets, 3 QPs"),
    ("kind: lost, window: start .. end, at_most: 11, per: run", False, "12 packets"),
    ("kind: lost, fault: freeze, traffic: incast, at_most: 8, per: run", True, "8 packets"),
    ("kind: lost, fault: gray, at_least: 1", False, "0 packets"),
    ("kind: lost, window: start .. end, per: run, share_at_most: 1%", True, "12 packets, 3 QPs lost some, 0.2"),
    ("kind: lost, window: freeze .. end, traffic: incast, share_at_least: 1%", False, "% of those sent"),
    ("kind: lost, window: start .. end, per: mean, at_most: 4", True, "4 packets, 3 QPs lost some"),
    ("kind: lost, window: start .. end, traffic: incast, per: mean, at_most: 3", False, "4 packets, 2 QPs"),
    ("kind: lost, fault: [freeze, gray], per: run, at_least: 12", True, "12 packets"),
    ("kind: lost, fault: [gray, freeze], within_rtts: 1.9", False, "4 packets"),
    ("kind: ev_swaps, window: start .. end, state: GOOD, at_least: 3", True, "3 times"),
    ("kind: ev_swaps, window: start .. end, state: SKIP, at_least: 1", False, "0 times"),
    ("kind: retransmitted, at_most: 4", True, "4 by the worst QP"),
    ("kind: retransmitted, share_at_most: 0.1%", False, "12 of"),
    ("kind: ev_state, fault: freeze, by_rtts: 1.1, returns_within: 600ms", True, "3 went ASSUMED_BAD, 3 came back"),
    ("kind: ev_state, fault: freeze, by_rtts: 0.9", False, "3 went ASSUMED_BAD"),
    ("kind: ev_state, fault: freeze, returns_within: 400ms", False, "3 came back"),
    ("kind: ev_affected, fault: freeze", True, "3 of 3 over it went out, 0 others"),
    ("kind: ev_affected, element: t1-p2-2, window: start .. end", False, "0 of 3 over it went out, 3 others"),
    ("kind: ev_swaps, window: start .. end, at_most: 3", True, "3 times"),
    ("kind: ev_swaps, window: start .. end, fault: gray, at_least: 1", False, "0 times"),
    ("kind: jain, window: incast + 100ms .. end, traffic: incast, at_least: 0.99", True, "over 2 flows"),
    ("kind: jain, window: incast + 100ms .. end, traffic: [incast, victim], at_least: 0.95", False, "over 3 flows"),
    ("kind: spread, window: incast + 100ms .. end, traffic: incast, at_least: 0.85", True, "0.900"),
    ("kind: spread, window: incast + 100ms .. end, traffic: incast, at_least: 0.95", False, "incast/h3>h5"),
    ("kind: plane_balance, window: start .. end", True, "+0.0%"),
    ("kind: path_share, traffic: incast, window: incast .. end, plane: 1, uplink: 2, at_most: 30%", True, "25.0%"),
    ("kind: path_share, traffic: incast, window: incast .. end, plane: 1, uplink: 2, at_least: 95%", False, "25.0%"),
    ("kind: completion, traffic: victim, percentile: 50, at_most: 16ms", True, "over 100"),
    ("kind: completion, traffic: victim, percentile: 99, at_most: 1rtt", False, "19.8 ms"),
    ("kind: completion, traffic: victim, window: start .. freeze, percentile: 50, at_most: 16ms", True, "over 80"),
    ("kind: completion, traffic: victim, window: freeze .. end, percentile: 50, at_most: 16ms", False, "over 20"),
    ("kind: completion, traffic: ring, of: iterations, percentile: 100, at_most: 300ms", True, "300 ms"),
    ("kind: completion, traffic: ring, of: iterations, percentile: 50, at_most: 200ms", False, "215 ms"),
    ("kind: completion, traffic: incast, of: flows, at_most: 7s", True, "6.00 s"),
    ("kind: latency, traffic: near, about: 4ms", True, "4 ms = 0.2 RTT over 10"),
    ("kind: latency, traffic: far, minus: near, about: 4ms, within: 1%", True, "4 ms"),
    ("kind: latency, traffic: far, minus: near, at_most: 3ms", False, "4 ms"),
    ("kind: rtt, window: start .. end, traffic: victim, at_most: 1.3rtt", True, "1.2 RTT"),
    ("kind: rtt, window: start .. end, traffic: victim, at_most: 1.1rtt", False, "1.2 RTT"),
    ("kind: drops, at_most: 0", True, "none"),
    ("kind: drops, only: [usid_miss]", True, "none"),
    ("kind: drops, reason: queue, at_least: 1", False, "none"),
    ("kind: injected, fault: gray, share_about: 1%", True, "10 of 1000 packets = 1%"),
    ("kind: injected, fault: gray, at_most: 9", False, "10 of 1000"),
    ("kind: trims, element: t0-p1-2, at_least: 40", True, "40, most at t0-p1-2 port 2"),
    ("kind: trims, element: t0-p1-1, at_least: 1", False, "no second reading"),
    ("kind: marks, at_least: 320", True, "320"),
    ("kind: marks, at_most: 0", False, "320"),
    ("kind: queue_depth, element: h5-p1, at_most: 7", True, "7 packets = 2.2 BDP at t0-p1-2 port 2, 33 samples"),
    ("kind: queue_depth, window: incast + 10ms .. incast.end, at_most: 2 bdp", False, "7 packets = 2.2 BDP"),
    ("kind: queue_depth, window: start .. incast, at_most: 0.1bdp", True, "0 packets"),
    ("kind: queue_depth, window: incast + 1rtt .. end - 1rtt, percentile: 0, at_least: 4", True, "4 packets"),
    ("kind: queue_depth, element: t0-p2-2, at_least: 1", False, "0 packets"),
    ("kind: verdict, fault: freeze, within: 700ms", True, "t1-p1-2 down after 600 ms"),
    ("kind: verdict, fault: freeze, within: 500ms", False, "t1-p1-2 down after 600 ms"),
    ("kind: verdict, fault: gray, within: 1s", False, "it never did"),
    ("kind: verdict, fault: freeze, within_cycles: 3.1", True, "after 600 ms = 3.0 cycles"),
    ("kind: verdict, fault: freeze, within_cycles: 2.9", False, "= 3.0 cycles"),
    ("kind: false_alarms", True, "0 of 1 it blamed"),
    ("kind: integrity, traffic: incast", True, "2 flows, each intact"),
    ("kind: clean", True, "2 faults cleared"),
    ("kind: health", True, "all well"),
]


OF_JOBS = {"step_time", "time_lost", "program_fails"}  # test_training_measures.py, test_torch_scenarios.py


@pytest.mark.parametrize(
    ("text", "holds", "observed"), CASES, ids=[f"{n}-{c[0].split(',')[0]}" for n, c in enumerate(CASES)]
)
def test_an_expectation_holds_or_not_and_says_what_it_saw(text, holds, observed):
    verdict = judge(line(text))
    assert observed in verdict.observed
    assert verdict.ok is holds, verdict
    assert verdict.expected


def test_a_verdict_without_a_limit_is_measured_in_cycles():
    *_, verdict = judge_all(measures(rest=f"measure:\n{line('kind: verdict, fault: freeze')}"))
    assert (round(verdict.value, 6), verdict.unit) == (3.0, "cycles")
    assert verdict.expected == "Clustermapper blames t1-p1-2 and no other (measured)"


def test_every_kind_of_the_union_has_a_case_or_a_test_of_its_own():
    kinds = set(EXPECTATIONS.names)
    assert kinds - {text.split(",")[0].removeprefix("kind: ") for text, _, _ in CASES} == {
        "qp_errors",
        "pauses",  # test_sim_shared.py
        "slowdown",  # test_open_loop.py
        *OF_JOBS,
    }


def test_the_documentation_lists_every_kind_and_field():
    text = (Path(__file__).parents[2] / "docs" / "expectations.md").read_text()
    for model in EXPECTATIONS:
        fields = model.model_fields
        lines = [
            row for row in text.splitlines() if f"`{get_args(fields['kind'].annotation)[0]}`" in row and row[0] == "|"
        ]
        assert lines, f"{model.__name__} is not in docs/expectations.md"
        told = " ".join(lines)
        missing = {name for name in fields if f"`{name}" not in told} - {"kind", "name"}
        assert not missing, f"docs/expectations.md says nothing of {missing} of {model.__name__}"


def test_queues_that_nobody_could_read_are_not_taken_for_empty():
    def silence(rs):
        return [
            r if r.kind != "depths" else Record(r.t, r.node, r.kind, {"switches": {}, "silent": ["t0-p1-2"]})
            for r in rs
        ]

    text = line("kind: queue_depth, element: WHERE, at_most: 9")
    verdict = judge(text.replace("WHERE", "h5-p1"), silence)
    assert (verdict.ok, verdict.observed) == (False, "a reading of the queues never came")
    assert judge(text.replace("WHERE", "h1-p1"), silence).ok


def test_verdicts_expose_the_figure_as_a_number():
    verdict = judge(line("kind: jain, window: incast + 100ms .. end, traffic: incast, at_least: 0.99"))
    assert verdict.value == pytest.approx((0.5 + 0.45) ** 2 / 2 / (0.5**2 + 0.45**2), abs=1e-3)
    verdict = judge(line("kind: goodput, window: incast + 100ms .. freeze, traffic: incast, at_least: 90% of line"))
    assert (verdict.value, verdict.unit) == (pytest.approx(0.95, abs=1e-3), "of line")
    verdict = judge(line("kind: detect, fault: freeze, within_rtts: 2.1"))
    assert (verdict.value, verdict.unit) == (pytest.approx(2.0), "RTT")


def test_a_duration_can_be_held_against_another_expectation():
    calm = line("kind: completion, name: calm, traffic: ring, of: iterations, percentile: 0, at_most: 1s")
    ring = "kind: completion, traffic: ring, of: iterations, percentile: 50, at_most: {}% of calm"
    assert judge(line(ring.format(108)) + calm).ok
    assert not judge(line(ring.format(107)) + calm).ok


def test_a_percentile_of_a_victim_is_of_its_samples_on_fast_links_too():
    scenario = mrclab.scenario(
        fabric={"planes": 1, "t0s": 2, "t1s": 1, "hosts_per_t0": 1, "link": {"rate": "10 Gb/s", "delay": "2us"}},
        traffic=[{"name": "victim", "kind": "stream", "from": "h1", "to": "h2", "duration": "1ms"}],
        faults=[{"name": "cut", "kind": "silent_drop", "link": "h1-p1", "at": "300us", "until": "500us"}],
        expect=[
            {"kind": "isolation", "victim": "victim", "window": "start .. cut.end", "percentile": 0, "at_most": "1%"}
        ],
    )
    run = mrclab.run(scenario, world="sim")
    assert [verdict.observed for verdict in run.verdicts if not verdict.ok] == []


def test_a_stall_that_never_ends_is_as_long_as_the_window_has_left():
    def silent(rs):
        def cut(r):
            keep = r.kind != "sample" or r.t < FREEZE or r.node != "h4"
            return r if keep else Record(r.t, r.node, r.kind, {**r.data, "qps": []})

        return [cut(r) for r in rs if r.kind not in {"flow.end", "traffic.end"}] + [
            Record(END, "lab", "traffic.end", {"traffic": "ring"})
        ]

    verdict = judge(line("kind: stall, window: start .. ring.end, traffic: victim, max_rtts: 10"), silent)
    assert not verdict.ok
    assert verdict.value == pytest.approx((END - FREEZE) / RTT, rel=0.05)


def test_a_qp_error_that_is_wanted_must_give_the_reason_wanted():
    def error(reason):
        return lambda rs: [*rs, Record(FREEZE, "h2", "qp.state", {"qp": 32, "state": "ERROR", "reason": reason})]

    wanted = line("kind: qp_errors, at_least: 1, reason: Retry Counter Exceeded")
    assert judge(wanted, error("Retry Counter Exceeded (7 retries)")).ok
    assert not judge(wanted, error("local protection error")).ok
    assert not judge(wanted).ok
    assert judge(line("kind: qp_errors, host: h1"), error("Retry Counter Exceeded")).ok
    assert not judge(line("kind: qp_errors, host: h2"), error("Retry Counter Exceeded")).ok


def test_a_flow_that_arrived_damaged_is_named():
    def damage(rs):
        return [
            Record(r.t, r.node, r.kind, {**r.data, "received_sha256": "x"}) if r.get("flow") == "incast/h3>h5" else r
            for r in rs
        ]

    verdict = judge(line("kind: integrity, traffic: incast"), damage)
    assert not verdict.ok
    assert verdict.observed.startswith("incast/h3>h5: sha256")


def test_an_ev_that_goes_out_without_crossing_the_fault_is_a_stranger():
    stranger = {"qp": QP["victim/h1>h4"], "ev": ev(2, 1), "old": "GOOD", "new": "ASSUMED_BAD", "reason": "time"}
    verdict = judge(
        line("kind: ev_affected, fault: freeze"), lambda rs: [*rs, Record(FREEZE + 0.1, "h1", "ev.state", stranger)]
    )
    assert (verdict.ok, verdict.value) == (False, 1.0)
    assert "h1 QP 16 plane 2, T1 1 not over it" in verdict.when


def test_an_ev_that_stays_in_use_over_the_fault_is_missed_unless_some_may_stay():
    def stays(rs):
        return [r for r in rs if not (r.kind == "ev.state" and r.node == "h3")]

    assert "1 stayed in use" in judge(line("kind: ev_affected, fault: freeze"), stays).observed
    assert judge(line("kind: ev_affected, fault: freeze, exactly: false"), stays).ok


def test_clean_finds_what_is_left():
    assert not judge(
        line("kind: clean"), lambda rs: [r for r in rs if not (r.kind == "fault.end" and r["fault"] == "gray")]
    ).ok
    out = judge(line("kind: clean"), lambda rs: [r for r in rs if r.t != THAW + 0.5])
    assert "3 EVs are still out of use" in out.observed
    cleared = Record(
        END, "lab", "faults.cleared", {"verified": False, "problems": ["t0-p1-1/t1-p1-2 silent"], "entries": []}
    )
    assert "not verified again" in judge(line("kind: clean"), lambda rs: [*rs, cleared]).observed


def test_a_plane_that_carries_less_breaks_the_balance():
    def starve(rs):
        def less(r):
            ports = [p | {"placed_bytes": p["placed_bytes"] // p["port"]} for p in r.data.get("ports", [])]
            return Record(r.t, r.node, r.kind, {**r.data, "ports": ports}) if r.kind == "sample" else r

        return [less(r) for r in rs]

    verdict = judge(line("kind: plane_balance, window: start .. end"), starve)
    assert not verdict.ok
    assert verdict.value == pytest.approx(1 / 3, abs=0.01)


def test_a_blame_on_a_stranger_is_held_against_the_clustermapper():
    blamed = Record(FREEZE + 0.2, "controller", "verdict", {"element": "t1-p2-2", "state": "lossy"})
    assert not judge(line("kind: verdict, fault: freeze, within: 1s"), lambda rs: [*rs, blamed]).ok
    assert judge(line("kind: verdict, fault: freeze, within: 1s, only: false"), lambda rs: [*rs, blamed]).ok


@pytest.mark.parametrize(
    ("element", "t", "false_positives"),
    [
        ("t1-p2-2", FREEZE + 0.2, 1),  # healthy all the time
        ("t1-p1-2", FREEZE - 0.2, 1),  # healthy until then
        ("t1-p1-2", THAW + 0.5, 0),  # said late of what was at fault
        ("t0-p1-1/t1-p1-2", FREEZE + 0.2, 1),  # one cable of a switch whose every cable failed
        ("t0-p2-1/t1-p2-1", START + 6.5, 0),
    ],
)
def test_a_false_alarm_is_about_what_no_fault_has_struck_yet(element, t, false_positives):
    blamed = Record(t, "controller", "verdict", {"element": element, "state": "lossy"})
    verdict = judge(line("kind: false_alarms"), lambda rs: [*rs, blamed])
    assert (verdict.ok, verdict.value) == (not false_positives, false_positives)
    assert (element in verdict.observed) == bool(false_positives)
    assert judge(line("kind: false_alarms, state: down"), lambda rs: [*rs, blamed]).ok
    assert judge(line("kind: false_alarms, at_most: 1"), lambda rs: [*rs, blamed]).ok


def test_cycles_are_those_of_the_scenario_s_clustermapper():
    verdict = judge(line("kind: verdict, fault: freeze, within_cycles: 4, within: 700ms"))
    assert verdict.expected == "Clustermapper blames t1-p1-2 within 700 ms and 4 cycles and no other"
    assert (verdict.value, verdict.unit) == (pytest.approx(0.6), "s")
    assert judge(line("kind: verdict, fault: freeze, within_cycles: 4")).unit == "cycles"
    assert not judge(line("kind: verdict, fault: freeze, within_cycles: 4, within: 500ms")).ok


def test_switch_drops_count_on_when_a_switch_starts_anew():
    def restart(rs):
        told = {"rx_packets": 5, "drops": {"usid_miss": 7}, "ports": {}}
        before = {"rx_packets": 5000, "drops": {"usid_miss": 4}, "ports": {}}
        return [
            *[r for r in rs if r.kind not in {"counters", "switches"}],
            Record(START, "lab", "switches", {"switches": {"t1-p1-1": {**before, "drops": {"usid_miss": 1}}}}),
            Record(START + 1, "lab", "switches", {"switches": {"t1-p1-1": before}}),
            Record(START + 2, "lab", "switches", {"switches": {"t1-p1-1": {**told, "drops": {"usid_miss": 0}}}}),
            Record(START + 3, "lab", "switches", {"switches": {"t1-p1-1": told}}),
        ]

    assert measures(restart).switches.drops == {"usid_miss": {"t1-p1-1": 10}}


def test_a_run_that_the_machine_held_up_is_invalid_and_a_killed_process_is_not_held_against_health():
    assert measures().invalid == []
    used = [0.1 * n + 0.15 * min(max(n - 8, 0), 6) for n in range(32)]
    busy = [Record(START + 0.25 * n, "lab", "cpu", {"seconds": {"h3": used[n]}}) for n in range(32)]
    assert measures(lambda rs: [*rs, *busy]).invalid == ["h3 used 100% of a core for a second"]
    dead = Record(FREEZE + 0.5, "lab", "process.died", {"process": "t1-p1-2"})
    assert not judge(line("kind: health"), lambda rs: [*rs, dead]).ok

    def on_purpose(rs):
        kill = {"processes": ["t1-p1-2"]}
        return [
            dead,
            *(Record(r.t, r.node, r.kind, {**r.data, **kill}) if r.get("fault") == "freeze" else r for r in rs),
        ]

    assert judge(line("kind: health"), on_purpose).ok


def test_a_run_that_a_hypervisor_held_up_says_who_it_was():
    late = Record(START + 3, "h3", "sample", {"qps": [], "ports": [], "late": 2 * RTT})

    def run(share):
        cpu = [Record(START + n, "lab", "cpu", {"seconds": {}, "steal": 7 + share * n}) for n in range(9)]
        return measures(lambda rs: [*rs, late, *cpu])

    (reason,) = run(0.25).invalid
    assert reason.endswith("for a CPU at 3.00 s, when a hypervisor took 25% of this machine's CPUs")
    assert run(0.25).machine.hypervisor.mean == pytest.approx(0.25)
    (reason,) = run(0.0).invalid
    assert reason.endswith("for a CPU at 3.00 s")
    assert run(0.0).machine.hypervisor is None


@pytest.mark.parametrize(("rest", "waited", "valid"), [
    ("", 0.9, True), ("", 1.1, False), ("max_wait: 32ms", 1.9, True), ("max_wait: 32ms", 2.1, False),
    ("max_wait: 8ms", 0.4, True), ("max_wait: 8ms", 0.6, False),
])  # fmt: skip
def test_a_scenario_says_how_long_a_host_may_wait_for_a_cpu(rest, waited, valid):
    late = Record(START + 3, "h3", "sample", {"qps": [], "ports": [], "late": waited * RTT})
    assert bool(measures(lambda rs: [*rs, late], rest).invalid) is not valid


@pytest.mark.parametrize(("rest", "waited", "valid"), [
    ("", 0.10, True), ("", 0.15, False), ("max_wait: 32ms", 0.2, True), ("max_wait: 32ms", 0.3, False),
])  # fmt: skip
def test_a_host_that_waited_too_often_makes_no_result_though_no_wait_was_long(rest, waited, valid):
    times = [START + 3 + 0.01 * n for n in range(100)]
    late = [Record(t, "h3", "sample", {"qps": [], "ports": [], "late": waited * 0.01}) for t in times]
    found = measures(lambda rs: [*rs, *late], rest).invalid
    text = f"the machine let h3 wait for a CPU {waited * 100:.0f}% of the 1.00 s until 3.99 s"
    assert found == ([] if valid else [text])


def test_a_switch_that_loads_its_program_after_a_fault_makes_no_run_invalid():
    used = [0.05 * n + 0.2 * min(max(n - 20, 0), 6) for n in range(32)]  # busy from 5 s on, for one and a half
    busy = [Record(START + 0.25 * n, "lab", "cpu", {"seconds": {"t1-p1-2": used[n]}}) for n in range(32)]
    assert measures(lambda rs: [*rs, *busy]).invalid == ["t1-p1-2 used 100% of a core for a second"]

    def rebooted(rs):
        kill = {"processes": ["t1-p1-2"]}
        return [
            *busy,
            *(Record(r.t, r.node, r.kind, {**r.data, **kill}) if r.get("fault") == "freeze" else r for r in rs),
        ]

    assert measures(rebooted).invalid == []


def test_lean_samples_hold_their_value_until_they_move():
    def pause(rs):
        return [r for r in rs if not (r.kind == "sample" and INCAST + 1 < r.t < INCAST + 1.95 and r.node == "h5")]

    def idle(rs):
        def without(r):
            quiet = r.kind == "sample" and INCAST + 1 < r.t < INCAST + 1.95 and r.node == "h5"
            return Record(r.t, r.node, r.kind, {**r.data, "qps": []}) if quiet else r

        return [without(r) for r in rs]

    chosen = Selection(traffic="incast")
    at = (INCAST + 1.2, INCAST + 1.8)
    assert measures(pause).goodput(*at, chosen) == pytest.approx(0.95 * LINE, rel=0.01)  # samples were missed
    assert measures(idle).goodput(*at, chosen) == 0  # samples said that nothing moved


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kind: goodput, window: start .. end", "needs at_least or at_most or about"),
        ("kind: goodput, window: start .. end, at_least: 90% of mean", "is the mean itself"),
        ("kind: goodput, window: start .. end, flow: h1>h4, at_least: 1 MB/s", "write TRAFFIC/h1>h3"),
        ("kind: goodput, window: start .. end, flow: victm/h1>h4, at_least: 1 MB/s", "did you mean 'victim'"),
        ("kind: completion, traffic: victim, at_most: soon", "is not a duration"),
        ("kind: ev_affected, window: start .. end", "needs either fault or element"),
        ("kind: lost, at_most: 3, within_rtts: 2", "name the fault"),
        ("kind: stall, window: start .. end", "needs max_rtts"),
        ("kind: queue_depth, element: h5-p1", "needs at_least or at_most, such as at_most: 1.5 bdp"),
        ("kind: queue_depth, at_most: deep", "'deep' is not a queue depth; write a number of packets, such as 40, or"),
        ("kind: lost, fault: [freeze, grey], at_most: 3", "no fault is named 'grey'; did you mean 'gray'?"),
        ("kind: verdict, fault: freeze", "needs within or within_cycles, such as within_cycles: 20"),
    ],
)
def test_a_mistake_is_answered_with_its_remedy(text, says):
    with pytest.raises(ScenarioError) as error:
        scenario(line(text))
    assert says in str(error.value)
