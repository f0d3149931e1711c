"""Hostile scenario files: `mrclab run --dry-run` responds with sentences and status 2, and starts nothing."""

import sys

import pytest

from mrclab.lab.command import cli
from mrclab.lab.errors import ScenarioError
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.checks.timeorder import known_times

BASE = "name: x\ntraffic:\n  - {name: a, kind: write, from: h1, to: h3, size: 1 MiB}\n"
TIMED = "name: x\ntraffic:\n  - {name: a, kind: stream, from: h1, to: h3, duration: 5s}\n"
CUT = "faults:\n  - {name: cut, kind: link_down, link: t0-p1-1/t1-p1-2, at: 1s, until: 2s}\n"
BOMB = "l0: &l0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 10)
)


def expect(*rows: str) -> str:
    return "expect:\n" + "".join(f"  - {{{row}}}\n" for row in rows)


FILES = {
    "empty": ("", ":1: a scenario is a mapping"),
    "list": ("- a\n- b\n", ":1: a scenario is a mapping"),
    "latin": (b"name: \xff\xfe\n", "byte 7 is not UTF-8; save it as UTF-8"),
    "zero byte": ("name: x\0\n", "not valid YAML"),
    "aliases": (BOMB + BASE, "repeated by aliases; write it out in full"),
    "deep": (BASE + "faults: " + "[" * 100 + "]" * 100 + "\n", ":4: this is nested too deeply"),
    "very deep": (BASE + "faults: " + "{a: " * 900 + "1" + "}" * 900 + "\n", "nested too deeply"),
    "number as key": (BASE + "1: 2\n", ":4: 1: a field is named by text"),
    "endless number": (BASE + "seed: " + "9" * 6000 + "\n", "a value cannot be read"),
    "large number": (BASE + "seed: " + "9" * 300 + "\n", ":4: seed: this must be at most"),
    "no list": ("name: x\ntraffic: {name: a}\n", ":2: traffic: a list is expected here; begin every entry with a dash"),
    "no mapping": (BASE + "fabric: [1]\n", ":4: fabric: a mapping of fields is expected here"),
    "text as entry": ("name: x\ntraffic: [foo]\n", ":2: traffic[1]: a mapping of fields is expected"),
    "negative size": (BASE.replace("1 MiB", "-1"), ":3: traffic[1].size: this must be at least"),
    "no size": (BASE.replace("write", "stream").replace("1 MiB", "0"), ":3: traffic[1].size: this must be at least"),
    "endless size": (BASE.replace("1 MiB", "9" * 400 + " GiB"), ":3: traffic[1].size: a finite number is expected"),
    "no duration": (TIMED.replace("5s", "0s"), ":3: traffic[1].duration: this must be greater than 0"),
    "endless duration": (TIMED.replace("5s", ".inf"), ":3: traffic[1].duration: a finite number"),
    "beyond the timeout": (TIMED.replace("5s", "900s"), "a.end comes at 15 min 0 s; raise timeout"),
    "incast to itself": (BASE.replace("write, from: h1, to: h3", "incast, from: [h1], to: h1"), "no sender but h1"),
    "begins never": (BASE + CUT.replace("1s", ".nan"), ":5: faults[1].at: nan never comes"),
    "clears before": (BASE + CUT.replace("2s", "500ms"), ":5: faults[1].until: cut begins at 1s and would be cleared"),
    "clears before, by share": (BASE + CUT.replace("1s", "50% of a").replace("2s", "25% of a"), "raise until"),
    "after the end": (TIMED + CUT.replace("1s, until: 2s", "9s"), ":5: faults[1].at: all traffic has ended at 5.00 s"),
    "after the transfer": (BASE + CUT.replace("1s, until: 2s", "after a + 1s"), "all traffic has ended before cut"),
    "waits for each other": (
        BASE.replace("size", "start: after b, size")
        + BASE.splitlines()[2].replace("a, kind", "b, start: after a, kind"),
        "waits for this in turn",
    ),
    "waits for the end of the run": (
        BASE + CUT.replace(", until: 2s", "") + CUT.splitlines()[1].replace("cut", "cot").replace("1s", "after cut"),
        ":6: faults[2].at: cut is cleared when the run ends, for which this would wait; give it an until",
    ),
    "too many faults": (BASE + "faults: [{name: s, kind: chaos, at: 0s, duration: 3600, every: 1us}]\n", "raise every"),
    "named as a moment": (BASE.replace("name: a", "name: start"), "'start' has a meaning of its own"),
    "same name": (
        BASE + expect(*["kind: goodput, name: g, window: start .. end, at_least: 1 MB/s"] * 2),
        "two entries are named 'g'",
    ),
    "variant to nowhere": (BASE + "variants: [{name: v, set: {traffic.b.size: 1}}]\n", "no entry is named 'b'"),
    "variant below a value": (BASE + "variants: [{name: v, set: {traffic.a.size.x: 1}}]\n", "'x' is not a field here"),
    "variant that breaks": (
        TIMED + CUT + "variants: [{name: v, set: {faults.cut.at: 9s, faults.cut.until: 10s}}]\n",
        ":6: variants[1].set.faults.cut.at: all traffic has ended",
    ),
}

