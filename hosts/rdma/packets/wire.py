"""Headers of both transports: IPv6, UDP, InfiniBand's headers behind them, and code points.

Facts: InfiniBand architecture (RC transport, annex A17). All fields are big-endian. A packet is IPv6, UDP, BTH, what
its opcode says, and the ICRC; each transport defines the headers before and between.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final

ETHERTYPE_IPV6: Final = 0x86DD
NEXT_UDP: Final = 17
HOP_LIMIT: Final = 64
UDP_PORT: Final = 4791
P_KEY: Final = 0xFFFF
ICRC_LEN: Final = 4

ECN_ECT: Final = 0b10
ECN_CE: Final = 0b11
FLAG_ACK_REQUEST: Final = 0x80  # of BTH byte 8
PAD_SHIFT: Final = 4  # of BTH byte 1
MIGRATED: Final = 0x40  # of BTH byte 1, as RC sends it; transport version 0

IPV6: Final = Struct(">IHBB16s16s")  # class and flow label word, payload length, next header, hop limit, addresses
UDP: Final = Struct(">HHHH")
BTH: Final = Struct(">BBHII")  # opcode, pad byte, P_Key, reserved byte and destination QP, flags and PSN
RETH: Final = Struct(">QII")  # virtual address, key, length of the message
IMMEDIATE: Final = Struct(">I")
AETH: Final = Struct(">I")  # syndrome, 24 bits of MSN


class Syndrome(IntEnum):
    """AETH syndromes. An ACK's low five bits are 0x1f: no end-to-end credits. MRC has no use for the first two NAKs."""

    ACK = 0x1F
    RNR_NAK = 0x20  # with the timer code in the low five bits
    NAK_SEQUENCE = 0x60
    NAK_INVALID_REQUEST = 0x61
    NAK_REMOTE_ACCESS = 0x62
    NAK_REMOTE_OPERATION = 0x63


_NEXT_HEADER_AT: Final = 20  # in an Ethernet frame


def fault_of_short(view: memoryview, next_header: int) -> str:
    """Counter for a frame too short for our headers: `foreign` if its IPv6 carries another thing, as a router's MLD."""
    if len(view) > _NEXT_HEADER_AT and view[_NEXT_HEADER_AT] != next_header:
        return "foreign"
    return "malformed"


_REFUSALS: Final[dict[int, tuple[str, str]]] = {
    Syndrome.NAK_INVALID_REQUEST: ("REM_INV_REQ_ERR", "the peer found the request invalid"),
    Syndrome.NAK_REMOTE_ACCESS: ("REM_ACCESS_ERR", "the peer refused access to its memory"),
    Syndrome.NAK_REMOTE_OPERATION: ("REM_OP_ERR", "the peer's QP is in error"),
}


def refusal(syndrome: int) -> tuple[str, str]:
    """Completion status and reason of a NAK."""
    other = ("REM_INV_REQ_ERR", f"the peer refused a request (syndrome {syndrome:#04x})")
    return _REFUSALS.get(syndrome, other)


def write_opcodes(first: int) -> dict[tuple[bool, bool, bool], int]:
    """Opcode of a write's packet by (first of its message, last, with immediate).

    Both transports number them in one order: `first` that of WRITE FIRST, then middle, last, last with immediate, only,
    only with immediate.
    """
    middle, last, last_imm, only, only_imm = range(first + 1, first + 6)
    return {
        (True, False, False): first,
        (True, False, True): first,
        (False, False, False): middle,
        (False, False, True): middle,
        (False, True, False): last,
        (False, True, True): last_imm,
        (True, True, False): only,
        (True, True, True): only_imm,
    }
