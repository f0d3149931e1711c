"""One switch of a fabric in this process: a P4 program with the controller's entries, frame by frame.

A frame's lookups are described with the program's names: tables with keys, hits and actions, registers, counters.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mrclab import HOME
from mrclab.controller.provisioning import intent
from mrclab.softswitch.inprocess import InProcess
from mrclab.softswitch.objects.runtime_api import ActionCall, GroupRef, TableEntry
from mrclab.topo.model import Fabric
from mrclab.topo.numbers import CPU_PORT, DROP_PORT, PRIORITIES

PROGRAM = HOME / "p4src" / "build" / "mrc.json"
INGRESS, EGRESS, PROFILE = "MrcIngress", "MrcEgress", "MrcIngress.ecmp"


@dataclass(frozen=True)
class Lookup:
    """A table lookup of a frame: its key, and the entry that matched, if any."""

    table: str
    key: tuple[int, ...]
    hit: bool


class MrcSwitch(InProcess):
    """A switch with this program, by default the lab's, and without entries; ports are numbers."""

    def __init__(self, config: str | bytes | None = None, seed: int = 0) -> None:
        super().__init__(config or PROGRAM.read_bytes(), CPU_PORT, DROP_PORT, PRIORITIES, seed)
        self.lookups: list[Lookup] = []
        """Tables that were applied since this was cleared, in order."""
        self._groups = 0
        self._watch_tables()

    def provision(self, fabric: Fabric, switch: str) -> None:
        """Write the entries that the controller intends for a switch of the fabric."""
        for entry in intent.entries(fabric, fabric.switch(switch)):
            self.insert(entry)

    def insert(self, entry: intent.IntendedEntry) -> None:
        """Write one entry of the controller."""
        table = self.full_name(entry.table)
        calls = [self._call(table, act) for act in entry.actions]
        match = tuple(value for _, value in entry.match)
        action = self._group(calls) if entry.one_shot else calls[0]
        self.runtime.table(table).insert(TableEntry(match, action))

    def full_name(self, table: str) -> str:
        """Return the program's name of a table: `MrcIngress.usid_fib` for `usid_fib`. KeyError: it has none."""
        found = next((name for name in self.runtime.program().tables if table in (name, name.rsplit(".", 1)[-1])), None)
        if found is None:
            raise KeyError(table)
        return found

    def answer(self, port: int, data: bytes) -> list[tuple[int, bytes]]:
        """Inject a frame; return the frames sent: port and bytes of each."""
        outcome = self.arrive(self.now_ns, port, data)
        self.run()
        return [(copy.port, copy.data) for copy in outcome.copies if copy.data is not None]

    def full_action(self, table: str, action: str) -> str:
        """Return the program's name of an action of a table, whose full name is given."""
        return next(full for full in self.runtime.table(table).actions if full.rsplit(".", 1)[-1] == action)

    def _call(self, table: str, act: intent.EntryAction) -> ActionCall:
        return ActionCall(self.full_action(table, act.name), tuple(value for _, value in act.params))

    def _group(self, calls: list[ActionCall]) -> GroupRef:
        self._groups += 1
        members = dict(enumerate(calls, self._groups << 8))
        for member, call in members.items():
            self.runtime.profile(PROFILE).insert_member(member, call)
        self.runtime.profile(PROFILE).insert_group(self._groups, members)
        return GroupRef(self._groups)

    def _watch_tables(self) -> None:
        names = self.runtime.program().ingress.__globals__
        for number, table in enumerate(self.runtime.program().tables):
            names[f"find_{number}"] = self._watched(table, names[f"find_{number}"])

    def _watched(self, table: str, find: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def lookup(key: Any) -> Any:
            found = find(key)
            self.lookups.append(Lookup(table, key if isinstance(key, tuple) else (key,), found is not None))
            return found

        return lookup
