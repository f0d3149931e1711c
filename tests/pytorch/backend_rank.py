"""One rank that tries the whole backend: RANK RANKS FOLDER. Ends with status 0 where every result is right."""

import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import mrclab.torch  # noqa: F401

rank, ranks, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int32,
    torch.int64,
)
OPS = {
    dist.ReduceOp.SUM: lambda all_: sum(all_[1:], all_[0]),
    dist.ReduceOp.PRODUCT: lambda all_: torch.stack(all_).prod(0).to(all_[0].dtype),
    dist.ReduceOp.MIN: lambda all_: torch.stack(all_).min(0).values,
    dist.ReduceOp.MAX: lambda all_: torch.stack(all_).max(0).values,
}


def of(owner: int, dtype: torch.dtype = torch.float32, count: int = 7) -> torch.Tensor:
    """A rank's numbers, small enough that every order of adding them gives the same."""
    return ((torch.arange(count) + owner) % 4 + 1).to(dtype)


def everybody(dtype: torch.dtype = torch.float32, count: int = 7) -> list[torch.Tensor]:
    return [of(owner, dtype, count) for owner in range(ranks)]


def same(a: torch.Tensor, b: torch.Tensor) -> None:
    assert torch.equal(a, b), (a, b)


def reductions() -> None:
    for dtype in DTYPES:
        for op, expected in OPS.items():
            mine = of(rank, dtype)
            dist.all_reduce(mine, op)
            same(mine, expected(everybody(dtype)))
    flags = torch.tensor([rank == 0, False])
    dist.all_reduce(flags, dist.ReduceOp.MAX)
    same(flags, torch.tensor([True, False]))
    bits = torch.tensor([1 << rank])
    dist.all_reduce(bits, dist.ReduceOp.BOR)
    same(bits, torch.tensor([(1 << ranks) - 1]))
    mean = of(rank)
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    torch.testing.assert_close(mean, sum(everybody()) / ranks)
    across = torch.zeros(5, 4)[:, ::2]  # not in one piece
    across += rank
    dist.all_reduce(across)
    same(across, torch.full((5, 2), float(sum(range(ranks)))))
    large = of(rank, count=100_003)
    dist.all_reduce(large)
    same(large, sum(everybody(count=100_003)))
    root = of(rank)
    dist.reduce(root, 1)
    same(root, sum(everybody()) if rank == 1 else of(rank))
    several = [of(rank), of(rank + 1, count=3)]
    dist.all_reduce_coalesced(several)
    same(several[1], sum(of(owner + 1, count=3) for owner in range(ranks)))


def movements() -> None:
    value = of(rank)
    dist.broadcast(value, ranks - 1)
    same(value, of(ranks - 1))
    got = [torch.zeros(7) for _ in range(ranks)]
    dist.all_gather(got, of(rank))
    for owner, part in enumerate(got):
        same(part, of(owner))
    whole = torch.zeros(7 * ranks)
    dist.all_gather_single(whole, of(rank))
    same(whole, torch.cat(everybody()))
    part = torch.zeros(2)
    dist.reduce_scatter_single(part, of(rank, count=2 * ranks))
    same(part, sum(everybody(count=2 * ranks))[2 * rank : 2 * rank + 2])
    parts = [of(rank + place) for place in range(ranks)]
    part = torch.zeros(7)
    dist.reduce_scatter(part, parts)
    same(part, sum(of(owner + rank) for owner in range(ranks)))
    swapped = torch.zeros(ranks)
    dist.all_to_all_single(swapped, torch.arange(float(ranks)) + 10 * rank)
    same(swapped, torch.tensor([10.0 * owner + rank for owner in range(ranks)]))
    swapped_list = [torch.zeros(2) for _ in range(ranks)]
    dist.all_to_all(swapped_list, [torch.full((2,), float(10 * rank + to)) for to in range(ranks)])
    same(swapped_list[0], torch.full((2,), float(rank)))
    gathered = [torch.zeros(7) for _ in range(ranks)] if rank == 1 else None
    dist.gather(of(rank), gathered, 1)
    if gathered:
        same(gathered[0], of(0))
    mine = torch.zeros(7)
    dist.scatter(mine, everybody() if rank == 0 else None, 0)
    same(mine, of(rank))
    objects: list = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": owner} for owner in range(ranks)]


def messages() -> None:
    if rank == 0:
        first, second = torch.zeros(7), torch.zeros(7)
        work = dist.irecv(first, tag=2)
        work.wait()
        same(first, of(1))
        assert dist.recv(second, tag=3) == 2
    elif rank == 1:
        dist.send(of(1), 0, tag=2)
    elif rank == 2:
        dist.send(of(2), 0, tag=3)
    ring = torch.zeros(7)
    works = dist.batch_isend_irecv([
        dist.P2POp(dist.isend, of(rank), (rank + 1) % ranks), dist.P2POp(dist.irecv, ring, (rank - 1) % ranks)
    ])  # fmt: skip
    for work in works:
        work.wait()
    same(ring, of((rank - 1) % ranks))


def overlapping() -> None:
    works = [dist.all_reduce(torch.full((20_000,), float(n)), async_op=True) for n in range(4)]
    futures = [work.get_future().then(lambda done: done.value()[0][0].item()) for work in works]
    assert torch.futures.wait_all(futures) == [float(n * ranks) for n in range(4)]
    assert all(work.is_completed() for work in works)
    two = dist.new_group([0, 2])
    if rank in {0, 2}:
        value = of(rank)
        dist.all_reduce(value, group=two)
        same(value, of(0) + of(2))


def training() -> None:
    torch.manual_seed(rank)
    model = DistributedDataParallel(nn.Linear(8, 2))
    for _ in range(2):
        model(torch.randn(4, 8)).sum().backward()
    grads = [torch.zeros_like(model.module.weight) for _ in range(ranks)]
    dist.all_gather(grads, model.module.weight.grad)
    for grad in grads[1:]:
        same(grad, grads[0])


def mistakes() -> None:
    for wrong, text in (
        (lambda: dist.all_reduce(torch.zeros(2).to_sparse()), "dense"),
        (lambda: dist.all_reduce(torch.zeros(2, dtype=torch.int32), dist.ReduceOp.AVG), "whole number"),
        (lambda: dist.all_reduce(torch.zeros(2), dist.ReduceOp.BXOR), "integers"),
    ):
        try:
            wrong()
        except (ValueError, RuntimeError) as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"nothing was said about {text}")
    odd = dist.new_group(timeout=timedelta(seconds=60))
    began = time.monotonic()
    try:
        dist.all_reduce(torch.zeros(3 if rank else 5), group=odd)
    except dist.DistBackendError as error:
        assert "bytes" in str(error), error
        assert time.monotonic() - began < 60
    else:
        raise AssertionError("tensors of different sizes were reduced")


torch.set_num_threads(1)
dist.init_process_group(
    init_method=f"file://{folder}/store", rank=rank, world_size=ranks, timeout=timedelta(seconds=200)
)
assert dist.get_backend() in {"mrc", "cpu:mrc", "undefined"}, dist.get_backend()
for step in (reductions, movements, messages, overlapping, training, mistakes):
    step()
    print(step.__name__, flush=True)
dist.barrier()
dist.destroy_process_group()
