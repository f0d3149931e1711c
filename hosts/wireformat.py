"""Wire format of MRC, one table: of it are made scapy's layers (`hosts/scapy_mrc.py`), docs/wire.md, and the names of
values in Wireshark's dissector.

The data path packs and unpacks by structs of its own (`hosts/mrc/packets/headers.py`), which tests hold against scapy's
layers. Facts: docs/mrc-protocol.md §1.5.
"""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from mrclab.hosts.mrc.packets.headers import Mark, MrcOpcode, Reason

REPORTED, OPEN, OWN, ROCE = "reported", "open", "ours", "RoCEv2"
STANDINGS: Final = {
    ROCE: "as in RoCEv2 (InfiniBand architecture, annex A17)",
    REPORTED: "of the OCP MRC 1.0 specification as two or more independent implementations report it",
    OPEN: "the reports leave it open: 0 on sending, not looked at on receipt",
    OWN: "this project's choice",
}
"""Standing of a field to the public record."""


class WireField(NamedTuple):
    """Field of a header: name, width in bits, meaning, and its standing to the public record.

    `default` is sent unless set. A field with `when` is there under that condition only; of two with
    opposite conditions the second takes the place of the first.
    """

    name: str
    bits: int
    meaning: str = "reserved"
    standing: str = OPEN
    default: int = 0
    hexadecimal: bool = False  # in text
    signed: bool = False
    values: Mapping[int, str] | None = None  # names of values
    when: Literal["", "immediate", "pr", "not pr"] = ""


_OPERATIONS: Final = {0: "PORT_STATUS_UPDATE", 1: "EV_PROBE"}
_STAMP: Final = (
    WireField("tx_timestamp", 16, "when the packet left, in the unit that `tsr` says, modulo 2¹⁶", REPORTED),
    WireField("tsr", 1, "unit of the timestamp: 0: 128 ns, 1: 1 µs; the lab sends 1", REPORTED, default=1),
)
_FTYPE: Final = WireField("ftype", 4, "type of the field, 1; not looked at", REPORTED, default=1)
_PDC: Final = (
    WireField("spdcid", 16, "source PDC, of UET; MRC has none", OPEN),
    WireField("dpdcid", 16, "destination PDC, of UET; MRC has none", OPEN),
)

