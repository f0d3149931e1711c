"""Entities that simple_switch_grpc does not serve: registers, parser value sets and foreign externs."""

from __future__ import annotations

from collections.abc import Iterator

from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError
from mrclab.softswitch.p4runtime.messages.stubs import p4r
from mrclab.softswitch.p4runtime.state import Apply


class UnsupportedHandler:
    """Refuses everything with UNIMPLEMENTED."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def parse(self, update_type: int, entity: p4r.Entity) -> Apply:
        """Refuse a write."""
        raise P4RuntimeError(Code.UNIMPLEMENTED, f"{self._kind} writes are not supported yet")

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Refuse a read."""
        raise P4RuntimeError(Code.UNIMPLEMENTED, f"{self._kind} reads are not supported yet")
