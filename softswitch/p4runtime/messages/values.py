"""Byte strings of P4Runtime ("Bytestrings" in its specification) and the integers of the data plane.

A value travels as a big-endian unsigned integer without leading zero bytes, at least one byte long. As in PI, shorter
and longer strings than the canonical one are accepted as long as the number fits; answers are always canonical.
"""

from __future__ import annotations

from finsy.proto import p4r

from mrclab.softswitch.objects.runtime_api import ActionCall
from mrclab.softswitch.p4runtime.messages.status import invalid
from mrclab.softswitch.p4runtime.p4info import P4Index


def to_int(data: bytes, width: int) -> int:
    """Return the number that `data` holds; refused (INVALID_ARGUMENT) when it needs more than `width` bits."""
    value = int.from_bytes(data, "big")
    if value >> width:
        raise invalid(f"Bytestring provided does not fit within {width} bits")
    return value


def to_bytes(value: int) -> bytes:
    """Return the canonical byte string of `value`."""
    return value.to_bytes((value.bit_length() + 7) // 8 or 1, "big")


def all_ones(width: int) -> int:
    """Return the largest number of `width` bits."""
    return (1 << width) - 1


def prefix_mask(prefix_len: int, width: int) -> int:
    """Return the mask of `width` bits whose first `prefix_len` bits are set."""
    return all_ones(prefix_len) << (width - prefix_len)


def action_from_proto(message: p4r.Action, index: P4Index) -> ActionCall:
    """Return the call that `message` describes; its action id must be in `index`."""
    action = index.actions[message.action_id]
    if len(message.params) != len(action.params):
        raise invalid("Unexpected number of action parameters")
    widths = {param.id: param.width for param in action.params}
    values: dict[int, int] = {}
    for param in message.params:
        if param.param_id not in widths:
            raise invalid("Unknown action parameter")
        values[param.param_id] = to_int(param.value, widths[param.param_id])
    if len(values) != len(action.params):
        raise invalid("Duplicate action parameter")
    return ActionCall(action.name, tuple(values[param.id] for param in action.params))


def action_to_proto(call: ActionCall, index: P4Index) -> p4r.Action:
    """Return the message for `call`; an action that P4Info does not have (an unnamed default) has id 0."""
    action = index.actions_by_name.get(call.name)
    if action is None:
        return p4r.Action()
    message = p4r.Action(action_id=action.id)
    for param, value in zip(action.params, call.args, strict=True):
        message.params.add(param_id=param.id, value=to_bytes(value))
    return message
