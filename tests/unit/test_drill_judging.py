"""The drill's own judgement: a process that stood still must be named, unless the traffic ended first."""

import json
import random
import socket
from types import SimpleNamespace

import disturbances
import pytest
from drill import REASON_S, Drill, Round

LONG = next(one for one in disturbances.ALL if one.name == "stop a helper for long")


@pytest.fixture
def drill(tmp_path):
    return Drill(tmp_path, seed=1)


def kept(drill, name, end):
    """Keep a whole result directory of a run whose traffic ended at `end`."""
    place = drill._results / f"drill-{name}"
    place.mkdir(parents=True)
    records = [{"t": 0.0, "node": "lab", "kind": "traffic.start"}]
    records += [{"t": end, "node": "lab", "kind": "traffic.end"}] if end is not None else []
    (place / "history.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    for other in ("run.json", "scenario.yaml"):
        (place / other).write_text("")


def judged(drill, during, stood, said="PASS", after=None):
    made = Round(LONG.name, "relay", 10.0, during, status=0, after=after, stood=stood)
    drill._judge(LONG, made, said)
    return made.wrong


def test_a_stop_without_a_word_is_wrong_where_the_traffic_went_on_beyond_the_time_for_it(drill):
    kept(drill, "a", 5.0)
    assert judged(drill, "traffic", REASON_S + 0.1) == ["no reason was given: PASS"]
    assert judged(drill, "bring-up", REASON_S + 0.1) == ["no reason was given: PASS"]


def test_a_stop_without_a_word_is_right_where_the_traffic_ended_first_or_had_ended(drill):
    kept(drill, "a", 5.0)
    assert judged(drill, "traffic", REASON_S - 0.1) == []
    assert judged(drill, "tear-down", 60.0) == []


def test_a_word_that_came_late_or_blames_the_machine_is_wrong_however_long_the_traffic_went_on(drill):
    kept(drill, "a", 5.0)
    assert judged(drill, "traffic", 1.0, after=REASON_S + 1) == ["the reason came after 6.0 s"]
    assert judged(drill, "traffic", 1.0, "the machine is too slow")[0].startswith("the machine was blamed")


@pytest.mark.parametrize(("end", "expected"), [(42.0, 42.0), (None, 99.0)])
def test_the_end_of_the_traffic_is_that_of_the_newest_result_or_the_end_of_the_run(drill, end, expected):
    assert drill._traffic_end(99.0) == 99.0
    kept(drill, "a", end)
    assert drill._traffic_end(99.0) == expected


KILL = next(one for one in disturbances.ALL if one.name == "kill an agent")


@pytest.mark.parametrize(
    ("during", "status", "after", "wrong"),
    [
        ("traffic", 1, 1.0, []),
        ("traffic", 0, 1.0, ["exit status 0: x"]),
        ("bring-up", 1, None, ["no reason was given: x"]),
        ("traffic", 1, REASON_S + 1, ["the reason came after 6.0 s"]),
        ("tear-down", 0, None, []),
    ],
)
def test_a_run_whose_agent_is_killed_ends_with_status_1_and_a_reason_unless_it_was_over(
    drill, during, status, after, wrong
):
    kept(drill, "a", 5.0)
    made = Round(KILL.name, "h1", 10.0, during, status=status, after=after)
    drill._judge(KILL, made, "x")
    assert made.wrong == wrong


def doing(name):
    return next(one for one in disturbances.ALL if one.name == name).do


def test_a_socket_whose_listener_has_gone_is_nothing_to_flood(tmp_path):
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(tmp_path / "x.sock"))
    with pytest.raises(ProcessLookupError):
        doing("flood a socket")(SimpleNamespace(run_dir=tmp_path), random.Random(1))
