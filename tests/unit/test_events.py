"""Every record of a history is one of a class in `mrclab.events`, and docs/history-reference.md is made from these."""

import json
import os
import re
from pathlib import Path

import history_net
import pytest

from mrclab.events import codec
from mrclab.events.event import EVENTS, Event, event
from mrclab.events.faults import FaultCounters
from mrclab.events.transport import PacketSpurious
from mrclab.lab.report import historyreference
from mrclab.lab.run import runner
from mrclab.lab.scenario import scenario

ROOT = Path(__file__).parents[2]
HISTORIES = "MRCLAB_HISTORIES"
OLDER = {"message"}  # in results of earlier versions, which can still be read
TOLD_ONLY = {"workload.progress", "rpc.events_dropped"}  # for who listens, not for the history

SCENARIO = """
name: everything
world: sim
fabric: {planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 1, link: {rate_pps: 1000, delay: 1ms}}
mapper: {cycle: 100ms}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: 8 MiB}
  - {name: ping, kind: pingpong, from: h2, to: h1, size: 1 KiB, count: 20}
  - {name: ring, kind: ring_all_reduce, hosts: [h1, h2], size: 64 KiB, iterations: 2, start: after file}
faults:
  - {name: cut, kind: link_down, link: t0-p1-1/t1-p1-2, at: 20% of file, until: 40% of file}
  - {name: gray, kind: silent_drop, link: t0-p2-1/t1-p2-1, at: 50% of file, until: 90% of file}
  - {name: nic, kind: link_down, link: h1-p2, at: 92% of file, until: 95% of file}
"""


LOST = {"t": 1.0, "node": "h1", "kind": "packet.lost", "qp": 1, "psn": 2, "ev": 3, "reason": "NACK", "sent": 0.5}


def lines_of(loaded, folder):
    outcome = runner.run_scenario(loaded, folder, lambda *_: None, lambda _: None)
    return (outcome.directory / "history.jsonl").read_text().splitlines()


def test_every_record_of_a_run_comes_back_from_its_class(tmp_path):
    lines = lines_of(scenario.loads(SCENARIO), tmp_path)
    assert {fault for line in lines if (fault := history_net.fault(line))} == set()
    assert len({json.loads(line)["kind"] for line in lines}) > 25


@pytest.mark.skipif(HISTORIES not in os.environ, reason=f"minutes of simulation; set {HISTORIES}=1")
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("path", sorted((*(ROOT / "scenarios").glob("*.yaml"), *(ROOT / "scenarios/paper").glob("*"))))
def test_every_record_of_a_bundled_scenario_comes_back_from_its_class(path, tmp_path):
    loaded = scenario.in_world(scenario.load(path), "sim")
    for one in loaded.runs:
        lines = lines_of(one, tmp_path)
        assert {fault for line in lines if (fault := history_net.fault(line))} == set()


def test_kinds_that_hosts_write_and_readers_ask_for_have_a_class():
    written, asked = set(), set()
    for path in (path for part in ("hosts", "lab", "experiments", "sim") for path in (ROOT / part).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if path.is_relative_to(ROOT / "hosts"):
            written |= set(re.findall(r'(?:\blog\(\s*|\{"kind": )"([a-z]+(?:\.[a-z.]+)?)"', text))
        for call in re.findall(r"history\.of\(([^()]*)\)", text):
            asked |= set(re.findall(r'(?<!node=)"([a-z.]+)"', call))
    assert written - TOLD_ONLY - EVENTS.keys() == set()
    assert asked - OLDER - EVENTS.keys() == set()
    assert len(written) > 25
    assert len(asked) > 20


def test_the_reference_is_current():
    assert historyreference.FILE.read_text(encoding="utf-8") == historyreference.build(), (
        "docs/history-reference.md is not current; run python -m mrclab.lab.report.historyreference"
    )


def test_fields_of_other_versions_are_passed_over():
    found = codec.decode(json.dumps({**LOST, "colour": "red"}))
    assert json.loads(codec.encode(found)) == LOST


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "a record has t, node and kind"),
        ("[]", "a record has t, node and kind"),
        (json.dumps({**LOST, "kind": "packet.eaten"}), "'packet.eaten'"),
        (json.dumps({**LOST, "sent": "soon"}), "packet.lost: sent: "),
        (json.dumps({name: value for name, value in LOST.items() if name != "psn"}), "packet.lost: psn: "),
    ],
)
def test_a_line_that_is_no_record_of_its_kind_is_refused(line, words):
    with pytest.raises(codec.EventError, match=re.escape(words)):
        codec.decode(line)


def test_counters_of_any_fault_are_fields_of_their_own():
    line = {"t": 0.0, "node": "lab", "kind": "fault.counters", "fault": "x", "fault_kind": "loss", "eaten": 3}
    found = codec.decode(json.dumps(line))
    assert isinstance(found.event, FaultCounters)
    assert found.event.counters == {"eaten": 3}
    assert json.loads(codec.encode(found)) == line


@pytest.mark.parametrize("fields", [{"qp": 1}, {"qp": 1, "psn": 2, "colour": "red"}])
def test_an_event_has_all_of_its_fields_and_no_other(fields):
    with pytest.raises(TypeError, match="PacketSpurious has the fields qp, psn"):
        PacketSpurious(**fields)


def test_an_event_does_not_change():
    made = PacketSpurious(qp=1, psn=2)
    with pytest.raises(AttributeError, match=r"PacketSpurious\.psn cannot be set"):
        made.psn = 3
    assert made.psn == 2


def test_a_kind_has_one_class():
    with pytest.raises(ValueError, match=r"'packet\.lost' of .*choose another"):

        @event("packet.lost")
        class PacketEaten(Event):
            pass
