"""Reconciliation: the writes that turn a switch's entries into the intended ones. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from mrclab.controller.provisioning.intent import IntendedEntry, describe
from mrclab.topo.model import Fabric, Switch

MANAGED_TABLES = ("sources", "my_usid", "usid_fib", "ipv6_fib", "trim_policy", "ecn_policy")
"""Tables whose whole contents are the controller's: entries it does not intend are deleted."""

SHARED_TABLES = ("ev_watch",)
"""Tables in which it holds entries beside those of others, which stay."""


class UpdateKind(Enum):
    """Kind of a write; its name is that of the P4Runtime update."""

    INSERT = "insert"
    MODIFY = "modify"
    DELETE = "delete"


@dataclass(frozen=True)
class Change:
    """One write: an entry as intended, or one to delete. `found` is the entry that a modify replaces."""

    op: UpdateKind
    entry: IntendedEntry
    found: IntendedEntry | None = None

    def __str__(self) -> str:
        return f"{self.op.value} {self.entry}"


def changes(intended: Iterable[IntendedEntry], found: Iterable[IntendedEntry]) -> tuple[Change, ...]:
    """The writes that turn `found` into `intended`: inserts and modifies in the order of `intended`, then deletes.

    Deletes come last, so that at no moment a packet meets fewer routes than before and after.
    """
    want = {entry.key: entry for entry in intended}
    have = {entry.key: entry for entry in found}
    result = []
    for key, entry in want.items():
        old = have.get(key)
        if old is None:
            result.append(Change(UpdateKind.INSERT, entry))
        elif not same(entry, old):
            result.append(Change(UpdateKind.MODIFY, entry, old))
    strays = (entry for key, entry in have.items() if key not in want and entry.table in MANAGED_TABLES)
    result.extend(Change(UpdateKind.DELETE, entry) for entry in strays)
    return tuple(result)


def sentence(fabric: Fabric, switch: Switch, change: Change) -> str:
    """Return what is wrong with the entries of a switch that needs a change."""
    entry = describe(fabric, switch, change.entry)
    if change.found is not None:
        entry = f"should hold {entry}, holds {describe(fabric, switch, change.found)}"
    else:
        entry = f"{'lacks' if change.op is UpdateKind.INSERT else 'should not hold'} {entry}"
    return f"{switch.name} {change.entry.table} {entry}"


def same(one: IntendedEntry, other: IntendedEntry) -> bool:
    """Return True if two entries of one key are equivalent: the order of members and parameters is ignored."""
    return one.one_shot == other.one_shot and _members(one) == _members(other)


def _members(entry: IntendedEntry) -> Counter[tuple[str, frozenset[tuple[str, int]]]]:
    return Counter((act.name, frozenset(act.params)) for act in entry.actions)
