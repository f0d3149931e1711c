"""The backend mrc of torch.distributed on hosts joined in memory. Needs PyTorch: make torch."""

import importlib.util
import sys
from pathlib import Path

import pytest
from verbs_ground import Ground, build, needs_compiler

RANK = Path(__file__).parents[1] / "pytorch" / "backend_rank.py"

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch: make torch"),
]


def test_every_collective_dtype_and_mistake_on_three_ranks(tmp_path, monkeypatch):
    monkeypatch.setenv("LIB_MRC", str(build(tmp_path / "build")))
    ground = Ground(tmp_path, (1, 2, 3))
    monkeypatch.delenv("MRCLAB_EXPLAIN", raising=False)
    try:
        ranks = [ground.start(f"h{rank + 1}", Path(sys.executable), RANK, rank, 3, tmp_path) for rank in range(3)]
        for said in ground.run(*ranks):
            assert "mistakes" in said
    finally:
        ground.close()
