"""softswitch against what BMv2 made of the same frames (recordings/dataplane), for each program in programs/."""

import json
from pathlib import Path

import pytest
from dataplane_cases import CASES
from dataplane_setup import on_soft
from softbench import SoftBench

HERE = Path(__file__).parent
RECORDINGS = HERE / "recordings" / "dataplane"


@pytest.mark.parametrize("name", CASES)
def test_same_frames_leave_the_same_ports_as_from_bmv2(name):
    case = CASES[name]()
    recorded = json.loads((RECORDINGS / f"{name}.json").read_text())
    bench = SoftBench(HERE / "programs" / f"{case.program}.json")
    on_soft(bench.switch, case.setup)
    wrong = []
    for number, step in enumerate(recorded):
        bench.pass_time(case.pauses.get(number, 0.0))
        found: dict[str, list[str]] = {}
        for port, data in bench.send(step["port"], bytes.fromhex(step["frame"])):
            if port <= 3:  # BMv2 was recorded with three interfaces
                found.setdefault(str(port), []).append(data.hex())
        if dict(sorted(found.items())) != step["out"]:
            wrong.append((step["frame"], step["out"], found))
    assert not wrong, (
        f"{len(wrong)} of {len(recorded)} differ; first: frame {wrong[0][0]}\nBMv2 {wrong[0][1]}\nsoft {wrong[0][2]}"
    )


def test_recordings_belong_to_the_cases():
    for name, make in CASES.items():
        recorded = json.loads((RECORDINGS / f"{name}.json").read_text())
        assert [(s["port"], bytes.fromhex(s["frame"])) for s in recorded] == make().frames, f"record {name} again"
