"""A small, exact history of several flows: a victim, an incast, a ring and ping-pongs, and a switch that freezes.

Two planes with two T1s each, three hosts in either of two T0 groups. Samples are lean, as agents write
them: what did not change is left out.
"""

from collections.abc import Iterator

from mrclab.lab.expectations import Verdict, judge_all
from mrclab.lab.history import History, Record
from mrclab.lab.measure.measures import Measures
from mrclab.lab.scenario.scenario import Loaded, loads
from mrclab.topo import srv6

START, INCAST, FREEZE, THAW, END = 50.0, 52.0, 54.0, 55.0, 58.0
RATE, MTU, DELAY = 200, 1024, 0.002
LINE = 2 * RATE * MTU  # payload bytes per second of a host
RTT = 8 * DELAY
VICTIM, ALONE = 0.98, 1.0  # the victim's share of its line, beside the incast and alone

TEXT = """
name: flows
seed: 1
fabric: {planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 3, path_mtu: 1024, link: {rate_pps: 200, delay: 2ms}}
mapper: {cycle: 200ms}
traffic:
  - {name: victim, kind: stream, from: h1, to: h4, message: 64 KiB, duration: 8s}
  - {name: incast, kind: incast, from: [h2, h3], to: h5, message: 64 KiB, duration: 6s, start: 2s}
  - {name: near, kind: pingpong, from: h1, to: h2, size: 2, count: 10}
  - {name: far, kind: pingpong, from: h1, to: h4, size: 2, count: 10}
  - {name: ring, kind: ring_all_reduce, hosts: [h3, h6], size: 64 KiB, iterations: 4}
faults:
  - {name: freeze, kind: switch_freeze, switch: t1-p1-2, at: 4s, until: 5s}
  - {name: gray, kind: loss, link: t0-p2-1/t1-p2-1, rate: 1%, at: 6s, until: 7s}
expect:
"""

FLOWS = {  # name → source, destination, share of a host's line, from, until
    "victim/h1>h4": ("h1", "h4", VICTIM, START, END),
    "incast/h2>h5": ("h2", "h5", 0.5, INCAST, END),
    "incast/h3>h5": ("h3", "h5", 0.45, INCAST, END),
}
QP = {name: 16 * (number + 1) for number, name in enumerate(FLOWS)}


def scenario(expect: str) -> Loaded:
    """The scenario with some expectations."""
    return loads(TEXT + expect, "flows.yaml")


def judge(expect: str, change=lambda rs: rs) -> Verdict:
    """The verdict of one expectation on the history after a change to its records."""
    loaded = scenario(expect)
    return judge_all(Measures(History(change(records())), loaded.scenario, loaded.fabric))[0]


def measures(change=lambda rs: rs, rest: str = "") -> Measures:
    """Measures of the history after a change to its records; `rest` is the end of the scenario's text."""
    loaded = scenario("  - {kind: clean}\n" + rest)
    return Measures(History(change(records())), loaded.scenario, loaded.fabric)


def records() -> list[Record]:
    """Everything that happened, in no order."""
    return [*_moments(), *_samples(), *_freeze(), *_durations(), *_fabric()]


def ev(plane: int, uplink: int) -> int:
    """The EV of a path, the same for every QP."""
    return srv6.ev(plane, uplink, srv6.ev_tag(2 * plane + uplink))


PATHS = [(1, 1), (1, 2), (2, 1), (2, 2)]


def _moments() -> Iterator[Record]:
    for traffic, begin in (("victim", START), ("incast", INCAST)):
        flows = [
            {"flow": name, "source": source, "destination": destination, "size": 0}
            | {"qps": [{"source_qp": QP[name], "destination_qp": QP[name] + 1}]}
            for name, (source, destination, *_) in FLOWS.items()
            if name.startswith(traffic)
        ]
        first = {"source": flows[0]["source"], "destination": flows[0]["destination"]}
        yield Record(
            begin, "lab", "traffic.start", {"traffic": traffic, "traffic_kind": traffic, **first, "flows": flows}
        )
        yield Record(END, "lab", "traffic.end", {"traffic": traffic})
    for name, (*_, begin, end) in FLOWS.items():
        digest = {"sent_sha256": name, "received_sha256": name}
        told = {"traffic": name.split("/")[0], "flow": name, "bytes": 1000, "seconds": end - begin}
        yield Record(END, "lab", "flow.end", {**told, **digest})
    links = ["t0-p1-1/t1-p1-2", "t0-p1-2/t1-p1-2"]
    frozen = {"fault": "freeze", "fault_kind": "switch_freeze", "text": "t1-p1-2 freezes", "links": links}
    yield Record(FREEZE, "lab", "fault.begin", frozen)
    yield Record(THAW, "lab", "fault.end", frozen)
    gray = {"fault": "gray", "fault_kind": "loss", "text": "1% lost", "links": ["t0-p2-1/t1-p2-1"]}
    yield Record(START + 6, "lab", "fault.begin", gray)
    yield Record(START + 7, "lab", "fault.end", gray)
    yield Record(
        START + 7, "lab", "fault.counters", {"fault": "gray", "fault_kind": "loss", "seen": 1000, "dropped": 10}
    )


def arrived(name: str, t: float) -> float:
    """Bytes of a flow that have arrived; nothing does while the switch is frozen and the sender has not noticed."""
    _, _, share, begin, end = FLOWS[name]
    seconds = max(0.0, min(t, end) - begin)
    if name.startswith("victim"):  # alone until the incast begins, and half of it is lost for 100 ms
        alone = max(0.0, min(t, INCAST) - begin)
        lost = max(0.0, min(t - FREEZE, 0.1)) * 0.5
        return LINE * (alone * ALONE + (seconds - alone) * share - lost * share)
    return LINE * share * seconds


