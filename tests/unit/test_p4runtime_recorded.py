"""The recorded answers of BMv2 again, without root: the server in this process, for all cases that need no ports."""

import pytest
from p4runtime_cases import CASES, WITH_PORTS, unexcused
from p4runtime_client import Client
from p4runtime_fixtures import primary, running
from p4runtime_transcript import Transcript

__all__ = ["primary", "running"]


@pytest.mark.parametrize("case", [name for name in CASES if name not in WITH_PORTS])
def test_answers_are_the_recorded_ones(primary: Client, case: str) -> None:
    transcript = Transcript(primary)
    CASES[case](transcript)
    assert unexcused(case, transcript.steps) == []
