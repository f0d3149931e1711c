"""Users' programs on the hosts of a running lab: in the host's namespaces, on its NIC through lib_mrc.so.

Such programs find each other over TCP before they use RDMA, so the first one on a host connects that host to a
management network: a bridge in the cables' namespace, beside the fabric, with 10.77.0.0/16. It ends with the lab.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from mrclab import HOME
from mrclab.hosts.agent.provider import SUFFIX
from mrclab.lab.errors import RunError
from mrclab.lab.run.interrupts import redirected
from mrclab.lab.run.wire.attach import LabClients
from mrclab.topo.linux.processes import BASE_VARIABLE, HOST_VARIABLE, TOKEN_VARIABLE
from mrclab.topo.linux.state import namespace

LIBRARY = HOME / "hosts" / "libmrc" / "build" / "lib_mrc.so"
MASTER_PORT = 29500
_BRIDGE = "oob"


def address(number: int) -> str:
    """Return a host's address in the management network, by its number."""
    return f"10.77.{number >> 8}.{number & 0xFF}"


def environment(lab: LabClients, host: str, pid: int) -> dict[str, str]:
    """Return the environment of a program on a host; RunError where lib_mrc.so is not built."""
    if not LIBRARY.exists():
        raise RunError("lib_mrc.so is not built; run make libmrc")
    preload = [str(LIBRARY), *os.environ.get("LD_PRELOAD", "").split()]
    return {
        **os.environ,
        **_marks(pid),
        "LD_PRELOAD": ":".join(preload),
        "MRCLAB_VERBS": str(lab.run_dir / f"{host}{SUFFIX}"),
        "MRCLAB_ADDRESS": address(lab.fabric.host(host).number),
        HOST_VARIABLE: host,
        # python and torchrun of the lab's environment
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }


def rank_environment(hosts: Sequence[int], rank: int) -> dict[str, str]:
    """Return a rank's environment as torchrun sets it, given the hosts' numbers by rank."""
    size = str(len(hosts))
    return {
        "RANK": str(rank), "WORLD_SIZE": size, "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": str(rank),
        "GROUP_WORLD_SIZE": size, "ROLE_RANK": str(rank), "ROLE_WORLD_SIZE": size, "ROLE_NAME": "default",
        "MASTER_ADDR": address(hosts[0]), "MASTER_PORT": str(MASTER_PORT), "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0", "TORCHELASTIC_RUN_ID": "none", "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": _BRIDGE, "PYTHONUNBUFFERED": "1",
    }  # fmt: skip


def prepare(lab: LabClients, host: str, argv: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Connect a host to the management network; return command line and environment of a program there."""
    name = lab.fabric.host(host).name
    pid = int(lab.call(name, "hello")["pid"])
    made = environment(lab, name, pid)
    _join(lab, name, pid)
    return ["mnexec", "-a", str(pid), *argv], made


def run(lab: LabClients, host: str, argv: Sequence[str]) -> int:
    """Run a program on a host with this terminal; return its exit status."""
    command, made = prepare(lab, host, argv)
    return foreground(command, made)


def foreground(command: Sequence[str], variables: Mapping[str, str] | None = None) -> int:
    """Run a program with this terminal; Ctrl-C is for the program alone. Returns its exit status, as a shell has it."""
    with redirected(lambda: True):
        status = subprocess.run(command, env=variables, check=False).returncode
    return status if status >= 0 else 128 - status


def join(lab: LabClients, host: str) -> None:
    """Connect a host to the management network, unless it is connected."""
    _join(lab, host, int(lab.call(host, "hello")["pid"]))


def _join(lab: LabClients, host: str, pid: int) -> None:
    import fcntl  # noqa: PLC0415 - programs of a world without Linux are asked about too

    lock = os.open(lab.run_dir, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # programs that start at the same time make one network
        _connect(lab, host, pid)
    finally:
        os.close(lock)


def _connect(lab: LabClients, host: str, pid: int) -> None:
    if f"{_BRIDGE}:" in Path(f"/proc/{pid}/net/dev").read_text(encoding="ascii"):
        return
    number = lab.fabric.host(host).number
    space = namespace(lab.run_dir.parent, "cables")
    if not _ip("-n", space, "link", "show", _BRIDGE, quiet=True):
        _ip("-n", space, "link", "add", _BRIDGE, "type", "bridge")
        _ip("-n", space, "link", "set", _BRIDGE, "up")
    end = f"{_BRIDGE}-{host}"
    _ip("-n", space, "link", "add", end, "type", "veth", "peer", "name", _BRIDGE, "netns", str(pid))
    _ip("-n", space, "link", "set", end, "master", _BRIDGE, "up")
    inside = ("nsenter", "-t", str(pid), "-n", "ip")
    _call(*inside, "addr", "add", f"{address(number)}/16", "dev", _BRIDGE)
    _call(*inside, "link", "set", _BRIDGE, "up")


def _ip(*words: str, quiet: bool = False) -> bool:
    return _call("ip", *words, quiet=quiet)


def _call(*command: str, quiet: bool = False) -> bool:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and not quiet:
        raise RunError(f"the management network cannot be made: {' '.join(command)}: {done.stderr.strip()}")
    return not done.returncode


def _marks(pid: int) -> Mapping[str, str]:
    """Return the run's token and base directory, as its agents have them: the lab and `mrclab clean` end by these."""
    words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    found = dict(word.decode(errors="replace").partition("=")[::2] for word in words)
    return {name: found[name] for name in (TOKEN_VARIABLE, BASE_VARIABLE) if name in found}
