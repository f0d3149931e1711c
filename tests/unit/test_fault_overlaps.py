"""Faults that take the same thing of the lab for themselves are refused where they could be in force together."""

import time

import pytest

from mrclab.lab.errors import RunError, ScenarioError
from mrclab.lab.faults.action import FaultAction
from mrclab.lab.faults.kinds.detours import RelayedFault, SwapCables
from mrclab.lab.prompt.session import LabSession
from mrclab.lab.scenario.scenario import loads

HEAD = """\
name: x
fabric: {planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 1}
traffic:
  - {name: file, kind: write, from: h1, to: h2, size: 1 MiB}
  - {name: late, kind: stream, from: h1, to: h2, duration: 60s, start: after file + 1s}
faults:
"""
SWAP = "kind: swap_cables, links: [h1-p1, h2-p1]"
SWAP_TOO = "kind: swap_cables, links: [h1-p2, h2-p2]"
SLOW, SLOW_UP = "kind: delay, link: h1-p1, delay: 5ms", "kind: delay, link: h1-p1, delay: 5ms, direction: up"
JITTER_DOWN = "kind: jitter, link: h1-p1, delay: 5ms, jitter: 1ms, direction: down"
CRASH, FREEZE = "kind: switch_crash, switch: t1-p1-1", "kind: switch_freeze, switch: t1-p1-1"
REBOOT = "kind: switch_reboot, switch: t1-p1-1, takes: 1s"
WRONG = "kind: wrong_entry, switch: t1-p1-1, port: 1"
CUT_OFF = "kind: controller_partition, switch: t1-p1-1"
STORM = "kind: chaos, duration: 20s, every: 1s, kinds: [switch_freeze]"
DOWN = "kind: link_down, link: h1-p1"


def faults(*entries):
    return HEAD + "".join(f"  - {{name: f{n}, {entry}}}\n" for n, entry in enumerate(entries, 1))


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        (f"{SWAP}, at: 0.5s, until: 2.5s", f"{SWAP}, at: 1s, until: 3s", "the frames of h1-p1/t0-p1-1"),
        (f"{SLOW}, at: 1s", f"{SLOW_UP}, at: 2s", "the frames of h1-p1/t0-p1-1 upwards"),
        (f"{SLOW}, at: 1s", f"{JITTER_DOWN}, at: 2s", "the frames of h1-p1/t0-p1-1 downwards"),
        (f"{SLOW}, at: 1s", f"{SWAP}, at: 2s", "the frames of h1-p1/t0-p1-1"),
        (f"{CRASH}, at: 1s", f"{CRASH}, at: 2s", "t1-p1-1"),
        (f"{CRASH}, at: 1s, until: 3s", f"{FREEZE}, at: 2s, until: 4s", "whether t1-p1-1 runs"),
        (f"{REBOOT}, at: 1s", f"{FREEZE}, at: 3s, until: 4s", "whether t1-p1-1 runs"),
        (f"{WRONG}, at: 1s", f"{WRONG}, to: 2, at: 2s", "the entries of t1-p1-1"),
        ("kind: controller_crash, at: 1s, until: 3s", f"{WRONG}, at: 2s, until: 4s", "the controller"),
        (f"{CUT_OFF}, at: 1s", f"{CRASH}, at: 2s", "the process of t1-p1-1"),
        ("kind: agent_crash, host: h1, at: 1s", "kind: agent_crash, host: h1, at: 2s", "the agent of h1"),
        (f"{FREEZE}, at: 25% of file, until: 75% of file", f"{CRASH}, at: 50% of file", "whether t1-p1-1 runs"),
        (f"{FREEZE}, at: 1s, until: 50% of file", f"{CRASH}, at: 3s", "whether t1-p1-1 runs"),
        (f"{STORM}, at: 1s", f"{CRASH}, at: 2s", "whether t1-p1-1"),
        (f"{FREEZE}, at: 1s, until: f2", f"{CRASH}, at: 50% of file", "whether t1-p1-1 runs"),
        (f"{WRONG}, at: 50% of file, until: 75% of file", "kind: controller_restart, at: f1", "the controller"),
    ],
)  # fmt: skip
def test_what_may_not_overlap_is_refused_with_both_names_and_the_reason(one, other, what):
    with pytest.raises(ScenarioError) as refused:
        loads(faults(one, other), "x.yaml")
    (line,) = refused.value.mistakes
    assert line.startswith("x.yaml:8: faults[2].at: f2 may begin while f1 is in force, and both concern")
    assert what in line
    assert "after f1 + 1s" in line


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"{SWAP}, at: 1s, until: 2s", f"{SWAP}, at: 2s, until: 3s"),
        (f"{SWAP}, at: 1s", f"{SWAP_TOO}, at: 2s"),
        (f"{SLOW_UP}, at: 1s", f"{JITTER_DOWN}, at: 1s"),
        (f"{FREEZE}, at: 10% of file, until: 20% of file", f"{CRASH}, at: 20% of file"),
        (f"{FREEZE}, at: 1s, until: 50% of file", f"{CRASH}, at: after f1 + 100ms"),
        (f"{FREEZE}, at: 1s, until: after file", f"{CRASH}, at: late + 1s"),
        (f"{FREEZE}, at: late + 1s, until: late + 2s", f"{CRASH}, at: late + 3s"),
        (f"{REBOOT}, at: 1s", f"{FREEZE}, at: after f1 + 1s"),
        (f"{REBOOT}, at: 1s", f"{FREEZE}, at: 13s"),
        ("kind: controller_restart, at: 1s", "kind: controller_crash, at: 1s, until: 2s"),
        (f"{DOWN}, at: 1s", f"{DOWN}, at: 2s, until: 3s"),
        (f"{CUT_OFF}, at: 1s, until: 3s", "kind: controller_crash, at: 2s, until: 4s"),
    ],
)
def test_what_may_overlap_or_cannot_is_taken(one, other):
    assert len(loads(faults(one, other)).scenario.faults) == 2


