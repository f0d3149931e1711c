"""The backend is there in whatever order a job imports it. Needs PyTorch: make torch."""

import importlib.util
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch: make torch")


@pytest.mark.parametrize("imports", ["mrclab.torch", "torch", "torch, mrclab.torch", "mrclab.torch, torch"])
def test_the_backend_is_registered(imports):
    program = f"import {imports}; import torch.distributed as dist; print(dist.Backend.backend_list)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert "'mrc'" in done.stdout, done.stderr
