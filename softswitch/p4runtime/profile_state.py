"""Members and groups of one action profile, as P4Runtime numbers them and as the data plane does.

The data plane gets handles of ours, the lowest free ones, and groups of unweighted members: a member of weight 3 is
three members with the same action. PI drives BMv2 this way, and as a selector picks the n-th handle of a group, the
same handles make the same packet take the same member.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from mrclab.softswitch.objects.runtime_api import ActionCall
from mrclab.softswitch.p4runtime.messages.status import P4RuntimeError, invalid
from mrclab.softswitch.p4runtime.messages.stubs import p4r


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
class Membership:
    """A member's place in a group. `watch` is the message it was written with, for read-back."""

    weight: int
    watch_port: int | None
    watch: p4r.ActionProfileGroup.Member


@dataclass(slots=True)
class GroupState:
    """A group: its handle, the size its controller requested (0: none), its members by id."""

    handle: int
    max_size: int
    members: dict[int, Membership] = field(default_factory=dict)


@dataclass(slots=True)
class OneShotMember:
    """One action of a one-shot set and the handles that it got, as many as its weight."""

    message: p4r.ActionProfileAction
    handles: list[int]


@dataclass
class ActionProfileState:
    """One action profile. It is programmed by members and groups, or by one-shot sets, never by both at once."""

    members: dict[int, MemberState] = field(default_factory=dict)
    groups: dict[int, GroupState] = field(default_factory=dict)
    oneshots: dict[int, list[OneShotMember]] = field(default_factory=dict)
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

    def largest_weight(self, member_id: int) -> int:
        """Return how many copies of a member the groups need; a member outside of any group needs one."""
        weights = (group.members[member_id].weight for group in self.groups.values() if member_id in group.members)
        return max(weights, default=1)


def _mixed_modes() -> P4RuntimeError:
    return invalid("Invalid attempt to mix action selector programming modes")
