"""The commands of README and docs that need processes and namespaces are run beside a lab that is up."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))

from bmv2 import TARGETS
from docs_blocks import PAGES, ROOT, Line, blocks
from mrclab_command import Command

from mrclab.lab.command.live import p4sh
from mrclab.lab.run.wire import programs
from mrclab.topo.linux import state

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]
MAIN = [sys.executable, "-c", "from mrclab.lab.command.entry import main; main()"]


def carry_out(line: Line, folder: Path, run_dir: Path) -> str:
    """Return the mistake of a line; empty if it does what its page says."""
    program, *rest = line.text.removesuffix("&").split()
    if program == "wireshark" or (program == "tshark" and not shutil.which("tshark")):
        return ""
    if program == "tshark":
        argv = ["bash", "-c", line.text]
    elif program == "mrclab":
        if (rest[0] == "p4sh" and not p4sh.PYTHON.exists()) or (rest[0] == "exec" and not programs.LIBRARY.exists()):
            return ""
        if rest[0] == "capture" and "--for" not in rest:
            rest += ["--for", "2s"]  # else Ctrl-C ends it, or packets that nobody sends here
        argv = [*MAIN, "--run-dir", str(run_dir), *rest]
    else:
        return f"nobody runs {program}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    if line.text.endswith("&"):
        return ""
    said, _ = process.communicate(timeout=250)
    return "" if process.returncode == 0 else f"exit status {process.returncode}: {said[-500:]}"


@pytest.mark.parametrize("target", TARGETS)
def test_commands_that_need_the_wire_do_what_their_pages_say(tmp_path, target):
    for name in ("docs", ".venv"):
        (tmp_path / name).symlink_to(ROOT / name)
    command = Command(tmp_path / "base" / "lab")
    up = command.start("up", "--target", target)
    lines = [line for page in PAGES for block in blocks(page) if block.wire for line in block.lines]
    assert {line.text.split()[0] for line in lines} >= {"mrclab", "tshark"}
    try:
        command.wait_until(lambda: command.recorded("lab.up"), up)
        wrong = [said for line in lines if (said := carry_out(line, tmp_path, command.run_dir))]
        up.communicate("quit\n", timeout=120)
    finally:
        up.kill()
        up.wait()
        state.clean(command.run_dir.parent)
    assert not wrong, "\n".join(wrong)
