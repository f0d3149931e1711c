"""EV formats: layout of an EV value of the control interface, and generation of values from random bits.

Facts: OCP headers (`mrc_ctl.h`), docs/mrc-protocol.md §1.3. A value is up to 32 bytes. STEV is flow label and UDP
source port (here 32 bits, this lab's EV); SRV6 is a destination address, and a segment of an SRH behind it; UDP is the
source port alone.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from mrclab.hosts.rdma.errors import VerbsError
from mrclab.topo import srv6

MAX_VALUE_BYTES: Final = 32
_MAX_FIELDS: Final = 16


class EvFormat(Enum):
    """Kind of a value, and its length in bytes."""

    STEV = 4
    SRV6 = 32
    UDP = 2


@dataclass(frozen=True)
class EvField:
    """One field of an expansion. Its mask bits are filled from the EV, the others come from `init_val`.

    A generator draws the mask bits, read as a number, between minimum and maximum.
    """

    width: int  # bits
    init_val: int = 0
    minimum: int = 0
    maximum: int | None = None  # None: all ones
    mask: int = 0  # a fixed part has none

    def __post_init__(self) -> None:
        top = (1 << self.width) - 1 if self.width > 0 else -1
        if self.width < 1 or self.width > 8 * MAX_VALUE_BYTES:
            raise VerbsError("EINVAL", f"field width {self.width} is outside 1…{8 * MAX_VALUE_BYTES} bits")
        for name, value in (("init_val", self.init_val), ("mask", self.mask)):
            if not 0 <= value <= top:
                raise VerbsError("EINVAL", f"field {name} {value:#x} does not fit its width of {self.width} bits")
        if self.bits and not 0 <= self.minimum <= self.top < 1 << self.bits:
            raise VerbsError(
                "EINVAL",
                f"field minimum {self.minimum:#x} and maximum {self.top:#x} bound no value of {self.bits} mask bits",
            )

    @property
    def bits(self) -> int:
        """Bits that it takes from the EV."""
        return self.mask.bit_count()

    @property
    def top(self) -> int:
        """Largest number that the mask bits can hold."""
        return (1 << self.bits) - 1 if self.maximum is None else self.maximum

    def fill(self, bits: int) -> int:
        """The field's value: `bits` put into the mask's places, the first one into the highest."""
        value = self.init_val & ~self.mask
        remaining = self.bits
        for place in range(self.width - 1, -1, -1):
            if self.mask >> place & 1:
                remaining -= 1
                value |= (bits >> remaining & 1) << place
        return value


class Expansion:
    """Fields in order: an EV's bits go into their masks, most significant first, and the fields are concatenated.

    `widths` are those of the format's places, by default the fields' own: a narrower field is right-aligned in its
    place. Bits outside the fields are zero.
    """

    def __init__(self, fmt: EvFormat, fields: Sequence[EvField], widths: Sequence[int] | None = None) -> None:
        widths = [field.width for field in fields] if widths is None else widths
        check_widths(fmt, widths)
        if not 1 <= len(fields) <= len(widths):
            raise VerbsError("EINVAL", f"an expansion has 1…{len(widths)} fields, as its format has, not {len(fields)}")
        if sum(field.width for field in fields) > sum(widths):
            raise VerbsError("EINVAL", f"the fields are wider in all than their format's {sum(widths)} bits")
        self.fields, self.widths, self.format = tuple(fields), tuple(widths), fmt
        self.bits = sum(field.bits for field in fields)

    def expand(self, ev: int) -> bytes:
        """The value of an EV of `bits` bits."""
        left, shift, value = self.bits, 8 * self.format.value, 0
        for width, field in zip(self.widths, self.fields, strict=False):
            left -= field.bits
            shift -= width
            part = field.fill(ev >> left & (1 << field.bits) - 1)
            value |= (part & (1 << width) - 1) << shift
        return value.to_bytes(self.format.value, "big")

    def draw(self, rng: random.Random) -> int:
        """Draw an EV as a generator does: each field's mask bits between their minimum and maximum."""
        value = 0
        for field in self.fields:
            value = value << field.bits | rng.randint(field.minimum, field.top) if field.bits else value
        return value


def check_widths(fmt: EvFormat, widths: Sequence[int]) -> None:
    """EINVAL for a place without bits; E2BIG for too many places, or for more than the value can hold."""
    if len(widths) > _MAX_FIELDS:
        raise VerbsError("E2BIG", f"{len(widths)} fields; a format has at most {_MAX_FIELDS}")
    if not widths or min(widths) < 1:
        raise VerbsError("EINVAL", "each field of a format needs a width of 1 bit at least")
    if sum(widths) > 8 * fmt.value:
        raise VerbsError(
            "E2BIG", f"the fields add up to {sum(widths)} bits, but a {fmt.name} value has {8 * fmt.value}"
        )


# --- between values and this fabric's paths -------------------------------------------------------


def value_of(fmt: EvFormat, entropy: int, address: int) -> bytes:
    """Return the value of one of this fabric's EVs: 32 bits, and its address towards the destination."""
    if fmt is EvFormat.STEV:
        return entropy.to_bytes(4, "big")
    if fmt is EvFormat.UDP:
        return (entropy & 0xFFFF).to_bytes(2, "big")
    return srv6.to_bytes(address) + bytes(16)


def uplink_of(fmt: EvFormat, value: bytes, plane: int, uplinks: tuple[int, ...], hashed: bool = False) -> int:
    """Return the T0 uplink of a value on a port of `plane`; EINVAL for a value that does not belong to it.

    A UDP value names no path: as with a hash, its lowest bits select an uplink. With `hashed` so do those of each STEV
    value that is not an EV of this fabric.
    """
    if fmt is EvFormat.UDP:
        return uplinks[int.from_bytes(value, "big") % len(uplinks)]
    if fmt is EvFormat.STEV and hashed:
        named = srv6.ev_fields(int.from_bytes(value, "big"))
        if named.plane != plane or named.uplink not in uplinks:
            return uplinks[zlib.crc32(value) % len(uplinks)]
    if fmt is EvFormat.STEV:
        found = srv6.ev_fields(int.from_bytes(value, "big"))
    else:
        try:
            found = srv6.ev_fields(srv6.ev_of_address(srv6.from_bytes(value[:16])))
        except ValueError as error:
            raise VerbsError(
                "EINVAL", f"EV value {value.hex()} is not an SRv6 address of this fabric: {error}"
            ) from None
    if found.plane != plane or found.uplink not in uplinks:
        raise VerbsError(
            "EINVAL",
            f"EV value {value.hex()} means uplink {found.uplink} of plane {found.plane}; the port is in plane {plane} "
            f"with uplinks {', '.join(map(str, uplinks))}",
        )
    return found.uplink
