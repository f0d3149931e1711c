"""Resources that a fabric needs, and whether this machine has them: memory, processes, CPU. Estimated before any start.

The figures per process are of the embedded switch and the agents after some seconds of traffic, as private memory
(`Pss` in proc(5)). CPU per packet (docs/performance.md, docs/softswitch.md) is highest at low rates, where caches are
cold, and lowest at full speed: a load that is too much even at the lowest cost is impossible at any rate. A BMv2
needs about as much at low rates.
"""

import os
from pathlib import Path
from typing import NamedTuple

from mrclab.lab.errors import Refused
from mrclab.topo.spec import FabricSpec

_MIB = 1 << 20
_SWITCH, _AGENT, _SHELL = 16 * _MIB, 28 * _MIB, _MIB // 2  # bytes each; of a switch some 4 MiB are rings of its ports
_OTHERS = 200 * _MIB  # the lab's own process, the controller, files of the run
_PER_CABLE = 40 << 10  # bytes of the kernel's for a cable's interfaces and rules
_SWITCH_THREADS = 11
_SWITCH_S, _HOST_S = 100e-6, 110e-6  # CPU seconds per packet of a switch, and of the host at either end, at low rates
_MIN_SWITCH_S, _MIN_HOST_S = 10e-6, 18e-6  # the same at full speed
_USABLE_SHARE = 0.9  # of free memory; the rest is left to other programs


class Load(NamedTuple):
    """Simultaneous load in hosts at line rate: of all traffic (`most`), of traffic that surely coincides (`least`)."""

    most: float = 0.0
    least: float = 0.0


IDLE = Load()


class Need(NamedTuple):
    """Requirements of a fabric under a load."""

    switches: int
    hosts: int
    memory: int  # bytes
    threads: int
    cpus: float  # expected, with all traffic at once
    least_cpus: float  # lower bound: for some time, at the lowest cost of a packet
    busiest: float  # lower bound for the busiest process, which has one CPU


class MachineCapacity(NamedTuple):
    """Free capacity of this machine."""

    memory: int  # bytes
    threads: int
    cpus: int


def need(spec: FabricSpec, load: Load = IDLE) -> Need:
    """Compute the need from the sizes alone."""
    switches, hosts = spec.planes * (spec.t0s + spec.t1s), spec.t0s * spec.hosts_per_t0
    cables = spec.planes * spec.t0s * (spec.hosts_per_t0 + spec.t1s)
    memory = switches * (_SWITCH + _SHELL) + hosts * (_AGENT + _SHELL) + cables * _PER_CABLE + _OTHERS
    hops = 3 if spec.t0s > 1 else 1
    line = spec.planes * spec.link.rate_pps  # packets a second of one host
    cpus = load.most * line * (hops * _SWITCH_S + 2 * _HOST_S)
    least = load.least * line * (_MIN_SWITCH_S + 2 * _MIN_HOST_S)  # one switch: a path need not cross a T1
    busiest = min(1.0, load.least) * line * _MIN_HOST_S
    return Need(switches, hosts, memory, switches * (_SWITCH_THREADS + 1) + 2 * hosts + 40, cpus, least, busiest)


def here() -> MachineCapacity:
    """Measure this machine."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    available = int(fields["MemAvailable"].split()[0]) << 10
    most = min(int(Path(f"/proc/sys/kernel/{name}").read_text(encoding="ascii")) for name in ("pid_max", "threads-max"))
    return MachineCapacity(available, most - _threads_now(), len(os.sched_getaffinity(0)))


def _threads_now() -> int:
    return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[2])


def shortage(spec: FabricSpec, machine: MachineCapacity, load: Load = IDLE) -> str:
    """Return why the machine cannot hold the fabric or its traffic, and its limits; empty if it can."""
    required = need(spec, load)
    return _too_large(required, machine) or _too_fast(required, spec, machine)


def _too_large(required: Need, machine: MachineCapacity) -> str:
    lacks = []
    if required.memory > _USABLE_SHARE * machine.memory:
        lacks.append(f"{gib(required.memory)} of memory, of which {gib(machine.memory)} are free")
    if required.threads > _USABLE_SHARE * machine.threads:
        lacks.append(f"{required.threads} processes and threads, of which the kernel allows {machine.threads} more")
    if not lacks:
        return ""
    share = (_USABLE_SHARE * machine.memory - _OTHERS) / (required.memory - _OTHERS)
    fits = max(0, int(share * (required.switches + required.hosts)))
    what = f"{required.switches} switches and {required.hosts} hosts need {' and '.join(lacks)}"
    return f"{what}; this machine can hold some {fits} of them together: lower planes, t0s, t1s or hosts_per_t0"


def _too_fast(required: Need, spec: FabricSpec, machine: MachineCapacity) -> str:
    share = max(required.least_cpus / machine.cpus, required.busiest)
    if share <= 1:
        return ""
    alone = required.busiest >= required.least_cpus / machine.cpus
    what = f"a host that sends at line rate needs {required.busiest:.1f} CPUs at least, and its process can use one"
    if not alone:
        what = f"this traffic needs {required.least_cpus:.1f} CPUs at least, and this machine has {machine.cpus}"
    fits = max(1, int(spec.link.rate_pps / share))
    return f"{what}; lower rate_pps to {fits} or less, send less at once, or use --world sim"


def warning(spec: FabricSpec, load: Load, machine: MachineCapacity) -> str:
    """Return a warning if the machine can hold the fabric but may be too slow for it; else an empty string."""
    required = need(spec, load)
    if required.cpus <= machine.cpus:
        return ""
    what = f"concurrent traffic needs some {required.cpus:.1f} CPUs, and this machine has {machine.cpus}"
    return f"{what}: the run may come out as INVALID; lower rate_pps"


def check(spec: FabricSpec, load: Load = IDLE, *, force: bool = False) -> str:
    """Raise Refused if this machine cannot hold the fabric or its traffic, unless `force`; return a warning, if any."""
    if not Path("/proc/meminfo").exists():  # a plan on another system
        return ""
    machine = here()
    problem = shortage(spec, machine, load)
    if problem and not force:
        raise Refused(f"{problem}; --force starts it even so")
    return problem or warning(spec, load, machine)


def gib(size: int) -> str:
    """Return an estimate of bytes as text, no more exact than it is."""
    return f"{size / (1 << 30):.1f} GiB"
