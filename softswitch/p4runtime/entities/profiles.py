"""Members and groups of action profiles and selectors, and one-shot programming of selectors.

In one-shot programming a table entry carries its own set of weighted actions: every action becomes as many members as
its weight, and the entry gets a group of its own. They are deleted with the entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from finsy.proto import p4r

from mrclab.softswitch.objects.runtime_api import ActionCall, EntryAction, GroupRef
from mrclab.softswitch.objects.tables import RuntimeProfile
from mrclab.softswitch.p4runtime.entities.common import DELETE, INSERT, check_update_type, own_copy
from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError, invalid, invalid_id, on_target
from mrclab.softswitch.p4runtime.messages.values import action_from_proto, action_to_proto
from mrclab.softswitch.p4runtime.p4info import P4Index, P4InfoActionProfile
from mrclab.softswitch.p4runtime.profile_state import ActionProfileState, GroupState, MemberState, OneShotGroup
from mrclab.softswitch.p4runtime.state import Apply, EntityHandler, PipelineState

MAX_GROUP_WEIGHT = 1 << 12  # where P4Info sets no limit: a request must not be able to fill the memory


class _ProfileHandler(EntityHandler):
    def _profile(self, profile_id: int) -> P4InfoActionProfile:
        profile = self._state.index.profiles.get(profile_id)
        if profile is None:
            raise invalid_id()
        return profile

    def _both(self, profile: P4InfoActionProfile) -> tuple[ActionProfileState, RuntimeProfile]:
        """Return a profile as the controller sees it, and as the data plane does."""
        return self._state.profiles[profile.id].by_members(), self._state.switch.profile(profile.name)

    def _readable(self, profile_id: int) -> Iterator[tuple[P4InfoActionProfile, ActionProfileState]]:
        """Yield the profiles of a read; those in one-shot use have no members or groups to show."""
        if profile_id:
            profile = self._profile(profile_id)
            yield profile, self._state.profiles[profile.id].by_members()
            return
        for profile in self._state.index.profiles.values():
            yield profile, self._state.profiles[profile.id]


class MemberHandler(_ProfileHandler):
    """`p4.v1.ActionProfileMember`."""

    def parse(self, update_type: int, entity: p4r.Entity) -> Apply:
        """Check an update; the function returned inserts, modifies or deletes the member."""
        message = entity.action_profile_member
        profile = self._profile(message.action_profile_id)
        check_update_type(update_type)
        if update_type == DELETE:
            return lambda: self._delete(profile, message.member_id)
        call = check_profile_action(message.action, profile, self._state.index)
        if update_type == INSERT:
            return lambda: self._create(profile, message.member_id, call)
        return lambda: self._modify(profile, message.member_id, call)

    def _create(self, profile: P4InfoActionProfile, member_id: int, call: ActionCall) -> None:
        stored, target = self._both(profile)
        if member_id in stored.members:
            raise P4RuntimeError(Code.ALREADY_EXISTS, f"Duplicate member id: {member_id}")
        stored.members[member_id] = MemberState(call, [])
        try:
            stored.set_copies(target, member_id, 1)
        except P4RuntimeError:
            del stored.members[member_id]
            raise

    def _modify(self, profile: P4InfoActionProfile, member_id: int, call: ActionCall) -> None:
        stored, target = self._both(profile)
        member = _member(stored, member_id)
        with on_target("Error when modifying member on target"):
            for handle in member.handles:
                target.modify_member(handle, call)
        member.action = call

    def _delete(self, profile: P4InfoActionProfile, member_id: int) -> None:
        stored, target = self._both(profile)
        _member(stored, member_id)
        stored.set_copies(target, member_id, 0)
        del stored.members[member_id]

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Yield one member (nothing if there is none of this id) or, for id 0, all."""
        requested = entity.action_profile_member
        for profile, stored in self._readable(requested.action_profile_id):
            for member_id, member in sorted(stored.members.items()):
                if requested.member_id in {0, member_id}:
                    yield p4r.Entity(
                        action_profile_member=p4r.ActionProfileMember(
                            action_profile_id=profile.id,
                            member_id=member_id,
                            action=action_to_proto(member.action, self._state.index),
                        )
                    )


