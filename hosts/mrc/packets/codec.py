"""Frame codec: bytes on the wire, objects in simulation."""

from __future__ import annotations

from typing import Final, NamedTuple

from mrclab.hosts.mrc.evs.paths import EvRoute
from mrclab.hosts.mrc.packets.packet import MrcParser


class MrcCodec(NamedTuple):
    """`path.frame` gives what `parser.parse` of the peer takes."""

    path: type[EvRoute]
    parser: type[MrcParser]


WIRE: Final = MrcCodec(EvRoute, MrcParser)
