"""Table of captured packets: one row for a frame at a port.

Facts: docs/mrc-protocol.md §1.5 (MRC), hosts/roce/headers.py (RoCEv2). Times are nanoseconds as the capture has them.
"""

from __future__ import annotations

import functools
import importlib.util
import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from mrclab.hosts.mrc.packets import headers as mrc
from mrclab.hosts.rdma.packets import wire
from mrclab.hosts.rdma.packets.psn import PSN_MASK
from mrclab.hosts.roce import headers as roce
from mrclab.lab.capture.pcapng import INBOUND, CapturedFrame, Interface
from mrclab.lab.errors import LabError
from mrclab.lab.scenario.sections.trace import COLUMNS
from mrclab.topo import srv6
from mrclab.topo.model import Fabric, UnknownName
from mrclab.topo.numbers import Dscp

_TRIMMED = frozenset({int(Dscp.TRIMMED), int(Dscp.TRIMMED_LASTHOP)})
_OUTER, _INNER = 14, 14 + 40
_IPV6 = struct.Struct(">IHBB16s16s")
_IPV6_IN_IPV6 = 41

Row = tuple[Any, ...]
Namer = Callable[[bytes], str]


def address_text(raw: bytes) -> str:
    """Return an IPv6 address as text."""
    return srv6.text(srv6.from_bytes(raw))


def host_names(fabric: Fabric) -> Namer:
    """Return a function that names the host of a fabric with an address, and writes other addresses as text."""

    @functools.lru_cache(len(fabric.hosts) + 64)
    def name(raw: bytes) -> str:
        text = address_text(raw)
        try:
            return fabric.host_by_address(text).name
        except UnknownName:
            return text

    return name


def row(frame: CapturedFrame, interfaces: Sequence[Interface], name: Namer = address_text) -> Row:
    """Decode one frame; one that is neither MRC nor RoCEv2 has kind `other` and only its addresses."""
    port = interfaces[frame.interface]
    direction = "in" if frame.direction == INBOUND else "out"
    head = (frame.time, port.name, port.description, direction, frame.length)
    return head + _decoded(frame.data, name)


def _decoded(data: bytes, name: Namer) -> Row:
    nothing = (None, "other", None, None, None, None, None, None, None, None, None)
    if len(data) < _INNER or data[12:14] != wire.ETHERTYPE_IPV6.to_bytes(2, "big"):
        return nothing
    word, _length, following, _hops, source, destination = _IPV6.unpack_from(data, _OUTER)
    classes = [word >> 20 & 0xFF]
    tunnelled, at = following == _IPV6_IN_IPV6, _INNER
    if tunnelled:
        if len(data) < _INNER + 40:
            return nothing
        word, _length, following, _hops, source, destination = _IPV6.unpack_from(data, _INNER)
        classes.append(word >> 20 & 0xFF)
        at = _INNER + 40
    ce = any(each & 3 == wire.ECN_CE for each in classes)
    ends = (name(source), name(destination))
    if following != wire.NEXT_UDP or len(data) < at + 8 + 12:
        return (None, "other", *ends, None, None, None, None, None, ce, None)
    sport, dport = struct.unpack_from(">HH", data, at)
    op, _pad, _key, dqpn, flags_psn = wire.BTH.unpack_from(data, at + 8)
    names: Any = mrc.MrcOpcode if tunnelled else roce.RoceOpcode
    if dport != wire.UDP_PORT or op not in set(names):
        return (None, "other", *ends, None, None, None, None, None, ce, None)
    qp, psn, kind = dqpn & PSN_MASK, flags_psn & PSN_MASK, names(op).name.lower()
    if not tunnelled:
        return ("roce", kind, *ends, qp, psn, None, None, None, ce, False)
    fields = srv6.ev_fields((word & 0xFFFF) << 16 | sport)
    trimmed = any(each >> 2 in _TRIMMED for each in classes)
    again = bool(flags_psn >> 24 & mrc.FLAG_RTX)
    return ("mrc", kind, *ends, qp, psn, again, fields.plane, fields.uplink, ce, trimmed)


def write_parquet(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as a Parquet file; LabError where pyarrow is not installed. OSError as it comes."""
    if importlib.util.find_spec("pyarrow") is None:
        raise LabError(f"{path.name} needs pyarrow; install it with pip install pyarrow, or name a .csv file")
    import pyarrow  # noqa: PLC0415 - an extra
    from pyarrow import parquet  # noqa: PLC0415

    kept = list(rows)
    columns = {name: [row[place] for row in kept] for place, name in enumerate(COLUMNS)}
    text, number, flag = pyarrow.string(), pyarrow.int64(), pyarrow.bool_()
    types = dict.fromkeys(COLUMNS, text) | dict.fromkeys(("t_ns", "length", "qp", "psn", "plane", "uplink"), number)
    types |= dict.fromkeys(("retransmission", "ce", "trimmed"), flag)
    table = pyarrow.table({each: pyarrow.array(columns[each], types[each]) for each in COLUMNS})
    with path.open("wb") as file:  # pyarrow opens no path whose name is not UTF-8
        parquet.write_table(table, file)
