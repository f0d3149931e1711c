"""Benchmark of provisioning many switches: `python -m mrclab.bench.controller`.

The switches are P4Runtime servers in memory, in a process of their own, so that the controller is measured. Where the
environment of p4runtime-sh is installed, its client writes the same entries to one switch for comparison.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mrclab import HOME
from mrclab.controller.p4runtime.session import SwitchSession
from mrclab.controller.provisioning.intent import Act, IntendedEntry
from mrclab.controller.provisioning.memoryswitch import MemorySwitch
from mrclab.controller.provisioning.program import PipelineConfig
from mrclab.controller.provisioning.provision import Provisioned, provision

ROOT = HOME
BUILD = ROOT / "p4src" / "build"
P4SH_PYTHON = ROOT / ".venv-p4sh" / "bin" / "python"
P4SH_SCRIPT = Path(__file__).with_name("p4sh.py")
START_TIMEOUT = 30.0  # seconds
LOCATOR = 0xFCBB_BB00


@dataclass(frozen=True)
class ControllerResult:
    """Seconds for all switches, from empty and adopted; and for one by p4runtime-sh, None where it is not there."""

    switches: int
    entries: int
    from_empty: float
    adopted: float
    p4sh_one: float | None


def entries(count: int) -> tuple[IntendedEntry, ...]:
    """Return `count` entries as of a large T0."""
    forward = (("port", 1), ("src_mac", 0x020A_0101_0001), ("dst_mac", 0x020B_0101_0001))
    routes = [
        IntendedEntry("usid_fib", (("locator_usid", LOCATOR << 16 | number),), (Act("forward", forward),))
        for number in range(1, count)
    ]
    return (*routes, IntendedEntry("my_usid", (("locator_usid", LOCATOR << 16 | 0x2101),), (Act("shift_usid"),)))


async def provision_all(directory: Path, switches: int, intended: tuple[IntendedEntry, ...]) -> float:
    """Provision all switches in parallel, as the controller does; return the seconds."""
    program = PipelineConfig(BUILD / "mrc.p4info.txtpb", BUILD / "mrc.json")
    begun = time.monotonic()
    await asyncio.gather(*(_provision_one(directory, number, program, intended) for number in range(1, switches + 1)))
    return time.monotonic() - begun


async def _twice(directory: Path, switches: int, intended: tuple[IntendedEntry, ...]) -> tuple[float, float]:
    """Run both measurements in one event loop: grpc.aio does not survive a second one in a process."""
    return await provision_all(directory, switches, intended), await provision_all(directory, switches, intended)


async def _provision_one(
    directory: Path, number: int, program: PipelineConfig, intended: tuple[IntendedEntry, ...]
) -> Provisioned:
    session = SwitchSession(f"s{number}", address(directory, number), number, program, 100, lambda _port, _frame: None)
    try:
        await session.open(START_TIMEOUT)
        return await provision(session, program, intended)
    finally:
        await session.close()


def address(directory: Path, number: int) -> str:
    """Return the address on which switch `number` serves."""
    return f"unix:{directory}/s{number}.sock"


async def serve(directory: Path, switches: int) -> None:
    """Serve the switches until the process is ended; print a line when ready."""
    fleet = [MemorySwitch(number) for number in range(1, switches + 1)]
    await asyncio.gather(*(switch.start(address(directory, switch.device_id)) for switch in fleet))
    print("ready", flush=True)  # noqa: T201 - the parent waits for it
    await asyncio.Event().wait()


@contextmanager
def servers(directory: Path, switches: int) -> Iterator[None]:
    """Context manager: the switches in a process of their own, ready."""
    argv = [sys.executable, "-m", "mrclab.bench.controller", "--serve", str(directory), "--switches", str(switches)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != b"ready\n":
                raise RuntimeError("the switches of the benchmark did not start")
            yield
        finally:
            process.kill()


def measure(switches: int, count: int) -> ControllerResult:
    """Run the benchmark."""
    intended = entries(count)
    with tempfile.TemporaryDirectory(prefix="mrcbench") as name:
        directory = Path(name)
        with servers(directory, switches):
            from_empty, adopted = asyncio.run(_twice(directory, switches, intended))
        with servers(directory, 1):
            return ControllerResult(switches, count, from_empty, adopted, _p4sh(directory, count))


def _p4sh(directory: Path, count: int) -> float | None:
    """Return the seconds that p4runtime-sh's client needs for one switch; None if it is not installed."""
    if not P4SH_PYTHON.exists():
        return None
    argv = [str(P4SH_PYTHON), str(P4SH_SCRIPT), address(directory, 1), str(BUILD), str(count)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    return float(done.stdout.split()[-1]) if done.returncode == 0 else None


def main() -> int:
    """Print the results."""
    parser = argparse.ArgumentParser(
        prog="mrclab.bench.controller", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--switches", type=int, default=50)
    parser.add_argument("--entries", type=int, default=200)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(options.serve, options.switches))
        return 0
    result = measure(options.switches, options.entries)
    lines = [
        f"controller: {result.switches} switches × {result.entries} entries, written and read back",
        f"  from empty   {result.from_empty:6.2f} s",
        f"  adopted      {result.adopted:6.2f} s (nothing to write)",
    ]
    if result.p4sh_one is not None:
        total = result.p4sh_one * result.switches
        lines.append(f"  p4runtime-sh {total:6.2f} s ({result.p4sh_one:.2f} s for one switch, one after the other)")
    print("\n".join(lines))  # noqa: T201 - a benchmark's result
    return 0


if __name__ == "__main__":
    sys.exit(main())
