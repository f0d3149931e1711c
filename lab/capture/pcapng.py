"""pcapng files: named interfaces, directions, comments (draft-ietf-opsawg-pcapng; little-endian, nanoseconds)."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from mrclab.topo.input import files

_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6  # block types
_BYTE_ORDER = 0x1A2B3C4D
_ETHERNET = 1  # LINKTYPE
_COMMENT, _APPLICATION, _NAME, _DESCRIPTION, _RESOLUTION, _FLAGS = 1, 4, 2, 3, 9, 2  # option codes, by block
_NANOSECONDS = bytes([9])  # 10 to the minus ninth
_UNKNOWN_LENGTH = 0xFFFF_FFFF_FFFF_FFFF

INBOUND, OUTBOUND = 1, 2  # of epb_flags: as the port sees it


@dataclass(frozen=True)
class Interface:
    """A port: its name and its cable."""

    name: str
    description: str


@dataclass(frozen=True)
class CapturedFrame:
    """One frame as a port saw it. `time` is nanoseconds since the epoch; `length` is that on the wire."""

    time: int
    interface: int  # place in the list of interfaces
    direction: int
    data: bytes
    length: int


class PcapngWriter:
    """Writes one file. A comment is attached to the next frame."""

    def __init__(self, file: BinaryIO, interfaces: Sequence[Interface]) -> None:
        self._file = file
        self._comments: list[str] = []
        self.frames = 0
        section = struct.pack("<IHHQ", _BYTE_ORDER, 1, 0, _UNKNOWN_LENGTH)
        self._block(_SECTION, section + _options([(_APPLICATION, b"MRC Lab")]))
        for interface in interfaces:
            options = [
                (_NAME, interface.name.encode()),
                (_DESCRIPTION, interface.description.encode()),
                (_RESOLUTION, _NANOSECONDS),
            ]
            self._block(_INTERFACE, struct.pack("<HHI", _ETHERNET, 0, 0) + _options(options))

    def comment(self, text: str) -> None:
        """Attach a comment to the next frame."""
        self._comments.append(text)

    def write(self, frame: CapturedFrame) -> None:
        """Append one frame."""
        head = struct.pack(
            "<IIIII", frame.interface, frame.time >> 32, frame.time & 0xFFFF_FFFF, len(frame.data), frame.length
        )
        options = [(_FLAGS, struct.pack("<I", frame.direction))]
        options += [(_COMMENT, text.encode()) for text in self._comments]
        self._comments.clear()
        self._block(_PACKET, head + _padded(frame.data) + _options(options))
        self.frames += 1

    def _block(self, kind: int, body: bytes) -> None:
        length = len(body) + 12
        self._file.write(struct.pack("<II", kind, length) + body + struct.pack("<I", length))


def store(
    path: Path, interfaces: Sequence[Interface], frames: Iterable[CapturedFrame], notes: Iterable[tuple[int, str]]
) -> int:
    """Write frames in order of time, each note (time, text) as a comment of the first frame at or after its time.

    Returns the number of frames. OSError where the file cannot be written.
    """
    waiting = sorted(notes)
    with path.open("wb") as file:
        writer = PcapngWriter(file, interfaces)
        for frame in sorted(frames, key=lambda each: each.time):
            while waiting and waiting[0][0] <= frame.time:
                writer.comment(waiting.pop(0)[1])
            writer.write(frame)
        return writer.frames


def load(path: Path) -> tuple[list[Interface], list[CapturedFrame]]:
    """Read a file of `store` or `mrclab capture`, also one that Wireshark has filtered.

    OSError where it cannot be read, ValueError where it is no such file.
    """
    data = files.read_bytes(path)
    interfaces: list[Interface] = []
    frames: list[CapturedFrame] = []
    try:
        for kind, body in _blocks(data):
            if kind == _INTERFACE:
                options = _parsed_options(body[8:])
                if options.get(_RESOLUTION, b"") != _NANOSECONDS:
                    raise ValueError("its times are not in nanoseconds")
                interfaces.append(Interface(options.get(_NAME, b"").decode(), options.get(_DESCRIPTION, b"").decode()))
            elif kind == _PACKET:
                number, high, low, kept, length = struct.unpack_from("<IIIII", body)
                packet, rest = body[20 : 20 + kept], body[20 + kept + -kept % 4 :]
                flags = int.from_bytes(_parsed_options(rest).get(_FLAGS, b"")[:4], "little") & 3
                if len(packet) < kept or number >= len(interfaces):
                    raise ValueError("a packet of it is cut short, or of no interface")
                frames.append(CapturedFrame(high << 32 | low, number, flags, packet, length))
    except (struct.error, UnicodeDecodeError) as error:
        raise ValueError(f"it is damaged ({error})") from None
    return interfaces, frames


def _blocks(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and body of each block; ValueError where it is not a little-endian pcapng file, or is cut short."""
    if data[:4] != struct.pack("<I", _SECTION) or data[8:12] != struct.pack("<I", _BYTE_ORDER):
        raise ValueError("it is not a little-endian pcapng file")
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if length < 12 or length % 4 or at + length > len(data):
            raise ValueError("it is cut short")
        yield kind, data[at + 8 : at + length - 4]
        at += length


def _parsed_options(data: bytes) -> dict[int, bytes]:
    """Options of a block by their code."""
    found: dict[int, bytes] = {}
    at = 0
    while at + 4 <= len(data):
        code, length = struct.unpack_from("<HH", data, at)
        if code == 0:
            break
        found.setdefault(code, data[at + 4 : at + 4 + length])
        at += 4 + length + -length % 4
    return found


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _options(options: Sequence[tuple[int, bytes]]) -> bytes:
    return b"".join(struct.pack("<HH", code, len(value)) + _padded(value) for code, value in options) + bytes(4)
