"""Match keys: `p4.v1.FieldMatch` lists and the tuples of the data plane.

A field that is left out matches everything; P4Runtime refuses a written-out "don't care" ("Match Format"), so that
every key has one form only. The order of checks and the wording are PI's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from finsy.proto import p4r

from mrclab.softswitch.objects.runtime_api import FieldMatch, MatchKey
from mrclab.softswitch.p4runtime.messages.status import P4RuntimeError, invalid
from mrclab.softswitch.p4runtime.messages.values import all_ones, prefix_mask, to_bytes, to_int
from mrclab.softswitch.p4runtime.p4info import P4InfoField, P4InfoTable


def key_from_proto(entry: p4r.TableEntry, table: P4InfoTable) -> MatchKey:
    """Return the data-plane key of `entry`, with every field of `table` in order."""
    if len(entry.match) > len(table.fields):
        raise invalid("Too many fields in match key")
    given = {match.field_id: match for match in entry.match}
    key = tuple(_field_from_proto(field, given.pop(field.id, None)) for field in table.fields)
    if given or len({match.field_id for match in entry.match}) != len(entry.match):
        raise invalid("Unknown field in match key")
    _check_priority(entry.priority, table)
    return key


def _check_priority(priority: int, table: P4InfoTable) -> None:
    if priority < 0:
        raise invalid("Negative priority")
    if priority and not table.has_priority:
        raise invalid("Non-zero priority for non-ternary match")
    if table.has_priority and not priority:
        raise invalid("Zero priority for ternary match")


def _field_from_proto(field: P4InfoField, match: p4r.FieldMatch | None) -> FieldMatch:
    if match is None:
        return _dont_care(field)
    if match.WhichOneof("field_match_type") != field.kind:
        raise invalid("Invalid match type")
    return _PARSERS[field.kind](field, match)


def _dont_care(field: P4InfoField) -> FieldMatch:
    if field.kind == "exact":
        raise invalid("Missing non-ternary field in match key")
    if field.kind == "optional" and not field.as_ternary:
        return None
    return (0, all_ones(field.width)) if field.kind == "range" else (0, 0)


def _exact(field: P4InfoField, match: p4r.FieldMatch) -> FieldMatch:
    return to_int(match.exact.value, field.width)


def _lpm(field: P4InfoField, match: p4r.FieldMatch) -> FieldMatch:
    value, length = to_int(match.lpm.value, field.width), match.lpm.prefix_len
    if length < 0:
        raise invalid("Prefix length cannot be < 0")
    if length > field.width:
        raise invalid("Prefix length cannot be > bitwidth")
    if length == 0:
        raise _written_dont_care("LPM", "a prefix length of 0")
    if value & ~prefix_mask(length, field.width):
        raise invalid("Invalid LPM value, incorrect number of trailing zeros")
    return value, length


def _ternary(field: P4InfoField, match: p4r.FieldMatch) -> FieldMatch:
    value, mask = to_int(match.ternary.value, field.width), to_int(match.ternary.mask, field.width)
    if mask == 0:
        raise _written_dont_care("ternary", "0 mask")
    if value & ~mask:
        raise invalid("Invalid ternary value, make sure value & mask == value")
    return value, mask


def _range(field: P4InfoField, match: p4r.FieldMatch) -> FieldMatch:
    low, high = to_int(match.range.low, field.width), to_int(match.range.high, field.width)
    if low == 0 and high == all_ones(field.width):
        raise _written_dont_care("range", "low=0 and high=2**bitwidth-1")
    if low > high:
        raise invalid("Invalid range value, make sure low <= high")
    return low, high


def _optional(field: P4InfoField, match: p4r.FieldMatch) -> FieldMatch:
    value = to_int(match.optional.value, field.width)
    return (value, all_ones(field.width)) if field.as_ternary else value


def _written_dont_care(kind: str, instead_of: str) -> P4RuntimeError:
    return invalid(
        f"Invalid representation of 'don't care' {kind} match, omit match field instead of using {instead_of}"
    )


_PARSERS: dict[str, Callable[[P4InfoField, p4r.FieldMatch], FieldMatch]] = {
    "exact": _exact,
    "lpm": _lpm,
    "ternary": _ternary,
    "range": _range,
    "optional": _optional,
}


def key_to_proto(key: MatchKey, table: P4InfoTable) -> Iterable[p4r.FieldMatch]:
    """Yield the match fields that say `key`, those that match everything left out."""
    for field, match in zip(table.fields, key, strict=True):
        if field.kind == "exact" or match != _dont_care(field):
            yield _field_to_proto(field, match)


def _field_to_proto(field: P4InfoField, match: FieldMatch) -> p4r.FieldMatch:
    message = p4r.FieldMatch(field_id=field.id)
    if isinstance(match, tuple):
        first, second = match
        if field.kind == "lpm":
            message.lpm.value, message.lpm.prefix_len = to_bytes(first), second
        elif field.kind == "ternary":
            message.ternary.value, message.ternary.mask = to_bytes(first), to_bytes(second)
        elif field.kind == "optional":
            message.optional.value = to_bytes(first)
        else:
            message.range.low, message.range.high = to_bytes(first), to_bytes(second)
    elif field.kind == "exact":
        message.exact.value = to_bytes(match or 0)
    else:
        message.optional.value = to_bytes(match or 0)
    return message
