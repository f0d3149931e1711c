"""Checks that several kinds of entity share."""

from __future__ import annotations

from typing import TypeVar

from finsy.proto import p4r
from google.protobuf.message import Message

from mrclab.softswitch.objects.runtime_api import CounterValue, MeterConfig
from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError, invalid
from mrclab.softswitch.p4runtime.p4info import P4InfoArray

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE

M = TypeVar("M", bound=Message)

MAX_BURST = (1 << 32) - 1
ALL_GREEN = -1  # PI's word for "no limit" in each field of a meter configuration


def own_copy(message: M) -> M:
    """Return a copy to keep: a message that is part of another one keeps the whole request in memory."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def check_update_type(update_type: int) -> None:
    """Refuse an update without a type, or of a type that P4Runtime does not have."""
    if update_type == p4r.Update.UNSPECIFIED:
        raise invalid("Update type is not set")
    if update_type not in {INSERT, MODIFY, DELETE}:
        raise invalid("Invalid update type")


def check_default_key(entry: p4r.TableEntry) -> None:
    """Refuse a default entry with a key or a priority."""
    if entry.match:
        raise invalid("Non-empty key for default entry")
    if entry.priority:
        raise invalid("Non-zero priority for default entry")


def meter_from_proto(config: p4r.MeterConfig) -> MeterConfig | None:
    """Return the data plane's configuration; None means always green, written as -1 in every field."""
    fields = (("CIR", config.cir), ("CBurst", config.cburst), ("PIR", config.pir), ("PBurst", config.pburst))
    for name, value in fields:
        if value < ALL_GREEN:
            raise invalid(f"Negative meter {name}")
    for name, value in (("CBurst", config.cburst), ("Pburst", config.pburst)):
        if value > MAX_BURST:
            raise P4RuntimeError(Code.UNIMPLEMENTED, f"{name} too large")
    if all(value == ALL_GREEN for _, value in fields):
        return None
    return MeterConfig(
        cir=config.cir % (1 << 64), cburst=config.cburst % (1 << 32),
        pir=config.pir % (1 << 64), pburst=config.pburst % (1 << 32),
    )  # fmt: skip


def meter_to_proto(config: MeterConfig) -> p4r.MeterConfig:
    """Return the message for `config`; the largest number of a field reads -1 again."""
    return p4r.MeterConfig(
        cir=_signed(config.cir), cburst=ALL_GREEN if config.cburst == MAX_BURST else config.cburst,
        pir=_signed(config.pir), pburst=ALL_GREEN if config.pburst == MAX_BURST else config.pburst,
    )  # fmt: skip


def _signed(value: int) -> int:
    """Read 64 bits as two's complement."""
    return value - (1 << 64) if value >> 63 else value


def merged(info: P4InfoArray, data: p4r.CounterData, current: CounterValue) -> CounterValue:
    """Return `data`, with the value that the counter's unit lacks from `current`."""
    return CounterValue(
        data.packet_count if info.packets else current.packets, data.byte_count if info.bytes else current.bytes
    )


def counter_to_proto(value: CounterValue) -> p4r.CounterData:
    """Return the message for `value`; counts beyond 63 bits wrap as they do in PI."""
    return p4r.CounterData(packet_count=_signed(value.packets % (1 << 64)), byte_count=_signed(value.bytes % (1 << 64)))