class GroupHandler(_ProfileHandler):
    """`p4.v1.ActionProfileGroup`."""

    def parse(self, update_type: int, entity: p4r.Entity) -> Apply:
        """Check an update; the function returned inserts, modifies or deletes the group."""
        message = entity.action_profile_group
        profile = self._profile(message.action_profile_id)
        check_update_type(update_type)
        if update_type == DELETE:
            return lambda: self._delete(profile, message.group_id)
        if update_type == INSERT:
            _check_max_size(profile, message)
        if any(member.weight <= 0 for member in message.members):
            raise invalid("Member weight must be a positive integer value")
        if update_type == INSERT:
            return lambda: self._create(profile, message)
        return lambda: self._modify(profile, message)

    def _create(self, profile: P4InfoActionProfile, message: p4r.ActionProfileGroup) -> None:
        stored, target = self._both(profile)
        if message.group_id in stored.groups:
            raise P4RuntimeError(Code.ALREADY_EXISTS, f"Duplicate group id: {message.group_id}")
        members = _memberships(profile, stored, message, message.max_size)
        group = GroupState(stored.group_handles.take(), message.max_size, members)
        stored.groups[message.group_id] = group
        try:
            handles = stored.grow(target, group)
            with on_target("Error when creating group on target"):
                target.insert_group(group.handle, handles)
        except P4RuntimeError:
            del stored.groups[message.group_id]
            stored.group_handles.give_back(group.handle)
            stored.shrink(target, group)
            raise
        stored.group_ids[group.handle] = message.group_id

    def _modify(self, profile: P4InfoActionProfile, message: p4r.ActionProfileGroup) -> None:
        stored, target = self._both(profile)
        old = _group(stored, message.group_id)
        if message.max_size not in {0, old.max_size}:
            raise invalid("Cannot change group max_size after group creation")
        new = replace(old, members=_memberships(profile, stored, message, old.max_size))
        stored.groups[message.group_id] = new
        try:
            handles = stored.grow(target, new)
            with on_target("Error when setting group membership on target"):
                target.modify_group(new.handle, handles)
        except P4RuntimeError:
            stored.groups[message.group_id] = old
            stored.shrink(target, new)
            raise
        stored.shrink(target, old)

    def _delete(self, profile: P4InfoActionProfile, group_id: int) -> None:
        stored, target = self._both(profile)
        group = _group(stored, group_id)
        with on_target("Error when deleting group on target"):
            target.delete_group(group.handle)
        del stored.groups[group_id]
        del stored.group_ids[group.handle]
        stored.group_handles.give_back(group.handle)
        stored.shrink(target, group)

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Yield one group (nothing if there is none of this id) or, for id 0, all."""
        requested = entity.action_profile_group
        for profile, stored in self._readable(requested.action_profile_id):
            for group_id, group in sorted(stored.groups.items()):
                if requested.group_id in {0, group_id}:
                    yield p4r.Entity(
                        action_profile_group=p4r.ActionProfileGroup(
                            action_profile_id=profile.id,
                            group_id=group_id,
                            max_size=group.max_size,
                            members=(member for _, member in sorted(group.members.items())),
                        )
                    )


def _member(stored: ActionProfileState, member_id: int) -> MemberState:
    member = stored.members.get(member_id)
    if member is None:
        raise P4RuntimeError(Code.NOT_FOUND, f"Member id does not exist: {member_id}")
    return member


def _group(stored: ActionProfileState, group_id: int) -> GroupState:
    group = stored.groups.get(group_id)
    if group is None:
        raise P4RuntimeError(Code.NOT_FOUND, f"Group id does not exist: {group_id}")
    return group


def _check_max_size(profile: P4InfoActionProfile, message: p4r.ActionProfileGroup) -> None:
    if message.max_size < 0:
        raise invalid("Group max_size cannot be less than 0")
    if profile.max_group_size and message.max_size > profile.max_group_size:
        raise invalid("Group max_size cannot exceed static max_group_size (from P4Info)")


def _memberships(
    profile: P4InfoActionProfile, stored: ActionProfileState, message: p4r.ActionProfileGroup, max_size: int
) -> dict[int, p4r.ActionProfileGroup.Member]:
    total = sum(member.weight for member in message.members)
    check_weights(total, max_size or profile.max_group_size, "Sum of member weights exceeds maximum group size")
    members: dict[int, p4r.ActionProfileGroup.Member] = {}
    for member in message.members:
        _member(stored, member.member_id)
        if member.member_id in members:
            raise invalid(f"Duplicate member id {member.member_id} for group {message.group_id}, use weights instead")
        members[member.member_id] = own_copy(member)
    return members


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
    weights = [item.weight for item in actions.action_profile_actions]
    if any(weight <= 0 for weight in weights):
        raise invalid("Member weight must be a positive integer value")
    check_weights(sum(weights), profile.max_group_size, "Sum of weights exceeds static max_group_size (from P4Info)")

    def create() -> EntryAction:
        stored, target = state.profiles[profile_id].by_oneshot(), state.switch.profile(profile.name)
        made, group = OneShotGroup(own_copy(actions), []), stored.group_handles.take()
        try:
            for call, weight in zip(calls, weights, strict=True):
                for _ in range(weight):
                    made.handles.append(stored.add_handle(target, call))
            with on_target("Error when creating member on target"):
                target.insert_group(group, made.handles)
        except P4RuntimeError:
            _remove_oneshot(stored, target, group, made)
            raise
        stored.oneshots[group] = made
        return GroupRef(group)

    return create


def _remove_oneshot(stored: ActionProfileState, target: RuntimeProfile, group: int, made: OneShotGroup) -> None:
    for handle in made.handles:
        stored.remove_handle(target, handle)
    stored.group_handles.give_back(group)


def delete_oneshot(state: PipelineState, profile_id: int, action: EntryAction) -> None:
    """Remove the group and members behind `action`; nothing happens if it is no one-shot group."""
    stored = state.profiles[profile_id]
    if not isinstance(action, GroupRef) or action.group_id not in stored.oneshots:
        return
    target = state.switch.profile(state.index.profiles[profile_id].name)
    target.delete_group(action.group_id)
    _remove_oneshot(stored, target, action.group_id, stored.oneshots.pop(action.group_id))
