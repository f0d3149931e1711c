"""The time line clears what it injected, whatever fails: in reverse order, each fault whether or not another can be."""

import math
import re
from types import SimpleNamespace

import pytest

from mrclab.lab.errors import RunError
from mrclab.lab.faults.action import FaultAction
from mrclab.lab.faults.kinds.carrier import LinkDown
from mrclab.lab.faults.kinds.controllers import ControllerRestart, ControllerSlow
from mrclab.lab.faults.timeline import TimeLine
from mrclab.lab.scenario import scenario
from mrclab.topo.errors import TopoError

TEXT = """\
name: x
fabric: {planes: 1, t0s: 1, t1s: 1, hosts_per_t0: 2}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: 1 MiB}
  - {name: other, kind: write, from: h2, to: h1, size: 1 MiB}
faults:
  - {name: one, kind: link_down, link: h1-p1, at: 0s}
  - {name: two, kind: link_down, link: h2-p1, at: 0s}
  - {name: three, kind: link_down, link: t0-p1-1/t1-p1-1, at: 0s}
"""


class Ground:
    """Only a history; the actions below do nothing to any lab."""

    def __init__(self):
        self.fabric = scenario.loads(TEXT).fabric
        self.seed = 1
        self.kinds = []
        self.now = 0.0

    def record(self, event, t=None):
        self.kinds.append((event.kind, event.fault))
        return t or 0.0


@pytest.fixture
def line(monkeypatch):
    """A time line whose actions write down what is asked of them, and fail where they are told to."""
    done, fails = [], {}

    class Noted(FaultAction):
        def _do(self, what):
            done.append(f"{what} {self.fault.name}")
            if (what, self.fault.name) in fails:
                raise fails[what, self.fault.name]

        def inject(self):
            self._do("inject")

        def advance(self, now):
            self._do("advance")
            return [f"at {now}"]

        def clear(self):
            self._do("clear")

    monkeypatch.setattr(LinkDown, "action", lambda fault, context: Noted(context, fault))
    made = TimeLine(Ground(), scenario.loads(TEXT).scenario.faults)
    return made, done, fails


def test_faults_are_cleared_in_reverse_order(line):
    made, done, _ = line
    made.advance(0.0, {})
    made.clear_all()
    assert done == ["inject one", "inject two", "inject three", "clear three", "clear two", "clear one"]
    assert made.active == []


def test_a_fault_that_is_over_at_once_is_cleared_before_the_next_begins(monkeypatch):
    done = []

    class Brief(FaultAction):
        def inject(self):
            done.append(f"inject {self.fault.name}")
            self.finished = True

        def clear(self):
            done.append(f"clear {self.fault.name}")

    monkeypatch.setattr(ControllerRestart, "action", lambda fault, context: Brief(context, fault))
    again = "  - {name: NAME, kind: controller_restart, at: 0s}\n"
    text = TEXT[: TEXT.index("  - {name: one")] + again.replace("NAME", "one") + again.replace("NAME", "two")
    made = TimeLine(Ground(), scenario.loads(text).scenario.faults)
    assert made.advance(0.0, {}) == ["one: the controller restarts", "one: cleared; two: the controller restarts"]
    assert done == ["inject one", "clear one", "inject two"]


@pytest.mark.parametrize("error", [TopoError("no"), KeyboardInterrupt(), ValueError("no")])
def test_a_fault_that_cannot_be_cleared_keeps_no_other_from_it(line, error):
    made, done, fails = line
    made.advance(0.0, {})
    fails["clear", "two"] = error
    with pytest.raises((RunError, type(error))):
        made.clear_all()
    assert done[-3:] == ["clear three", "clear two", "clear one"]
    kinds = made._context.kinds
    assert ("fault.end", "one") in kinds
    assert ("fault.end", "two") not in kinds


def test_an_injection_that_fails_half_way_is_cleared_and_never_counts_as_begun(line):
    made, done, fails = line
    fails["inject", "two"] = TopoError("no such cable")
    with pytest.raises(RunError, match="two could not be injected: no such cable"):
        made.advance(0.0, {})
    assert made.waiting == ["three"]
    made.clear_all()
    assert done == ["inject one", "inject two", "clear two", "clear one"]
    assert ("fault.begin", "two") not in made._context.kinds


