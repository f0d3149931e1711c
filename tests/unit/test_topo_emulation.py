"""An emulation whose start fails half way: nothing of it stays."""

import os
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from mrclab.topo.errors import EmulationError
from mrclab.topo.linux import emulation
from mrclab.topo.linux.emulation import Emulation
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec


class Network(dict):
    """Mininet's view: nodes by name."""

    def stop(self):
        """Nothing is there to be stopped."""


@pytest.mark.parametrize("failing", ["silence", "add_node"])
def test_no_namespace_is_held_after_a_node_that_could_not_be_made(tmp_path, monkeypatch, failing):
    lab = Emulation(Fabric(FabricSpec(planes=1)), tmp_path, "soft")
    lab._state = Mock(environment={})
    opened, closed, count, started = [], [], [], []

    def fail_in_time(*_arguments):
        count.append(1)
        if len(count) == 3:
            raise EmulationError("no memory")

    def namespace_of(_pid):
        opened.append(os.open("/dev/null", os.O_RDONLY))
        return opened[-1]

    close = os.close
    monkeypatch.setattr(emulation.os, "close", lambda descriptor: (closed.append(descriptor), close(descriptor)))
    monkeypatch.setattr(emulation.kernel, "namespace_of", namespace_of)
    monkeypatch.setattr(emulation.kernel, "silence", fail_in_time if failing == "silence" else Mock())

    def node(name, **_more):
        started.append(SimpleNamespace(name=name, pid=1, shell=Mock(**{"poll.return_value": None}), terminate=Mock()))
        return started[-1]

    nodes = SimpleNamespace(FabricHost=node, FabricSwitch=node, empty_network=Network)

    def add_node(network, made):
        if failing == "add_node":
            fail_in_time()
        network[made.name] = made

    nodes.add_node = add_node
    with pytest.raises(EmulationError, match="no memory"):
        lab._start_nodes(nodes, lambda *_: None)
    assert lab._ended_shells() == {}
    assert all(each.terminate.called != (each.name in lab.network) for each in started)
    lab.stop()
    assert sorted(closed) == sorted(opened)
