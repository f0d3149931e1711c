"""One rank of `own_tests.py`: RANK RANKS FOLDER [NAME ...]. Writes JSON for each test: name, state, reason."""

import json
import os
import sys
import traceback
import unittest
from datetime import timedelta
from pathlib import Path

rank, ranks, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
log = os.open(folder / f"log-{rank}", os.O_WRONLY | os.O_CREAT)  # a pipe that nobody empties would stop it
os.dup2(log, 1)
os.dup2(log, 2)
os.environ.update(
    BACKEND="mrc", WORLD_SIZE=str(ranks), TEMP_DIR=str(folder / "temp"), MASTER_ADDR="127.0.0.1", MASTER_PORT="29599",
    INIT_METHOD="env://", MRCLAB_HOST=f"h{rank + 1}", OMP_NUM_THREADS="1", TORCH_DISTRIBUTED_DEBUG="OFF",
)  # fmt: skip

import torch  # noqa: E402 - the environment comes first
import torch.distributed as dist  # noqa: E402
from torch.testing._internal import common_distributed  # noqa: E402

import mrclab.torch  # noqa: E402, F401

torch.set_num_threads(1)
torch.manual_seed(1)  # what the tests make when they are imported is the same on all ranks
for feature in ("ddp", "subgroup"):
    common_distributed.DistTestCases.backend_feature[feature].add("mrc")

from torch.testing._internal.common_utils import set_rng_seed  # noqa: E402
from torch.testing._internal.distributed import distributed_test  # noqa: E402

SKIPS = {skip.exit_code: name for name, skip in common_distributed.TEST_SKIPS.items()}
LIMIT = timedelta(seconds=240)  # for slow machines
distributed_test.default_pg_timeout = 240


class Tests(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    """All of them, as a rank that was started already runs them."""


def run(name: str) -> tuple[str, str]:
    """State and reason of one test."""
    test = Tests(name)
    test.rank, test.file_name = rank, str(folder / f"store-{name}")
    distributed_test.Barrier.barrier_id = 0
    os.environ["TEMP_DIR"] = str(folder / f"temp-{name}")
    for inside in ("barrier", "init_dir", "test_dir"):
        Path(os.environ["TEMP_DIR"], inside).mkdir(parents=True, exist_ok=True)
    set_rng_seed(1)
    try:
        dist.init_process_group(
            "mrc", init_method=f"file://{test.file_name}", world_size=ranks, rank=rank, timeout=LIMIT
        )
        dist.barrier()
        getattr(test, name)()
        dist.barrier()
    except SystemExit as skip:
        return "skipped", SKIPS.get(skip.code, f"exit status {skip.code}")
    except unittest.SkipTest as skip:
        return "skipped", str(skip)
    except BaseException as error:
        traceback.print_exc()
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return "failed", f"{type(error).__name__}: {lines[0][:300]}"
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    return "passed", ""


def main() -> None:
    """Run the tests in the order of their names."""
    names = sys.argv[4:] or sorted(name for name in dir(Tests) if name.startswith("test_"))
    with (folder / f"result-{rank}").open("w") as results:
        for name in names:
            print("===", name, flush=True)
            state, why = run(name)
            results.write(json.dumps([name, state, why]) + "\n")
            results.flush()


main()
