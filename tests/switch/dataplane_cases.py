"""Frames for the programs in programs/ on both targets: per case a program, its set-up, and frames.

Frames are (ingress port, bytes). Values are chosen by hand where a border matters and drawn from a seeded generator
where breadth does.
"""

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from dataplane_setup import Setup

Frame = tuple[int, bytes]

DST, SRC = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")


@dataclass
class Case:
    """Frames through one program after one set-up; `pauses` are seconds that pass before the frame of that number.

    A switch is quiet when nothing has come for `quiet` seconds; what is measured over time needs its frames closer.
    """

    program: str
    setup: Setup
    frames: list[Frame]
    pauses: dict[int, float] = field(default_factory=dict)
    quiet: float = 0.25


def ethernet(ether_type: int = 0x1234) -> bytes:
    return DST + SRC + ether_type.to_bytes(2, "big")


def payload(length: int = 20) -> bytes:
    return bytes(i * 7 & 0xFF for i in range(length))


def arithmetic() -> Case:
    rng = random.Random(1)
    interesting = [0, 1, 2, 7, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE]
    shorts = [0, 1, -1, 2, 0x7FFF, -0x8000, 127, 128, -129]
    frames = []
    for number in range(60):
        x, y = rng.choice([*interesting, rng.getrandbits(32)]), rng.choice([*interesting, rng.getrandbits(32)])
        s, t = rng.choice([*shorts, rng.randrange(-0x8000, 0x8000)]), rng.choice(shorts)
        shift = rng.choice([0, 1, 8, 15, 16, 31, 32, 33, 255, rng.randrange(32)])
        body = struct.pack(">BBIIhhB", rng.choice([3, 200, number]), rng.getrandbits(8), x, y, s, t, shift)
        frames.append((1, ethernet() + body + rng.randbytes(12) + payload(8)))
    frames.append((1, ethernet() + bytes(10)))
    return Case("arithmetic", Setup(), frames)


def parsing() -> Case:
    setup = Setup(value_sets={"TheParser.known_types": [0x4444, 0x5555]})

    def label(value: int, bottom: int, ttl: int = 9) -> bytes:
        return (value << 12 | 5 << 9 | bottom << 8 | ttl).to_bytes(4, "big")

    bodies = [
        (0x8847, label(100, 1) + b"\x45\x00" + payload()),
        (0x8847, label(1, 0) + label(2, 1) + b"\x60\x01" + payload()),
        (0x8847, label(1, 0) + label(2, 0) + label(3, 0) + label(4, 1) + b"\x70\x01" + payload()),
        (0x8847, label(1, 0) * 5 + payload()),
        (0x8847, label(1, 0) + label(2, 0, ttl=0) + payload()),
        (0x8847, label(1, 0)),
        (0x8847, label(1, 1) + b"\x40"),
        (0x8847, label(1, 1)),
        (0x1005, payload()), (0x1015, payload()), (0x100F, b""),
        (0x2000, payload()), (0x2FFF, payload()), (0x2345, payload()), (0x3000, payload()), (0x1FFF, payload()),
        (0x3001, b"\x01\x03abc\x45\x99rest"), (0x3001, b"\x01\x00\x45\x99"), (0x3001, b"\x02\x04abcdrest"),
        (0x3001, b"\x01\x0aabc"), (0x3001, b"\x01\x03abc\x65\x99rest"),
        (0x3002, b"\x45\x00" + payload()), (0x3002, b"\x55\x00" + payload()), (0x3002, b"\x45"), (0x3002, b""),
        (0x3003, b"\x01\x02x"), (0x3003, b"\x13\x44x"), (0x3003, b"\x99\x09x"), (0x3003, b"\x06\x64x"),
        (0x3003, b"\x05\xc8x"), (0x3003, b"\x08\x64x"), (0x3003, b"\x01\x03x"), (0x3003, b"\x07\xc9x"),
        (0x4444, payload()), (0x5555, payload()), (0x4445, payload()),
    ]  # fmt: skip
    frames = [(1 + number % 3, ethernet(kind) + body) for number, (kind, body) in enumerate(bodies)]
    return Case("parsing", setup, frames)


