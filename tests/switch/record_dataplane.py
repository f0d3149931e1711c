"""Record what BMv2 makes of the frames of `dataplane_cases`, as data for test_dataplane.py.

Needs root and simple_switch_grpc on PATH: `sudo .venv/bin/python tests/switch/record_dataplane.py [CASE…]`.
"""

import json
import os
import select
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lab"), str(HERE.parents[1])]

from dataplane_cases import CASES, Case  # noqa: E402
from dataplane_setup import on_bmv2  # noqa: E402
from finsy.proto import p4i  # noqa: E402
from google.protobuf import text_format  # noqa: E402
from p4runtime_client import Client, Names  # noqa: E402
from rig import PACKET_OUTGOING, Rig, leave_nothing_on_sigterm  # noqa: E402

PROGRAMS = HERE / "programs"
RECORDINGS = HERE / "recordings" / "dataplane"
PORTS = 3
SETTLED_S = 0.25
THRIFT_PORT = 9090
Outputs = dict[str, list[str]]


def outputs(rig: Rig, quiet: float) -> Outputs:
    """Everything that leaves the switch until nothing has come for `quiet` seconds, per port in order, as hex."""
    by_socket = {end: number for number, end in rig.ports.items()}
    found: Outputs = {}
    while ready := select.select(list(by_socket), (), (), quiet)[0]:
        for end in ready:
            frame, (_, _, kind, *_) = end.recvfrom(65536)
            if kind != PACKET_OUTGOING:
                found.setdefault(str(by_socket[end]), []).append(frame.hex())
    return dict(sorted(found.items()))


def record(case: Case) -> list[Outputs]:
    """Run a case on a BMv2 of its own; return each frame's outputs."""
    info = (PROGRAMS / f"{case.program}.p4info.txtpb").read_text()
    names = Names(text_format.Parse(info, p4i.P4Info()))
    with (
        tempfile.TemporaryDirectory(prefix="mrct-") as run_dir,
        Rig("bmv2", Path(run_dir), ports=PORTS) as rig,
        Client(rig.address, names) as client,
    ):
        client.become_primary().set_pipeline((PROGRAMS / f"{case.program}.json").read_bytes())
        inside = os.open(f"/run/netns/{rig.switch_side.name}", os.O_RDONLY)
        on_bmv2(client, case.setup, inside, THRIFT_PORT)
        os.close(inside)
        time.sleep(SETTLED_S)
        outputs(rig, SETTLED_S)  # what the kernel says when an interface comes up
        results = []
        for number, (port, frame) in enumerate(case.frames):
            time.sleep(case.pauses.get(number, 0.0))
            rig.send(port, frame)
            results.append(outputs(rig, case.quiet))
        return results


def main() -> None:
    """Record all cases, or those named on the command line."""
    leave_nothing_on_sigterm()
    RECORDINGS.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or CASES:
        case = CASES[name]()
        recorded = [
            {"port": port, "frame": frame.hex(), "out": out}
            for (port, frame), out in zip(case.frames, record(case), strict=True)
        ]
        lines = ",\n".join(json.dumps(step) for step in recorded)
        (RECORDINGS / f"{name}.json").write_text(f"[\n{lines}\n]\n")
        print(f"{name}: {len(recorded)} frames")  # noqa: T201 - a tool


if __name__ == "__main__":
    main()
