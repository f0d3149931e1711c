"""One switch of a fabric in this process: a P4 program with the controller's entries, frame by frame.

A frame's lookups are described with the program's names: tables with keys, hits and actions, registers, counters.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mrclab import HOME
from mrclab.controller.provisioning import intent
from mrclab.softswitch.dataplane import DataPlane
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


def full_name(names: Iterable[str], name: str) -> str:
    """Return the program's name among some, given whole or by its last part. KeyError: there is none."""
    for found in names:
        if name in (found, found.rsplit(".", 1)[-1]):
            return found
    raise KeyError(name)


def insert(runtime: DataPlane, entry: intent.IntendedEntry, group: int = 1) -> None:
    """Write one entry of the controller; a one-shot entry becomes the group of this number, which is free."""
    table = runtime.table(full_name(runtime.program().tables, entry.table))
    calls = [
        ActionCall(full_name(table.actions, act.name), tuple(value for _, value in act.params)) for act in entry.actions
    ]
    action = _group(runtime, calls, group) if entry.one_shot else calls[0]
    table.insert(TableEntry(tuple(value for _, value in entry.match), action))


def _group(runtime: DataPlane, calls: list[ActionCall], number: int) -> GroupRef:
    members, profile = dict(enumerate(calls, number << 8)), runtime.profile(PROFILE)
    for member, call in members.items():
        profile.insert_member(member, call)
    profile.insert_group(number, members)
    return GroupRef(number)


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
        self._groups += entry.one_shot
        insert(self.runtime, entry, self._groups)

    def full_name(self, table: str) -> str:
        """Return the program's name of a table: `MrcIngress.usid_fib` for `usid_fib`. KeyError: it has none."""
        return full_name(self.runtime.program().tables, table)

    def answer(self, port: int, data: bytes) -> list[tuple[int, bytes]]:
        """Inject a frame; return the frames sent: port and bytes of each."""
        outcome = self.arrive(self.now_ns, port, data)
        self.run()
        return [(copy.port, copy.data) for copy in outcome.copies if copy.data is not None]

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
