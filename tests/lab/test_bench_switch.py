"""The switch benchmark runs, forwards what it sends, and leaves nothing behind; how fast a machine is, no test says."""

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mrclab.bench.switch import frames, measure, targets
from mrclab.bench.switch.generator import Trial
from mrclab.topo.linux import killed, processes
from mrclab.topo.linux.kernel import NETNS_DIR

root = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces")]


def bench(*options: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "mrclab.bench.switch", "--quick", "--json", *options],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def carrying(capacity: float, asked: list[float]):
    """A target that carries `capacity` frames per second and drops the rest, for one second."""

    def trial(rate: float) -> Trial:
        asked.append(rate)
        sent = int(min(rate, 10 * capacity))
        return Trial(sent, int(min(sent, capacity)), 1.0, 1.0, 0.5)

    return trial


@pytest.mark.parametrize("capacity", [20, 700, 41_000])
def test_the_search_ends_below_what_the_target_carries_and_near_it(capacity):
    asked: list[float] = []
    best, saturated, limited = measure.search(carrying(capacity, asked), steps=8)
    assert math.isinf(asked[0])
    assert saturated == capacity
    assert not limited
    assert 0.9 * capacity <= best.rate <= 1.01 * capacity


def test_a_target_that_carries_all_is_limited_by_the_generator():
    best, _, limited = measure.search(lambda _rate: Trial(1000, 1000, 1.0, 1.0, 1.0), steps=3)
    assert limited
    assert best.rate == 1000


def test_a_buffer_that_fills_is_no_loss_free_rate():
    assert measure.keeps_up(Trial(1000, 1000, 1.0, 1.01, 0.1))
    assert not measure.keeps_up(Trial(1000, 1000, 1.0, 1.2, 0.1))
    assert not measure.keeps_up(Trial(1000, 990, 1.0, 1.0, 0.1))


def test_the_program_alone_forwards_the_frames_of_the_benchmark():
    assert measure.program_seconds(128, count=10) > 0


@pytest.mark.parametrize("size", frames.SIZES)
def test_a_forwarded_frame_keeps_its_length_and_payload(size):
    sent = frames.frame(size, bytes(6), number=7)
    out = frames.forwarded(sent)
    assert len(sent) == len(out) == size
    assert out[54:] == sent[54:]


@pytest.mark.parametrize(
    "key",
    [
        pytest.param("soft", marks=root),
        pytest.param("kernel", marks=root),
        pytest.param("bmv2-off", marks=[*root, pytest.mark.bmv2]),
    ],
)
def test_a_target_is_measured_or_skipped_with_a_reason(key):
    [result] = bench("--target", key)["targets"]
    assert result["key"] == key
    if key == "bmv2-off" and shutil.which(targets.BMV2_PROGRAM) is None:
        assert targets.BMV2_PROGRAM in result["skipped"]
        return
    if result["skipped"]:
        pytest.skip(result["skipped"])
    for speed in result["speeds"].values():
        assert speed["loss_free"] > 0
        assert speed["loss"] <= measure.LOSS or speed["generator_limit"]
        assert 0 < speed["latency_median"] <= speed["latency_p99"]
    if key != "kernel":
        assert 0 < result["private_bytes"] <= result["resident_bytes"]
        assert 0 < result["insert_seconds"] < result["inserts_single_seconds"]
        assert result["rpc_floor_seconds"] > 0
    assert not list(NETNS_DIR.glob("mrclab-bench-*-sw"))


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_benchmark_that_is_ended_leaves_nothing(number):
    command = [sys.executable, "-m", "mrclab.bench.switch", "--quick", "--target", "soft"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        made = NETNS_DIR / f"mrclab-bench-{process.pid}-sw"

        left: list[str] = []
        while process.poll() is None and not left:
            time.sleep(0.02)
            listed = subprocess.run(["ip", "netns", "pids", made.name], capture_output=True, text=True, check=False)
            with contextlib.suppress(OSError):  # one of them has just ended
                left = [
                    pid for pid in listed.stdout.split() if b"softswitch" in Path(f"/proc/{pid}/cmdline").read_bytes()
                ]
        assert left
        process.send_signal(number)
    if number == signal.SIGKILL:
        assert made.exists()
        assert f"namespace {made.name}" in killed.remove_benches()
    assert not list(NETNS_DIR.glob(f"mrclab-bench-{process.pid}-*"))
    assert not [pid for pid in left if (processes.start_time(int(pid)) is not None)]
