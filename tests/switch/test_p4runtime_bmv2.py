"""softswitch answers every RPC as BMv2 did when record_p4runtime.py was run; exceptions are listed with reasons."""

import os

import pytest
from bmv2 import TARGETS
from p4runtime_cases import CASES, unexcused
from record_p4runtime import run_case

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the switch runs in a network namespace of its own"),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES)
def test_answers_are_the_recorded_ones(case: str, target: str) -> None:
    assert unexcused(case, run_case(case, target), is_bmv2=target == "bmv2") == []
