"""One switch of a fabric in this process: the compiled program with the controller's entries, frame by frame.

What became of a frame is told in the program's own words, so that a model of the switch can be held to it.
"""

from enum import IntEnum

from mrclab.controller.provisioning import intent
from mrclab.lab.command.p4build import P4_JSON
from mrclab.softswitch.inprocess import FrameOutcome, InProcess
from mrclab.softswitch.objects.runtime_api import (
    ActionCall,
    GroupMember,
    GroupRef,
    ProfileGroup,
    ProfileMember,
    TableEntry,
)
from mrclab.topo.model import Fabric
from mrclab.topo.numbers import CONTROL_PRIORITY, CPU_PORT, DATA_PRIORITY, DROP_PORT, PRIORITIES

INGRESS, EGRESS, PROFILE = "MrcIngress", "MrcEgress", "MrcIngress.ecmp"


class Drop(IntEnum):
    """Why the program drops a packet: the cells of its counter `drops`."""

    MALFORMED = 1
    FOREIGN = 2
    HOP_LIMIT = 3
    UNKNOWN_USID = 4
    USID_MISS = 5
    IPV6_MISS = 6
    WRONG_SOURCE = 7


class MrcInside(InProcess):
    """`switch` of `fabric`, its queues and policies as the lab sets them. Times are in nanoseconds and begin at 0."""

    def __init__(self, fabric: Fabric, switch: str, seed: int = 0) -> None:
        super().__init__(P4_JSON.read_bytes(), CPU_PORT, DROP_PORT, PRIORITIES, seed)
        self._groups = 0
        queue = fabric.spec.queue
        self.runtime.set_queue_rate(fabric.spec.link.rate_pps, priority=DATA_PRIORITY)
        self.runtime.set_queue_depth(queue.depth, priority=DATA_PRIORITY)
        self.runtime.set_queue_depth(queue.control_depth, priority=CONTROL_PRIORITY)
        for entry in intent.entries(fabric, fabric.switch(switch)):
            self.insert(entry)

    def insert(self, entry: intent.IntendedEntry) -> None:
        """Write one entry of the controller."""
        info = self.runtime.info
        assert info is not None
        table = next(name for name in (f"{part}.{entry.table}" for part in (INGRESS, EGRESS)) if name in info.tables)
        calls = [self._call(table, act) for act in entry.acts]
        match = tuple(value for _, value in entry.match)
        action = self._group(calls) if entry.one_shot else calls[0]
        self.runtime.table(table).insert(TableEntry(match, action))

    def _call(self, table: str, act: intent.Act) -> ActionCall:
        assert self.runtime.info is not None
        known = self.runtime.info.tables[table].actions
        name = next(full for full in known if full.rsplit(".", 1)[-1] == act.name)
        return ActionCall(name, tuple(value for _, value in act.params))

    def _group(self, calls: list[ActionCall]) -> GroupRef:
        self._groups += 1
        members = [ProfileMember(self._groups << 8 | number, call) for number, call in enumerate(calls)]
        for member in members:
            self.runtime.profile(PROFILE).insert_member(member)
        group = tuple(GroupMember(member.member_id) for member in members)
        self.runtime.profile(PROFILE).insert_group(ProfileGroup(self._groups, group, len(group)))
        return GroupRef(self._groups)


def dropped(fate: FrameOutcome) -> Drop | None:
    """Why ingress dropped a frame, None where it did not."""
    return next((Drop(cell) for counter, cell in fate.counted if counter == f"{INGRESS}.drops"), None)


def trimmed(fate: FrameOutcome) -> bool:
    """Return True if ingress cut a frame to its headers."""
    return any(counter == f"{INGRESS}.trims" for counter, _ in fate.counted)


def marked(fate: FrameOutcome) -> bool:
    """Return True if egress marked a frame's packet with ECN."""
    return any(counter == f"{EGRESS}.ecn_marks" for copy in fate.copies for counter, _ in copy.counted)


def lost_in_queue(fate: FrameOutcome) -> bool:
    """Return True if a frame's packet came to a full queue."""
    return any(copy.full for copy in fate.copies)
