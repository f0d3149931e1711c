"""SRv6 micro-SIDs, entropy values and addresses as arithmetic: no state, no fabric.

uSID carriage is RFC 9800 NEXT-C-SID, format F3216: a 32-bit locator and six 16-bit uSIDs in one IPv6 address. How a
uSID and an EV split into fields is this lab's choice; it makes "copy plane and uplink from the EV into the address"
two ORs. Addresses are 128-bit integers here; `to_bytes` and `text` convert them for sockets and for display.
"""

import functools
import struct
from enum import IntEnum
from ipaddress import IPv6Address
from typing import Final, NamedTuple

LOCATOR: Final = 0xFCBB_BB00
LOCATOR_BITS: Final = 32
USID_BITS: Final = 16
USIDS_PER_ADDRESS: Final = 6
HOST_PREFIX: Final = 0xFDCB_BB00_0000  # 48 bits; then the T0 group, then 48 zero bits, then the downlink

MAX_PLANE: Final = 0xF
MAX_INDEX: Final = 0x3FF  # the paper's planes have 512 T0s, 256 T1s, and 256 NICs on each T0
MAX_TAG: Final = 0xFFFF

TAG_FLAG: Final = 0x8000  # keeps the UDP source port of an EV out of the well-known range
MAX_TAG_INDEX: Final = 0xFF

_EVS: Final = 8192  # EVs that are remembered in both forms: all of some planes, as paths are made again and again
_TEXTS: Final = 1 << 15  # addresses whose text is remembered: those at hand are written and read again and again

_USID_AREA: Final = 128 - LOCATOR_BITS
_USID_AREA_MASK: Final = (1 << _USID_AREA) - 1
_PLANE_SHIFT_IN_USID: Final = 8
_KIND_SHIFT: Final = 12
_KIND_MASK: Final = 3
_T2_PLACE: Final = 2  # of a T2's uSID in an address
_LOW: Final = 0xFF  # bits of an index that stand together
_HIGH_SHIFT_IN_USID: Final = 6  # of the others: bits 9-8 become bits 15-14
_UPLINK_SHIFT_IN_EV: Final = 20
_HIGH_SHIFT_IN_EV: Final = 8  # of an uplink's upper bits: 9-8 become 17-16


class UsidType(IntEnum):
    """Kind of uSID. In the words of RFC 9800 the first two are the GIB of a plane, the third a T0's LIB."""

    T2 = 0  # index: T2 number in its plane; a plane is never 0 on the wire, so the uSID is not either
    T1 = 1  # index: T1 number in its plane; in two tiers the T0 uplink that leads to it
    T0 = 2  # index: T0 number in its plane
    DOWNLINK = 3  # index: downlink number; unique within one T0 only


class Usid(NamedTuple):
    """Fields of a uSID."""

    kind: UsidType
    plane: int
    number: int


class EvFields(NamedTuple):
    """Fields of an entropy value. Uplink 0 means: no T1, the destination is in the sender's T0 group.

    Towards another pod of three tiers it is the number of the T2, which says the T1s as well.
    """

    plane: int
    uplink: int
    tag: int


def usid(kind: UsidType, plane: int, index: int) -> int:
    """Pack index bits 9-8 (2) | type(2) | plane(4) | index bits 7-0 (8). Plane 0 is for templates."""
    _check("plane", plane, 0, MAX_PLANE)
    return kind << _KIND_SHIFT | plane << _PLANE_SHIFT_IN_USID | _index_bits(index)


def _index_bits(index: int) -> int:
    """An index at its two places in a uSID: up to 255 it is the low byte, and the type a hexadecimal digit."""
    _check("index", index, 0, MAX_INDEX)
    return (index & ~_LOW) << _HIGH_SHIFT_IN_USID | index & _LOW


def _kind(value: int) -> int:
    return value >> _KIND_SHIFT & _KIND_MASK


def usid_fields(value: int) -> Usid:
    """Unpack a uSID; ValueError if the type is unknown."""
    return Usid(UsidType(_kind(value)), value >> _PLANE_SHIFT_IN_USID & MAX_PLANE, _index(value))


def _index(value: int) -> int:
    return value >> _HIGH_SHIFT_IN_USID & MAX_INDEX & ~_LOW | value & _LOW


def usid_route(value: int) -> int:
    """48-bit key of the switch tables: locator and uSID."""
    return LOCATOR << USID_BITS | value


