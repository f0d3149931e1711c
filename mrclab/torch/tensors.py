"""Tensors for collectives: bytes in memory, and reduction of arriving bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor

_OPERATIONS: Final[dict[Any, Callable[..., Any]]] = {
    dist.ReduceOp.SUM: torch.add,
    dist.ReduceOp.AVG: torch.add,  # and a division at the end
    dist.ReduceOp.PRODUCT: torch.mul,
    dist.ReduceOp.MIN: torch.minimum,
    dist.ReduceOp.MAX: torch.maximum,
    dist.ReduceOp.BAND: torch.bitwise_and,
    dist.ReduceOp.BOR: torch.bitwise_or,
    dist.ReduceOp.BXOR: torch.bitwise_xor,
}
_BITWISE: Final = (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR)


def check(tensor: Tensor) -> Tensor:
    """Return the tensor without autograd; ValueError unless it is dense and on the CPU."""
    if tensor.layout is not torch.strided:
        raise ValueError(f"the backend mrc takes dense tensors, and this one is {tensor.layout}; call to_dense()")
    if tensor.device.type != "cpu":
        raise ValueError(f"the backend mrc takes tensors on the CPU, and this one is on {tensor.device}")
    return tensor.detach()


def raw(tensor: Tensor) -> memoryview:
    """Return the bytes of a contiguous tensor."""
    flat = tensor.reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy()) if flat.numel() else memoryview(bytearray())


class Target:
    """An output tensor: `flat` has its elements in one piece, `finish` copies them back."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = check(tensor)
        direct = self._tensor.is_contiguous() and not self._tensor.is_conj() and not self._tensor.is_neg()
        self.flat = self._tensor.view(-1) if direct else self._tensor.contiguous().clone().view(-1)
        self._copied = not direct

    @property
    def raw(self) -> memoryview:
        """The tensor's bytes."""
        return raw(self.flat)

    def finish(self) -> None:
        """Copy the elements back if they are not the tensor's own."""
        if self._copied:
            self._tensor.copy_(self.flat.view(self._tensor.shape))


def source(tensor: Tensor) -> Tensor:
    """Return the elements of an input tensor in one piece."""
    return check(tensor).contiguous().resolve_conj().resolve_neg().view(-1)


def operation(op: Any) -> tuple[Callable[..., Any], bool]:
    """Return the function of a ReduceOp, and True if its result is divided by the number of ranks."""
    for known, function in _OPERATIONS.items():
        if op == known:
            return function, op == dist.ReduceOp.AVG
    raise ValueError(f"the backend mrc has no reduction {op}; it has {', '.join(str(one.name) for one in _OPERATIONS)}")


def combiner(flat: Tensor, op: Any) -> Callable[[int, memoryview], None]:
    """Return a function that reduces bytes into a tensor from an offset on; ValueError for an unsuitable dtype."""
    function, average = operation(op)
    dtype, size = flat.dtype, flat.element_size()
    if average and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"AVG of {dtype} is not a whole number; use SUM")
    if any(op == one for one in _BITWISE) and (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"{op} is for integers, and this tensor is {dtype}")
    if dtype.is_complex and function in {torch.minimum, torch.maximum}:
        raise ValueError(f"{op} needs an order, and {dtype} has none")

    def combine(at: int, segment: memoryview) -> None:
        arrived = torch.frombuffer(segment, dtype=dtype)
        part = flat[at // size : at // size + arrived.numel()]
        function(part, arrived, out=part)

    return combine


def flattened(tensors: Sequence[Tensor]) -> Tensor:
    """Return all elements of some tensors in a new one."""
    return torch.cat([source(tensor) for tensor in tensors]) if tensors else torch.empty(0)
