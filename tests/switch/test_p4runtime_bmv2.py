"""softswitch answers every RPC as BMv2 did when record_p4runtime.py was run; exceptions are listed with reasons."""

import os
import shutil

import pytest
from p4runtime_cases import CASES, unexcused
from record_p4runtime import run_case

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the switch runs in a network namespace of its own"),
]


@pytest.mark.parametrize("target", ["soft", pytest.param("bmv2", marks=pytest.mark.bmv2)])
@pytest.mark.parametrize("case", CASES)
def test_answers_are_the_recorded_ones(case: str, target: str) -> None:
    if target == "bmv2" and not shutil.which("simple_switch_grpc"):
        pytest.skip("simple_switch_grpc is not on PATH")
    assert unexcused(case, run_case(case, target), is_bmv2=target == "bmv2") == []
