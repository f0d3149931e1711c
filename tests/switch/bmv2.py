"""The mark of tests that need BMv2, and both targets as parameters of a test."""

import shutil
from typing import Any

import pytest

NEEDS_BMV2 = (
    pytest.mark.bmv2,
    pytest.mark.skipif(shutil.which("simple_switch_grpc") is None, reason="simple_switch_grpc is not on PATH"),
)
TARGETS = ["soft", pytest.param("bmv2", marks=NEEDS_BMV2)]


def needs_bmv2(test: Any) -> Any:
    """Mark a test that runs with BMv2 only."""
    for mark in NEEDS_BMV2:
        test = mark(test)
    return test
