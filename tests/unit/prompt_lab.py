"""A small lab in virtual time with a session of the prompt, for tests of its commands."""

from collections.abc import Iterator

import pytest

from mrclab.lab.prompt import registry
from mrclab.lab.prompt.session import LabSession
from mrclab.lab.run.virtual import virtual_world
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

SPEC = {
    "planes": 2,
    "t0s": 2,
    "t1s": 2,
    "hosts_per_t0": 1,
    "path_mtu": 1024,
    "link": {"rate_pps": 2000, "delay": "1ms"},
}
CABLE = "t0-p1-1/t1-p1-2"


@pytest.fixture
def session() -> Iterator[LabSession]:
    """So slow that time passes only where a command waits."""
    world = virtual_world(Fabric(FabricSpec.model_validate(SPEC)))
    with world as made, LabSession(made, speed=1e-6, setting={"world": "sim"}).open() as opened:
        yield opened


def told(session: LabSession, line: str) -> dict:
    """Run a command; return the data of its answer."""
    return dict(registry.run(session, line).data)