FIELDS: Final[Mapping[str, tuple[WireField, ...]]] = {
    "MrcBTH": (
        WireField(
            "opcode",
            8,
            "what the packet is, and which header follows",
            REPORTED,
            default=MrcOpcode.WRITE_ONLY,
            values={int(op): op.name for op in MrcOpcode},
        ),
        WireField("solicited", 1, "solicited event", ROCE),
        WireField("migreq", 1, "path migration; MRC has none", OPEN, default=1),
        WireField("padcount", 2, "bytes of padding before the ICRC", ROCE),
        WireField("version", 4, "transport header version, 0", ROCE),
        WireField("pkey", 16, "partition, 0xFFFF", ROCE, default=0xFFFF, hexadecimal=True),
        WireField("reserved", 8, hexadecimal=True),
        WireField("dqpn", 24, "destination QP; 2 in endpoint requests and responses", REPORTED, hexadecimal=True),
        WireField("ackreq", 1, "an acknowledgement is requested", ROCE),
        WireField("r", 1, "reserved", OPEN),
        WireField("rtx", 1, "the packet is a retransmission", REPORTED),
        WireField("ts", 1, "a TSETH follows METH", REPORTED),
        WireField("inv_res", 4, "reserved", OPEN),
        WireField(
            "psn",
            24,
            "packet sequence number; of endpoint packets, its low 16 bits are the request id",
            REPORTED,
            hexadecimal=True,
        ),
        WireField("icrc", 32, "invariant CRC, at the end of the packet", ROCE),
    ),
    "METH": (
        WireField("rqmsn", 16, "number of the message among those with immediate", REPORTED),
        WireField("msn", 16, "number of the message, the same in all its packets", REPORTED),
    ),
    "TSETH": (
        *_STAMP,
        WireField("reserved", 11),
        _FTYPE,
    ),
    "RETH": (
        WireField(
            "va",
            64,
            "virtual address of this packet's payload: it advances by one MTU per packet",
            REPORTED,
            hexadecimal=True,
        ),
        WireField("rkey", 32, "key of the memory region", ROCE, hexadecimal=True),
        WireField("length", 32, "bytes of the whole message", REPORTED),
        WireField("immediate", 32, "immediate data, where the opcode has it", ROCE, hexadecimal=True, when="immediate"),
    ),
    "SETH": (
        WireField("type", 4, "type of the header, 1", REPORTED, default=1),
        WireField("next_header", 5, "next header", OPEN),
        WireField(
            "m",
            2,
            "what the requestor shall do with the EV: 0 nothing, 1 skip it once, 2 skip it always",
            REPORTED,
            values={int(mark): mark.name for mark in Mark},
        ),
        WireField("reserved1", 3),
        WireField("pr", 1, "this answers a probe", REPORTED),
        WireField("reserved2", 1),
        WireField(
            "ack_psn_offset",
            16,
            "PSN of the packet that triggered this, less `cack_psn`; signed; without `pr`",
            REPORTED,
            signed=True,
            when="not pr",
        ),
        WireField("probe_id", 16, "number of the probe that this answers; with `pr`", REPORTED, when="pr"),
        WireField("entropy", 32, "EV of the packet that triggered this, reflected", REPORTED, hexadecimal=True),
        *_PDC,
        WireField("reserved3", 8, hexadecimal=True),
        WireField("cack_psn", 24, "all packets up to this PSN have arrived", REPORTED, hexadecimal=True),
        WireField("cc_type", 4, "kind of congestion state; 0 is NSCC's", REPORTED),
        WireField("cc_fl", 4, "flags of the congestion state", OPEN),
        WireField("mpr", 8, "PSNs that may be outstanding, in units of 128; 0: not dynamic", REPORTED),
        WireField(
            "sack_offset",
            16,
            "PSN of the bitmap's first bit, less `cack_psn`; signed",
            REPORTED,
            default=1,
            signed=True,
        ),
        WireField("bitmap", 64, "packets that arrived, the least significant bit first", REPORTED, hexadecimal=True),
        WireField("tx_timestamp", 16, "CC_STATE: timestamp of the packet that triggered this, reflected", REPORTED),
        WireField("reserved4", 1),
        WireField("ooo_count", 15, "CC_STATE: packets that arrived out of order", REPORTED),
        WireField("restore_cwnd", 1, "CC_STATE: the window may be restored", REPORTED),
        WireField("rcv_cwnd_pen", 7, "CC_STATE: window reduction that the receiver requests", REPORTED),
        WireField("rcvd_bytes", 24, "CC_STATE: bytes received, in units of 256, rounded up", REPORTED),
    ),
    "NETH": (
        WireField("type", 8, "type of the header", OPEN),
        WireField("reserved1", 8),
        WireField(
            "reason",
            8,
            "why the packet was refused",
            REPORTED,
            default=Reason.TRIMMED,
            values={int(reason): reason.name for reason in Reason},
        ),
        WireField("vendor", 8, "vendor's code", REPORTED),
        WireField("entropy", 32, "EV of the packet refused, reflected", REPORTED, hexadecimal=True),
        *_PDC,
        WireField("reserved2", 8, hexadecimal=True),
        WireField("nack_psn", 24, "PSN of the packet refused", REPORTED, hexadecimal=True),
        WireField("cc_type", 4, "kind of congestion state; 0 is NSCC's", REPORTED),
        WireField("reserved3", 12),
        WireField("tx_timestamp", 16, "timestamp of the packet refused, reflected", REPORTED),
    ),
    "PETH": (
        WireField("reserved1", 24, hexadecimal=True),
        WireField("vendor", 8, "vendor's code", REPORTED),
        WireField("probe_id", 16, "number of the probe; its answer is a SACK with `pr`", REPORTED),
        WireField("reserved2", 16),
        *_PDC,
        *_STAMP,
        WireField("reserved3", 11),
        _FTYPE,
    ),
    "ERTH": (
        WireField("op", 8, "0: status of the sender's ports, 1: probe of an EV", REPORTED, values=_OPERATIONS),
        WireField("reserved1", 24, hexadecimal=True),
        WireField("port_status_mask", 32, "bit n−1: NIC port n is up", REPORTED, hexadecimal=True),
        WireField("reserved2", 32, hexadecimal=True),
        *_STAMP,
        WireField("reserved3", 11),
        _FTYPE,
    ),
    "EETH": (
        WireField("op", 8, "operation that is answered", REPORTED, values=_OPERATIONS),
        WireField("reserved1", 24, hexadecimal=True),
        WireField("entropy", 32, "EV that the request came by, reflected", REPORTED, hexadecimal=True),
        WireField("port_status_mask", 32, "bit n−1: NIC port n of the responder is up", REPORTED, hexadecimal=True),
        WireField("reserved2", 64),
        WireField("reserved3", 64),
        *_STAMP,
        WireField("reserved4", 11),
        _FTYPE,
        WireField("service_time", 32, "nanoseconds that the responder held the request", REPORTED),
    ),
    "AETH": (
        WireField("syndrome", 8, "0x1F: an acknowledgement without credits", REPORTED, default=0x1F),
        WireField("msn", 24, "messages completed", ROCE),
    ),
}
"""Fields of each header, in their order on the wire; the ICRC of the BTH is at the end of the packet."""
