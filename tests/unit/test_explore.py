"""Every run of small worlds: all hold, states that are merged go on alike, and what is wrong is found."""

import json
from collections import deque

import pytest
from typer.testing import CliRunner

from mrclab.experiments.explore import fingerprint
from mrclab.experiments.explore.cli import again, parsed, written
from mrclab.experiments.explore.copying import Snapshot
from mrclab.experiments.explore.fingerprint import Fingerprint
from mrclab.experiments.explore.search import Search, TraceStep, components, replayed, shortened
from mrclab.experiments.explore.system import Broken, System
from mrclab.experiments.explore.worlds import FULL, MTU, Space, known_worlds
from mrclab.hosts.mrc.endpoint_ops import EndpointOps
from mrclab.hosts.mrc.evs import samepeer
from mrclab.hosts.mrc.recovery.inflight import InFlight
from mrclab.hosts.mrc.recovery.rnr import RnrBackoff
from mrclab.hosts.mrc.recovery.sendtimer import SendTimer
from mrclab.hosts.mrc.requestor import MrcRequestor
from mrclab.hosts.rdma.memory import MemoryTable
from mrclab.lab.command import cli
from mrclab.topo.economy import EMPTY_QUEUE

pytestmark = [pytest.mark.once, pytest.mark.sources]


SMALL = [world for world in known_worlds().values() if world.small]


@pytest.mark.parametrize("world", SMALL, ids=lambda world: world.name)
def test_a_small_world_holds_in_every_run(world):
    result = Search(world, merging=40).run()
    assert result.found is None, shortened(world, result.found)
    assert result.whole
    assert result.states > 50


TINY = Space("tiny", "a packet that may be lost", (FULL,), ("lose",), 1)


def what_is_found(world: Space = TINY) -> str:
    found = Search(world).run().found
    return "" if found is None else found.what


def test_the_tiny_world_holds():
    assert what_is_found() == ""


def test_a_byte_that_is_not_placed_is_found(monkeypatch):
    monkeypatch.setattr(MemoryTable, "place", lambda *_: None)
    assert "not all bytes are in place" in what_is_found()


def test_bytes_that_stay_in_flight_are_found(monkeypatch):
    monkeypatch.setattr(InFlight, "settle", lambda _self, _now: None)
    monkeypatch.setattr(InFlight, "received", lambda _self, _units: 0)
    assert "in flight" in what_is_found()


def test_a_retransmission_that_nobody_makes_is_found(monkeypatch):
    monkeypatch.setattr(MrcRequestor, "has_retransmission", lambda _self: False)
    assert what_is_found()


def test_a_message_that_is_never_completed_is_found(monkeypatch):
    monkeypatch.setattr(MrcRequestor, "_complete", lambda *_: None)
    assert "writes are over" in what_is_found()


def test_an_exception_is_found_and_shown_by_a_run(monkeypatch):
    def explode(*_):
        raise KeyError(7)

    monkeypatch.setattr(EndpointOps, "_end_probe", explode)
    world = known_worlds()["probe-ids"]
    found = shortened(world, Search(world).run().found)
    assert found.what == "KeyError: 7"
    lines = replayed(world, found.trace)
    assert lines[-1].endswith("← KeyError: 7")
    assert parsed(written(found.trace)) == found.trace
    assert again(world, found).startswith("mrclab explore probe-ids --replay probe:0,")


def test_a_dictionary_that_grows_under_a_loop_is_found(monkeypatch):
    """QPs that tell each other of dead paths made EVs of each other while they looked through them."""

    def same_path(qp, ev):
        for sibling in list(qp.endpoint.verbs.qps.values()):
            if sibling is not qp:
                for other in sibling.evs.by_value.values():
                    if other.plane == ev.plane and other.uplink == ev.uplink:
                        yield sibling, other

    monkeypatch.setattr(samepeer, "_same_path", same_path)
    assert what_is_found(known_worlds()["siblings"]).startswith("RuntimeError: dictionary changed size")


def test_a_refusal_that_is_answered_at_once_is_a_storm_without_end(monkeypatch):
    """An immediate that was refused for want of a receive used to be retransmitted every round trip."""

    declare_lost = MrcRequestor.declare_lost

    def at_once(self, packet, reason, now, again=True):
        return declare_lost(self, packet, reason, now, again=True)

    monkeypatch.setattr(MrcRequestor, "declare_lost", at_once)
    monkeypatch.setattr(RnrBackoff, "refuse", lambda *_: None)
    found = Search(known_worlds()["immediates"]).run().found
    assert found.what.startswith("a storm without end")
    assert {kind for kind, _ in found.cycle} == {"deliver", "timer"}


