"""What makes frames of what the transport says, and reads them: bytes on the wire, objects where nobody sees bytes."""

from __future__ import annotations

from typing import NamedTuple

from mrclab.hosts.mrc.evs.paths import Path
from mrclab.hosts.mrc.packets.packet import Parser


class Codec(NamedTuple):
    """`path.frame` gives what `parser.parse` of the peer takes."""

    path: type[Path]
    parser: type[Parser]


WIRE = Codec(Path, Parser)