class Session:
    """The part of a lab that a prompt's faults call; actions do nothing."""

    def __init__(self, tmp_path):
        self.fabric, self.seed, self.run_dir, self.emulation = (
            loads(faults(f"{DOWN}, at: 1s")).fabric,
            1,
            tmp_path,
            None,
        )
        self.launch = self.excuse = self.expect_alive = self.pause = None
        self.name = "wire"

    @property
    def now(self):
        return time.monotonic()

    def record(self, _event, t=None):
        return t

    def subscribe(self, _nodes, _kinds):
        return NoEvents()


class NoEvents:
    def wait(self, _until):
        return []

    def close(self):
        pass


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("delay", {"link": "h1-p1", "delay": "5ms"}, {"link": "h1-p1", "delay": "5ms", "direction": "up"}),
        ("swap_cables", {"links": ["h1-p1", "h2-p1"]}, {"links": ["h2-p1", "h1-p1"]}),
        ("swap_cables", {"links": ["h1-p1", "h2-p1"]}, {"links": ["h2-p1", "h1-p2"]}),
    ],
)
def test_the_prompt_refuses_the_same_and_takes_it_once_the_first_is_healed(tmp_path, monkeypatch, kind, one, other):
    class Nothing(FaultAction):
        def inject(self):
            pass

        def clear(self):
            pass

    for model in (RelayedFault, SwapCables):
        monkeypatch.setattr(model, "action", lambda fault, context: Nothing(context, fault))
    with LabSession(Session(tmp_path)).open() as session:
        session.inject(kind, {**one, "name": "first"})
        with pytest.raises(RunError, match="cannot begin while first is in force: both concern the frames of"):
            session.inject(kind, {**other, "name": "again"})
        session.clear("first")
        session.inject(kind, {**other, "name": "again"})
        assert list(session.faults) == ["again"]