def _samples() -> Iterator[Record]:
    told: dict[tuple[str, int, int], float] = {}
    for tick in range(-1, 85):
        t = START + tick / 10
        rows: dict[str, dict[str, list[dict[str, object]]]] = {
            f"h{n}": {"qps": [], "paths": [], "ports": []} for n in range(1, 7)
        }
        for name, (source, destination, *_) in FLOWS.items():
            count = round(arrived(name, t))
            if told.get((name, 0, 0)) == count:
                continue
            told[name, 0, 0] = count
            sender = {
                "qp": QP[name],
                "acked_bytes": count,
                "sent_packets": count // MTU,
                "cwnd": 30 * MTU,
                "rtt": 1.2 * RTT,
            }
            rows[source]["qps"].append(sender | ({"retx_packets": 4, "lost_packets": 4} if t > FREEZE + 0.05 else {}))
            rows[destination]["qps"].append({"qp": QP[name] + 1, "placed_bytes": count, "max_gap": 0.003})
            for place, (plane, uplink) in enumerate(PATHS):
                avoid = name.startswith("victim") and t > FREEZE + RTT
                packets = count // MTU // 4 - (20 if avoid and place == 1 else 0)
                row = {"qp": QP[name], "ev": ev(plane, uplink), "plane": plane, "uplink": uplink}
                rows[source]["paths"].append(row | {"sent_packets": packets, "acked_packets": packets, "state": "GOOD"})
        for host, parts in rows.items():
            got = sum(arrived(name, t) for name, flow in FLOWS.items() if flow[1] == host)
            parts["ports"] = [{"port": plane, "placed_bytes": round(got / 2), "socket_drops": 0} for plane in (1, 2)]
            yield Record(t, host, "sample", dict(parts))


def _freeze() -> Iterator[Record]:
    for name, rtts in (("victim/h1>h4", 1.0), ("incast/h2>h5", 1.5), ("incast/h3>h5", 2.0)):
        t, host = FREEZE + rtts * RTT, FLOWS[name][0]
        change = {"qp": QP[name], "ev": ev(1, 2)}
        for number in range(4):
            lost = {**change, "psn": number, "reason": "time", "sent": FREEZE + 0.001}
            yield Record(t, host, "packet.lost", lost)
            yield Record(t + 0.001, host, "packet.retx", {**change, "psn": number})
        yield Record(t, host, "ev.state", {**change, "old": "GOOD", "new": "ASSUMED_BAD", "reason": "time"})
        yield Record(THAW + 0.5, host, "ev.state", {**change, "old": "ASSUMED_BAD", "new": "GOOD", "reason": "probe"})


def _durations() -> Iterator[Record]:
    for number in range(100):
        t = START + 0.05 * number
        done = t + 0.010 + 0.0001 * number
        yield Record(done, "h1", "messages", {"traffic": "victim", "flow": "victim/h1>h4", "done": [(t, done, 65536)]})
    for name, rtt in (("near", 4 * DELAY), ("far", 8 * DELAY)):
        yield Record(START + 3, "h1", "pingpong", {"traffic": name, "flow": name, "rtt": [rtt] * 9 + [rtt + 0.002]})
    ring = {"flow": "ring", "source": "h3", "destination": "h6", "size": 0, "qps": []}
    started = {"traffic": "ring", "traffic_kind": "ring_all_reduce", "flows": [ring]}
    yield Record(START + 1, "lab", "traffic.start", started)
    yield Record(START + 2, "lab", "traffic.end", {"traffic": "ring", "iterations": [0.2, 0.21, 0.22, 0.3]})


def _fabric() -> Iterator[Record]:
    ports = {
        "1": {"rx_packets": 0, "trimmed": 0, "ecn_marked": 0},
        "4": {"rx_packets": 0, "trimmed": 0, "ecn_marked": 0},
    }
    begin = {name: {"ports": ports, "drops": {"queue": 0, "usid_miss": 0}} for name in ("t0-p1-1", "t0-p1-2")}
    yield Record(START - 0.1, "lab", "counters", {"switches": begin})
    for second in range(1, 8):  # h5's T0 trims and marks; what waits in a queue is counted as dropped until it leaves
        busy = {"rx_packets": 900 * second, "trimmed": 5 * second, "ecn_marked": 40 * second}
        told = {"rx_packets": 900 * second, "drops": {"queue": 3}, "ports": {"2": busy}}
        yield Record(START + second, "controller", "switches", {"switches": {"t0-p1-2": told}})
    last = {
        "ports": {"2": {"rx_packets": 9000, "trimmed": 40, "ecn_marked": 320}},
        "drops": {"queue": 0, "usid_miss": 0},
    }
    yield Record(END + 0.1, "lab", "counters", {"switches": {"t0-p1-2": last}})
    blamed = {"element": "t1-p1-2", "element_kind": "t1", "state": "down", "rate": 1.0, "evidence": 9.0}
    yield Record(FREEZE + 0.6, "controller", "verdict", {**blamed, "alternatives": []})
    for tick in range(40):
        t = START + 0.25 * tick
        yield Record(t, "lab", "cpu", {"seconds": {"t0-p1-1": 0.1 * tick, "h1": 0.05 * tick}})
        deep = {"t0-p1-2": {"2": 4 + tick % 4}} if INCAST < t < END else {}  # h5's port; 4 to 7 packets wait there
        yield Record(t, "lab", "depths", {"switches": deep, "silent": ["t1-p1-2"] if FREEZE < t < THAW else []})