# --- entropy values -------------------------------------------------------------------------------------------------


@functools.lru_cache(_EVS)
def ev(plane: int, uplink: int, tag: int) -> int:
    """Pack plane(4) | uplink bits 7-0 (8) | 0(2) | uplink bits 9-8 (2) | tag(16)."""
    if not (1 <= plane <= MAX_PLANE and 0 <= uplink <= MAX_INDEX and 0 <= tag <= MAX_TAG):
        _check("plane", plane, 1, MAX_PLANE)
        _check("uplink", uplink, 0, MAX_INDEX)
        _check("tag", tag, 0, MAX_TAG)
    high, low = uplink & ~_LOW, uplink & _LOW
    return plane << 28 | low << _UPLINK_SHIFT_IN_EV | high << _HIGH_SHIFT_IN_EV | tag


@functools.lru_cache(_EVS)
def ev_fields(value: int) -> EvFields:
    """Unpack an EV."""
    return EvFields(ev_plane(value), ev_uplink(value), value & MAX_TAG)


def ev_plane(value: int) -> int:
    """Plane of an EV, which calls less than all of its fields."""
    return value >> 28 & MAX_PLANE


def ev_uplink(value: int) -> int:
    """Uplink of an EV."""
    return value >> _HIGH_SHIFT_IN_EV & MAX_INDEX & ~_LOW | value >> _UPLINK_SHIFT_IN_EV & _LOW


def ev_tag(index: int) -> int:
    """Tag of the EV with this index (0…255) in its QP's set."""
    _check("EV index", index, 0, MAX_TAG_INDEX)
    return TAG_FLAG | index


def ev_to_wire(value: int) -> tuple[int, int]:
    """EV → (UDP source port, flow label). Public sources disagree on the halves: this pair of functions decides."""
    return value & 0xFFFF, value >> 16


# --- destination addresses ------------------------------------------------------------------------------------------


def template_cross(source_t0: int, destination_t0: int, downlink: int, t1_base: int = 0) -> int:
    """Template `locator | T0src | T1 | T0dst | downlink`: planes and T1 index are zero until `address` fills them in.

    With both T0s the same it is the template of a self-probe through a T1. The T1s of a pod count on from `t1_base`.
    """
    return _pack(
        usid(UsidType.T0, 0, source_t0),
        usid(UsidType.T1, 0, t1_base),
        usid(UsidType.T0, 0, destination_t0),
        usid(UsidType.DOWNLINK, 0, downlink),
    )


def template_far(source_t0: int, destination_t0: int, downlink: int, bases: tuple[int, int]) -> int:
    """Template `locator | T0src | T1 | T2 | T1 | T0dst | downlink` to another pod: all six uSIDs of an address.

    The T2's is all zero until `address` fills it in; `bases` are the numbers that the T1s of both pods count on from.
    """
    return _pack(
        usid(UsidType.T0, 0, source_t0),
        usid(UsidType.T1, 0, bases[0]),
        0,
        usid(UsidType.T1, 0, bases[1]),
        usid(UsidType.T0, 0, destination_t0),
        usid(UsidType.DOWNLINK, 0, downlink),
    )


def template_local(t0: int, downlink: int) -> int:
    """Template `locator | T0 | downlink` for a destination (or the sender itself) in the sender's T0 group."""
    return _pack(usid(UsidType.T0, 0, t0), usid(UsidType.DOWNLINK, 0, downlink))