ENTRIES = [
    ("kind: lost, window: end .. start, at_most: 0", "window: the window end .. start ends at or before its begin"),
    ("kind: lost, window: cut.end .. cut, at_most: 0", "ends at or before its begin"),
    ("kind: lost, window: start + 5s .. start + 2s, at_most: 0", "ends at or before its begin"),
    ("kind: lost, window: cut + 5rtt .. cut, at_most: 0", "ends at or before its begin"),
    ("kind: lost, window: cut .. cut, at_most: 0", "ends at or before its begin"),
    ("kind: lost, window: cut + 1s .. start + 1s, at_most: 0", "ends at or before its begin"),
    ("kind: lost, window: end + 60s .. end + 70s, at_most: 0", "raise linger"),
    ("kind: lost, window: cud .. end, at_most: 0", "no moment is called 'cud'; did you mean 'cut'?"),
    ("kind: lost, fault: ctl, at_most: 0", "ctl concerns no cable of its own, by which this is judged; give"),
    ("kind: goodput, window: start .. end, plane: 9, at_most: 5% of line", "there is no plane 9"),
    ("kind: goodput, name: g, window: start .. end, at_least: 90% of g", "g is this expectation itself"),
    ("kind: goodput, name: mean, window: start .. end, at_least: 90% of line", "'mean' has a meaning of its own"),
    ("kind: goodput, window: start .. end, at_least: 90% of tidy", "tidy measures no goodput"),
    ("kind: rtt, window: start .. end, at_most: 90% of tidy", "tidy measures no duration"),
    (
        "kind: goodput, window: start .. end, at_least: 5 MB/s, at_most: 4 MB/s",
        "at_least 5 MB/s exceeds at_most 4 MB/s",
    ),
    ("kind: stall, window: start .. end, flow: a/h1>h9, max_rtts: 3", "did you mean 'a/h1>h3'?"),
    ("kind: stall, window: start .. end, max_rtts: .inf", "a finite number is expected"),
    ("kind: plane_balance, window: start .. end, planes: [1, 9]", "there is no plane 9"),
    ("kind: plane_balance, window: start .. end, within: 5", "5 would be 500%; write 5% if that is meant"),
    ("kind: path_share, window: start .. end, plane: 1, uplink: 9, at_most: 5%", "there is no uplink 9"),
    ("kind: jain, window: start .. end, at_least: 0.9, at_most: 0.5", "at_least 0.9 exceeds at_most 0.5"),
    ("kind: drops, switch: t0-p9-1, at_most: 0", "no switch is called 't0-p9-1'; did you mean"),
    ("kind: drops, reason: usid_mis, at_most: 0", "did you mean 'usid_miss'?"),
    ("kind: drops, only: [que]", "did you mean 'queue'?"),
    ("kind: trims, element: t0-p1-9, at_most: 0", "no switch, host or cable is called 't0-p1-9'"),
    ("kind: verdict, fault: cut, within: 1s", "add `mapper: {}`"),
    ("kind: latency, traffic: a, at_most: 1s", "a is not a ping-pong"),
    ("kind: completion, traffic: a, of: iterations, at_most: 1s", "a has no iterations"),
]


def test_the_nearest_names_are_sought_for_the_first_mistakes_alone():
    hosts = ", ".join(f"g{number}" for number in range(50))
    traffic = f"traffic: [{{name: a, kind: all_to_all, size: 1MB, hosts: [{hosts}]}}]\n"
    with pytest.raises(ScenarioError) as error:
        scenario.loads(f"name: x\nworld: sim\n{traffic}")
    assert ["; " in text for text in error.value.mistakes] == [True] * 20 + [False] * 30


@pytest.fixture
def answer(tmp_path, monkeypatch, capsys):
    """Return the command's output for a file, and its exit status."""

    def ask(content):
        path = tmp_path / "s.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        monkeypatch.setattr(sys, "argv", ["mrclab", "run", "--dry-run", str(path)])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return capsys.readouterr(), end.value.code

    return ask


@pytest.mark.parametrize(("content", "says"), FILES.values(), ids=FILES)
def test_a_hostile_file_is_answered_with_a_sentence(answer, content, says):
    said, status = answer(content)
    assert (status, said.out) == (2, "")
    assert says in said.err
    assert max(map(len, said.err.splitlines())) < 600


@pytest.mark.parametrize(
    ("row", "says"), ENTRIES, ids=[f"{n}-{row.split(',')[0]}" for n, (row, _) in enumerate(ENTRIES)]
)
def test_an_expectation_that_could_not_fail_or_not_hold_is_refused(answer, row, says):
    faults = CUT + "  - {name: ctl, kind: controller_restart, at: 3s}\n"
    said, status = answer(TIMED + faults + expect(row, "kind: clean, name: tidy"))
    assert status == 2
    assert says in said.err
    assert "s.yaml:8: expect[1]" in said.err


def test_three_mistakes_of_order_are_said_at_once(answer):
    said, _ = answer(TIMED + CUT.replace("1s, until: 2s", "9s") + expect(ENTRIES[0][0], ENTRIES[9][0]))
    places = [line.split(": ")[1] for line in said.err.splitlines()]
    assert places == ["faults[1].at", "expect[1].window", "expect[2].plane"]


def test_what_is_known_of_time_follows_the_triggers():
    text = TIMED + CUT.replace("1s, until: 2s", "a + 1s, until: cut + 2s")
    moments = {"a": 0.0, "a.end": 5.0, "cut": 1.0, "cut.end": 3.0, "start": 0.0, "end": 5.0}
    assert known_times(scenario.loads(text).scenario) == moments