def headers() -> Case:
    def command(what: int, index: int = 0, value: int = 0) -> bytes:
        return ethernet() + bytes([what, index, value])

    pairs = b"\x11\x00\x00\x21" + b"\x22\x00\x01\x22"
    frames = [command(what, 5, 9) + pairs + payload() for what in range(1, 10)]
    frames.append(command(4) + b"\x33\x00\x00\x07" * 2)
    for what in (10, 11, 12, 13):
        frames += [command(what, 0, 0x77) + bytes([n]) + bytes(range(n)) + b"\xee" + payload(5) for n in (0, 1, 31, 32)]
    frames += [command(10) + bytes([33]) + bytes(40), command(10) + bytes([9, 1, 2]), command(10)]
    for what in (20, 21, 22, 23):
        frames += [command(what) + b"\x01\x42rest", command(what) + b"\x02\x00\x01\x42rest", command(what) + b"\x03r"]
    elements = b"".join(bytes([0xA0 + n, 0, 0, n]) for n in range(3))
    for what in range(30, 37):
        for count in range(4):
            values = (
                range(count) if what == 34 else (0, 1)
            )  # an invalid element's fields are whatever BMv2 last had there
            frames += [command(what, count, value) + elements[: 4 * count] + payload(6) for value in values[:2]]
    frames += [
        command(40) + payload(),
        command(41, 3) + payload(),
        command(99) + payload(),
        command(30, 3) + elements[:7],
    ]
    return Case("headers", Setup(), [(1, frame) for frame in frames])


def probe(mode: int, a: int = 0, b: int = 0, s: int = 0, odd: int = 0, nibble: int = 0, result: int = 0) -> bytes:
    """The probe of tables.p4."""
    head = struct.pack(">BIHb", mode, a, b, s)
    return ethernet() + head + (odd << 4 | nibble).to_bytes(2, "big") + result.to_bytes(2, "big") + b"\0" + payload(9)


A, B = "hdr.probe.a", "hdr.probe.b"


def table_setup() -> Setup:
    s = Setup()
    s.entry("exact_one", {A: 7}, "note", 70).entry("exact_one", {A: 8}, "stop").entry("exact_one", {A: 9}, "NoAction")
    s.entry("exact_pair", {A: 1, "hdr.probe.odd": 0xFFF, "hdr.probe.s": 0xFE}, "note", 11)
    s.entry("exact_pair", {A: 1, "hdr.probe.odd": 0xFFE, "hdr.probe.s": 0x7F}, "double_note", 12, 99)
    for value, length, note in ((0x0A000000, 8, 8), (0x0A0B0000, 16, 16), (0x0A0B0C0D, 32, 32), (0x80000000, 1, 1000)):
        s.entry("prefixes", {A: (value, length)}, "note", note)
        s.entry("exact_and_prefix", {B: 5, A: (value, length)}, "note", note + 1)
    s.entry("exact_and_prefix", {B: 6}, "note", 777)
    s.entry("masks", {A: (0x10, 0xF0), B: 1}, "note", 1, priority=1)
    s.entry("masks", {A: (0x11, 0xFF), B: 1}, "note", 2, priority=3)
    s.entry("masks", {A: (0x01, 0x0F), B: 1, "hdr.probe.nibble": (1, 1)}, "add", 3, priority=2)
    s.entry("masks", {B: 1}, "note", 4, priority=0x7FFFFFFF - 1)
    s.entry("masks", {A: (0x11, 0xFF), B: 2}, "note", 5, priority=9)
    s.entry("ranges", {B: (10, 20)}, "note", 1, priority=5)
    s.entry("ranges", {B: (15, 30), A: (4, 4)}, "note", 2, priority=6)
    s.entry("ranges", {A: (8, 8)}, "note", 3, priority=1)
    s.entry("optionals", {B: 1, "hdr.probe.odd": 2}, "note", 1, priority=3)
    s.entry("optionals", {B: 1}, "note", 2, priority=2)
    s.entry("optionals", {"hdr.probe.odd": 2}, "note", 3, priority=1)
    s.entry("mixed", {A: (0x0A000000, 8), B: (1, 1), "hdr.probe.nibble": 3}, "note", 1, priority=1)
    s.entry("mixed", {A: (0x0A0B0000, 16), "hdr.probe.nibble": 3}, "note", 2, priority=2)
    s.entry("mixed", {"hdr.probe.nibble": 3}, "note", 3, priority=3)
    s.entry("run", {A: 1}, "note", 5).entry("run", {A: 2}, "add", 6).entry("run", {A: 3}, "double_note", 7, 8)
    s.entry("valid_key", {"hdr.probe.$valid$": 1, "hdr.probe.mode": 12}, "note", 55)
    s.defaults.append(("ranges", "note", (4321,)))
    s.defaults.append(("no_key", "note", (31,)))
    return s


