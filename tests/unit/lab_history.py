"""A small, exact history of the link-failure scenario: what four processes would have written, without noise."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from mrclab.lab.history import History, Record
from mrclab.lab.measure.measures import Measures
from mrclab.lab.scenario.scenario import Loaded, load, loads
from mrclab.topo import srv6

SCENARIO = Path(__file__).parents[2] / "scenarios" / "link-failure.yaml"

START, CORE, NIC, REPAIRED, END = 100.0, 102.0, 104.0, 107.0, 109.0
SPEC = load(SCENARIO).scenario.fabric
PLANE_RATE = SPEC.link.rate_pps * SPEC.path_mtu  # payload bytes per second of one plane at line rate
RTT = 8 * SPEC.link.delay
Change = Callable[[list[Record]], list[Record]]


def store(found: Iterable[Record], path: Path) -> None:
    """Write records as a history file, in the order of time."""
    rows = ({"t": r.t, "node": r.node, "kind": r.kind, **r.data} for r in History(found).records)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def scenario(expect: str = "") -> Loaded:
    """The committed scenario, its expectations replaced where some are given."""
    if not expect:
        return load(SCENARIO)
    text = SCENARIO.read_text()
    return loads(text[: text.index("expect:")] + "expect:\n" + expect, "test.yaml")


def records() -> list[Record]:
    """Everything that happened, in no order."""
    return [*_moments(), *_samples(), *_core_failure(), *_nic_failure(), *_machine()]


def measures(loaded: Loaded | None = None, change: Change = lambda r: r) -> Measures:
    """Measures of that history after a change to its records."""
    loaded = loaded or scenario()
    return Measures(History(change(records())), loaded.scenario, loaded.fabric)


def ev(plane: int, uplink: int) -> int:
    """The EV that h1's QP has for a path."""
    return srv6.ev(plane, uplink, srv6.ev_tag(2 * plane + uplink))


def _moments() -> Iterator[Record]:
    flow = {"flow": "file", "source": "h1", "destination": "h3", "size": 0, "qps": []}
    yield Record(START, "lab", "traffic.start", {"traffic": "file", "traffic_kind": "write", "flows": [flow]})
    yield Record(END, "lab", "traffic.end", {"traffic": "file", "sent_sha256": "ab" * 32, "received_sha256": "ab" * 32})
    for begin, fault, link in ((CORE, "core-link", "t0-p1-1/t1-p1-2"), (NIC, "nic-link", "h1-p2/t0-p2-1")):
        facts = {"fault": fault, "fault_kind": "link_down", "links": [link], "link": link, "text": link}
        yield Record(begin, "lab", "fault.begin", facts)
        yield Record(REPAIRED, "lab", "fault.end", facts)


def _samples() -> Iterator[Record]:
    for tick in range(-2, 100):
        t = START + tick / 10
        during = min(max(t - START, 0.0), END - START)
        without = min(max(t - NIC, 0.0), REPAIRED - NIC)
        ports = [
            {"port": p, "placed_bytes": round(PLANE_RATE * (during - (without if p == 2 else 0))), "socket_drops": 0}
            for p in (1, 2, 3, 4)
        ]
        yield Record(t, "h3", "sample", {"ports": ports, "qps": [{"qp": 1, "max_gap": 0.004}], "paths": []})
        sent = round(125 * during)
        paths = [
            {
                "qp": 1,
                "ev": ev(p, u),
                "plane": p,
                "uplink": u,
                "sent_packets": sent,
                "acked_packets": sent,
                "state": "GOOD",
            }
            for p in (1, 2, 3, 4)
            for u in (1, 2)
        ]
        yield Record(t, "h1", "sample", {"ports": [], "qps": [{"qp": 1, "acked_bytes": 0}], "paths": paths})


def _lost(t: float, psn: int, path: tuple[int, int], reason: str) -> Iterator[Record]:
    yield Record(t, "h1", "packet.lost", {"qp": 1, "psn": psn, "ev": ev(*path), "reason": reason, "sent": t - RTT})
    yield Record(t + 0.001, "h1", "packet.retx", {"qp": 1, "psn": psn, "ev": ev(3, 1), "old_ev": ev(*path)})


def _change(t: float, path: tuple[int, int], old: str, new: str, reason: str) -> Record:
    return Record(t, "h1", "ev.state", {"qp": 1, "ev": ev(*path), "old": old, "new": new, "reason": reason})


def _core_failure() -> Iterator[Record]:
    for number in range(4):
        yield from _lost(CORE + (1 + 0.2 * number) * RTT, 5000 + number, (1, 2), "time")
    yield _change(CORE + RTT, (1, 2), "GOOD", "ASSUMED_BAD", "time")
    yield _change(REPAIRED + 0.8, (1, 2), "ASSUMED_BAD", "GOOD", "probe")


def _nic_failure() -> Iterator[Record]:
    for number in range(6):
        yield from _lost(NIC + 0.002, 9000 + number, (2, 1 + number % 2), "port")
    for uplink in (1, 2):
        yield _change(NIC + 0.001, (2, uplink), "GOOD", "PORT_DOWN", "port")
        yield _change(REPAIRED + 0.001, (2, uplink), "PORT_DOWN", "GOOD", "port")


def _machine() -> Iterator[Record]:
    for tick in range(40):
        seconds = {"t0-p1-1": 0.1 * tick, "h1": 0.05 * tick}
        yield Record(START + 0.25 * tick, "lab", "cpu", {"seconds": seconds})
    for t, count in ((START - 0.1, 1), (END + 0.1, 6)):
        yield Record(t, "lab", "counters", {"switches": {"t0-p1-1": {"drops": {"queue": count, "usid_miss": 0}}}})
