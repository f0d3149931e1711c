"""The time line heals what struck, whatever fails: in reverse order, and each fault whether or not another can be."""

import pytest

from mrclab.lab.errors import RunError
from mrclab.lab.faults import timeline
from mrclab.lab.faults.action import FaultAction
from mrclab.lab.faults.timeline import TimeLine
from mrclab.lab.scenario import scenario
from mrclab.topo.errors import TopoError

TEXT = """\
name: x
fabric: {planes: 1, t0s: 1, t1s: 1, hosts_per_t0: 2}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: 1 MiB}
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

    def record(self, kind, t=None, **fields):
        self.kinds.append((kind, fields["fault"]))
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

        def strike(self):
            self._do("strike")

        def advance(self, now):
            self._do("advance")
            return [f"at {now}"]

        def heal(self):
            self._do("heal")

    monkeypatch.setattr(timeline, "act", Noted)
    made = TimeLine(Ground(), scenario.loads(TEXT).scenario.faults)
    return made, done, fails


def test_faults_are_healed_in_reverse_order(line):
    made, done, _ = line
    made.advance(0.0, {})
    made.heal_all()
    assert done == ["strike one", "strike two", "strike three", "heal three", "heal two", "heal one"]
    assert made.active == []


@pytest.mark.parametrize("error", [TopoError("no"), KeyboardInterrupt(), ValueError("no")])
def test_a_fault_that_cannot_be_healed_keeps_no_other_from_it(line, error):
    made, done, fails = line
    made.advance(0.0, {})
    fails["heal", "two"] = error
    with pytest.raises((RunError, type(error))):
        made.heal_all()
    assert done[-3:] == ["heal three", "heal two", "heal one"]
    kinds = made._ground.kinds
    assert ("fault.end", "one") in kinds
    assert ("fault.end", "two") not in kinds


def test_a_strike_that_fails_half_way_is_healed_and_never_counts_as_struck(line):
    made, done, fails = line
    fails["strike", "two"] = TopoError("no such cable")
    with pytest.raises(RunError, match="two could not strike: no such cable"):
        made.advance(0.0, {})
    assert made.waiting == ["three"]
    made.heal_all()
    assert done == ["strike one", "strike two", "heal two", "heal one"]
    assert ("fault.begin", "two") not in made._ground.kinds


def test_a_fault_that_cannot_go_on_breaks_the_run_and_not_the_command(line):
    made, _, fails = line
    made.advance(0.0, {})
    fails["advance", "one"] = TopoError("the relay ended")
    with pytest.raises(RunError, match="one could not go on: the relay ended"):
        made.advance(1.0, {})
