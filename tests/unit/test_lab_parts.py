"""The lab's small parts: counters over time, histories, units, the guard against signals, JUnit XML, files."""

import json
import math
import os
import signal
from contextlib import closing
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrclab.events.faults import FaultEdge
from mrclab.events.switches import FabricVerified
from mrclab.lab import history
from mrclab.lab.expectations import Verdict
from mrclab.lab.history import History, HistoryWriter, Record
from mrclab.lab.measure.series import CountSeries, binned, edges, quantile
from mrclab.lab.report import junit
from mrclab.lab.run.interrupts import guarded
from mrclab.lab.scenario.triggers import Trigger, parse_trigger, parse_window
from mrclab.lab.scenario.units import parse_percent, parse_size, show_bytes, show_number, show_rate, show_seconds
from mrclab.lab.traffic.running.writes import random_file, sha256
from mrclab.topo.input.sentences import nearest


def test_a_counter_is_read_between_its_samples():
    counter = CountSeries([0.0, 1.0, 2.0], [0.0, 10.0, 10.0])
    assert [counter.at(t) for t in (-1, 0, 0.5, 1.5, 9)] == [0, 0, 5, 10, 10]
    assert counter.rate(0.5, 1.5) == 5
    assert counter.rate(1, 1) == 0
    assert CountSeries().at(3) == 0


def test_a_counter_grows_only_while_something_ran_where_that_is_known():
    counter = CountSeries([0.0, 1.0, 2.0, 3.0], [0.0, 10.0, 10.0, 30.0])
    short = counter.during([(0.25, 0.5), (0.5, 0.75), (2.0, 2.5)])
    moments = [0.25, 0.5, 0.75, 1.0, 2.0, 2.25, 2.5, 3.0]
    assert short.at_all(moments) == [short.at(t) for t in moments] == [0, 5, 10, 10, 10, 20, 30, 30]
    assert counter.during([(0.0, 0.1), (0.9, 1.0)]).at_all([0.1, 0.9]) == pytest.approx([5, 5])
    late = counter.during([(1.5, math.inf)])
    assert (late.at(1.5), late.at(2.5), late.at(9)) == (10, 20, 30)
    for unchanged in ([], [(-1.0, 9.0)], [(3.5, 4.0)]):
        assert counter.during(unchanged) is counter
    assert CountSeries().during([(0.0, 1.0)]).times == []


def test_a_counter_that_falls_began_at_zero_again_and_goes_on_from_where_it_was():
    counter = CountSeries()
    for t, value in ((0, 0), (1, 10), (2, 3), (3, 5)):
        counter.add(t, value)
    assert counter.values == [0, 10, 13, 15]


@given(st.floats(0, 1e4), st.floats(0.01, 50), st.floats(0.05, 1))
def test_bins_cover_the_span_and_lose_nothing(begin, length, step):
    at = edges(begin, begin + length, step)
    assert at[0] == begin
    assert all(a < b for a, b in pairwise(at))
    assert at[-1] >= begin + length - 1e-6 * (begin + length)
    counter = CountSeries([begin, at[-1]], [0.0, 1000.0])
    moved = sum(rate * (b - a) for rate, a, b in zip(binned(counter, at), at, at[1:], strict=False))
    assert moved == pytest.approx(1000.0)


def test_histories_of_several_processes_merge_by_time(tmp_path):
    for node, times in (("h1", (1.0, 3.0)), ("h2", (0.5, 2.0))):
        with closing(HistoryWriter(tmp_path / f"{node}.jsonl", node)) as writer:
            for t in times:
                writer.add(FabricVerified(seconds=t, links=0), t)
    merged = history.load(tmp_path)
    assert [(r.t, r.node) for r in merged.records] == [(0.5, "h2"), (1.0, "h1"), (2.0, "h2"), (3.0, "h1")]
    history.merge(tmp_path, tmp_path / "all.json")
    assert history.load(tmp_path / "all.json").records == merged.records


def test_samples_are_read_as_they_were_written_and_a_torn_one_is_passed_over(tmp_path):
    rows = [{"t": 0.5 * n, "node": "h1", "kind": "sample", "qps": [{"qp": n}], "late": 0.0} for n in range(1200)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "h1.jsonl").write_text(text + json.dumps(rows[0])[:-3], encoding="utf-8")
    found = list(history.load(tmp_path).of("sample"))
    assert [(r.t, r.node, r["qps"], r.data) for r in found] == [
        (row["t"], "h1", row["qps"], {"qps": row["qps"], "late": 0.0}) for row in rows
    ]


def test_a_line_cut_off_by_a_kill_is_passed_over(tmp_path):
    (tmp_path / "h1.jsonl").write_text('{"t": 1, "node": "h1", "kind": "a", "x": 5}\n{"t": 2, "node": "h1", "ki')
    assert [(r.kind, r["x"]) for r in history.load(tmp_path).records] == [("a", 5)]


def test_records_of_a_kind_and_node_are_found():
    records = [Record(1, "h1", "a"), Record(2, "h2", "a"), Record(3, "h1", "b")]
    assert [r.t for r in History(records).of("a", "b", node="h1")] == [1, 3]


