"""The reference of the wire format, from the packet classes: `python -m mrclab.hosts.wiredoc` writes docs/wire.md.

Names, order and sizes of fields are those of `hosts/scapy_mrc.py` (scapy is needed); how EVs and uSIDs split is
asked of `topo/srv6.py` bit by bit. What a field means, and where that stands to the public record, is said here.
"""

from collections.abc import Callable, Iterator

from scapy.packet import Packet

from mrclab import HOME
from mrclab.hosts import scapy_mrc
from mrclab.hosts.mrc.packets.headers import MrcOpcode
from mrclab.topo import srv6

FILE = HOME.parent / "docs" / "wire.md"

REPORTED, OPEN, OWN, ROCE = "reported", "open", "ours", "RoCEv2"
_LEGEND = {
    ROCE: "as in RoCEv2 (InfiniBand architecture, annex A17)",
    REPORTED: "of the OCP MRC 1.0 specification as two or more independent implementations report it",
    OPEN: "the reports leave it open: 0 on sending, not looked at on receipt",
    OWN: "this project's choice",
}

_STAMP = {
    "tx_timestamp": ("when the packet left, in the unit that `tsr` says, modulo 2¹⁶", REPORTED),
    "tsr": ("unit of the timestamp: 0: 128 ns, 1: 1 µs; the lab sends 1", REPORTED),
    "ftype": ("type of the field, 1; not looked at", REPORTED),
}
_PDC = {
    "spdcid": ("source PDC, of UET; MRC has none", OPEN),
    "dpdcid": ("destination PDC, of UET; MRC has none", OPEN),
}
_CC = {"cc_type": ("kind of congestion state; 0 is NSCC's", REPORTED)}
_MEANT: dict[type[Packet], dict[str, tuple[str, str]]] = {
    scapy_mrc.MrcBTH: {
        "opcode": ("what the packet is, and which header follows", REPORTED),
        "solicited": ("solicited event", ROCE),
        "migreq": ("path migration; MRC has none", OPEN),
        "padcount": ("bytes of padding before the ICRC", ROCE),
        "version": ("transport header version, 0", ROCE),
        "pkey": ("partition, 0xFFFF", ROCE),
        "dqpn": ("destination QP; 2 in endpoint requests and responses", REPORTED),
        "ackreq": ("an acknowledgement is wanted", ROCE),
        "r": ("reserved", OPEN),
        "rtx": ("the packet is a retransmission", REPORTED),
        "ts": ("a TSETH follows METH", REPORTED),
        "inv_res": ("reserved", OPEN),
        "psn": ("packet sequence number; of endpoint packets, its low 16 bits are the request id", REPORTED),
        "icrc": ("invariant CRC; stands at the end of the packet", ROCE),
    },
    scapy_mrc.METH: {
        "rqmsn": ("number of the message among those with immediate", REPORTED),
        "msn": ("number of the message, the same in all its packets", REPORTED),
    },
    scapy_mrc.TSETH: _STAMP,
    scapy_mrc.RETH: {
        "va": ("virtual address of this packet's payload: it advances by one MTU per packet", REPORTED),
        "rkey": ("key of the memory region", ROCE),
        "length": ("bytes of the whole message", REPORTED),
        "immediate": ("immediate data, where the opcode has it", ROCE),
    },
    scapy_mrc.SETH: {
        "type": ("type of the header, 1", REPORTED),
        "next_header": ("next header", OPEN),
        "m": ("what the requestor shall do with the EV: 0 nothing, 1 skip it once, 2 skip it always", REPORTED),
        "pr": ("this answers a probe", REPORTED),
        "ack_psn_offset": ("PSN of the packet that triggered this, less `cack_psn`; signed; without `pr`", REPORTED),
        "probe_id": ("number of the probe that this answers; with `pr`", REPORTED),
        "entropy": ("EV of the packet that triggered this, reflected", REPORTED),
        **_PDC,
        "cack_psn": ("all packets up to this PSN have arrived", REPORTED),
        **_CC,
        "cc_fl": ("flags of the congestion state", OPEN),
        "mpr": ("PSNs that may be outstanding, in units of 128; 0: not dynamic", REPORTED),
        "sack_offset": ("PSN of the bitmap's first bit, less `cack_psn`; signed", REPORTED),
        "bitmap": ("packets that arrived, the least significant bit first", REPORTED),
        "tx_timestamp": ("CC_STATE: timestamp of the packet that triggered this, reflected", REPORTED),
        "ooo_count": ("CC_STATE: packets that arrived out of order", REPORTED),
        "restore_cwnd": ("CC_STATE: the window may be restored", REPORTED),
        "rcv_cwnd_pen": ("CC_STATE: how much of the window the receiver asks the sender to give up", REPORTED),
        "rcvd_bytes": ("CC_STATE: bytes received, in units of 256, rounded up", REPORTED),
    },
    scapy_mrc.NETH: {
        "type": ("type of the header", OPEN),
        "reason": ("why the packet was refused", REPORTED),
        "vendor": ("vendor's code", REPORTED),
        "entropy": ("EV of the packet refused, reflected", REPORTED),
        **_PDC,
        "nack_psn": ("PSN of the packet refused", REPORTED),
        **_CC,
        "tx_timestamp": ("timestamp of the packet refused, reflected", REPORTED),
    },
    scapy_mrc.PETH: {
        "vendor": ("vendor's code", REPORTED),
        "probe_id": ("number of the probe; its answer is a SACK with `pr`", REPORTED),
        **_PDC,
        **_STAMP,
    },
    scapy_mrc.ERTH: {
        "op": ("0: status of the sender's ports, 1: probe of an EV", REPORTED),
        "port_status_mask": ("bit n−1: NIC port n is up", REPORTED),
        **_STAMP,
    },
    scapy_mrc.EETH: {
        "op": ("operation that is answered", REPORTED),
        "entropy": ("EV that the request came by, reflected", REPORTED),
        "port_status_mask": ("bit n−1: NIC port n of the responder is up", REPORTED),
        **_STAMP,
        "service_time": ("nanoseconds that the responder held the request", REPORTED),
    },
    scapy_mrc.AETH: {
        "syndrome": ("0x1F: an acknowledgement without credits", REPORTED),
        "msn": ("messages completed", ROCE),
    },
}  # fmt: skip


