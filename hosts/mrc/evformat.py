"""EV formats: how an EV value of the control interface is laid out, and how a generator makes values from bits.

Facts: OCP headers (`mrc_ctl.h`), docs/mrc-protocol.md §1.3. A value is up to 32 bytes. STEV is flow label and UDP
source port (here 32 bits, this lab's EV); SRV6 is a destination address, and a segment of an SRH behind it; UDP is the
source port alone.
"""

from __future__ import annotations

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


GENERATOR_BITS: Final = {EvFormat.STEV: 32, EvFormat.SRV6: 128, EvFormat.UDP: 16}  # most that a generator may fill


@dataclass(frozen=True)
class EvField:
    """One field of an expansion. Its mask bits are filled from the EV, the others come from `init_val`."""

    width: int  # bits
    init_val: int = 0
    minimum: int = 0
    maximum: int | None = None  # None: all ones
    mask: int = 0  # a fixed part has none

    def __post_init__(self) -> None:
        top = (1 << self.width) - 1 if self.width > 0 else -1
        if self.width < 1 or self.width > 8 * MAX_VALUE_BYTES:
            raise VerbsError("EINVAL", f"field width {self.width} is outside 1…{8 * MAX_VALUE_BYTES} bits")
        for name, value in (("init_val", self.init_val), ("minimum", self.minimum), ("mask", self.mask)):
            if not 0 <= value <= top:
                raise VerbsError("EINVAL", f"field {name} {value:#x} does not fit its width of {self.width} bits")
        if self.maximum is not None and not self.minimum <= self.maximum <= top:
            raise VerbsError("EINVAL", f"field maximum {self.maximum:#x} is not between the minimum and all ones")

    @property
    def bits(self) -> int:
        """Bits that it takes from the EV."""
        return self.mask.bit_count()

    def fill(self, bits: int) -> int:
        """The field's value: `bits` put into the mask's places, the first one into the highest."""
        value = self.init_val & ~self.mask
        remaining = self.bits
        for place in range(self.width - 1, -1, -1):
            if self.mask >> place & 1:
                remaining -= 1
                value |= (bits >> remaining & 1) << place
        return value

    def allows(self, value: int) -> bool:
        """Whether a value is between minimum and maximum."""
        return self.minimum <= value and (self.maximum is None or value <= self.maximum)


class Expansion:
    """Fields in order: an EV's bits go into their masks, most significant first, and the fields are concatenated."""

    def __init__(self, fmt: EvFormat, fields: tuple[EvField, ...]) -> None:
        if not 1 <= len(fields) <= _MAX_FIELDS:
            raise VerbsError("EINVAL", f"an expansion has 1…{_MAX_FIELDS} fields, not {len(fields)}")
        width = sum(field.width for field in fields)
        if width != 8 * fmt.value:
            raise VerbsError("EINVAL", f"the fields add up to {width} bits, but a {fmt.name} value has {8 * fmt.value}")
        self.fields = fields
        self.format = fmt
        self.bits = sum(field.bits for field in fields)
        if self.bits > GENERATOR_BITS[fmt]:
            raise VerbsError(
                "EINVAL", f"a {fmt.name} generator fills at most {GENERATOR_BITS[fmt]} bits, not {self.bits}"
            )

    def expand(self, ev: int) -> bytes | None:
        """The value of an EV of `bits` bits; None where a field would leave its limits."""
        value = 0
        remaining = self.bits
        for field in self.fields:
            remaining -= field.bits
            part = field.fill(ev >> remaining & (1 << field.bits) - 1)
            if not field.allows(part):
                return None
            value = value << field.width | part
        return value.to_bytes(self.format.value, "big")


# --- between values and this fabric's paths -------------------------------------------------------


def value_of(fmt: EvFormat, entropy: int, address: int) -> bytes:
    """The value of one of this fabric's EVs: 32 bits, and the address that it makes towards its destination."""
    if fmt is EvFormat.STEV:
        return entropy.to_bytes(4, "big")
    if fmt is EvFormat.UDP:
        return (entropy & 0xFFFF).to_bytes(2, "big")
    return srv6.to_bytes(address) + bytes(16)


def uplink_of(fmt: EvFormat, value: bytes, plane: int, uplinks: tuple[int, ...]) -> int:
    """The T0 uplink that a value stands for on a port of `plane`; EINVAL for one that does not belong to it.

    A UDP value names no path: as a hash would, its lowest bits pick one of the uplinks.
    """
    if fmt is EvFormat.UDP:
        return uplinks[int.from_bytes(value, "big") % len(uplinks)]
    if fmt is EvFormat.STEV:
        found = srv6.ev_fields(int.from_bytes(value, "big"))
    else:
        try:
            found = srv6.ev_fields(srv6.ev_of_address(srv6.from_bytes(value[:16])))
        except ValueError as error:
            raise VerbsError("EINVAL", f"EV value {value.hex()} is no SRv6 address of this fabric: {error}") from None
    if found.plane != plane or found.uplink not in uplinks:
        raise VerbsError(
            "EINVAL",
            f"EV value {value.hex()} means uplink {found.uplink} of plane {found.plane}; the port is in plane {plane} "
            f"with uplinks {', '.join(map(str, uplinks))}",
        )
    return found.uplink