def tables() -> Case:
    frames = [probe(1, a) for a in (7, 8, 9, 10)]
    frames += [probe(2, 1, s=-2, odd=0xFFF), probe(2, 1, s=127, odd=0xFFE), probe(2, 1, s=1, odd=0xFFF)]
    addresses = (0x0A000001, 0x0A0B0001, 0x0A0B0C0D, 0x0A0B0C0E, 0x0B000000, 0xFFFFFFFF, 0)
    frames += [probe(3, a) for a in addresses]
    frames += [probe(4, a, b) for a in addresses for b in (5, 6, 7)]
    frames += [probe(5, a, b, nibble=n, result=1) for a in (0x11, 0x12, 0x21, 0x31) for b in (1, 2, 3) for n in (0, 1)]
    frames += [probe(6, a, b) for a in (0, 4, 8, 12) for b in (9, 10, 15, 20, 30, 31)]
    frames += [probe(7, b=b, odd=o) for b in (1, 2) for o in (2, 3)]
    frames += [probe(8, a, b, nibble=n) for a in (0x0A000001, 0x0A0B0001, 5) for b in (0, 1) for n in (3, 4)]
    frames += [probe(9, a, b, result=50) for a in (*addresses, 0x0A0B0C0C) for b in (0, 75, 120, 150, 250)]
    frames += [probe(10, a, result=2) for a in (1, 2, 3, 4)] + [probe(11), probe(12), probe(13), probe(1)[:20]]
    return Case("tables", table_setup(), [(1, frame) for frame in frames])


def extern_probe(mode: int, index: int = 0, value: int = 0, colour: int = 0xEE) -> bytes:
    return (
        ethernet() + bytes([mode]) + index.to_bytes(4, "big") + value.to_bytes(6, "big") + bytes([colour]) + payload()
    )


def externs() -> Case:
    s = Setup()
    slow = (1, 2, 1, 4)  # two green, two yellow, then red: one a second would come back
    s.meters += [("packet_meter", 1, slow), ("byte_meter", 2, (1, 100, 1, 200))]
    s.entry("with_counter", {"hdr.probe.index": 5}, "count_direct").entry(
        "with_counter", {"hdr.probe.index": 6}, "NoAction"
    )
    s.entry("with_meter", {"hdr.probe.index": 5}, "colour_direct", 1).entry(
        "with_meter", {"hdr.probe.index": 6}, "NoAction"
    )
    s.direct_meters.append(("with_meter", {"hdr.probe.index": 5}, slow))
    frames = [extern_probe(1, index) for index in (0, 7, 7, 8, 0xFFFFFFFF)]
    frames += [extern_probe(2, index) for index in (1, 1, 1, 1, 1, 0, 3, 4)]
    frames += [extern_probe(3, index) for index in (2, 2, 2, 2, 2, 2, 2, 0)]
    frames += [extern_probe(4, 1, 0xABCDEF012345), extern_probe(4, 7, 9), extern_probe(4, 8, 9), extern_probe(5, 1)]
    frames += [extern_probe(5, 7, 1), extern_probe(5, 8, 1234), extern_probe(6, 1, 0xFFFFFFFFFFFF), extern_probe(5, 1)]
    frames += [extern_probe(7, index) for index in (5, 5, 6, 9)]
    frames += [extern_probe(8, index) for index in (5, 5, 5, 5, 5, 6, 9)]
    frames += [extern_probe(9) for _ in range(5)] + [extern_probe(10) for _ in range(4)]
    return Case("externs", s, [(1, frame) for frame in frames])


def metering() -> Case:
    """Bursts, and what pauses bring back. A token's time is longer than a burst and shorter than a pause, with room."""
    s = Setup()
    s.meters += [("packet_meter", 1, (1, 2, 1, 4)), ("byte_meter", 2, (200, 300, 200, 600))]
    frames, pauses = [extern_probe(2, 1)] * 6, {}
    pauses[len(frames)] = 6.0  # both buckets are full again
    frames += [extern_probe(2, 1)] * 6
    frames += [extern_probe(3, 2)[:26] + bytes(74)] * 8
    pauses[len(frames)] = 1.1  # 220 bytes and a little in either bucket: two frames of 100
    frames += [extern_probe(3, 2)[:26] + bytes(74)] * 4
    return Case("externs", s, [(1, frame) for frame in frames], pauses, quiet=0.02)


def hash_probe(mode: int, a: int, b: int = 0, c: int = 0, d: int = 0) -> bytes:
    return (
        ethernet()
        + struct.pack(">BII", mode, a, b << 12 | c)[:5]
        + (b << 12 | c).to_bytes(4, "big")
        + d.to_bytes(8, "big")
    )


