"""`mrclab capture` beside a running lab: what tshark reads in its files, around faults as well as whole."""

import json
import os
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mrclab_command import Command, small_scenario

from mrclab.lab.capture.pcapng import INBOUND, OUTBOUND
from mrclab.topo.linux import state

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark; setup/install.sh installs it"),
]
LUA = Path(__file__).resolve().parents[2] / "docs" / "wireshark" / "mrc.lua"


def read(path: Path, *fields: str, matching: str = "") -> list[tuple[str, ...]]:
    argv = ["tshark", "-X", f"lua_script:{LUA}", "-n", "-r", str(path), "-T", "fields"]
    argv += [word for name in fields for word in ("-e", name)] + (["-Y", matching] if matching else [])
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=120)
    return [tuple(line.split("\t")) for line in done.stdout.splitlines()]


def capturing(command: Command, *words: str | Path) -> subprocess.Popen[str]:
    process = command.start("capture", *words)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("capturing on ")  # its taps are in place
    return process


@contextmanager
def lab_up(command: Command, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    up = command.start("up", small_scenario(tmp_path, "1 KiB"), "--target", "soft", "--mapper")
    try:
        command.wait_until(lambda: command.recorded("lab.up"), up)
        yield up
    finally:
        up.kill()
        up.wait()
        state.clean(command.run_dir.parent)


def test_all_that_a_port_sends_and_what_is_near_a_fault(tmp_path):
    command = Command(tmp_path / "base" / "lab")
    whole, near = tmp_path / "all.pcapng", tmp_path / "near"
    with lab_up(command, tmp_path) as up:
        everything = capturing(command, "h1", "--output", whole)
        around = capturing(command, "--around-faults", "--before", "200ms", "--after", "1s", "--output", near)
        typed, reports = tmp_path / "typed.pcapng", tmp_path / "reports"
        words = (
            f"capture {typed} h2", "send h1 h2 1MiB", "capture stop --json", "fault link_down link=h1-p1 name=cut",
            "send h1 h2 256KiB", "clear cut", "trace h1 h2 --json", f"report {reports} --json", "quit",
        )  # fmt: skip
        said, _ = up.communicate("\n".join(words) + "\n", timeout=120)
        ended = [(*process.communicate(timeout=30), process.returncode) for process in (everything, around)]
    assert ended[0] == (f"{whole}: {len(read(whole, 'frame.number'))} frames\n", "", 0)
    ports = read(whole, "frame.interface_name", "frame.packet_flags_direction", matching="mrc.msn")
    counts = Counter((port, int(direction, 0)) for port, direction in ports)
    assert {port for port, _ in counts} == {"h1-p1", "h1-p2", "t0-p1-1-1", "t0-p2-1-1"}
    sent = counts["h1-p1", OUTBOUND] + counts["h1-p2", OUTBOUND]
    arrived = counts["t0-p1-1-1", INBOUND] + counts["t0-p2-1-1", INBOUND]
    assert sent >= 1280  # packets of 1 KiB
    assert 0 <= sent - arrived < 40  # what the cut cable swallowed
    assert ended[1] == (f"{near / 'cut.pcapng'}\n", "", 0)
    comments = [text for (text,) in read(near / "cut.pcapng", "frame.comment") if text]
    assert comments[0].startswith("cut begins: ")
    times = [float(at) for (at,) in read(near / "cut.pcapng", "frame.time_epoch")]
    assert times == sorted(times)
    assert max(times) - min(times) <= 1.2
    stopped, traced, reported = (json.loads(line) for line in said.splitlines() if line.startswith("{"))
    assert stopped == {"path": str(typed), "frames": len(read(typed, "frame.number"))}
    assert stopped["frames"] > 1280
    assert [hop["switch"] for hop in traced["hops"]] == ["t0-p1-1"]
    assert [fault["fault"] for fault in reported["faults"]] == ["cut"]
    assert (Path(reported["directory"]) / "report.html").is_file()


def test_ctrl_c_ends_a_capture_with_a_whole_file(tmp_path):
    command = Command(tmp_path / "base" / "lab")
    path = tmp_path / "ctrl-c.pcapng"
    with lab_up(command, tmp_path) as up:
        process = capturing(command, "p1", "--output", path)
        command.wait_until(lambda: path.exists() and path.stat().st_size > 5000, up)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[0] == f"{path}: {len(read(path, 'frame.number'))} frames\n"
        assert process.returncode == 0
        for words, sentence in (
            (("h7",), "h7"),
            (("--for", "soon"), "'soon' is not a duration"),
            (("--output", "/proc/nowhere/x.pcapng"), "cannot capture"),
        ):
            done = command.run("capture", *words)
            assert done.returncode in {1, 2}
            assert sentence in done.stderr


def test_without_a_lab_a_capture_says_so(tmp_path):
    done = Command(tmp_path / "base" / "lab").run("capture")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no lab is running" in done.stderr
