"""The reference of the wire format: `python -m mrclab.hosts.wiredoc` writes docs/wire.md, and the values into the
dissector.

Fields are those of the table in `hosts/wireformat.py`, headers those of `hosts/scapy_mrc.py` (scapy is needed); bits
of EVs and uSIDs are computed by `topo/srv6.py`, one at a time.
"""

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping

from scapy.packet import Packet

from mrclab import HOME
from mrclab.hosts import scapy_mrc, wireformat
from mrclab.hosts.mrc.packets.headers import MrcOpcode
from mrclab.hosts.wireformat import WireField
from mrclab.topo import srv6
from mrclab.topo.numbers import Dscp

FILE = HOME / "docs" / "wire.md"
DISSECTOR = HOME / "docs" / "wireshark" / "mrc.lua"

_VALUES = re.compile(r"(?<=-- Values, by python -m mrclab\.hosts\.wiredoc\n).*?(?=-- End of values\n)", re.DOTALL)
_COLUMNS = 118  # of the dissector


def headers() -> list[type[Packet]]:
    """Every header that the packet classes know, in their order."""
    found = [each for each in vars(scapy_mrc).values() if isinstance(each, type) and issubclass(each, Packet)]
    return [each for each in found if each.__module__ == scapy_mrc.__name__]


def fields(header: str) -> Iterator[tuple[int, WireField]]:
    """First bit and description of every field; one that is an alternative begins where the other does."""
    at = before = 0
    for field in wireformat.FIELDS[header]:
        at -= before if field.when == "pr" else 0
        yield at, field
        at, before = at + field.bits, field.bits


def _rows() -> Iterator[str]:
    opcodes = {op: scapy_mrc._BODIES.get(op, scapy_mrc.METH) for op in MrcOpcode}  # noqa: SLF001 - one subject
    for header in headers():
        doc = (header.__doc__ or "").split("\n", maxsplit=1)[0]
        yield from ("", f"## {header.__name__}", "", doc)
        used = [f"`{op.name}` 0x{op:02X}" for op, first in opcodes.items() if first is header]
        if used and header is not scapy_mrc.MrcBTH:
            yield from ("", f"Behind the BTH of {', '.join(used)}.")
        yield from ("", "| Byte | Bit | Bits | Field | Meaning | Record |", "|---|---|---|---|---|---|")
        for at, field in fields(header.__name__):
            byte = "end" if field.name == "icrc" else at // 8
            yield f"| {byte} | {7 - at % 8} | {field.bits} | `{field.name}` | {field.meaning} | {field.standing} |"


def _bit_positions(make: Callable[[int], int], width: int, base: int) -> list[int]:
    """Return the position of each bit of a field in the result of `make`; `base`: its result without the field."""
    return [(make(1 << bit) ^ base).bit_length() - 1 for bit in range(width)]


def _bit_layout(title: str, size: int, parts: dict[str, list[int]]) -> Iterator[str]:
    names = {place: f"{name} bit {bit}" for name, places in parts.items() for bit, place in enumerate(places)}
    yield from ("", f"## {title}", "", "| Bits | Holds |", "|---|---|")
    place = size - 1
    while place >= 0:
        name = names.get(place, "0")
        low = place
        while low > 0 and _continues(name, names.get(low - 1, "0"), place - low + 1):
            low -= 1
        first, last = name, names.get(low, "0")
        field, _, bit = first.partition(" bit ")
        content = "0" if first == "0" else f"{field}, bits {bit}–{last.rpartition(' ')[2]}"
        yield f"| {place}–{low} | {content} |"
        place = low - 1


def _continues(name: str, other: str, distance: int) -> bool:
    if name == "0" or other == "0":
        return name == other
    field, _, bit = name.partition(" bit ")
    return other == f"{field} bit {int(bit) - distance}"


def build() -> str:
    """The page."""
    ten, t1 = srv6.MAX_INDEX.bit_length(), srv6.UsidType.T1
    ev = {
        "plane": _bit_positions(lambda plane: srv6.ev(plane, 0, 0), 4, 0),
        "uplink": _bit_positions(lambda uplink: srv6.ev(1, uplink, 0), ten, srv6.ev(1, 0, 0)),
        "tag": _bit_positions(lambda tag: srv6.ev(1, 0, tag), 16, srv6.ev(1, 0, 0)),
    }
    usid = {
        "plane": _bit_positions(lambda plane: srv6.usid(t1, plane, 0), 4, srv6.usid(t1, 0, 0)),
        "index": _bit_positions(lambda index: srv6.usid(t1, 0, index), ten, srv6.usid(t1, 0, 0)),
        "type": [12, 13],
    }
    lines = [
        "# Wire format",
        "",
        "Made from the packet classes by `python -m mrclab.hosts.wiredoc`. [How the parts play together, and how far",
        "each source is to be trusted](mrc-protocol.md) is described elsewhere. All fields are big-endian; bit 7",
        "is a byte's first.",
        "A frame is `Ethernet 14 | outer IPv6 40 | inner IPv6 40 | UDP 8 | BTH 12 | …`, its payload and a 4-byte ICRC:",
        "in a write `METH | [TSETH] | RETH | [immediate]` follow the BTH, in every other packet one header.",
        "",
        "| Record | |",
        "|---|---|",
        *(f"| {name} | {text} |" for name, text in wireformat.STANDINGS.items()),
        *_rows(),
        *_bit_layout("Entropy value (EV)", 32, ev),
        "",
        "An EV travels in the outer header's flow label (its upper half) and the UDP source port (its lower half).",
        "That it names the path is the paper's; how its bits split is this project's choice.",
        "Uplink 0: no T1 is crossed.",
        *_bit_layout("uSID", 16, usid),
        "",
        "NEXT-C-SID, format F3216 (RFC 9800): locator `fcbb:bb00::/32` and six uSIDs in one address. Types: "
        + ", ".join(f"{kind.value} {kind.name}" for kind in srv6.UsidType)
        + ".",
        "How a uSID splits is this project's choice.",
    ]
    return "\n".join(lines) + "\n"


def dissector() -> str:
    """The dissector, with the names of values as the table of the wire format has them."""
    named = {
        "OPCODES": _values("MrcBTH", "opcode"),
        "MARKS": _values("SETH", "m"),
        "REASONS": _values("NETH", "reason"),
        "ENDPOINT_OPS": _values("ERTH", "op"),
        "DSCPS": {int(each): each.name for each in Dscp},
    }
    lua = "".join(f"local {name} = {{\n{_lua(values)}\n}}\n" for name, values in named.items())
    return _VALUES.sub(lambda _: lua, DISSECTOR.read_text(encoding="utf-8"))


def _values(header: str, name: str) -> Mapping[int, str]:
    (found,) = (field.values for field in wireformat.FIELDS[header] if field.name == name)
    return found or {}


def _lua(values: Mapping[int, str]) -> str:
    text = " ".join(f'[{value}]="{name}",' for value, name in sorted(values.items()))
    filled = textwrap.fill(text, _COLUMNS, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    return filled.replace("]=", "] = ")


if __name__ == "__main__":
    FILE.write_text(build(), encoding="utf-8")
    DISSECTOR.write_text(dissector(), encoding="utf-8")
