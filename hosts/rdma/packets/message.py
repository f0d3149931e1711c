"""A posted write, as both transports keep it until it is completed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mrclab.hosts.rdma.memory import MemoryRegion


class PostedWrite:
    """One write in the send queue. A transport's `SendHalf.post` sets its own fields."""

    __slots__ = (
        "first_seq", "imm", "last_seq", "length", "opcode", "regions", "remote_va", "rkey", "view", "wr_id",
    )  # fmt: skip

    def __init__(
        self,
        wr_id: int,
        opcode: str,
        regions: tuple[MemoryRegion, ...],
        view: memoryview,
        remote_va: int,
        rkey: int,
        imm: int | None,
    ) -> None:
        self.wr_id = wr_id
        self.opcode = opcode
        self.regions = regions  # that its bytes are in; several of a scatter list
        self.view = view
        self.length = len(view)
        self.remote_va = remote_va
        self.rkey = rkey
        self.imm = imm
        self.first_seq = self.last_seq = -1  # of its packets, set when they are known

    def release(self) -> None:
        """Release regions and buffer at the end of the message."""
        for region in self.regions:
            region.users -= 1
        self.regions = ()
        self.view.release()
