"""Frame codec: bytes on the wire, objects in simulation."""

from __future__ import annotations

from typing import Final, NamedTuple

from mrclab.hosts.mrc.evs.paths import EvRoute
from mrclab.hosts.mrc.packets.packet import MrcParser


class MrcCodec(NamedTuple):
    """Codec of byte frames: `path.frame` makes frames, the peer's `parser.parse` reads them."""

    path: type[EvRoute]
    parser: type[MrcParser]


WIRE: Final = MrcCodec(EvRoute, MrcParser)
