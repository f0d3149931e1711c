"""The tools that record what BMv2 does leave nothing behind, however they end."""

import os
import signal
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


INTERRUPTED_WHERE_IT_STARTS_THE_SWITCH = """
import os, signal, sys
from pathlib import Path
from netns import Namespace
from rig import Rig, leave_nothing_on_sigterm

def popen(*words, start=Namespace.popen, **options):
    switch = start(*words, **options)
    print(switch.pid, flush=True)
    os.kill(os.getpid(), signal.SIGTERM)
    return switch

Namespace.popen = popen
leave_nothing_on_sigterm()
with Rig("soft", Path(sys.argv[1]), ports=0):
    pass
"""


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the switch runs in a network namespace of its own")
def test_a_tool_that_is_told_to_end_as_it_starts_its_switch_takes_it_along(tmp_path: Path) -> None:
    folders = os.pathsep.join(map(str, (HERE, HERE.parent / "lab", HERE.parents[1])))
    words = [sys.executable, "-c", INTERRUPTED_WHERE_IT_STARTS_THE_SWITCH, str(tmp_path)]
    with subprocess.Popen(words, env={**os.environ, "PYTHONPATH": folders}, stdout=subprocess.PIPE) as tool:
        assert tool.stdout is not None
        switch = int(tool.stdout.readline())
        status = tool.wait(timeout=START_TIMEOUT_S)
    running = Path(f"/proc/{switch}").exists()
    if running:
        os.kill(switch, signal.SIGKILL)
    assert (namespaces(tool), running, status) == ([], False, 143)


def namespaces(recorder: subprocess.Popen[bytes]) -> list[str]:
    return sorted(entry.name for entry in Path("/run/netns").glob(f"mrct-{recorder.pid}-*"))


def wait_for_switch(recorder: subprocess.Popen[bytes]) -> int:
    """Process number of the switch that it has started."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        for name in namespaces(recorder):
            inside = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False).stdout
            for number in map(int, inside.split()):
                if is_switch(number):
                    return number
        assert recorder.poll() is None, "the recorder ended before its switch was there"
        time.sleep(0.01)
    raise AssertionError("the recorder started no switch")


def is_switch(number: int) -> bool:
    """Return True for a switch; the recorder, and ip(8) that it runs, enter the namespace, too."""
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")[0].endswith(b"simple_switch_grpc")
    except OSError:
        return False
