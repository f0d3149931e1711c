"""Protection domains and memory regions: sources and targets of writes.

A region wraps any buffer (an mmap of a file, a bytearray). Keys are drawn at registration; a remote write must name
the right key, stay inside the bounds, and come by a QP of the same protection domain.
"""

from __future__ import annotations

from enum import IntFlag
from typing import Any, Final, NamedTuple

from mrclab.hosts.rdma.errors import VerbsError
from mrclab.hosts.rdma.packets.wire import Syndrome
from mrclab.topo.economy import Secrets

_VA_ALIGN: Final = 1 << 20
_FIRST_VA: Final = 1 << 32


class Access(IntFlag):
    """Access flags of a region besides local reads."""

    LOCAL_WRITE = 1
    REMOTE_WRITE = 2


_LOCAL_WRITE: Final = int(Access.LOCAL_WRITE)
_REMOTE_WRITE: Final = int(Access.REMOTE_WRITE)  # numbers, as an operator of an enum is a function in Python


class MemoryRegion:
    """A registered buffer. `users` counts work requests that still need it."""

    __slots__ = ("access", "fault", "length", "lkey", "pd", "remote_write", "rkey", "users", "va", "view")

    def __init__(self, view: memoryview, pd: int, va: int, key: int, access: Access) -> None:
        self.view = view
        self.pd = pd
        self.va = va
        self.length = len(view)
        self.lkey = self.rkey = key
        self.access = access
        self.remote_write = bool(int(access) & _REMOTE_WRITE)
        self.users = 0
        self.fault = ""  # why the memory is lost; empty if it is there

    def lose(self, what: str) -> None:
        """Mark the memory as lost: QPs that access it fail with this reason."""
        self.fault = f"{what} was cut short while it was registered as memory: its bytes are gone"


class Refusal(NamedTuple):
    """Reason for which an arriving write was not placed: the syndrome for the peer, and one sentence for this side."""

    syndrome: Syndrome
    reason: str


class MemoryTable:
    """All regions and protection domains of one host."""

    def __init__(self, rng: Secrets) -> None:
        self._rng = rng
        self._regions: dict[int, MemoryRegion] = {}
        self._pds: dict[int, int] = {}  # handle -> objects that use it
        self._next_pd = 1
        self._next_va = _FIRST_VA

    def alloc_pd(self) -> int:
        """Make a new protection domain."""
        pd = self._next_pd
        self._next_pd += 1
        self._pds[pd] = 0
        return pd

    def dealloc_pd(self, pd: int) -> None:
        """EBUSY while a QP or region uses it."""
        self.check_pd(pd)
        if self._pds[pd]:
            raise VerbsError("EBUSY", f"protection domain {pd} still has {self._pds[pd]} users; destroy them first")
        del self._pds[pd]

    def check_pd(self, pd: int) -> None:
        """EINVAL if there is no such protection domain."""
        if pd not in self._pds:
            raise VerbsError("EINVAL", f"there is no protection domain {pd}; allocate one with alloc_pd")

    def use_pd(self, pd: int, by: int) -> None:
        """Add a user (+1) or remove one (−1)."""
        self.check_pd(pd)
        self._pds[pd] += by

    def register(self, buffer: Any, pd: int, access: Access) -> MemoryRegion:
        """Register a buffer; EINVAL for one that does not support `access`."""
        self.check_pd(pd)
        try:
            view = memoryview(buffer).cast("B")
        except TypeError as error:
            raise VerbsError("EINVAL", f"the buffer cannot be registered: {error}") from None
        flags = int(access)
        if flags & _REMOTE_WRITE and not flags & _LOCAL_WRITE:
            raise VerbsError("EINVAL", "REMOTE_WRITE needs LOCAL_WRITE as well")
        if flags & _LOCAL_WRITE and view.readonly:
            raise VerbsError("EINVAL", "a region with LOCAL_WRITE needs a writable buffer")
        return self.enter(view, pd, access)

    def enter(self, view: Any, pd: int, access: Access, va: int | None = None) -> MemoryRegion:
        """Register a sliceable buffer; the caller guarantees that it supports `access`."""
        self.check_pd(pd)
        if va is None:
            va = self._next_va
            self._next_va += (len(view) // _VA_ALIGN + 2) * _VA_ALIGN
        key = self._rng.getrandbits(32)
        while key in self._regions:
            key = self._rng.getrandbits(32)
        region = self._regions[key] = MemoryRegion(view, pd, va, key, access)
        self._pds[pd] += 1
        return region

    def deregister(self, lkey: int) -> None:
        """EBUSY while work requests use the region."""
        region = self.region(lkey)
        if region.users:
            raise VerbsError(
                "EBUSY", f"region {lkey:#x} is in use by {region.users} work requests; wait for their completion"
            )
        del self._regions[lkey]
        self._pds[region.pd] -= 1
        region.view.release()

    def region(self, lkey: int) -> MemoryRegion:
        """EINVAL if there is no such region."""
        try:
            return self._regions[lkey]
        except KeyError:
            raise VerbsError("EINVAL", f"there is no memory region with key {lkey:#x}") from None

    def local(self, lkey: int, offset: int, length: int, pd: int) -> tuple[MemoryRegion, memoryview]:
        """Return the bytes of a local read; EINVAL outside the bounds or in another protection domain."""
        region = self.region(lkey)
        if region.pd != pd:
            raise VerbsError("EINVAL", f"region {lkey:#x} is in another protection domain than the QP")
        if offset < 0 or length < 0 or offset + length > region.length:
            raise VerbsError(
                "EINVAL", f"bytes {offset}…{offset + length} are outside region {lkey:#x} of {region.length} bytes"
            )
        return region, region.view[offset : offset + length]

    def place(self, rkey: int, va: int, payload: memoryview, pd: int) -> Refusal | None:
        """Place the payload of an arriving write; None on success."""
        region = self._regions.get(rkey)
        if region is not None and region.pd == pd and region.remote_write:
            offset = va - region.va
            end = offset + len(payload)
            if offset >= 0 and end <= region.length:
                region.view[offset:end] = payload
                if region.fault:  # checked afterwards, since the write itself may find out
                    return Refusal(Syndrome.NAK_REMOTE_OPERATION, region.fault)
                return None
        text = f"a write to {va:#x} is outside the memory this QP may write"
        return Refusal(Syndrome.NAK_REMOTE_ACCESS, text)

    def __len__(self) -> int:
        return len(self._regions)