@pytest.mark.parametrize(
    ("text", "count"), [("64 MiB", 2**26), ("1KiB", 1024), ("2 kB", 2000), ("17", 17), ("0", 0), ("1.5Mi", 1572864)]
)
def test_sizes_as_people_write_them(text, count):
    assert parse_size(text) == count


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1 XB", "1 2"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="is not a size"):
        parse_size(text)


def test_percentages_and_numbers_for_people():
    assert parse_percent("90 %") == 0.9
    assert parse_percent(0.5) == 0.5
    with pytest.raises(ValueError, match="is not a percentage"):
        parse_percent("ninety")
    assert [show_bytes(n) for n in (0, 1, 1536, 2**26)] == ["0 bytes", "1 byte", "1.5 KiB", "64 MiB"]
    assert [show_rate(n) for n in (10, 999_900, 8_192_000)] == ["10 B/s", "1000 kB/s", "8.19 MB/s"]
    assert [show_rate(n / 8) for n in (9.9e12, 1.0654e13)] == ["9900 Gb/s", "10.65 Tb/s"]
    assert [show_number(n) for n in (0.12345, 9999.6, 123_456, 1e20)] == ["0.1235", "10000", "123456", "1e+20"]
    assert show_seconds(239.9) == "4 min 0 s"
    assert [show_seconds(n) for n in (0.016, 2.5, 200)] == ["16 ms", "2.50 s", "3 min 20 s"]


def test_the_nearest_name_is_told_or_all_or_that_there_is_none():
    known = ["alpha", "beta"]
    assert nearest("alfa", known) == "did you mean 'alpha'?"
    assert nearest("zzz", known) == "known here: alpha, beta"
    assert nearest("zzz", []) == "there is none"
    many = [*(f"x{n}" for n in range(20)), "plane_down"]
    assert nearest("power", many).startswith("known here: plane_down, ")
    assert nearest("power", many).endswith(", 9 more")


def test_triggers_come_due_by_time_by_progress_or_after_a_moment():
    assert not Trigger(seconds=3).due(2.9, {}, {})
    assert Trigger(seconds=3).due(3.0, {}, {})
    quarter = Trigger(fraction=0.25, traffic="file")
    assert not quarter.due(99, {"file": 0.2}, {})
    assert quarter.due(0, {"file": 0.25}, {})
    assert not quarter.due(99, {}, {})
    later = Trigger(seconds=0.5, moment="cut.end")
    assert not later.due(99, {}, {"cut": 1.0})
    assert not later.due(2.4, {}, {"cut.end": 2.0})
    assert later.due(2.5, {}, {"cut.end": 2.0})


@pytest.mark.parametrize(
    "text", ["0s", "2us", "1.5s", "0.5s", "123.4567s", "250ns", "16ms", "cut + 2us", "after cut", "after cut + 3.5us"]
)
def test_a_trigger_is_written_as_in_a_scenario(text):
    assert str(parse_trigger(text)) == text


def test_a_window_is_written_as_in_a_scenario():
    assert str(parse_window("cut + 5us .. cut.end - 2 rtt")) == "cut +5us .. cut.end -2rtt"


def test_the_first_signal_raises_and_those_after_it_do_not():
    with guarded() as guard:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGHUP)
        assert guard.seen == signal.SIGTERM


def test_nothing_is_raised_once_the_clean_up_has_begun():
    before = signal.getsignal(signal.SIGINT)
    with guarded() as guard:
        guard.shield()
        os.kill(os.getpid(), signal.SIGINT)
        assert guard.seen == signal.SIGINT
    assert signal.getsignal(signal.SIGINT) is before


def test_junit_has_a_case_per_expectation_and_says_what_failed():
    verdicts = [
        Verdict("goodput", True, "goodput ≥ 90% of line", "95% of line", "0 to 2 s"),
        Verdict("stall", False, "no pause longer than 5 RTT", "<7 RTT>", "at 3 s"),
    ]
    root = ElementTree.fromstring(junit.render("demo", verdicts))
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    failure = root.findall("testcase")[1].find("failure")
    assert failure is not None
    assert failure.get("message") == "observed <7 RTT>"
    assert "at 3 s" in (failure.text or "")


@pytest.mark.parametrize("size", [0, 1, 4096, 2**20 + 1])
def test_random_files_have_their_size_and_repeat_with_their_seed(tmp_path, size):
    one, two, other = (random_file(tmp_path / name, size, seed) for name, seed in (("a", "1"), ("b", "1"), ("c", "2")))
    assert one.stat().st_size == size
    assert sha256(one) == sha256(two)
    assert (sha256(one) == sha256(other)) is (size == 0)


def test_history_lines_are_plain_json(tmp_path):
    with closing(HistoryWriter(tmp_path / "lab.jsonl")) as writer:
        at = writer.add(FaultEdge(fault="x", link="h1-p1", up=False))
    assert json.loads((tmp_path / "lab.jsonl").read_text()) == {
        "t": at,
        "node": "lab",
        "kind": "fault.edge",
        "fault": "x",
        "link": "h1-p1",
        "up": False,
    }


def test_a_percentile_below_flows_that_failed_is_that_of_the_others():
    assert quantile([3.0, 1.0, 2.0, math.inf, math.inf], 0.5) == 3.0
    assert quantile([1.0, 2.0, math.inf], 0.5) == 2.0
    assert quantile([1.0, math.inf, math.inf], 0.75) == math.inf
    assert quantile([4.0], 0.99) == 4.0