def address(template: int, entropy: int, fan: int = 0) -> int:
    """Destination address on the wire: the EV's plane in every uSID, its uplink in the T1's.

    With a `fan`, that many T2s above each T1, the uplink is a T2's number. ValueError where template and EV do not
    fit: a T1 in the template needs an uplink, and the other way round.
    """
    plane, uplink, _tag = ev_fields(entropy)
    result = template
    needs_uplink = False
    for place, shift in enumerate(_USID_SHIFTS):
        value = template >> shift & 0xFFFF
        if value or (fan and place == _T2_PLACE):
            result |= plane << shift + _PLANE_SHIFT_IN_USID
        if value and _kind(value) == UsidType.T1:
            needs_uplink = True
            index = _index(value) + ((uplink - 1) // fan + 1 if fan and uplink else uplink)
            result = result & ~(usid(UsidType.T1, 0, MAX_INDEX) << shift) | usid(UsidType.T1, plane, index) << shift
        elif fan and place == _T2_PLACE:
            result |= _index_bits(uplink) << shift
    if needs_uplink != bool(uplink):
        need = "needs an EV with an uplink" if needs_uplink else "crosses no T1 and needs an EV with uplink 0"
        raise ValueError(f"template {text(template)} {need}, not EV {entropy:#010x}")
    return result


def template_words(template: int, plane: int) -> tuple[int, ...]:
    """The six words behind the locator of a template with a plane filled in; 0 where there is no uSID."""
    words = struct.unpack("!6H", template.to_bytes(16, "big")[LOCATOR_BITS // 8 :])
    return tuple([value | plane << _PLANE_SHIFT_IN_USID if value else 0 for value in words])


def usids(addr: int) -> tuple[int, ...]:
    """The uSIDs of an address up to the first zero."""
    found = []
    for shift in _USID_SHIFTS:
        value = addr >> shift & 0xFFFF
        if not value:
            break
        found.append(value)
    return tuple(found)


def ev_of_address(addr: int, tag: int = 0) -> int:
    """The EV an unshifted address was made with, its tag apart (an address does not carry the tag)."""
    fields = [usid_fields(value) for value in usids(addr)]
    if not fields:
        raise ValueError(f"{text(addr)} carries no uSID")
    uplink = next((f.number for f in fields if f.kind == UsidType.T2), 0)
    uplink = uplink or next((f.number for f in fields if f.kind == UsidType.T1), 0)
    return ev(fields[0].plane, uplink, tag)


def t1_base(template: int) -> int:
    """Return the number that the T1s above the sender count on from, of a template that crosses one; else 0."""
    first = template >> _USIDS_SHIFT_OF_T1 & 0xFFFF
    return _index(first) if _kind(first) == UsidType.T1 else 0


def shift_usid(addr: int) -> int:
    """Return the address after a switch that it names: the next uSID moves up, zero moves in."""
    return addr >> _USID_AREA << _USID_AREA | (addr << USID_BITS & _USID_AREA_MASK)


def nic_route(plane: int, downlink: int) -> int:
    """Upper 48 bits of the outer address as a NIC port receives it, its own downlink uSID in front."""
    return usid_route(usid(UsidType.DOWNLINK, plane, downlink))


# --- host addresses -------------------------------------------------------------------------------------------------


def host_address(group: int, downlink: int) -> int:
    """Inner address of a host, fdcb:bb00:0:<group>::<downlink>. It also is the source of the outer header."""
    _check("T0 group", group, 1, MAX_INDEX)
    _check("downlink", downlink, 1, MAX_INDEX)
    return group_prefix(group) | downlink


def group_prefix(group: int) -> int:
    """Network address of the /64 that the hosts of a T0 group share."""
    return HOST_PREFIX << 80 | group << 64


def host_of_address(addr: int) -> tuple[int, int]:
    """(T0 group, downlink) of a host address; ValueError where it is not one."""
    group, downlink = addr >> 64 & 0xFFFF, addr & 0xFFFF
    if not (1 <= group <= MAX_INDEX and 1 <= downlink <= MAX_INDEX) or group_prefix(group) | downlink != addr:
        raise ValueError(f"{text(addr)} is not a host address of this fabric (fdcb:bb00:0:<group>::<downlink>)")
    return group, downlink


def to_bytes(addr: int) -> bytes:
    """Sixteen bytes as on the wire."""
    return addr.to_bytes(16, "big")


def from_bytes(raw: bytes | memoryview) -> int:
    """Inverse of `to_bytes`."""
    return int.from_bytes(raw, "big")


@functools.lru_cache(_TEXTS)
def text(addr: int) -> str:
    """RFC 5952 text of an address."""
    return str(IPv6Address(addr))


@functools.lru_cache(_TEXTS)
def from_text(addr: str) -> int:
    """Inverse of `text`; ValueError on anything that is not an IPv6 address."""
    return int(IPv6Address(addr))


_USID_SHIFTS: Final = tuple(range(_USID_AREA - USID_BITS, -1, -USID_BITS))
_USIDS_SHIFT_OF_T1: Final = _USID_SHIFTS[1]


def _pack(*values: int) -> int:
    result = LOCATOR << _USID_AREA
    for shift, value in zip(_USID_SHIFTS, values, strict=False):
        result |= value << shift
    return result


def _check(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ValueError(f"{name} {value} is outside {low}…{high}")
