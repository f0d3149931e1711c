"""docs/agent.md names every operation of an agent."""

import inspect
import re
from pathlib import Path

import pytest

from mrclab.hosts.agent.api import HostOperations
from mrclab.hosts.agent.ctl import CtlOperations
from mrclab.hosts.agent.verbs import VerbOperations
from mrclab.hosts.workloads.api import WorkloadOperations
from mrclab.rpc import client
from mrclab.topo import srv6

PAGE = (Path(__file__).resolve().parents[2] / "docs/agent.md").read_text()


@pytest.mark.parametrize("part", [HostOperations, VerbOperations, CtlOperations, WorkloadOperations])
def test_every_operation_is_on_the_page(part):
    names = [name for name, _ in inspect.getmembers(part, inspect.isfunction) if not name.startswith("_")]
    assert names
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_the_example_imports_all_that_it_uses(monkeypatch):
    asked = []

    class Asks:
        def __init__(self, path):
            assert path.endswith("h1.sock")

        def call(self, operation, **arguments):
            asked.append((operation, arguments))
            return {"profile": 7}

    monkeypatch.setattr(client, "Client", Asks)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "docs/agent.md", "exec"), {})
    assert [operation for operation, _ in asked][-1] == "create_qp"
    assert asked[1][1]["value"] == srv6.ev(1, 2, srv6.ev_tag(0)).to_bytes(4, "big").hex()
