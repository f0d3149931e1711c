"""Helpers of the lab that do not do as they should: every wait for one ends, with a reason."""

import subprocess
import sys
from unittest.mock import Mock

import pytest

from mrclab.topo.cables import helper
from mrclab.topo.cables.impairment import Impairment
from mrclab.topo.errors import EmulationError
from mrclab.topo.linux.adaptivetimeout import MachineSlowness
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec


class Ground:
    """As much of an emulation as a helper needs; runs `program` instead of the module."""

    def __init__(self, place, program):
        (place / "log").mkdir()
        self.run_dir, self.slowness, self._program = place, MachineSlowness(), program

    def popen(self, _node, argv, *, log, namespace, **keywords):
        self.process = subprocess.Popen([sys.executable, "-c", self._program, argv[-1]], **keywords)
        return self.process


def _start(tmp_path, program):
    lab = Ground(tmp_path, program)
    return lab, helper.Helper.start(lab, None, "module", {"count": 2}, "relay-x")


_GOOD = """
import json, signal, sys
done = {"given": sys.argv[1], "late": 0.5, "at": 2.0}
signal.signal(signal.SIGTERM, lambda *_: (print(json.dumps(done)), sys.exit()))
print("ready", flush=True)
signal.pause()
"""


def test_a_helper_is_told_what_to_do_and_tells_what_it_did(tmp_path):
    _lab, it = _start(tmp_path, _GOOD)
    assert it.alive
    assert it.finish()["given"] == '{"count": 2}'
    assert it.late == (0.5, 2.0)
    assert it.finish() is None


def test_one_that_dies_at_once_did_not_start(tmp_path):
    with pytest.raises(
        EmulationError,
        match=r"relay-x did not start; its last output was: it wrote nothing \(its log is log/relay-x.log\)",
    ):
        _start(tmp_path, "raise SystemExit(1)")


def test_one_that_never_gets_ready_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(helper, "START_TIMEOUT", 0.1)
    lab = Ground(tmp_path, "import time; time.sleep(1000)")
    with pytest.raises(EmulationError, match=r"relay-x took more than .* to get ready"):
        helper.Helper.start(lab, None, "module", {}, "relay-x")
    assert lab.process.returncode == -9


def test_one_that_does_not_end_when_told_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(helper, "END_TIMEOUT", 0.1)
    lab, it = _start(tmp_path, _GOOD.replace("(print(json.dumps(done)), sys.exit())", "None") + "signal.pause()")
    with pytest.raises(EmulationError, match=r"relay-x took more than .* to end"):
        it.finish()
    assert lab.process.returncode == -9


def test_a_relay_may_take_as_long_to_end_as_it_holds_frames(tmp_path, monkeypatch):
    monkeypatch.setattr(helper, "END_TIMEOUT", 0.1)
    slowly = _GOOD.replace("(print(", "(__import__('time').sleep(1), print(")
    lab = Ground(tmp_path, slowly.replace('"given": sys.argv[1]', '"counts": []'))
    lab.fabric, lab.cables = Fabric(FabricSpec(planes=1)), Mock(descriptor=None, make_detour=lambda *_: [])
    assert helper.impair(lab, "h1-p1", Impairment(delay=20)).clear() == []
    assert lab.process.returncode == 0
