"""One-shot programming of action selectors: a table entry that brings its own set of weighted actions.

Every action becomes as many members as its weight, and the entry gets a group of its own. All disappear with the entry.
"""

from __future__ import annotations

from collections.abc import Callable

from mrclab.softswitch.objects.runtime_api import (
    ActionCall,
    EntryAction,
    GroupMember,
    GroupRef,
    ProfileGroup,
    ProfileMember,
    RuntimeApiError,
)
from mrclab.softswitch.p4runtime.entities.common import own_copy
from mrclab.softswitch.p4runtime.entities.profiles.watch import watch_port
from mrclab.softswitch.p4runtime.messages.actions import action_from_proto
from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError, invalid, invalid_id, target_error
from mrclab.softswitch.p4runtime.messages.stubs import p4r
from mrclab.softswitch.p4runtime.p4info import P4Index, P4InfoActionProfile
from mrclab.softswitch.p4runtime.profile_state import ActionProfileState, OneShotMember
from mrclab.softswitch.p4runtime.state import PipelineState
from mrclab.softswitch.switch import SoftSwitch

MAX_GROUP_WEIGHT = 1 << 12  # where P4Info sets no limit: a request must not be able to fill the memory


def check_profile_action(action: p4r.Action, profile: P4InfoActionProfile, index: P4Index) -> ActionCall:
    """Return the call for a member's action; refused if the profile's tables do not have it."""
    if action.action_id not in index.actions:
        raise invalid_id()
    if action.action_id not in profile.actions:
        raise invalid("Invalid action for action profile")
    return action_from_proto(action, index)


def check_weights(total: int, limit: int, message: str) -> None:
    """Refuse a group whose weights sum up to more than `limit` (0: no limit of the program's)."""
    if total > (limit or MAX_GROUP_WEIGHT):
        raise P4RuntimeError(Code.RESOURCE_EXHAUSTED, message)


def create_oneshot(
    state: PipelineState, profile_id: int, actions: p4r.ActionProfileActionSet
) -> Callable[[], EntryAction]:
    """Check an action set; the function returned makes its members and group in the data plane."""
    profile = state.index.profiles[profile_id]
    if not actions.action_profile_actions:
        raise P4RuntimeError(Code.UNIMPLEMENTED, "No support for empty action profile groups")
    calls = [check_profile_action(item.action, profile, state.index) for item in actions.action_profile_actions]
    if any(item.weight <= 0 for item in actions.action_profile_actions):
        raise invalid("Member weight must be a positive integer value")
    total = sum(item.weight for item in actions.action_profile_actions)
    check_weights(total, profile.max_group_size, "Sum of weights exceeds static max_group_size (from P4Info)")

    def create() -> EntryAction:
        stored = state.profiles[profile_id].by_oneshot()
        members = [OneShotMember(own_copy(item), []) for item in actions.action_profile_actions]
        try:
            return _create(state.switch, profile.name, stored, members, calls)
        except RuntimeApiError as error:
            _remove_members(state.switch, profile.name, stored, members)
            raise target_error("Error when creating member on target", error) from error

    return create


def _create(
    switch: SoftSwitch, name: str, stored: ActionProfileState, members: list[OneShotMember], calls: list[ActionCall]
) -> EntryAction:
    for member, call in zip(members, calls, strict=True):
        for _ in range(member.message.weight):
            handle = stored.member_handles.take()
            try:
                switch.profile(name).insert_member(ProfileMember(handle, call))
            except RuntimeApiError:
                stored.member_handles.give_back(handle)
                raise
            member.handles.append(handle)
    group = stored.group_handles.take()
    listed = tuple(GroupMember(h, 1, watch_port(member.message)) for member in members for h in member.handles)
    try:
        switch.profile(name).insert_group(ProfileGroup(group, tuple(sorted(listed)), len(members)))
    except RuntimeApiError:
        stored.group_handles.give_back(group)
        raise
    stored.oneshots[group] = members
    return GroupRef(group)


def _remove_members(switch: SoftSwitch, name: str, stored: ActionProfileState, members: list[OneShotMember]) -> None:
    for handle in (h for member in members for h in member.handles):
        switch.profile(name).delete_member(handle)
        stored.member_handles.give_back(handle)


def delete_oneshot(state: PipelineState, profile_id: int, action: EntryAction) -> None:
    """Remove the group and members behind `action`; nothing happens if it is no one-shot group."""
    stored = state.profiles[profile_id]
    if not isinstance(action, GroupRef) or action.group_id not in stored.oneshots:
        return
    name = state.index.profiles[profile_id].name
    state.switch.profile(name).delete_group(action.group_id)
    _remove_members(state.switch, name, stored, stored.oneshots.pop(action.group_id))
    stored.group_handles.give_back(action.group_id)


def oneshot_to_proto(profile: ActionProfileState, group: int) -> p4r.ActionProfileActionSet:
    """Return the action set as it was written."""
    return p4r.ActionProfileActionSet(action_profile_actions=(member.message for member in profile.oneshots[group]))
