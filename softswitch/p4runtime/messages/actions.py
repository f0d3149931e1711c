"""Actions with their arguments: `p4.v1.Action` and the calls of the data plane."""

from __future__ import annotations

from mrclab.softswitch.objects.runtime_api import ActionCall
from mrclab.softswitch.p4runtime.messages.status import invalid
from mrclab.softswitch.p4runtime.messages.stubs import p4r
from mrclab.softswitch.p4runtime.messages.values import to_bytes, to_int
from mrclab.softswitch.p4runtime.p4info import P4Index


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
