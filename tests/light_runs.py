"""Lighter runs in tests, without two thirds of their CPU time: no rendering of pictures that look as others did, and no
look for garbage through all that pytest has loaded.

Every picture of a run is laid out, and the first of each name is rendered; the others are files of one pixel. Tests
marked `whole` have everything, as have all processes that tests start.
"""

import gc
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Leaving:
    """Stand in for `gc` where results are read, and for the style of pictures; leave that out while `out` is true."""

    def __init__(self) -> None:
        self.out = True
        self._rendered: set[str] = set()
        self.isenabled, self.enable, self.disable = gc.isenabled, gc.enable, gc.disable
        self.get_freeze_count = gc.get_freeze_count

    def freeze(self) -> None:
        """Keep in sight of the collector what was read: it looks through little else."""
        if not self.out:
            gc.freeze()

    def unfreeze(self) -> None:
        """Keep out of its sight what was loaded before the tests."""
        if not self.out:
            gc.unfreeze()

    def collect(self) -> int:
        """Do nothing: it collects by itself in time."""
        return 0 if self.out else gc.collect()

    def save(self, figure: Any, path: Path) -> bool:
        """Render the first picture of a name."""
        if path.name in self._rendered and self.out:
            with sys.modules["mrclab.topo.input.files"].replacing(path) as file:
                file.write(_PIXEL)
            return True
        self._rendered.add(path.name)
        return bool(sys.modules["mrclab.lab.report.plots.style"].save(figure, path))


LEAVING = Leaving()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


_PIXEL = (
    b"\x89PNG\r\n\x1a\n"
    + _chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0))
    + _chunk(b"IDAT", zlib.compress(bytes(2)))
    + _chunk(b"IEND", b"")
)


def spread() -> None:
    """Leave it out in this process from now on; all that is loaded by now is here to stay."""
    results = sys.modules.get("mrclab.lab.report.results")
    if results is not None:
        results.gc = LEAVING
        results.write_page = _with_pictures_of(results.write_page)
    keep()


def keep() -> None:
    """Take what is there out of the collector's sight."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _with_pictures_of(write_page: Callable[[Any], None]) -> Callable[[Any], None]:
    def write(run: Any) -> None:
        from mrclab.lab.report import plots  # noqa: PLC0415 - Matplotlib takes a second to load

        style, plots.style = plots.style, LEAVING
        try:
            write_page(run)
        finally:
            plots.style = style

    return write
