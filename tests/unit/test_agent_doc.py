"""docs/agent.md names every operation of an agent."""

import inspect
from pathlib import Path

import pytest

from mrclab.hosts.agent.api import HostOperations
from mrclab.hosts.agent.ctl import CtlOperations
from mrclab.hosts.agent.verbs import VerbOperations
from mrclab.hosts.workloads.api import WorkloadOperations

PAGE = (Path(__file__).resolve().parents[2] / "docs/agent.md").read_text()


@pytest.mark.parametrize("part", [HostOperations, VerbOperations, CtlOperations, WorkloadOperations])
def test_every_operation_is_on_the_page(part):
    names = [name for name, _ in inspect.getmembers(part, inspect.isfunction) if not name.startswith("_")]
    assert names
    assert [name for name in names if f"`{name}`" not in PAGE] == []
