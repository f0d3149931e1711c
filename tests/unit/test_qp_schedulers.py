"""QP schedulers: the next QP of a host to send, in turn or as a scheduler chooses."""

import pytest
from mrc_sim import FULL_SIZE, Simulation, Transfer

import mrclab
from mrclab.lab.errors import ScenarioError


def finished(scheduler: str) -> dict[str, float]:
    """Seconds at which a long and a short transfer of one host complete, of which the long one is posted first."""
    sim = Simulation((1, 3), scheduler=scheduler, cc_profile="none")
    sizes = {"long": 200, "short": 40}
    transfers = {name: Transfer(sim, "h1", "h3", packets * FULL_SIZE) for name, packets in sizes.items()}
    names = {one.qa: name for name, one in transfers.items()}
    for name, one in transfers.items():
        one.write(0, sizes[name] * FULL_SIZE)
    at: dict[str, float] = {}

    def done() -> bool:
        at.update({names[completion.qp]: sim.now for completion in sim.hosts["h1"].verbs.poll_cq()})
        return len(at) == len(transfers)

    sim.run(done=done)
    for one in transfers.values():
        assert one.target == one.source
    return at


def test_the_shortest_goes_first_and_the_long_one_is_no_later():
    in_turn, shortest = finished("round_robin"), finished("shortest_first")
    assert shortest["short"] < 0.8 * in_turn["short"]
    assert shortest["long"] <= 1.01 * in_turn["long"]


def test_scenarios_know_them_by_name():
    data = {"traffic": [{"name": "f", "kind": "write", "from": "h1", "to": "h3", "size": "1 MB"}]}
    mrclab.scenario(transport={"scheduler": "shortest_first"}, **data)
    with pytest.raises(ScenarioError, match="shortest_last"):
        mrclab.scenario(transport={"scheduler": "shortest_last"}, **data)
    with pytest.raises(ScenarioError, match="of roce send in turn"):
        mrclab.scenario(transport={"kind": "roce", "scheduler": "shortest_first"}, **data)
