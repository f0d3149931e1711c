"""Frame codec: bytes on the wire, objects in simulation."""

from __future__ import annotations

from typing import Final

from mrclab.hosts.mrc.evs.paths import Ends, EvRoute
from mrclab.hosts.mrc.packets.packet import MrcParser
from mrclab.hosts.rdma.packets.icrc import Verifier


class MrcCodec:
    """Codec of byte frames: `frame` of a path makes frames, `parse` of the peer's parser reads them."""

    __slots__ = ()

    def path(self, value: int, port: int, macs: bytes, ends: Ends) -> EvRoute:
        """Return the path of an EV out of a port."""
        return EvRoute(value, port, macs, ends)

    def parser(self, port: int, route: bytes, address: bytes, verifier: Verifier) -> MrcParser:
        """Return the parser of a port."""
        return MrcParser(port, route, address, verifier)


WIRE: Final = MrcCodec()
