"""Link-check frames in, what is known about the cables out."""

import pytest

from mrclab.controller.provisioning.cables import CableStates, End
from mrclab.topo import linkcheck
from mrclab.topo.model import Fabric, mac_bytes
from mrclab.topo.spec import FabricSpec

FABRIC = Fabric(FabricSpec(planes=1, t0s=2, t1s=2, hosts_per_t0=1))
RIGHT = {End(s.name, p.number): End(p.peer.node, p.peer.number) for s in FABRIC.switches for p in s.ports}


def deliver(states: CableStates, end: End, cables: dict[End, End]) -> None:
    """Send one probe out of `end` over `cables`, and what it causes back into the states."""
    frame = states.probe(end)
    if end not in cables:
        return
    reached = cables[end]
    if reached.node.startswith("h"):
        back = linkcheck.answer(frame, reached.node, reached.port, mac_bytes("02:0c:01:00:01:01"))
        states.arrived(end.node, end.port, back)
    else:
        states.arrived(reached.node, reached.port, frame)


def states_over(cables: dict[End, End]) -> CableStates:
    states = CableStates(FABRIC)
    for end in states.ends:
        deliver(states, end, cables)
    return states


def swapped(one: End, other: End) -> dict[End, End]:
    """The fabric with the far ends of two switch-to-switch cables exchanged."""
    cables = dict(RIGHT)
    cables[one], cables[other] = RIGHT[other], RIGHT[one]
    cables[RIGHT[one]], cables[RIGHT[other]] = other, one
    return cables


def test_all_cables_are_verified_when_every_probe_arrives_where_it_should() -> None:
    states = states_over(RIGHT)
    assert states.pending() == []
    assert states.links("verified") == [link.name for link in FABRIC.links]


def test_two_swapped_cables_are_named_with_what_each_end_reaches() -> None:
    states = states_over(swapped(End("t0-p1-1", 2), End("t0-p1-1", 3)))
    assert states.links("wrong") == ["t0-p1-1/t1-p1-1", "t0-p1-1/t1-p1-2"]
    assert states.problems_of("t0-p1-1/t1-p1-2") == [
        "t0-p1-1 port 3 should reach t1-p1-2 port 1, reaches t1-p1-1 port 1",
        "t1-p1-2 port 1 should reach t0-p1-1 port 3, reaches t0-p1-1 port 2",
    ]


def test_a_nic_on_the_wrong_port_is_named() -> None:
    states = states_over({**RIGHT, End("t0-p1-1", 1): End("h2", 1), End("t0-p1-2", 1): End("h1", 1)})
    assert states.problems_of("h1-p1/t0-p1-1") == ["t0-p1-1 port 1 should reach h1 port 1, reaches h2 port 1"]


def test_a_cable_good_for_one_direction_only_is_not_verified() -> None:
    one_way = {end: peer for end, peer in RIGHT.items() if end != End("t1-p1-1", 2)}
    states = states_over(one_way)
    assert states.state("t0-p1-2/t1-p1-1") == "silent"
    assert states.problems_of("t0-p1-2/t1-p1-1") == ["t1-p1-1 port 2 should reach t0-p1-2 port 2, reaches nothing"]


def test_a_corrected_cable_is_verified_by_the_next_probe() -> None:
    states = states_over(swapped(End("t0-p1-1", 2), End("t0-p1-1", 3)))
    for end in states.pending():
        deliver(states, end, RIGHT)
    assert states.pending() == []


def test_a_late_answer_to_a_question_taken_back_does_not_count() -> None:
    states = CableStates(FABRIC)
    end = End("t0-p1-1", 2)
    frame = states.probe(end)
    states.forget()
    assert states.arrived("t1-p1-1", 1, frame) is None
    assert end in states.pending()


@pytest.mark.parametrize("port", [2, 3])
def test_an_answer_that_comes_in_by_another_port_shows_a_split_cable(port: int) -> None:
    states = CableStates(FABRIC)
    end = End("t0-p1-1", 1)
    back = linkcheck.answer(states.probe(end), "h1", 1, bytes(6))
    arrival = states.arrived("t0-p1-1", port, back)
    assert arrival is not None
    assert not arrival.right
    assert arrival.reached == End("t0-p1-1", port)


@pytest.mark.parametrize("frame", [b"", bytes(60), linkcheck.probe("t0-p1-1", 2, 77, bytes(6))])
def test_foreign_and_unasked_frames_are_ignored(frame: bytes) -> None:
    states = CableStates(FABRIC)
    assert states.arrived("t1-p1-1", 1, frame) is None
    assert len(states.pending()) == len(states.ends)