def test_a_fault_that_cannot_go_on_breaks_the_run_and_not_the_command(line):
    made, _, fails = line
    made.advance(0.0, {})
    fails["advance", "one"] = TopoError("the relay ended")
    with pytest.raises(RunError, match="one could not go on: the relay ended"):
        made.advance(1.0, {})


def fault(entry):
    """The fault of one entry."""
    (found,) = scenario.loads(f"{TEXT.partition('faults:')[0]}faults:\n  - {entry}\n").scenario.faults
    return found


def test_a_fault_whose_end_comes_before_its_begin_aborts_the_run(line):
    made, done, _ = line
    late = TimeLine(made._context, [fault("{name: cut, kind: link_down, link: h1-p1, at: 50% of file, until: 2s}")])
    late.advance(1.9, {"file": 0.4})
    with pytest.raises(RunError, match=r"cut: its end, 2s, has come before its begin, 50% of file; raise until"):
        late.advance(2.1, {"file": 0.45})
    assert done == []


@pytest.mark.parametrize(
    ("at", "until", "progress", "moments"),
    [
        ("1% of file", "1ms", {"file": 0.2}, {}),
        ("2s", "10% of file", {"file": 0.2}, {}),
        ("1% of file", "90% of other", {"file": 0.2, "other": 0.9}, {}),
        ("other + 1s", "after file", {}, {"other": 0.0, "file.end": 0.5}),
    ],
)
def test_an_end_that_came_between_two_steps_before_its_begin_aborts_the_run(line, at, until, progress, moments):
    made, done, _ = line
    entry = f"{{name: cut, kind: link_down, link: h1-p1, at: {at}, until: {until}}}"
    late = TimeLine(made._context, [fault(entry)])
    with pytest.raises(RunError, match=f"cut: its end, .*, has come before its begin, {re.escape(at)}; raise until"):
        late.advance(2.0, progress, moments)
    assert done == []


@pytest.mark.parametrize(
    ("at", "until"),
    [
        ("10% of file", "50% of file"),
        ("100% of file", "after file"),
        ("50% of file", "after file + 1s"),
        ("other + 1s", "other + 1.5s"),
        ("other + 1s", "1.5s"),
    ],
)
def test_a_begin_and_a_later_end_that_are_due_at_once_by_other_clocks_are_taken_in_turn(line, at, until):
    made, done, _ = line
    short = TimeLine(made._context, [fault(f"{{name: cut, kind: link_down, link: h1-p1, at: {at}, until: {until}}}")])
    for _ in range(2):
        short.advance(2.0, {"file": 1.0}, {"other": 0.1, "file.end": 0.9})
    assert done == ["inject cut", "advance cut", "clear cut"]


def test_times_after_a_moment_are_due_once_it_has_come(line):
    made, _, _ = line
    context = made._context
    made = TimeLine(context, [fault("{name: cut, kind: link_down, link: h1-p1, at: after file + 1s, until: cut + 2s}")])
    made.advance(0.0, {}, {})
    assert made.next_due() == math.inf
    context.now = 5.0
    made.advance(4.0, {}, {"file.end": 3.5})
    assert made.next_due() == 5.5
    context.now = 5.75
    made.advance(4.75, {}, {"file.end": 3.5})
    assert made.next_due() == 7.75


def test_a_begin_and_an_end_that_are_due_at_once_are_taken_in_turn(line):
    made, done, _ = line
    short = TimeLine(made._context, [fault("{name: cut, kind: link_down, link: h1-p1, at: 1s, until: 1.001s}")])
    short.advance(1.1, {})
    short.advance(1.2, {})
    assert done == ["inject cut", "advance cut", "clear cut"]


def test_a_slow_controller_that_has_ended_is_looked_at_once_a_period():
    ground = Ground()
    ground.injector = SimpleNamespace(is_alive=lambda _node: False)
    slow = ControllerSlow(name="slow", kind="controller_slow", at=0, period=1.0, pause=0.5)
    action = slow.action(ground)
    action.inject()
    assert action.due == 1.0
    action.advance(1.0)
    assert action.due == 2.0
    action.clear()