def hashes() -> Case:
    rng = random.Random(2)
    s = Setup()
    for profile in ("selector16", "selector32", "selector_identity"):
        s.members += [(profile, member, "pick", (member * 10,)) for member in (1, 2, 3)]
        s.groups.append((profile, 5, {3: 1, 1: 1, 2: 1}))
    s.members += [("profile", 1, "pick", (7,)), ("profile", 2, "pick", (8,))]
    mode = "hdr.probe.mode"
    s.to_group("by_crc16", {mode: 1}, 5).to_group("by_crc32", {mode: 2}, 5).to_group("by_identity", {mode: 3}, 5)
    s.to_member("by_profile", {A: 1}, 1).to_member("by_profile", {A: 2}, 2)
    edge = [(0, 0, 0, 0), (0xFFFFFFFF, 0xFFFFF, 0xFFF, (1 << 64) - 1), (1, 2, 3, 4)]
    drawn = [(rng.getrandbits(32), rng.getrandbits(20), rng.getrandbits(12), rng.getrandbits(64)) for _ in range(12)]
    frames = [hash_probe(0, *values) for values in edge + drawn]
    frames += [hash_probe(kind, *values) for kind in (1, 2, 3) for values in edge + drawn]
    frames += [hash_probe(4, a) for a in (1, 2, 3)]
    return Case("hashes", s, [(1, frame) for frame in frames])


def internet_sum(data: bytes) -> int:
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(options: bytes, protocol: int, body: bytes, wrong: int = 0, ihl: int | None = None) -> bytes:
    size = 5 + len(options) // 4 if ihl is None else ihl
    head = struct.pack(">BBHHHBBHII", 0x40 | size, 0, 20 + len(options) + len(body), 1, 0x4000, 64, protocol, 0, 7, 8)
    value = internet_sum(head + options) ^ wrong
    return ethernet(0x0800) + head[:10] + value.to_bytes(2, "big") + head[12:] + options + body


def checksums() -> Case:
    rng = random.Random(3)
    frames = []
    for words in (0, 1, 2, 10):
        options = rng.randbytes(4 * words)
        for size in (0, 1, 7, 30):
            data = rng.randbytes(size)
            udp = struct.pack(">HHHH", 1000, 2000, 8 + size, rng.choice([0, 1, 0xFFFF])) + data
            frames += [ipv4(options, 17, udp), ipv4(options, 6, data)]
    frames += [ipv4(b"", 6, b"x", wrong=1), ipv4(b"abcd", 17, bytes(8), wrong=0x8000), ethernet() + payload()]
    frames += [ipv4(b"", 6, b"", ihl=4), ipv4(b"", 6, b"", ihl=15), ipv4(b"", 17, b"\0\0"), ethernet(0x0800)]
    return Case("checksums", Setup(), [(1, frame) for frame in frames])


def replication() -> Case:
    def command(what: int, argument: int = 0, number: int = 0x0101, size: int = 60) -> bytes:
        return ethernet() + bytes([what, argument]) + number.to_bytes(2, "big") + payload(size)

    s = Setup(
        multicast={1: [(1, 0), (2, 7), (3, 8)], 2: [(2, 1), (2, 2)]},
        clones={5: [(3, 0)], 6: [(1, 11), (2, 12)]},
    )
    frames = [command(0), command(1, 5), command(1, 6), command(1, 9), command(2, 5), command(2, 6)]
    frames += [command(3, 1), command(3, 2), command(3, 3), command(4, 1), command(4, 2), command(4, 5)]
    frames += [command(5, cut, size=60) for cut in (0, 1, 20, 34, 40, 94, 95, 200)]
    frames += [command(6, 2), command(7, 30), command(7, 50), command(8, 5), command(8, 6), command(9, 6)]
    frames += [
        command(10, 1),
        command(10, 2),
        command(10, 4),
        command(11, 30),
        command(11, 0),
        command(12),
        command(13),
    ]
    frames += [b"\0" * 12 + b"\x99\x99" + payload(18) + command(1, 5)[14:], ethernet() + b"\1"]
    return Case("replication", s, [(1 + number % 2, frame) for number, frame in enumerate(frames)])


def flow() -> Case:
    s = Setup().entry("choose", {"hdr.probe.b": 7}, "branchy", 3).entry("choose", {"hdr.probe.b": 8}, "NoAction")
    values = (0, 1, 2, 3, 4, 49, 50, 51, 100, 101, 255)
    frames = [
        ethernet() + bytes([a, b, c, 0x80, 0]) + b"\xff\xf0" + payload(4)
        for a in values for b in (0, 7, 8, 49, 50, 51, 120) for c in (0, 3, 0x85)
    ]  # fmt: skip
    return Case("flow", s, [(1, frame) for frame in frames])


CASES: dict[str, Callable[[], Case]] = {
    case.__name__: case
    for case in (arithmetic, parsing, headers, tables, externs, metering, hashes, checksums, replication, flow)
}


def all_cases() -> Iterator[tuple[str, Case]]:
    for name, case in CASES.items():
        yield name, case()
