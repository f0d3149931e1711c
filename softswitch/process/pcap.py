"""Frames that ports receive and send, one pcap file per port and direction (`--pcap`), named as BMv2 names them."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)

Ingress = Callable[[bytearray, int, int], None]


class PcapRecorder:
    """Writes pcap files into one directory."""

    def __init__(self, directory: Path, names: Callable[[], dict[int, str]]) -> None:
        self._directory = directory
        self._names = names
        self._files: dict[tuple[int, str], BinaryIO] = {}

    def _write(self, port: int, direction: str, data: bytearray) -> None:
        file = self._files.get((port, direction))
        if file is None:
            name = self._names().get(port, str(port))
            file = (self._directory / f"{name}_{direction}.pcap").open("wb")
            file.write(_HEADER)
            self._files[port, direction] = file
        seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
        file.write(struct.pack("<IIII", seconds, nanoseconds // 1000, len(data), len(data)) + data)
        file.flush()

    def recorded(self, port: int, send: Callable[[bytearray], None]) -> Callable[[bytearray], None]:
        """Return the `send` of a port that also records every frame."""

        def record(data: bytearray) -> None:
            send(data)
            self._write(port, "out", data)

        return record

    def recording(self, ingress: Ingress) -> Ingress:
        """Return an ingress that records every frame first."""

        def record(data: bytearray, port: int, length: int) -> None:
            self._write(port, "in", data)
            ingress(data, port, length)

        return record
