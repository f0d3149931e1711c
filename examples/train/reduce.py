"""Benchmark of all-reduce on this back-end, by size and algorithm: `mrclab train examples/train/reduce.py`."""

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
import torch.distributed as dist

from mrclab.hosts.collectives import algorithms
from mrclab.torch import Steps


def timed(buffer: torch.Tensor) -> float:
    """Return the seconds of one all-reduce on the slowest rank."""
    dist.barrier()
    began = time.monotonic()
    dist.all_reduce(buffer)
    took = torch.tensor([time.monotonic() - began], dtype=torch.float64)
    dist.all_reduce(took, dist.ReduceOp.MAX)
    return float(took)


def main() -> None:
    """Print the median time of all-reduce for each size and algorithm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="mrc")
    parser.add_argument("--size", type=int, help="reduce only this many bytes, and report each all-reduce as a step")
    parser.add_argument("--again", type=int, default=5)
    options = parser.parse_args()
    dist.init_process_group(options.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    if options.size is not None:
        buffer = torch.zeros(options.size // 4, dtype=torch.int32)
        dist.barrier()
        steps = Steps(rank)
        for _ in range(options.again):
            dist.all_reduce(buffer)
            steps.done()
        dist.destroy_process_group()
        return
    both: dict[str, Callable[..., algorithms.Collective]] = {
        "ring": algorithms.ring_all_reduce, "halving–doubling": algorithms.halving_doubling
    }  # fmt: skip
    if rank == 0:
        print(
            f"{'bytes':>10}" + "".join(f"{name:>20}" for name in both) + f"   ({ranks} ranks, median in ms)", flush=True
        )
    for size in [4 * 4**power for power in range(10)]:
        found = []
        for algorithm in both.values():
            algorithms.all_reduce = algorithm
            buffer = torch.zeros(size // 4, dtype=torch.int32)
            found.append(median(timed(buffer) for _ in range(options.again)))
        if rank == 0:
            print(f"{size:>10}" + "".join(f"{1000 * took:>20.1f}" for took in found), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
