"""Record what BMv2 answers to the RPCs of `p4runtime_cases`, as data for test_p4runtime_bmv2.py.

Needs root and simple_switch_grpc on PATH: `sudo .venv/bin/python tests/switch/record_p4runtime.py [CASE…]`.
"""

import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "lab"), str(HERE.parents[1])]

from finsy.proto import p4i  # noqa: E402
from google.protobuf import text_format  # noqa: E402
from p4runtime_cases import CASES, RECORDINGS, WITH_PORTS  # noqa: E402
from p4runtime_client import Client, Names  # noqa: E402
from p4runtime_transcript import Step, Transcript  # noqa: E402
from rig import Rig, leave_nothing_on_sigterm  # noqa: E402

PROGRAM = HERE / "p4runtime"


def run_case(name: str, target: str) -> list[Step]:
    """Run one case on a switch of its own; returns the transcript."""
    names = Names(text_format.Parse((PROGRAM / "everything.p4info.txtpb").read_text(), p4i.P4Info()))
    with (
        tempfile.TemporaryDirectory(prefix="mrct-") as run_dir,
        Rig(target, Path(run_dir), ports=3 if name in WITH_PORTS else 0) as rig,
        Client(rig.address, names) as client,
    ):
        client.become_primary().set_pipeline((PROGRAM / "everything.json").read_bytes())
        transcript = Transcript(client, rig)
        CASES[name](transcript)
        return transcript.steps


def main() -> None:
    """Record all cases, or those named on the command line."""
    leave_nothing_on_sigterm()
    RECORDINGS.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or CASES:
        text = json.dumps(run_case(name, "bmv2"), indent=1, sort_keys=True)
        (RECORDINGS / f"{name}.json").write_text(text + "\n")
        print(name)  # noqa: T201


if __name__ == "__main__":
    main()
