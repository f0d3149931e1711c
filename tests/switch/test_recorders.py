"""The tools that record what BMv2 does leave nothing behind, however they end."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bmv2 import needs_bmv2

HERE = Path(__file__).parent
START_TIMEOUT_S = 60.0


@needs_bmv2
@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the switch runs in a network namespace of its own")
@pytest.mark.parametrize(
    ("tool", "case"), [("record_dataplane.py", "arithmetic"), ("record_p4runtime.py", "arbitration")]
)
def test_a_recorder_that_is_told_to_end_takes_switch_and_namespaces_along(tool: str, case: str) -> None:
    recorder = subprocess.Popen([sys.executable, str(HERE / tool), case])
    try:
        switch = wait_for_switch(recorder)
        recorder.terminate()
        status = recorder.wait(timeout=START_TIMEOUT_S)
    finally:
        recorder.kill()
    left = namespaces(recorder)
    running = Path(f"/proc/{switch}").exists()
    for name in left:
        subprocess.run(f"kill $(ip netns pids {name}); ip netns del {name}", shell=True, check=False)
    assert (left, running, status) == ([], False, 143)


def namespaces(recorder: subprocess.Popen[bytes]) -> list[str]:
    return sorted(entry.name for entry in Path("/run/netns").glob(f"mrct-{recorder.pid}-*"))


def wait_for_switch(recorder: subprocess.Popen[bytes]) -> int:
    """Process number of the switch that it has started."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        for name in namespaces(recorder):
            inside = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False).stdout
            if inside.strip():
                return int(inside.split()[0])
        assert recorder.poll() is None, "the recorder ended before its switch was there"
        time.sleep(0.01)
    raise AssertionError("the recorder started no switch")
