"""softswitch answers every RPC as BMv2 did when record_p4runtime.py was run; exceptions are listed with reasons."""

import json
import os
import shutil

import pytest
from p4runtime_cases import CASES
from p4runtime_transcript import differences
from record_p4runtime import RECORDINGS, run_case

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the switch runs in a network namespace of its own"),
]

# (case, step): what differs, and why. The difference itself is asserted too, so that none outlives its reason.
EXCEPTIONS = {
    ("wrong_matches", "one after the other"): "PI misspells one message",
    ("members_and_groups", "members read"): "PI gives a member once for each of its weighted copies",
    ("members_and_groups", "after the change"): "PI gives a member once for each of its weighted copies",
    ("wrong_members_and_groups", "a group in a profile without selector"): "BMv2 makes a group that no table can use",
    ("not_served", "writes"): "PI repeats the message of the update before for externs",
    ("pipeline", "no JSON"): "BMv2 dies inside of the RPC, gRPC answers for it",
    ("replication", "long port"): "PI does not fill in its format string",
}


@pytest.mark.parametrize("target", ["soft", pytest.param("bmv2", marks=pytest.mark.bmv2)])
@pytest.mark.parametrize("case", CASES)
def test_answers_are_the_recorded_ones(case: str, target: str) -> None:
    if target == "bmv2" and not shutil.which("simple_switch_grpc"):
        pytest.skip("simple_switch_grpc is not on PATH")
    recorded = json.loads((RECORDINGS / f"{case}.json").read_text())
    found = differences(recorded, run_case(case, target))
    excused = {step for name, step in EXCEPTIONS if name == case and target == "soft"}
    assert [line for line in found if line.split(":")[0] not in excused] == []
    assert excused <= {line.split(":")[0] for line in found}
