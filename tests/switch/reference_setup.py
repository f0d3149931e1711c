"""Sets up the slow reference as `dataplane_setup` sets up the others."""

from typing import Any

from dataplane_setup import Setup, soft_match, soft_table
from reference import Reference

from mrclab.softswitch.switch import SoftSwitch


def on_reference(reference: Reference, switch: SoftSwitch, setup: Setup) -> None:
    """Do it to the reference; `switch` runs the same program and knows its names."""
    for name, table in reference.tables.items():
        for entry in table.get("entries", []):
            reference.entries[name].append(_const(entry))
    for name, match, (action, args), priority in setup.entries:
        table_name = soft_table(switch, name)
        key = soft_match(switch.table(table_name).table.key, match)
        number = action_id(reference, table_name, action)
        reference.entries[table_name].append((key, priority, number, tuple(args)))
    for name, action, args in setup.defaults:
        table_name = soft_table(switch, name)
        reference.defaults[table_name] = (action_id(reference, table_name, action), tuple(args))
    reference.multicast, reference.clones = dict(setup.multicast), dict(setup.clones)
    for name, values in setup.value_sets.items():
        reference.value_sets[name] = set(values)


def action_id(reference: Reference, table: str, action: str) -> int:
    ids = reference.tables[table]["action_ids"]
    return next(i for i in ids if reference.actions[i]["name"].rpartition(".")[2] == action.rpartition(".")[2])


def _const(entry: Any) -> Any:
    match = []
    for key in entry["match_key"]:
        if key["match_type"] == "ternary":
            mask = int(key["mask"], 16)
            match.append((int(key["key"], 16) & mask, mask))
        elif key["match_type"] == "range":
            match.append((int(key["start"], 16), int(key["end"], 16)))
        elif key["match_type"] == "lpm":
            match.append((int(key["key"], 16), key["prefix_length"]))
        else:
            match.append(int(key["key"], 16))
    action = entry["action_entry"]
    return (
        tuple(match),
        -entry.get("priority", 0),
        action["action_id"],
        tuple(int(v, 16) for v in action["action_data"]),
    )