def headers() -> list[type[Packet]]:
    """Every header that the packet classes know, in their order."""
    found = [each for each in vars(scapy_mrc).values() if isinstance(each, type) and issubclass(each, Packet)]
    return [each for each in found if each.__module__ == scapy_mrc.__name__]


def fields(header: type[Packet]) -> Iterator[tuple[str, int, int, str, str]]:
    """Name, first bit, bits, meaning and standing of every field; one that is an alternative begins where it does.

    KeyError names a field of which nothing is said here.
    """
    at, alternative = 0, 0
    for field in header.fields_desc:
        inner = getattr(field, "fld", field)  # a ConditionalField holds another
        bits = round(8 * inner.sz)
        if inner.name == "probe_id" and header is scapy_mrc.SETH:
            at -= alternative  # stands where ack_psn_offset does
        reserved = ("reserved", OPEN) if inner.name.startswith("reserved") else None
        meaning, standing = reserved or _MEANT[header][inner.name]
        yield inner.name, at, bits, meaning, standing
        at, alternative = at + bits, bits


def _rows() -> Iterator[str]:
    opcodes = {op: scapy_mrc._BODIES.get(op, scapy_mrc.METH) for op in MrcOpcode}  # noqa: SLF001 - one subject
    for header in headers():
        doc = (header.__doc__ or "").split("\n", maxsplit=1)[0]
        yield from ("", f"## {header.__name__}", "", doc)
        used = [f"`{op.name}` 0x{op:02X}" for op, first in opcodes.items() if first is header]
        if used and header is not scapy_mrc.MrcBTH:
            yield from ("", f"Behind the BTH of {', '.join(used)}.")
        yield from ("", "| Byte | Bit | Bits | Field | Meaning | Record |", "|---|---|---|---|---|---|")
        for name, at, bits, meaning, standing in fields(header):
            byte = "end" if name == "icrc" else at // 8
            yield f"| {byte} | {7 - at % 8} | {bits} | `{name}` | {meaning} | {standing} |"


