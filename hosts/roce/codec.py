"""Frame codec of RoCEv2, as `hosts.mrc.packets.codec`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mrclab.hosts.rdma.packets.icrc import Verifier
from mrclab.hosts.roce.packet import RocePacket, parse
from mrclab.hosts.roce.path import PlainPath

Parse = Callable[[bytes | bytearray | memoryview, int, bytes, Verifier], RocePacket]


class RoceCodec(NamedTuple):
    """`path.frame` gives what the peer's `parse` takes."""

    path: type[PlainPath]
    parse: Parse


WIRE = RoceCodec(PlainPath, parse)
