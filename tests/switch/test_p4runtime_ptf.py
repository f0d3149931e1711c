"""softswitch under PTF: an independent client with packet I/O of its own, in an environment of its own."""

import os
import subprocess
from pathlib import Path

import pytest
from bmv2 import TARGETS
from rig import Rig

HERE = Path(__file__).parent
PTF = HERE.parents[1] / ".venv-p4sh" / "bin" / "ptf"
RUN_TIMEOUT_S = 120
TESTS = ["Forwarding", "RoutedByDefaultAction", "PacketIo", "TernaryPriority"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the switch runs in a network namespace of its own"),
    pytest.mark.skipif(not PTF.exists(), reason="no PTF: make .venv-p4sh and install requirements-p4sh.txt into it"),
]


@pytest.mark.parametrize("target", TARGETS)
def test_ptf_passes(target: str, tmp_path: Path) -> None:
    with Rig(target, tmp_path, ports=2) as rig:
        argv = [str(PTF), "--test-dir", str(HERE / "ptf"), "--interface", "1@f1", "--interface", "2@f2",
                "--log-file", str(tmp_path / "ptf.log"), "--test-params",
                f"address='{rig.address}';program='{HERE / 'p4runtime' / 'everything'}'"]  # fmt: skip
        run = rig.far_side.popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path)
        output, _ = run.communicate(timeout=RUN_TIMEOUT_S)
    assert run.returncode == 0, output
    for name in TESTS:
        assert f"softswitch_ptf.{name} ... ok" in output, output
