"""PyTorch jobs on real frames: losses, checkpoints, torchrun, a killed rank. Needs root and PyTorch: sudo make torch.

`.venv/bin/pytest tests/lab/test_training_wire.py` takes some ten minutes.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from topo_helpers import run_dir

from mrclab.lab.run.wire import programs
from mrclab.topo.linux import state

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None or not programs.LIBRARY.exists(),
        reason="needs PyTorch and lib_mrc.so: sudo make torch",
    ),
]

ROOT = Path(__file__).parents[2]
GPT = ROOT / "examples" / "train" / "gpt.py"
LINK = ROOT / "scenarios" / "train" / "link.yaml"


@pytest.fixture
def mrclab(request, tmp_path):
    place = run_dir(f"-{abs(hash(request.node.name)) % 10000}")

    def run(*words: object) -> tuple[str, Path]:
        code = "from mrclab.lab.command.entry import main; main()"
        argv = [sys.executable, "-c", code, "--run-dir", str(place), *map(str, words), "--results", str(tmp_path)]
        if words[0] == "train":  # its own options come before the script
            argv = [*argv[:6], "--results", str(tmp_path), *map(str, words[1:])]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=600, check=False, cwd=ROOT)
        said = done.stdout + done.stderr
        found = re.findall(rf"{tmp_path}\S+?(?=/report.html|\s|$)", said)
        assert found, said
        return said, Path(found[-1])  # PyTorch names its checkpoint before

    yield run
    state.clean(place.parent)


def losses(results: Path) -> dict[tuple[int, int], float]:
    lines = (results / "history.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines if '"training.step"' in line]
    return {(row["step"], row["rank"]): row["loss"] for row in rows}


def test_a_cable_that_is_cut_half_way_changes_no_bit_of_any_loss(mrclab):
    _, calm = mrclab("train", GPT, "--steps", 20)
    said, cut = mrclab("train", "--scenario", LINK, GPT, "--steps", 20)
    assert "cut: cleared" in said
    assert len(losses(calm)) == 80
    assert losses(cut) == losses(calm)


@pytest.mark.parametrize("parallel", ["fsdp", "zero"])
def test_a_job_goes_on_from_its_checkpoint(mrclab, tmp_path, parallel):
    kept = ("--checkpoint", tmp_path / "kept")
    _, whole = mrclab("train", GPT, "--parallel", parallel, "--steps", 4)
    _, first = mrclab("train", GPT, "--parallel", parallel, "--steps", 2, *kept)
    _, second = mrclab("train", GPT, "--parallel", parallel, "--steps", 2, *kept)
    both = {**losses(first), **{(step + 2, rank): loss for (step, rank), loss in losses(second).items()}}
    # DDP, which ZeRO is used with, sorts its buckets again after the first step, and so sums in another order
    assert both == (losses(whole) if parallel == "fsdp" else pytest.approx(losses(whole), rel=1e-6))


@pytest.mark.parametrize("transport", ["mrc", "roce"])
def test_each_other_rank_names_the_one_that_was_killed(mrclab, transport):
    said, _ = mrclab("run", ROOT / "scenarios" / "train" / "rank.yaml", "--variant", transport)
    assert "2 of 2 expectations passed" in said


def test_torchrun_starts_the_ranks(mrclab):
    said, results = mrclab("run", ROOT / "scenarios" / "train" / "torchrun.yaml", "--variant", "mrc")
    assert "4 of 4 expectations passed" in said
    assert len(losses(results)) == 24
