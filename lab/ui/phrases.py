"""Records of a history as one line of text each."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from mrclab.lab.history import Record


def phrase(record: Record, names: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return the line of the event log for a record of one of `PHRASES`; `names` are the hosts of addresses."""
    return " ".join(PHRASES[record.kind].format_map(_Fields(record.data, names)).split())


class _Fields(dict[str, Any]):
    """Fields of a record as words; one that is not there is empty."""

    def __init__(self, fields: Mapping[str, Any], names: Mapping[str, str]) -> None:
        super().__init__(fields)
        self._names = names

    def __getitem__(self, name: str) -> Any:
        value = self.get(name, "")
        if name == "peer":
            return self._names.get(value, value)
        if name == "up":
            return "is up" if value else "is down"
        if name == "mask":
            up = [str(bit + 1) for bit in range(int(value or 0).bit_length()) if int(value) >> bit & 1]
            return ", ".join(up) or "none"
        return "; ".join(map(str, value)) if isinstance(value, list) else value


PHRASES = {
    "denied": "{element} is denied by {source} {reason}",
    "drained": "{switch} is drained",
    "ev.state": "EV plane {plane} uplink {uplink}: {old} → {new} ({reason})",
    "fault.begin": "fault {fault}: {text}",
    "fault.edge": "{link} {up} ({fault})",
    "fault.end": "{fault} cleared",
    "faults.cleared": "all faults are cleared {problems}",
    "flow.failed": "{flow} of {traffic} failed: {error}",
    "lab.up": "ready",
    "link.failed": "cable {link} is {state}: {reason}",
    "peer.ports": "NIC ports of {peer} that are up: {mask}",
    "port.state": "NIC port {port} {up}",
    "process.stopped": "{process} was stopped by a signal (state T)",
    "process.resumed": "{process} resumed after {seconds} s",
    "process.died": "{process} died {reason}",
    "qp.resumed": "QP {qp} resumed after {seconds} s",
    "qp.stalled": "QP {qp} makes no progress: {reason}",
    "qp.state": "QP {qp} {state} {reason}",
    "switch.answers": "{switch} answers again",
    "switch.down": "{switch} lost",
    "switch.silent": "{switch} does not answer: {reason}",
    "switch.ready": "{switch} holds its entries",
    "switch.up": "{switch} connected",
    "traffic.end": "{traffic} ends",
    "traffic.start": "{traffic} starts",
    "undenied": "{element} is allowed again {reason}",
    "undrained": "{switch} is back in service",
    "verdict": "Clustermapper: {element} is {state}",
    "verdict.over": "Clustermapper: {element} is healthy again",
    "verified": "every cable verified in both directions",
}
"""Kinds of records in the event log, each with its line."""
