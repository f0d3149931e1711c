"""Values and entries of a P4 switch as text, and back."""

import re
from collections.abc import Mapping
from ipaddress import AddressValueError, IPv6Address
from typing import Any

from mrclab.lab.errors import LabError
from mrclab.lab.p4.inside import MrcSwitch
from mrclab.softswitch.objects.runtime_api import ActionCall, EntryAction, MatchKey, RuntimeApiError, TableEntry
from mrclab.softswitch.objects.tables import RuntimeTable
from mrclab.softswitch.p4.program import TableKey

_MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", re.IGNORECASE)
_IPV6_BITS, _MAC_BITS = 128, 48


def short(name: str) -> str:
    """Return the last part of a name: `usid_fib` for `MrcIngress.usid_fib`."""
    return name.rsplit(".", 1)[-1]


def value(number: int, width: int, name: str = "") -> str:
    """Return a field's value as text: addresses as such, others wider than 16 bits in hexadecimal."""
    if width == _IPV6_BITS:
        return str(IPv6Address(number))
    if "usid" in name and width == _MAC_BITS:
        return str(IPv6Address(number << 80)).removesuffix("::")
    if width == _MAC_BITS:
        return ":".join(f"{number:012x}"[at : at + 2] for at in range(0, 12, 2))
    return f"{number:#x}" if width > 16 else str(number)


def parsed(text: str, width: int, what: str) -> int:
    """Parse the text of a value; LabError for an invalid one."""
    text = text.strip()
    try:
        if _MAC.fullmatch(text):
            number = int(text.replace(":", ""), 16)
        elif ":" in text:
            whole = int(IPv6Address(text if "::" in text or text.count(":") == 7 else f"{text}::"))
            number = whole >> (_IPV6_BITS - width)
        else:
            number = int(text, 0)
    except (ValueError, AddressValueError):
        raise LabError(f"{what}: {text!r} is not a value; write a number, 0x…, an address or a MAC address") from None
    if not 0 <= number < 1 << width:
        raise LabError(f"{what}: {text} does not fit {width} bits")
    return number


def match(fields: tuple[TableKey, ...], key: MatchKey) -> str:
    """An entry's key, given the fields of the table's."""
    texts = []
    for field, each in zip(fields, key, strict=True):
        if isinstance(each, tuple):
            texts.append(f"{value(each[0], field.width, field.name)}/{each[1]}")
        else:
            texts.append("any" if each is None else value(each, field.width, field.name))
    return ", ".join(texts)


def matches(fields: tuple[TableKey, ...], key: MatchKey, found: tuple[int, ...]) -> bool:
    """Return True if an entry's key matches these values."""
    for field, each, at in zip(fields, key, found, strict=False):
        if isinstance(each, tuple):
            host_bits = field.width - each[1]
            if at >> host_bits != each[0] >> host_bits:
                return False
        elif each is not None and each != at:
            return False
    return True


def longest_first(table: RuntimeTable) -> list[TableEntry]:
    """Entries of a table; where prefixes are matched, the longest first."""
    return sorted(table.entries(), key=lambda entry: [-each[1] for each in entry.match if isinstance(each, tuple)])


def action(table: RuntimeTable, called: EntryAction) -> str:
    """An entry's action with its parameters."""
    if isinstance(called, ActionCall):
        params = ", ".join(f"{name}={text}" for name, text in _named(table, called).items())
        return f"{short(called.name)}({params})"
    assert table.profile is not None
    return " or ".join(action(table, call) for call in table.profile.calls(called))


def _named(table: RuntimeTable, called: EntryAction) -> dict[str, str]:
    """Parameters of an action by name; none of a member or group."""
    if not isinstance(called, ActionCall):
        return {}
    params = zip(table.actions[called.name].params, called.args, strict=True)
    return {name: value(number, width, name) for (name, width), number in params}


def tables(switch: MrcSwitch) -> list[dict[str, Any]]:
    """All tables that entries can be written to: name, key fields, actions with their parameters, entries."""
    listed = []
    for name, table in switch.runtime.program().tables.items():
        key = table.table.key
        if table.table.entries is not None or not key:
            continue
        default = table.default_entry()
        listed.append({
            "table": short(name),
            "key": [{"name": field.name, "width": field.width, "kind": field.kind} for field in key],
            "actions": {short(each.name): [param for param, _ in each.params] for each in table.actions.values()},
            "direct": table.profile is None,
            "default": action(table, default.action) if default is not None else "nothing",
            "entries": [
                {
                    "key": match(key, entry.match),
                    "action": action(table, entry.action),
                    "params": _named(table, entry.action),
                }
                for entry in longest_first(table)
            ],
        })  # fmt: skip
    return listed


def write(
    switch: MrcSwitch, kind: str, table: str, key: str, action_name: str = "", params: Mapping[str, str] | None = None
) -> str:
    """Insert, modify or delete an entry (`kind`), given as text; return a phrase. LabError where the switch refuses
    it."""
    try:
        runtime = switch.runtime.table(switch.full_name(table))
    except KeyError:
        raise LabError(f"the program has no table {table}") from None
    fields = runtime.table.key
    parts = [part.strip() for part in key.split(",")]
    if len(parts) != len(fields):
        raise LabError(f"{table}: the key has {len(fields)} fields: {', '.join(each.name for each in fields)}")
    found: MatchKey = tuple(_field(field, text) for field, text in zip(fields, parts, strict=True))
    try:
        if kind == "delete":
            runtime.delete(found, 0)
            return f"{table}: {key} is deleted"
        call = _call(runtime, action_name, params or {})
        if kind == "modify":
            runtime.modify(TableEntry(found, call))
        else:
            runtime.insert(TableEntry(found, call))
    except RuntimeApiError as error:
        raise LabError(f"the switch refuses it: {error.code}: {error}") from None
    return f"{table}: {match(fields, found)} → {action(runtime, call)}"


def _field(key: TableKey, text: str) -> int | tuple[int, int]:
    if key.kind != "lpm":
        return parsed(text, key.width, key.name)
    address, _, length = text.partition("/")
    return parsed(address, key.width, key.name), int(length) if length.isdigit() else key.width


def _call(table: RuntimeTable, action_name: str, params: Mapping[str, str]) -> ActionCall:
    full = next((name for name in table.actions if short(name) == short(action_name)), None)
    if full is None:
        has = ", ".join(map(short, table.actions))
        raise LabError(f"{short(table.table.name)} has no action {action_name!r}; it has {has}")
    declared = dict(table.actions[full].params)
    if unknown := [name for name in params if name not in declared]:
        raise LabError(f"{short(full)} has no parameter {unknown[0]}; it has {', '.join(declared) or 'none'}")
    if missing := [name for name in declared if name not in params]:
        raise LabError(f"{short(full)} needs {', '.join(missing)}")
    return ActionCall(full, tuple(parsed(params[name], width, name) for name, width in declared.items()))
