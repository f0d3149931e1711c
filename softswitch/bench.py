"""What a program costs here: time to compile and to load, memory, and CPU time per frame in the generated code.

`python -m softswitch.bench [--json] [PROGRAM.json]`. Needs no root: frames go in by a call, and no socket is measured.
Without table entries the frames go the way that the program gives to frames it does not know.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from softswitch.runtime import RuntimeSwitch
from softswitch.runtime_api import RuntimeApiError

DEFAULT_PROGRAM = Path(__file__).resolve().parent.parent / "p4src" / "build" / "mrc.json"
SIZES = (128, 1024, 4200)
FRAMES = 5000


def private_kilobytes() -> int:
    """Return this process's private memory."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private"))


def measure(config: bytes) -> dict[str, float]:
    """Return the measurements by name; times in seconds of CPU, or µs where the name says so."""
    switch = RuntimeSwitch(cpu_port=510, drop_port=511, priorities=8)
    start = time.thread_time()
    switch.compile(config)
    first = time.thread_time()
    switch.commit(switch.compile(config))
    again = time.thread_time()
    result = {"compile_s": first - start, "load_s": again - first, "private_kb": float(private_kilobytes())}
    ingress = switch.program().ingress
    for size in SIZES:
        frames = [bytearray(size) for _ in range(FRAMES)]
        begin = time.thread_time()
        for frame in frames:
            ingress(frame, 1, size)
        result[f"us_per_frame_{size}"] = (time.thread_time() - begin) / FRAMES * 1e6
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="softswitch.bench", description=__doc__)
    parser.add_argument("program", nargs="?", type=Path, default=DEFAULT_PROGRAM)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(argv)
    try:
        result = measure(args.program.read_bytes())
    except (OSError, RuntimeApiError) as error:
        sys.stderr.write(f"softswitch.bench: {args.program}: {error}\n")
        return 1
    if args.json:
        sys.stdout.write(json.dumps(result) + "\n")
    else:
        sys.stdout.writelines(f"{name:20} {value:12.3f}\n" for name, value in result.items())
    return 0


if __name__ == "__main__":
    sys.exit(main())
