"""A small GPT that learns a text letter by letter, with data parallelism over any back-end of torch.distributed.

`mrclab train examples/train/gpt.py --steps 20` trains it on four hosts of a lab, and `torchrun --nproc-per-node 4
examples/train/gpt.py --backend gloo` without one. It is deterministic: the same command prints the same losses,
whatever happens to the network. One rank's gradients are about 1 MB.
"""

import argparse
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812 - the usual name
from torch import Tensor, nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from mrclab.torch import Steps

TEXT = Path(__file__).with_name("text.txt")


class Block(nn.Module):
    """Transformer block: attention and a perceptron, each with a residual connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Letters (batch, length, width) in, the same shape out."""
        batch, length, width = x.shape
        parts = self.qkv(self.before_attention(x)).split(width, dim=2)
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.before_mlp(x))


class Gpt(nn.Module):
    """Decoder-only transformer: logits of the next letter at every position."""

    def __init__(self, letters: int, width: int, depth: int, heads: int, context: int) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(letters, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Letters (batch, length) in, logits (batch, length, letters) out."""
        x = self.letters(x) + self.places(torch.arange(x.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def batch(data: Tensor, size: int, context: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return random windows of the text (size, context), and the same windows shifted by one letter."""
    draw = torch.Generator().manual_seed(seed)
    starts = torch.randint(len(data) - context - 1, (size,), generator=draw).tolist()
    return torch.stack([data[s : s + context] for s in starts]), torch.stack(
        [data[s + 1 : s + context + 1] for s in starts]
    )


def load(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Load a checkpoint if the folder has one; return the number of the next step."""
    if not (folder / ".metadata").exists():
        return 0
    of_model, of_optimizer = get_state_dict(model, optimizer)
    state = {"model": of_model, "optimizer": of_optimizer, "step": 0}
    checkpoint.load(state, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return state["step"]


def save(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Write a checkpoint; each rank writes its part."""
    of_model, of_optimizer = get_state_dict(model, optimizer)
    checkpoint.save({"model": of_model, "optimizer": of_optimizer, "step": step}, checkpoint_id=folder)


def parse_arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="mrc", help="of torch.distributed: mrc, gloo")
    parser.add_argument("--parallel", choices=["ddp", "fsdp", "zero"], default="ddp", help="how the job is split")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=4, help="windows per rank and step")
    parser.add_argument("--width", type=int, default=80)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--checkpoint", type=Path, help="checkpoint folder: resume from it, and write it at the end")
    return parser.parse_args()


def split(model: Gpt, parallel: str, ranks: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return the model as the job is split, and its optimizer."""
    if parallel == "fsdp":
        mesh = dist.init_device_mesh("cpu", (ranks,))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        whole: nn.Module = fully_shard(model, mesh=mesh)
    else:
        whole = DistributedDataParallel(model, bucket_cap_mb=0.25)
    kind = torch.optim.AdamW
    if parallel == "zero":
        return whole, ZeroRedundancyOptimizer(whole.parameters(), kind, lr=1e-3)
    return whole, kind(whole.parameters(), lr=1e-3)


def main() -> None:
    """Train one rank of the job: every rank runs this."""
    options = parse_arguments()
    torch.manual_seed(1)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    dist.init_process_group(options.backend)
    rank, size = dist.get_rank(), dist.get_world_size()

    text = TEXT.read_text(encoding="utf-8")
    letters = sorted(set(text))
    data = torch.tensor([letters.index(letter) for letter in text])
    context = 64
    gpt = Gpt(len(letters), options.width, options.depth, heads=4, context=context)
    count = sum(p.numel() for p in gpt.parameters())
    if rank == 0:
        print(
            f"{count} parameters, {4 * count / 1e6:.2f} MB of gradients, {size} ranks, {options.parallel}", flush=True
        )
    model, optimizer = split(gpt, options.parallel, size)
    # ZeRO keeps the state of this rank's share in an optimizer of its own
    own = optimizer.optim if isinstance(optimizer, ZeroRedundancyOptimizer) else optimizer
    first = load(options.checkpoint, model, own) if options.checkpoint else 0
    dist.barrier()
    steps = Steps(rank)
    for step in range(first, first + options.steps):
        x, y = batch(data, options.batch, context, seed=1000 * step + rank)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps.done(loss.item())
    if options.checkpoint:
        save(options.checkpoint, model, own, first + options.steps)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
