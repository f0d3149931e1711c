"""No cyclic garbage from sending and receiving, and the collector's rests."""

import gc
import weakref
from collections.abc import Iterator

import mrc_sim
import pytest
import roce_sim

from mrclab.hosts.agent import __main__


@pytest.fixture
def collector_as_before() -> Iterator[None]:
    """The collector of this process, whatever the test did to it."""
    yield
    gc.unfreeze()
    gc.enable()


class Node:
    """Refers to itself, so that only the collector frees it."""

    def __init__(self) -> None:
        self.itself = self


def much_garbage() -> "weakref.ref[Node]":
    """As many objects as make a look worth while; one of them to watch."""
    nodes = [Node() for _ in range(20_000)]
    return weakref.ref(nodes[0])


@pytest.mark.whole
@pytest.mark.usefixtures("collector_as_before")
def test_garbage_is_collected_once_the_nic_rests():
    frames = 0
    collector = __main__.Collector(lambda: frames)
    watched = much_garbage()
    for _ in range(3):
        frames += __main__.QUIET_FRAMES
        collector.tick(0.0)
        assert watched() is not None
    frames += __main__.QUIET_FRAMES - 1
    collector.tick(0.0)
    assert watched() is None


@pytest.mark.whole
@pytest.mark.usefixtures("collector_as_before")
@pytest.mark.parametrize("simulation", [mrc_sim.Simulation, roce_sim.Simulation])
def test_sending_and_receiving_makes_no_cycles(simulation):
    sim = simulation(seed=3)
    lost = iter(range(10**9))
    sim.network = lambda transit: [] if next(lost) % 50 == 49 else [sim.delay(transit)]
    transfers = [mrc_sim.Transfer(sim, "h1", "h3", 400_000, seed=seed) for seed in range(3)]
    gc.collect()
    gc.disable()
    for transfer in transfers:
        transfer.write(0, 400_000)
    sim.run(until=60.0)
    assert [done.status for done in sim.hosts["h1"].verbs.poll_cq()] == ["SUCCESS"] * 3
    assert gc.collect() == 0
