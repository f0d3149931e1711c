"""Real-time scheduling of a process: taken where allowed, and given back by a process that never sleeps."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mrclab.topo.errors import EmulationError
from mrclab.topo.linux import kernel
from mrclab.topo.process import realtime

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root for real-time scheduling")]

SPIN = """
import os, time
from mrclab.topo.process import realtime
realtime.RUNTIME_LIMIT_S = {limit}
assert realtime.use_realtime(realtime.DATA_PLANE, inherited=False)
assert os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR
give_up = time.monotonic() + 30
while os.sched_getscheduler(0) != os.SCHED_OTHER and time.monotonic() < give_up:
    {pause}
    {count}
print("stepped down" if os.sched_getscheduler(0) == os.SCHED_OTHER else "real time")
"""


def outcome(**parts: str) -> str:
    done = subprocess.run([sys.executable, "-c", SPIN.format(**parts)], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_process_that_never_sleeps_becomes_an_ordinary_one():
    assert outcome(limit="0.2", pause="pass", count="pass") == "stepped down"


def test_a_process_that_sleeps_keeps_its_place():
    rounds = "rounds = globals().get('rounds', 0) + 1\n    if rounds == 500: break"
    assert outcome(limit="0.2", pause="time.sleep(0.001)", count=rounds) == "real time"


def test_rules_of_cables_are_put_in_place_with_the_priority_of_who_asks(tmp_path, monkeypatch):
    """With less of it, switches and NICs at work keep a fault from its place for tenths of a second."""
    nft = tmp_path / "nft"
    nft.write_text("#!/bin/sh\ngrep ^policy /proc/self/sched >&2\nexit 1\n")
    nft.chmod(nft.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with Path("/proc/thread-self/ns/net").open() as here:
        with realtime.as_real_time(), pytest.raises(EmulationError, match=rf"policy *: *{os.SCHED_RR}$"):
            kernel.nft_batch(here.fileno(), "")
        with pytest.raises(EmulationError, match=rf"policy *: *{os.SCHED_OTHER}$"):
            kernel.nft_batch(here.fileno(), "")