def _landing(make: Callable[[int], int], width: int, base: int) -> list[int]:
    """Return where each bit of a field lands in the result of `make`; `base`: its result without the field."""
    return [(make(1 << bit) ^ base).bit_length() - 1 for bit in range(width)]


def _split(title: str, size: int, parts: dict[str, list[int]]) -> Iterator[str]:
    names = {place: f"{name} bit {bit}" for name, places in parts.items() for bit, place in enumerate(places)}
    yield from ("", f"## {title}", "", "| Bits | Holds |", "|---|---|")
    place = size - 1
    while place >= 0:
        name = names.get(place, "0")
        low = place
        while low > 0 and _follows(name, names.get(low - 1, "0"), place - low + 1):
            low -= 1
        first, last = name, names.get(low, "0")
        field, _, bit = first.partition(" bit ")
        held = "0" if first == "0" else f"{field}, bits {bit}–{last.rpartition(' ')[2]}"
        yield f"| {place}–{low} | {held} |"
        place = low - 1


def _follows(name: str, other: str, distance: int) -> bool:
    if name == "0" or other == "0":
        return name == other
    field, _, bit = name.partition(" bit ")
    return other == f"{field} bit {int(bit) - distance}"


def build() -> str:
    """The page."""
    ten, t1 = srv6.MAX_INDEX.bit_length(), srv6.UsidType.T1
    ev = {
        "plane": _landing(lambda plane: srv6.ev(plane, 0, 0), 4, 0),
        "uplink": _landing(lambda uplink: srv6.ev(1, uplink, 0), ten, srv6.ev(1, 0, 0)),
        "tag": _landing(lambda tag: srv6.ev(1, 0, tag), 16, srv6.ev(1, 0, 0)),
    }
    usid = {
        "plane": _landing(lambda plane: srv6.usid(t1, plane, 0), 4, srv6.usid(t1, 0, 0)),
        "index": _landing(lambda index: srv6.usid(t1, 0, index), ten, srv6.usid(t1, 0, 0)),
        "type": [12, 13],
    }
    lines = [
        "# Wire format",
        "",
        "Made from the packet classes by `python -m mrclab.hosts.wiredoc`. [How the parts play together, and how far",
        "each source is to be trusted](mrc-protocol.md) is told elsewhere. All fields are big-endian; bit 7",
        "is a byte's first.",
        "A frame is `Ethernet 14 | outer IPv6 40 | inner IPv6 40 | UDP 8 | BTH 12 | …`, its payload and a 4-byte ICRC:",
        "in a write `METH | [TSETH] | RETH | [immediate]` follow the BTH, in every other packet one header.",
        "",
        "| Record | |",
        "|---|---|",
        *(f"| {name} | {text} |" for name, text in _LEGEND.items()),
        *_rows(),
        *_split("Entropy value (EV)", 32, ev),
        "",
        "An EV travels in the outer header's flow label (its upper half) and the UDP source port (its lower half).",
        "That it names the path is the paper's; how its bits split is this project's choice.",
        "Uplink 0: no T1 is crossed.",
        *_split("uSID", 16, usid),
        "",
        "NEXT-C-SID, format F3216 (RFC 9800): locator `fcbb:bb00::/32` and six uSIDs in one address. Types: "
        + ", ".join(f"{kind.value} {kind.name}" for kind in srv6.UsidType)
        + ".",
        "How a uSID splits is this project's choice.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(build(), encoding="utf-8")
