"""What a fabric needs of a machine, and whether this one has it: memory, processes, CPU. Reckoned, nothing is started.

The figures per process are of the embedded switch and the agents after some seconds of traffic, in memory that nobody
else shares (`Pss` in proc(5)); the CPU per packet is that of low rates, as docs/performance.md and docs/softswitch.md
have it. A BMv2 takes about as much.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from mrclab.lab.errors import Refused
from mrclab.topo.spec import FabricSpec

_MIB = 1 << 20
_SWITCH, _AGENT, _SHELL = 27 * _MIB, 28 * _MIB, _MIB // 2  # bytes each
_REST = 200 * _MIB  # the lab's own process, the controller, files of the run
_PER_CABLE = 40 << 10  # bytes of the kernel's for a cable's interfaces and rules
_SWITCH_THREADS = 11
_SWITCH_S, _HOST_S = 100e-6, 110e-6  # CPU seconds per packet of a switch, and of the host at either end
_ROOM = 0.9  # of what is free: the rest is for everybody else


@dataclass(frozen=True)
class Need:
    """What a fabric takes when some of its hosts send as fast as they can."""

    switches: int
    hosts: int
    memory: int  # bytes
    threads: int
    cpus: float


@dataclass(frozen=True)
class Machine:
    """What this machine has left."""

    memory: int  # bytes
    threads: int
    cpus: int


def need(spec: FabricSpec, senders: int = 0) -> Need:
    """Reckon it, by arithmetic from the sizes alone; `senders`: hosts that send at once."""
    switches, hosts = spec.planes * (spec.t0s + spec.t1s), spec.t0s * spec.hosts_per_t0
    cables = spec.planes * spec.t0s * (spec.hosts_per_t0 + spec.t1s)
    memory = switches * (_SWITCH + _SHELL) + hosts * (_AGENT + _SHELL) + cables * _PER_CABLE + _REST
    hops = 3 if spec.t0s > 1 else 1
    packets = senders * spec.planes * spec.link.rate_pps  # a second
    cpus = packets * (hops * _SWITCH_S + 2 * _HOST_S)
    return Need(switches, hosts, memory, switches * (_SWITCH_THREADS + 1) + 2 * hosts + 40, cpus)


def here() -> Machine:
    """Look at this machine."""
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    available = int(fields["MemAvailable"].split()[0]) << 10
    most = min(int(Path(f"/proc/sys/kernel/{name}").read_text(encoding="ascii")) for name in ("pid_max", "threads-max"))
    return Machine(available, most - _threads_now(), len(os.sched_getaffinity(0)))


def _threads_now() -> int:
    return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[2])


def trouble(spec: FabricSpec, machine: Machine) -> str:
    """Why the machine cannot hold the fabric, and what it can hold; empty where it can."""
    wanted = need(spec)
    lacks = []
    if wanted.memory > _ROOM * machine.memory:
        lacks.append(f"{_gib(wanted.memory)} of memory, of which {_gib(machine.memory)} are free")
    if wanted.threads > _ROOM * machine.threads:
        lacks.append(f"{wanted.threads} processes and threads, of which the kernel allows {machine.threads} more")
    if not lacks:
        return ""
    fits = max(0, int((_ROOM * machine.memory - _REST) / (wanted.memory - _REST) * (wanted.switches + wanted.hosts)))
    what = f"{wanted.switches} switches and {wanted.hosts} hosts need {' and '.join(lacks)}"
    return f"{what}; this machine can hold some {fits} of them together: lower planes, t0s, t1s or hosts_per_t0"


def warning(spec: FabricSpec, senders: int, machine: Machine) -> str:
    """What a machine that can hold the fabric may be too slow for; empty where it is not."""
    wanted = need(spec, senders)
    if wanted.cpus <= machine.cpus:
        return ""
    what = (
        f"{senders} hosts that send at line rate want some {wanted.cpus:.1f} CPUs, and this machine has {machine.cpus}"
    )
    return f"{what}: the run may come out as INVALID; lower rate_pps"


def check(spec: FabricSpec, senders: int = 0, *, force: bool = False) -> str:
    """Refused where this machine cannot hold the fabric, unless `force`; returns a warning, or nothing."""
    if not Path("/proc/meminfo").exists():  # a plan on another system
        return ""
    machine = here()
    lacking = trouble(spec, machine)
    if lacking and not force:
        raise Refused(f"{lacking}; --force starts it even so")
    return lacking or warning(spec, senders, machine)


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
