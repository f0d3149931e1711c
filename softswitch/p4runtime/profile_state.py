"""Members and groups of one action profile, as P4Runtime numbers them and as the data plane does.

The data plane gets handles of ours, the lowest free ones, and groups of unweighted members: a member of weight 3 is
three members with the same action. PI drives BMv2 this way, and as a selector picks the n-th handle of a group, the
same handles make the same packet take the same member.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from finsy.proto import p4r

from mrclab.softswitch.objects.runtime_api import ActionCall
from mrclab.softswitch.p4runtime.messages.status import P4RuntimeError, invalid, on_target

if TYPE_CHECKING:
    from mrclab.softswitch.objects.tables import RuntimeProfile


class HandlePool:
    """Hands out the lowest free number."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._next = 0

    def take(self) -> int:
        """Return the lowest free handle and mark it used."""
        if self._free:
            return heapq.heappop(self._free)
        self._next += 1
        return self._next - 1

    def give_back(self, handle: int) -> None:
        """Mark a handle free."""
        heapq.heappush(self._free, handle)


@dataclass(slots=True)
class MemberState:
    """A member: its action and its copies in the data plane, as many as its largest weight in a group, or one."""

    action: ActionCall
    handles: list[int]


@dataclass(slots=True)
class GroupState:
    """A group: its handle, the size its controller requested (0: none), its members by id as they were written."""

    handle: int
    max_size: int
    members: dict[int, p4r.ActionProfileGroup.Member] = field(default_factory=dict)


@dataclass(slots=True)
class OneShotGroup:
    """A one-shot set as it was written, and the handles of its members: as many for each action as it weighs."""

    message: p4r.ActionProfileActionSet
    handles: list[int]


@dataclass
class ActionProfileState:
    """One action profile. It is programmed by members and groups, or by one-shot sets, never by both at once.

    `target` is the same profile in the data plane, whose refusals become P4RuntimeError.
    """

    members: dict[int, MemberState] = field(default_factory=dict)
    groups: dict[int, GroupState] = field(default_factory=dict)
    oneshots: dict[int, OneShotGroup] = field(default_factory=dict)  # by handle
    member_handles: HandlePool = field(default_factory=HandlePool)
    group_handles: HandlePool = field(default_factory=HandlePool)
    member_ids: dict[int, int] = field(default_factory=dict)  # by handle
    group_ids: dict[int, int] = field(default_factory=dict)  # by handle

    def by_members(self) -> ActionProfileState:
        """Return the profile for use by members and groups; refused while it holds one-shot sets."""
        if self.oneshots:
            raise _mixed_modes()
        return self

    def by_oneshot(self) -> ActionProfileState:
        """Return the profile for use by one-shot sets; refused while it holds members or groups."""
        if self.members or self.groups:
            raise _mixed_modes()
        return self

    def add_handle(self, target: RuntimeProfile, action: ActionCall) -> int:
        """Make a member in the data plane; return its handle."""
        handle = self.member_handles.take()
        try:
            with on_target("Error when creating member on target"):
                target.insert_member(handle, action)
        except P4RuntimeError:
            self.member_handles.give_back(handle)
            raise
        return handle

    def remove_handle(self, target: RuntimeProfile, handle: int) -> None:
        """Remove a member from the data plane."""
        with on_target("Error when deleting member on target"):
            target.delete_member(handle)
        self.member_handles.give_back(handle)

    def set_copies(self, target: RuntimeProfile, member_id: int, copies: int) -> None:
        """Give a member `copies` copies in the data plane, adding at the end or removing from there."""
        member = self.members[member_id]
        while len(member.handles) < copies:
            member.handles.append(self.add_handle(target, member.action))
            self.member_ids[member.handles[-1]] = member_id
        while len(member.handles) > copies:
            self.remove_handle(target, member.handles[-1])
            del self.member_ids[member.handles.pop()]

    def grow(self, target: RuntimeProfile, group: GroupState) -> list[int]:
        """Give every member of a group as many copies as it weighs there; return the group's handles."""
        for member_id, member in group.members.items():
            self.set_copies(target, member_id, max(member.weight, len(self.members[member_id].handles)))
        weights = ((self.members[member_id].handles, member.weight) for member_id, member in group.members.items())
        return [handle for handles, weight in weights for handle in handles[:weight]]

    def shrink(self, target: RuntimeProfile, group: GroupState) -> None:
        """Remove the copies of a former group's members that no group needs; one stays of each member."""
        for member_id in group.members:
            others = (other.members[member_id].weight for other in self.groups.values() if member_id in other.members)
            self.set_copies(target, member_id, max(others, default=1))


def _mixed_modes() -> P4RuntimeError:
    return invalid("Invalid attempt to mix action selector programming modes")
