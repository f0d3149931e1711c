"""A pytest plugin that breaks the fixture `lab` in one way, which a meaningful test must detect.

`--mrclab-mutant faults`: faults do nothing. `--mrclab-mutant bytes`: bytes arrive damaged.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mrclab.lab.session.lab import Lab


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that chooses."""
    parser.addoption("--mrclab-mutant", choices=["faults", "bytes"])


@pytest.fixture(autouse=True)
def _broken_lab(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    from mrclab.lab.session.lab import Lab, StartedTraffic  # noqa: PLC0415 - loaded sooner, pytest compiles all of it

    mutant = request.config.getoption("--mrclab-mutant")
    if mutant == "faults":
        monkeypatch.setattr(Lab, "fault", _nothing)
    elif mutant == "bytes":
        outcome = StartedTraffic._outcome  # noqa: SLF001 - what every call ends in
        monkeypatch.setattr(StartedTraffic, "_outcome", lambda started: outcome(started)._replace(intact=False))


@contextmanager
def _nothing(_lab: "Lab", _kind: str, **_fields: Any) -> Iterator[None]:
    yield
