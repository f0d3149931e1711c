"""Records of a history as one line each, for people who watch."""

from typing import Any

from mrclab.lab.history import Record


def phrase(record: Record) -> str:
    """One line for the event log."""
    shape = _PHRASES.get(record.kind)
    if shape is not None:
        return shape.format_map(_Fields(record.data)).rstrip()
    told = (f" {name}={value}" for name, value in record.data.items() if not isinstance(value, (dict, list)))
    return record.kind + "".join(told)


class _Fields(dict[str, Any]):
    """Fields of a record; one that is not there is empty."""

    def __missing__(self, name: str) -> str:
        return ""


_PHRASES = {
    "fault.begin": "{fault} strikes: {text}",
    "fault.end": "{fault} healed",
    "fault.edge": "{link} changes ({fault})",
    "traffic.start": "{traffic} starts",
    "traffic.end": "{traffic} ends",
    "ev.state": "EV plane {plane} uplink {uplink}: {old} → {new} ({reason})",
    "peer.ports": "{peer} has ports {mask:b} up",
    "qp.state": "QP {qp} {state} {reason}",
    "switch.up": "{switch} connected",
    "switch.down": "{switch} lost",
}
