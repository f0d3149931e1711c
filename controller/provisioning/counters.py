"""Counters of one switch: meaning of the program's counter indices. Pure; `p4runtime.fleet` reads them.

Indices are those of p4src/: `tx` by port × 8 + class, `rx`, `trims` and `ecn_marks` by port, `drops` by reason.
"""

from collections.abc import Iterable
from typing import Any

from mrclab.topo.model import Switch
from mrclab.topo.numbers import CPU_PORT

CLASSES = ("no_trim", "trimmable", "trimmable_retx", "trimmed", "trimmed_lasthop", "control", "other", "cpu")
QP_CLASSES = ("trimmable", "trimmable_retx", "trimmed", "trimmed_lasthop", "control")
TOTALS = ("rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "trimmed", "ecn_marked")
FULL_PACKET = 1024  # bytes; some probes make up less than one
DROP_REASONS = {
    1: "malformed", 2: "foreign", 3: "hop_limit", 4: "unknown_usid", 5: "usid_miss", 6: "ipv6_miss", 7: "wrong_source",
}  # fmt: skip

Reading = dict[tuple[str, int], tuple[int, int]]
"""(counter, index) → (packets, bytes)."""


def summary(switch: Switch, reading: Reading, ports: Iterable[int] | None = None) -> dict[str, Any]:
    """Counters as the API gives them: per port with its classes, drops by reason; all since the program was loaded.

    Of all ports, or of those given: the others then counted nothing.
    """
    drops = {name: _packets(reading, "drops", index) for index, name in DROP_REASONS.items()}
    drops["queue"] = lost_in_queues(switch, reading)
    numbers = range(1, len(switch.ports) + 1) if ports is None else ports
    return {"ports": {str(number): _port(reading, number) for number in numbers}, "drops": drops}


def totals(switch: Switch, reading: Reading, ports: Iterable[int] | None = None) -> dict[str, Any]:
    """Shortened `summary` for a record every second: sums, ports without classes, drop reasons; zeros are left out."""
    whole = summary(switch, reading, ports)
    ports = {number: {name: port[name] for name in TOTALS} for number, port in whole["ports"].items()}
    sums = {name: sum(port[name] for port in ports.values()) for name in TOTALS}
    busy = {number: _not_zero(port) for number, port in ports.items() if any(port.values())}
    return {**sums, "ports": busy, "drops": _not_zero(whole["drops"])}


def cpu_port(switch: Switch) -> int:
    """The number that the controller's port has in a reading: none of the switch's own, however many it has."""
    return CPU_PORT if len(switch.ports) < CPU_PORT else 0


def lost_in_queues(switch: Switch, reading: Reading) -> int:
    """Packets that came in and neither left nor were dropped by the program: tail drops.

    Waiting packets as well on the wire, where no switch reports how many wait.
    """
    ports = range(1, len(switch.ports) + 1)
    cpu = cpu_port(switch)
    received = sent = 0
    for (name, index), (packets, _) in reading.items():
        if name == "rx" and (index in ports or index == cpu):
            received += packets
        elif name == "tx" and ((port := index // len(CLASSES)) in ports or port == cpu):
            sent += packets
    dropped = sum(_packets(reading, "drops", reason) for reason in DROP_REASONS)
    return max(0, received - sent - dropped - _packets(reading, "queued", 0))


def traffic(switch: Switch, reading: Reading, trimming: bool) -> int:
    """Packets of QPs, data and acknowledgements, that left by any port; Clustermapper's and the controller's left out.

    Where the fabric does not trim, data has the code point of Clustermapper's probes and is distinguished by size.
    """
    ports = [number * len(CLASSES) for number in range(1, len(switch.ports) + 1)]
    packets = sum(_packets(reading, "tx", port + CLASSES.index(name)) for port in ports for name in QP_CLASSES)
    if trimming:
        return packets
    untrimmed = sum(reading.get(("tx", port + CLASSES.index("no_trim")), (0, 0))[1] for port in ports)
    return packets + untrimmed // FULL_PACKET


def _port(reading: Reading, port: int) -> dict[str, Any]:
    classes = {}
    for kind, name in enumerate(CLASSES):
        packets, size = reading.get(("tx", port * len(CLASSES) + kind), (0, 0))
        classes[name] = {"packets": packets, "bytes": size}
    rx_packets, rx_bytes = reading.get(("rx", port), (0, 0))
    return {
        "rx_packets": rx_packets,
        "rx_bytes": rx_bytes,
        "tx_packets": sum(cell["packets"] for cell in classes.values()),
        "tx_bytes": sum(cell["bytes"] for cell in classes.values()),
        "trimmed": _packets(reading, "trims", port),
        "ecn_marked": _packets(reading, "ecn_marks", port),
        **{name: _packets(reading, name, port) for name in PAUSES if (name, port) in reading},
        "class": classes,
    }


PAUSES = ("pfc_xoffs", "pfc_paused", "pfc_storms")
"""Of a port with priority flow control: pauses that it sent its peer, ns that its own data was paused, storms."""


def _not_zero(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def _packets(reading: Reading, counter: str, index: int) -> int:
    return reading.get((counter, index), (0, 0))[0]
