"""Wire format of MRC, one table: of it are made scapy's layers (`hosts/scapy_mrc.py`), docs/wire.md, and the names of
values in Wireshark's dissector.

The data path packs and unpacks by structs of its own (`hosts/mrc/packets/headers.py`), which tests hold against scapy's
layers. Facts: docs/mrc-protocol.md §1.5.
"""

from collections.abc import Mapping
from functools import partial
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


_roce, _reported = partial(WireField, standing=ROCE), partial(WireField, standing=REPORTED)
_OPERATIONS: Final = {0: "PORT_STATUS_UPDATE", 1: "EV_PROBE"}
_STAMP: Final = (
    _reported("tx_timestamp", 16, "when the packet left, in the unit that `tsr` says, modulo 2¹⁶"),
    _reported("tsr", 1, "unit of the timestamp: 0: 128 ns, 1: 1 µs; the lab sends 1", default=1),
)
_FTYPE: Final = _reported("ftype", 4, "type of the field, 1; not looked at", default=1)
_PDC: Final = (
    WireField("spdcid", 16, "source PDC, of UET; MRC has none"),
    WireField("dpdcid", 16, "destination PDC, of UET; MRC has none"),
)

FIELDS: Final[Mapping[str, tuple[WireField, ...]]] = {
    "MrcBTH": (
        _reported(
            "opcode",
            8,
            "what the packet is, and which header follows",
            default=MrcOpcode.WRITE_ONLY,
            values={int(op): op.name for op in MrcOpcode},
        ),
        _roce("solicited", 1, "solicited event"),
        WireField("migreq", 1, "path migration; MRC has none", default=1),
        _roce("padcount", 2, "bytes of padding before the ICRC"),
        _roce("version", 4, "transport header version, 0"),
        _roce("pkey", 16, "partition, 0xFFFF", default=0xFFFF, hexadecimal=True),
        WireField("reserved", 8, hexadecimal=True),
        _reported("dqpn", 24, "destination QP; 2 in endpoint requests and responses", hexadecimal=True),
        _roce("ackreq", 1, "an acknowledgement is requested"),
        WireField("r", 1, "reserved"),
        _reported("rtx", 1, "the packet is a retransmission"),
        _reported("ts", 1, "a TSETH follows METH"),
        WireField("inv_res", 4, "reserved"),
        _reported(
            "psn",
            24,
            "packet sequence number; of endpoint packets, its low 16 bits are the request id",
            hexadecimal=True,
        ),
        _roce("icrc", 32, "invariant CRC, at the end of the packet"),
    ),
    "METH": (
        _reported("rqmsn", 16, "number of the message among those with immediate"),
        _reported("msn", 16, "number of the message, the same in all its packets"),
    ),
    "TSETH": (*_STAMP, WireField("reserved", 11), _FTYPE),
    "RETH": (
        _reported(
            "va", 64, "virtual address of this packet's payload: it advances by one MTU per packet", hexadecimal=True
        ),
        _roce("rkey", 32, "key of the memory region", hexadecimal=True),
        _reported("length", 32, "bytes of the whole message"),
        _roce("immediate", 32, "immediate data, where the opcode has it", hexadecimal=True, when="immediate"),
    ),
    "SETH": (
        _reported("type", 4, "type of the header, 1", default=1),
        WireField("next_header", 5, "next header"),
        _reported(
            "m",
            2,
            "what the requestor shall do with the EV: 0 nothing, 1 skip it once, 2 skip it always",
            values={int(mark): mark.name for mark in Mark},
        ),
        WireField("reserved1", 3),
        _reported("pr", 1, "this answers a probe"),
        WireField("reserved2", 1),
        _reported(
            "ack_psn_offset",
            16,
            "PSN of the packet that triggered this, less `cack_psn`; signed; without `pr`",
            signed=True,
            when="not pr",
        ),
        _reported("probe_id", 16, "number of the probe that this answers; with `pr`", when="pr"),
        _reported("entropy", 32, "EV of the packet that triggered this, reflected", hexadecimal=True),
        *_PDC,
        WireField("reserved3", 8, hexadecimal=True),
        _reported("cack_psn", 24, "all packets up to this PSN have arrived", hexadecimal=True),
        _reported("cc_type", 4, "kind of congestion state; 0 is NSCC's"),
        WireField("cc_fl", 4, "flags of the congestion state"),
        _reported("mpr", 8, "PSNs that may be outstanding, in units of 128; 0: not dynamic"),
        _reported("sack_offset", 16, "PSN of the bitmap's first bit, less `cack_psn`; signed", default=1, signed=True),
        _reported("bitmap", 64, "packets that arrived, the least significant bit first", hexadecimal=True),
        _reported("tx_timestamp", 16, "CC_STATE: timestamp of the packet that triggered this, reflected"),
        WireField("reserved4", 1),
        _reported("ooo_count", 15, "CC_STATE: packets that arrived out of order"),
        _reported("restore_cwnd", 1, "CC_STATE: the window may be restored"),
        _reported("rcv_cwnd_pen", 7, "CC_STATE: window reduction that the receiver requests"),
        _reported("rcvd_bytes", 24, "CC_STATE: bytes received, in units of 256, rounded up"),
    ),
    "NETH": (
        WireField("type", 8, "type of the header"),
        WireField("reserved1", 8),
        _reported(
            "reason",
            8,
            "why the packet was refused",
            default=Reason.TRIMMED,
            values={int(reason): reason.name for reason in Reason},
        ),
        _reported("vendor", 8, "vendor's code"),
        _reported("entropy", 32, "EV of the packet refused, reflected", hexadecimal=True),
        *_PDC,
        WireField("reserved2", 8, hexadecimal=True),
        _reported("nack_psn", 24, "PSN of the packet refused", hexadecimal=True),
        _reported("cc_type", 4, "kind of congestion state; 0 is NSCC's"),
        WireField("reserved3", 12),
        _reported("tx_timestamp", 16, "timestamp of the packet refused, reflected"),
    ),
    "PETH": (
        WireField("reserved1", 24, hexadecimal=True),
        _reported("vendor", 8, "vendor's code"),
        _reported("probe_id", 16, "number of the probe; its answer is a SACK with `pr`"),
        WireField("reserved2", 16),
        *_PDC,
        *_STAMP,
        WireField("reserved3", 11),
        _FTYPE,
    ),
    "ERTH": (
        _reported("op", 8, "0: status of the sender's ports, 1: probe of an EV", values=_OPERATIONS),
        WireField("reserved1", 24, hexadecimal=True),
        _reported("port_status_mask", 32, "bit n−1: NIC port n is up", hexadecimal=True),
        WireField("reserved2", 32, hexadecimal=True),
        *_STAMP,
        WireField("reserved3", 11),
        _FTYPE,
    ),
    "EETH": (
        _reported("op", 8, "operation that is answered", values=_OPERATIONS),
        WireField("reserved1", 24, hexadecimal=True),
        _reported("entropy", 32, "EV that the request came by, reflected", hexadecimal=True),
        _reported("port_status_mask", 32, "bit n−1: NIC port n of the responder is up", hexadecimal=True),
        WireField("reserved2", 64),
        WireField("reserved3", 64),
        *_STAMP,
        WireField("reserved4", 11),
        _FTYPE,
        _reported("service_time", 32, "nanoseconds that the responder held the request"),
    ),
    "AETH": (
        _reported("syndrome", 8, "0x1F: an acknowledgement without credits", default=0x1F),
        _roce("msn", 24, "messages completed"),
    ),
}
"""Fields of each header, in their order on the wire; the ICRC of the BTH is at the end of the packet."""
