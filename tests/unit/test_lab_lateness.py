"""A run in which the lab itself, a switch or the controller came too late is no result, and says who, when and why."""

import pytest
from lab_history import CORE, END, NIC, RTT, START, measures

from mrclab.lab.history import Record

LONG = 5 * RTT


def invalid(*more, without=()):
    return measures(change=lambda records: [r for r in records if r.kind not in without] + list(more)).invalid


def lab(t, kind, **fields):
    return Record(t, "lab", kind, fields)


def test_a_fault_that_struck_late_because_the_lab_stood_still_makes_the_run_invalid():
    (reason,) = invalid(lab(CORE - 0.01, "lab.late", late=LONG))
    assert reason.startswith("the lab itself was stopped for")
    assert "when core-link was to begin" in reason
    (reason,) = invalid(lab(NIC + 0.2, "cpu", seconds={}, lab_late=LONG + 0.3))
    assert "when nic-link was to begin" in reason


def test_the_lab_may_stand_still_while_nothing_is_to_be_done_or_for_less_than_a_round_trip():
    assert invalid(lab(CORE + 1.0, "lab.late", late=0.5)) == []
    assert invalid(lab(CORE, "lab.late", late=0.9 * RTT)) == []
    assert invalid(lab(START - 5, "lab.late", late=0.5)) == []


def test_a_switch_that_was_late_makes_the_run_invalid_whichever_way_it_is_told():
    told = lab(START + 1, "depths", switches={}, silent=[], late={"t0-p1-1": LONG, "t1-p1-1": 0.0})
    assert invalid(told) == [f"switch t0-p1-1 was {LONG * 1000:.3g} ms late at 1.00 s"]
    waited = lab(START + 1, "cpu", seconds={}, waited={"t0-p1-1": LONG, "controller": LONG, "other": LONG})
    assert invalid(waited) == [f"switch t0-p1-1 was {LONG * 1000:.3g} ms late at 1.00 s"]
    before = lab(START - 1, "depths", switches={}, silent=[], late={"t0-p1-1": LONG})
    assert invalid(before) == []


def looks(*times, waited):
    return [lab(START + t, "cpu", seconds={}, waited={"t0-p1-1": waited}) for t in times]


def test_many_short_waits_between_two_looks_that_are_far_apart_are_not_told_as_one():
    often = [0.25 * n for n in range(1, 5)]
    assert invalid(*looks(*often, waited=0.0), *looks(4.0, waited=11 * RTT)) == []  # in three seconds
    assert invalid(*looks(*often, 1.25, waited=0.9 * RTT)) == []
    rare = invalid(*looks(*often, waited=0.0), *looks(4.0, waited=30 * RTT))
    assert rare == [f"switch t0-p1-1 was {2.5 * RTT * 1000:.3g} ms late at 4.00 s"]
    assert len(invalid(*looks(*often, waited=0.0), *looks(1.25, waited=2 * RTT))) == 1


def silences(seconds, switch="t0-p1-1"):
    ticks = int(seconds / 0.25) + 1
    return [lab(START + 0.5 + 0.25 * n, "depths", switches={}, silent=[switch], late={}) for n in range(ticks)]


def test_a_switch_that_gives_no_answer_makes_the_run_invalid_unless_a_fault_stopped_it():
    answers = lab(START + 2.5, "depths", switches={}, silent=[], late={})
    assert invalid(*silences(1.5), answers) == ["switch t0-p1-1 gave no answer for 1.50 s until 2.00 s"]
    assert invalid(*silences(0.75), answers) == []
    froze = {"fault": "ice", "fault_kind": "switch_freeze", "links": [], "text": "", "stops": ["t0-p1-1"]}
    fault = [Record(START + 0.4, "lab", "fault.begin", froze), Record(START + 2.1, "lab", "fault.end", froze)]
    assert invalid(*silences(1.5), answers, *fault) == []
    assert invalid(*silences(1.5, "t1-p1-1"), answers, *fault) != []


def heartbeat(t, late=0.0, at=None):
    fields = {"late": late, "at": START + (t if at is None else at), "cpu": 0.0}
    return Record(START + t, "controller", "heartbeat", fields)


NEEDED = [("link_down", False), ("switch_crash", True), ("controller_slow", True)]


@pytest.mark.parametrize(("kind", "needed"), NEEDED)
def test_a_controller_that_stood_still_matters_where_something_depends_on_it(kind, needed):
    fault = {"fault": "f", "fault_kind": kind, "links": [], "text": "", "stops": ["t1-p1-1"]}
    told = [heartbeat(0.5), heartbeat(1.25, 0.3, 1.2), heartbeat(END - START)]
    found = invalid(*told, Record(END - 0.5, "lab", "fault.begin", fault))
    assert found == (["the controller was 300 ms late at 1.20 s"] if needed else [])


def test_a_controller_that_was_a_little_late_or_was_stopped_by_a_fault_is_not_late():
    frozen = {"fault": "ice", "fault_kind": "controller_slow", "links": [], "text": "", "stops": ["controller"]}
    fault = [Record(START + 1, "lab", "fault.begin", frozen), Record(START + 2, "lab", "fault.end", frozen)]
    assert invalid(heartbeat(0.5, 0.2), heartbeat(2.1, 1.0, 2.0), heartbeat(END - START), *fault) == []
    assert invalid(heartbeat(0.5, 0.3), heartbeat(2.1, 1.0, 2.0), heartbeat(END - START), *fault) != []


def test_a_controller_that_was_never_heard_of_again_or_woke_up_after_the_end_is_late():
    fault = {"fault": "f", "fault_kind": "switch_crash", "links": [], "text": "", "stops": []}
    crash, seconds = Record(END - 0.5, "lab", "fault.begin", fault), END - START
    assert invalid(heartbeat(5.0), crash) == [f"the controller was {seconds - 5.25:.2f} s late at {seconds:.2f} s"]
    assert invalid(heartbeat(5.0), heartbeat(seconds + 1, seconds - 4.5, seconds + 0.5), crash) != []
    assert invalid(heartbeat(5.0), heartbeat(seconds + 1, 0.5, seconds + 0.9), crash) == []


def test_the_longest_waits_are_told_by_process():
    told = lab(START + 1, "depths", switches={}, silent=[], late={"t0-p1-1": 0.003})
    more = [told, lab(CORE, "lab.late", late=0.02), heartbeat(1.0, 0.015), heartbeat(END - START)]
    found = measures(change=lambda r: [*r, *more]).machine.lateness.worst()
    assert (found["t0-p1-1"], found["lab"], found["controller"]) == (0.003, 0.02, 0.015)