def test_a_timer_that_is_armed_for_ever_is_found(monkeypatch):
    monkeypatch.setattr(SendTimer, "fire", lambda self, now: self.arm(now + 0.1))
    assert what_is_found().startswith("it never ends")


# --- the parts --------------------------------------------------------------------------------------------------------


def test_a_copy_goes_its_own_way():
    one = System(TINY)
    before = fingerprint.of(one)
    two = Snapshot(one).copy()
    assert fingerprint.of(two) == before
    while two.network or two.deadline() < float("inf"):
        two.do(two.actions()[0])
    assert two.completed == [1]
    assert fingerprint.of(one) == before != fingerprint.of(two)
    assert one.completed == [0]


def test_states_differ_by_what_is_in_flight_and_not_by_when():
    one, two = System(TINY), System(TINY)
    assert fingerprint.of(one) == fingerprint.of(two)
    two.do(("lose", two.network[0].serial))
    assert fingerprint.of(one) != fingerprint.of(two)


def test_a_queue_that_was_emptied_is_as_one_never_used():
    system = System(TINY)
    before = fingerprint.of(system)
    (qp,) = system.hosts[0].verbs.qps.values()
    assert qp.qpcc.pending is EMPTY_QUEUE
    qp.qpcc.pending = deque()
    assert fingerprint.of(system) == before


def test_who_waits_for_a_receive_comes_back_to_the_same_state():
    """The second immediate was lost behind the first, long ago: nobody will answer to that copy any more."""
    system = System(known_worlds()["receives"])
    seen = set()
    for _ in range(200):
        digest = fingerprint.of(system)
        if digest in seen:
            return
        seen.add(digest)
        system.do(system.actions()[0])
    raise AssertionError(f"{len(seen)} states, and no two are the same")


def test_what_is_gone_is_not_taken_for_what_came_into_its_memory():
    found = Fingerprint(System(TINY))
    before = len(found.tokens)
    for number in range(3):
        found._add([number])
    assert [token for token in found.tokens[before:] if isinstance(token, tuple)] == []


def test_cycles_in_a_graph():
    def to(*states):
        return [TraceStep(("timer", 0), state, 0.0, 0, 0) for state in states]

    steps, finished = [to(1), to(2), to(), to(3), to(5), to(6), to(4, 0)], [2, 1, 0, 3, 6, 5, 4]
    assert list(components(steps, finished)) == [{4, 5, 6}, {3}]
    assert list(components([to(1, 2), to(2), to()], [2, 1, 0])) == []


def test_what_cannot_happen_is_refused():
    outcome = CliRunner().invoke(cli.app, ["explore", "loss", "--replay", "deliver:99"])
    assert "--replay: action 1, deliver:99, cannot happen there, only deliver:1, " in str(outcome.exception)
    listed = json.loads(CliRunner().invoke(cli.app, ["explore", "--list", "--json"]).stdout)
    assert {"world": "loss", "about": known_worlds()["loss"].about, "small": True} in listed["worlds"]
    outcome = CliRunner().invoke(cli.app, ["explore", "loss", "--replay", "deliver:²"])
    assert '"deliver:²" is not an action' in str(outcome.exception)
    outcome = CliRunner().invoke(cli.app, ["explore", "elsewhere"])
    assert 'no world "elsewhere"' in str(outcome.exception)


def test_the_command_says_how_many_states_there_are():
    outcome = CliRunner().invoke(cli.app, ["explore", "loss"])
    assert outcome.exit_code == 0, outcome.output
    assert "loss: " in outcome.output
    assert "states, all seen" in outcome.output


def test_a_byte_outside_is_seen_at_once():
    system = System(Space("guarded", "", ((MTU, False),)))
    system.targets[0][0] ^= 1
    with pytest.raises(Broken, match="outside the written memory"):
        system.check()


def test_the_stamp_of_another_packet_does_not_bring_an_old_copy_back():
    """Stamps come round every 65 ms: a new frame can have that of a packet that arrived long ago."""
    system = System(known_worlds()["receives"])
    system.do(("receive", 0))
    window = system.hosts[0].verbs.qps[system.qps[0][0]].requestor.recovery.window
    while window.una == 0 or not any(one.is_write for one in system.network):
        system.do(next(action for action in system.actions() if action[0] in {"deliver", "timer"}))
    (frame,) = (one for one in system.network if one.is_write)
    (arrived,) = (packet for packet in window._slots if packet.seq == 0)
    before = []
    for ts in (frame.stamp, frame.stamp + 30_000 & 0xFFFF):
        arrived.ts = ts
        before.append(fingerprint.of(system))
    assert before[0] == before[1]
