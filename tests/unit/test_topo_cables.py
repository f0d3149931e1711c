"""Cables' rules: a change of several sides is one transaction, and one that the kernel refuses changes nothing."""

from unittest.mock import Mock

import pytest

from mrclab.lab.faults.kinds.detours import Swap
from mrclab.lab.run.wire.watch import ProcessWatcher
from mrclab.lab.run.wire.wireinjector import WireFaultInjector
from mrclab.topo.cables import cables, helper
from mrclab.topo.cables.cablefaults import Drop
from mrclab.topo.cables.cables import Cables, Count
from mrclab.topo.cables.impairment import Impairment
from mrclab.topo.errors import EmulationError
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

ONE, OTHER = "t0-p1-1/t1-p1-1", "t0-p1-1/t1-p1-2"


class Kernel:
    """Keeps where frames of each side go, by nft's batches; refuses the batches whose numbers are given."""

    def __init__(self, monkeypatch):
        self.refused = set()
        self.batches = 0
        self.goes = {}
        monkeypatch.setattr(cables.kernel, "nft_batch", self.apply)
        monkeypatch.setattr(cables.kernel, "nft_counters", lambda _namespace: dict.fromkeys(self.counters, 3))
        self.counters = set()

    def apply(self, _namespace, text):
        self.batches += 1
        if self.batches in self.refused:
            raise EmulationError("nft refused the cable rules: no memory")
        for words in map(str.split, text.splitlines()):
            if words[:2] == ["add", "rule"] and "fwd" in words:
                self.goes[words[4]] = words[-1].strip('"')
            if words[:2] == ["add", "counter"]:
                self.counters.add(words[4])


@pytest.fixture
def kernel(monkeypatch):
    return Kernel(monkeypatch)


@pytest.fixture
def made():
    return Cables(Fabric(FabricSpec(planes=1)), "cables")


@pytest.mark.parametrize("batch", [1, 2, 3, 4])
def test_a_swap_that_is_refused_leaves_both_cables_as_they_were(kernel, made, batch):
    kernel.refused = {batch}
    try:
        made.swap(ONE, OTHER)
    except EmulationError:
        assert kernel.goes == {}
    kernel.refused = set()
    made.swap(ONE, OTHER)
    swapped = dict(kernel.goes)
    made.swap(ONE, OTHER)
    made.swap(ONE, OTHER)
    assert kernel.goes == swapped


def test_a_swap_whose_end_is_refused_can_still_be_ended(kernel, made):
    action = Swap(Mock(injector=made), Mock(cables=(ONE, OTHER)))
    action.inject()
    swapped = dict(kernel.goes)
    kernel.refused = {kernel.batches + 1}
    with pytest.raises(EmulationError):
        action.clear()
    action.clear()
    assert kernel.goes.keys() == swapped.keys()
    assert kernel.goes != swapped


def test_a_detour_of_both_directions_is_taken_by_both_or_none(kernel, made):
    made._detours = dict.fromkeys((f"{made._resolve(ONE).index}{side}" for side in "ab"), False)
    kernel.refused = {2}
    made.use_detour(ONE, "both", use=True)
    kernel.refused = {kernel.batches + 1}
    with pytest.raises(EmulationError):
        made.use_detour(ONE, "both", use=False)
    assert all(target.startswith("r") for target in kernel.goes.values())
    made.use_detour(ONE, "both", use=False)
    assert all(target.startswith("c") for target in kernel.goes.values())


def test_a_fault_whose_end_is_refused_can_still_be_ended(kernel, made):
    fault = made.inject(ONE, Drop())
    kernel.refused = {kernel.batches + 1}
    with pytest.raises(EmulationError):
        made.clear(fault)
    assert made.clear(fault) == Count(6, 6)
    assert made.clear(fault) == Count(0, 0)


def test_a_relay_that_gets_no_frames_is_ended(monkeypatch, made):
    class Lab:
        fabric, cables = made._fabric, made

    class Relay:
        ended = 0

        def finish(self):
            Relay.ended += 1

    def refuse(*_arguments, **_options):
        raise EmulationError("nft refused the cable rules: no memory")

    monkeypatch.setattr(made, "make_detour", lambda *_: [("q0a", "c0b")])
    monkeypatch.setattr(made, "use_detour", refuse)
    monkeypatch.setattr(helper.Relayed, "start", lambda *_: Relay())
    with pytest.raises(EmulationError, match="no memory"):
        helper.impair(Lab(), ONE, Impairment(delay=0.01))
    assert Relay.ended == 1


def test_a_helper_that_comes_again_is_watched_again(monkeypatch):
    watched = ProcessWatcher()
    world = Mock(excuse=watched.excuse, expect_alive=watched.expect_alive)
    injector = WireFaultInjector(Mock(), world)
    again = Mock(late=(0.0, 0.0), clear=Mock(return_value=[]))
    again.name = "relay-x"
    monkeypatch.setattr(helper, "impair", lambda *_, **__: again)
    for _ in range(2):
        relay = injector.impair(ONE, Impairment(delay=0.01), direction="up", seed=1)
        assert watched._excused == set()
        relay.clear()
        assert watched._excused == {"relay-x"}
    again.clear.return_value, again.name = helper.SentFrames(), "background-x"
    monkeypatch.setattr(helper, "send", lambda *_: again)
    for _ in range(2):
        traffic = injector.background("h1", "h3", (1, 1), 10.0, 100, "x")
        assert "background-x" not in watched._excused
        traffic.clear()
