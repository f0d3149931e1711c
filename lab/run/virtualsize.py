"""Memory of a run in virtual time, estimated from a scenario before anything is made.

Objects that nothing uses are not made: hosts with traffic or probes count, their QPs, and the ports and cables that
packets cross. Bytes per object were measured with tracemalloc (docs/results/scale.md), on 64-bit CPython 3.11.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mrclab.controller import nodefiles
from mrclab.lab.errors import Refused
from mrclab.lab.run import size
from mrclab.lab.scenario.units import show_seconds
from mrclab.sim.fleet import MAX_SHOWN

if TYPE_CHECKING:
    from mrclab.lab.scenario.scenario import Loaded
    from mrclab.lab.traffic.base import Flow, TrafficBase

_BASE = 150 << 20  # the interpreter with all imported modules
_HOST, _HOST_PLANE = 12_000, 3_400  # with the NIC's port and the cable in each plane
_QP, _QP_PLANE = 5_500, 150  # before it sends or receives
_ROCE_QP = 2_600  # with the state that sending and receiving add
_SENT, _RECEIVED, _CONTROL_PATH = 5_000, 3_000, 700  # with it: ring, completions, samples
_EV, _EV_USED = 550, 700  # of a QP that sends: at creation, and with its first packet
_PORT, _CABLE = 530, 440  # of a switch; between switches
_SWITCH, _SWITCH_PORT = 3_000, 16  # with the counters of a port that sent nothing
_HISTORY = 1_000  # records, packed, of a host with traffic
_SAMPLE_PLANE, _SAMPLES = 420, 30  # of a host in a fabric that keeps samples: a port's row, and how many there are
_PROBE = 450  # of Clustermapper's memory of one path
_CYCLES = 25  # cycles of its probes, as hosts probe ever more paths in turn
_REPORT, _REPORT_HOST = 170 << 20, 26_000  # for verdicts and plots, besides the memory that the world frees
_MANY_SAMPLES = 100_000  # of a host before any traffic: minutes of CPU time in fabrics of some hosts
_USABLE_SHARE = 0.9  # of free memory; the rest is left to other programs


class VirtualNeed(NamedTuple):
    """Objects of a run, and their bytes."""

    hosts: int
    qps: int
    ports: int
    memory: int


def need(loaded: Loaded) -> VirtualNeed:
    """Compute the need from the traffic and the fabric's sizes."""
    scenario, fabric = loaded.scenario, loaded.fabric
    spec = fabric.spec
    flows = [(entry, entry.flows(fabric, scenario.seed)) for entry in scenario.traffic]
    names = {name for _, found in flows for flow in found for name in (flow.source, flow.destination)}
    names.update(name for entry, found in flows if not found for name in entry.hosts_in(fabric, scenario.seed))
    hosts, probes = len(names), 0
    if scenario.mapper is not None:
        agents = spec.t0s * min(scenario.mapper.agents or spec.hosts_per_t0, spec.hosts_per_t0)
        hosts = min(len(fabric.hosts), hosts + agents)
        at_once = min(scenario.mapper.t1s or spec.t1s, spec.t1s)
        probes = agents * spec.planes * (1 + min(_CYCLES * at_once, spec.t1s))
    qps = sum(2 * len(found) * (entry.qps_of(scenario.transport.qps)) for entry, found in flows)
    content = sum(len(found) * _content(loaded, entry) for entry, found in flows)
    packets = sum(-(-(flow.size or 1 << 40) // spec.path_mtu) for _, found in flows for flow in found)
    crossed = 3 * packets + 3 * probes  # a switch's port each, at most
    above = spec.planes * spec.t0s * spec.t1s
    down = spec.planes * min(len(fabric.hosts), max(hosts, 1))
    ports = min(crossed, 2 * above + down)
    memory = _BASE + _REPORT + hosts * _REPORT_HOST + content
    memory += hosts * (_HOST + _HOST_PLANE * spec.planes + _HISTORY) + probes * _PROBE
    memory += of_samples(loaded, hosts)
    memory += of_qps(loaded, qps) + of_traffic(loaded, flows)
    memory += ports * _PORT + min(above, crossed) * _CABLE
    memory += min(len(fabric.switches), crossed) * (_SWITCH + _SWITCH_PORT * (spec.hosts_per_t0 + spec.t1s))
    return VirtualNeed(hosts, qps, ports, memory)


def of_samples(loaded: Loaded, hosts: int) -> int:
    """Return the bytes of samples that hosts keep; hosts of a large fabric keep none."""
    fabric = loaded.fabric
    return hosts * _SAMPLES * _SAMPLE_PLANE * fabric.planes if len(fabric.links) <= MAX_SHOWN else 0


def of_qps(loaded: Loaded, qps: int) -> int:
    """Return the bytes of this many QPs; those that come with an MRC QP's first packet are left out."""
    return qps * (_ROCE_QP if _roce(loaded) else _QP + _QP_PLANE * loaded.fabric.planes)


def _roce(loaded: Loaded) -> bool:
    return loaded.scenario.transport.kind == "roce"


def of_traffic(loaded: Loaded, flows: Sequence[tuple[TrafficBase, Sequence[Flow]]]) -> int:
    """Return the bytes that come with MRC's first packets: EVs and paths of senders, reverse paths of receivers."""
    if _roce(loaded):
        return 0
    spec = loaded.fabric.spec
    profile = loaded.scenario.transport.profile(nodefiles.default_profile(loaded.fabric))
    every = spec.planes * min(profile.ev_count, spec.t1s)
    on_demand = 2 * profile.ev_count <= spec.t1s
    memory = 0
    for entry, found in flows:
        qps = entry.qps_of(loaded.scenario.transport.qps)
        for flow in found:
            used = min(every, max(spec.planes, -(-(flow.size or 1 << 40) // spec.path_mtu // qps)))
            evs = (used if on_demand else every) * _EV + used * _EV_USED
            memory += qps * (_SENT + _RECEIVED + spec.planes * _CONTROL_PATH + evs)
    return memory


def _content(loaded: Loaded, entry: TrafficBase) -> int:
    """Return the bytes of a flow's payload at both ends."""
    if entry.is_counted or not hasattr(entry, "message"):
        return 0
    bounds = entry.workload(loaded.fabric, "h1", loaded.scenario.transport.qps)
    return int(bounds["message"] * (1 + bounds.get("depth", 1)))


def shortage(loaded: Loaded, free: int) -> str:
    """Return why a machine with this many free bytes cannot hold a run; empty if it can."""
    required = need(loaded)
    if required.memory <= _USABLE_SHARE * free:
        return ""
    hosts = f"{required.hosts:,} hosts with {required.qps:,} QPs"
    what = f"{loaded.scenario.name}: {hosts} and {required.ports:,} switch ports"
    return (
        f"{what} need some {size.gib(required.memory)} of memory in virtual time, of which {size.gib(free)} are free;"
        " lower t0s or hosts_per_t0, or have fewer hosts take part"
    )


def late_traffic(loaded: Loaded) -> str:
    """Return a warning where a run spends very many samples on waiting for its first traffic; else empty."""
    spec, scenario = loaded.fabric.spec, loaded.scenario
    began = min((entry.start.seconds for entry in scenario.traffic if not entry.start.name), default=0.0)
    samples = began / spec.sample_interval
    if samples < _MANY_SAMPLES:
        return ""
    return (
        f"{scenario.name}: nothing is sent until {show_seconds(began)}, and by then each host is sampled {samples:,.0f}"
        f" times; begin the traffic earlier, or set fabric.sample_every, for example to {began / 1000:.2g}s"
    )


def check(loaded: Loaded, *, force: bool = False) -> str:
    """Raise Refused if this machine cannot hold the run, unless `force`; return a warning, if any."""
    if not Path("/proc/meminfo").exists():
        return ""
    problem = shortage(loaded, size.here().memory)
    if problem and not force:
        raise Refused(f"{problem}; --force starts it even so")
    return problem
