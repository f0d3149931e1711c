"""Random runs in virtual time: seeds hold, and what breaks the transport is found."""

import pytest
from typer.testing import CliRunner

from mrclab.controller import nodefiles
from mrclab.experiments.soak import cli as soak_cli
from mrclab.experiments.soak import run as soak
from mrclab.experiments.soak.plan import NEVER, SoakFault, SoakFlow, SoakPlan, draw
from mrclab.hosts.mrc.endpoint import MrcEndpoint
from mrclab.hosts.mrc.evs.evset import EvSet
from mrclab.hosts.mrc.recovery.inflight import InFlight
from mrclab.hosts.mrc.requestor import MrcRequestor
from mrclab.hosts.mrc.responder import MrcResponder
from mrclab.hosts.rdma.memory import MemoryTable
from mrclab.lab.command.cli import app
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

BEHIND_A_PROBE = 2002625, 2007705
"""Seeds whose links are slow and short: a packet waits longer behind one probe than a round trip takes."""
BEYOND_TARGET_DELAY = 712343
"""A seed whose cables are so much longer than configured that NSCC takes them for a queue above its target."""


@pytest.mark.parametrize("seed", [*range(20), *BEHIND_A_PROBE, BEYOND_TARGET_DELAY])
def test_a_seed_holds(seed):
    assert soak.run_plan(draw(seed)) == []


def test_a_seed_says_all():
    assert repr(draw(5).flows) == repr(draw(5).flows)
    assert repr(draw(5).faults) == repr(draw(5).faults)
    plans = [draw(seed) for seed in range(80)]
    assert len({fault.kind for plan in plans for fault in plan.faults}) == 14
    assert {plan.transport for plan in plans} == {"mrc", "roce"}
    assert any(plan.restarts for plan in plans)


def test_seeds_draw_what_applications_do():
    plans = [draw(seed) for seed in range(400)]
    flows = [flow for plan in plans for flow in plan.flows]
    sizes = {size for flow in flows for size, _ in flow.messages}
    assert {0, 1, 8} < sizes
    assert max(sizes) == 16 << 20
    assert any(len({size for size, _ in flow.messages}) > 8 for flow in flows)
    assert any(flow.back for flow in flows)
    assert any(flow.qps > 1 for flow in flows)
    assert any(flow.ends < NEVER and flow.notice_delay for flow in flows)
    assert any(0.0 < max(flow.receives) < NEVER for flow in flows if flow.receives)
    assert any(flow.fails for flow in flows)
    assert any(list(flow.profile) != sorted(flow.profile) for flow in flows)
    specs = [plan.fabric.spec for plan in plans]
    assert {spec.link.rate is None for spec in specs} == {True, False}
    assert any(not spec.link.delay and spec.link.rate for spec in specs)
    assert any(plan.slow for plan in plans)
    assert {0.0, 20.0, 20_000.0} == {plan.idle for plan in plans}


def found(seeds=range(40)):
    return [text for seed in seeds if draw(seed).transport == "mrc" for text in soak.run_plan(draw(seed))]


@pytest.mark.sources
def test_a_responder_that_forgets_a_packet_is_found(monkeypatch):
    place = MemoryTable.place
    calls = []

    def forget(self, *arguments):
        calls.append(arguments)
        return None if len(calls) % 50 == 0 else place(self, *arguments)

    monkeypatch.setattr(MemoryTable, "place", forget)
    assert any("not those sent" in text for text in found(range(8)))


def test_what_is_not_over_when_it_should_be_is_found(monkeypatch):
    monkeypatch.setattr(soak, "QUIET_S", 0.0)
    flow = SoakFlow("h1", "h2", 0.0, ((40960, False),) * 8, {})
    texts = soak.run_plan(planned(flow, faults=(SoakFault("switch_crash", 2 * RTT, 60 * RTT, {"switch": "t1-p1-1"}),)))
    assert any("is still ASSUMED_BAD" in text for text in texts)
    assert any("a timer is left" in text for text in texts)


@pytest.mark.sources
def test_a_completion_that_is_lost_is_found(monkeypatch):
    monkeypatch.setattr(soak, "LIMIT_S", 0.01)
    advance = MrcResponder._advance
    monkeypatch.setattr(MrcResponder, "_advance", lambda self, *given: self.base > 30 or advance(self, *given))
    plan = planned(SoakFlow("h1", "h2", 0.0, ((40960, False),) * 8, {}))
    assert any("completions" in text for text in soak.run_plan(plan))


def planned(*flows, faults=(), **spec):
    """A plan made by hand: two hosts, two planes."""
    sizes = {"planes": 2, "t0s": 2, "t1s": 2, "hosts_per_t0": 1, "link": {"rate": "10 Gb/s", "delay": 6e-7}}
    fabric = Fabric(FabricSpec.model_validate({**sizes, **spec}))
    rtt = nodefiles.longest_rtt(fabric)
    return SoakPlan(1, "mrc", fabric, False, flows, faults, (), (), rtt, 60 * rtt)


RTT = planned().rtt


def cut(begin, end):
    return SoakFault("link_down", begin * RTT, end * RTT, {"links": ["h2-p2/t0-p2-2"]})


def holds(plan):
    return soak.run_plan(plan) == []


def uneven():
    return planned(SoakFlow("h1", "h2", 0.0, ((250 * 4096, False),), {}), faults=(cut(0, 60),))


@pytest.mark.sources
def test_a_plane_that_makes_up_for_the_time_without_it_is_too_slow(monkeypatch):
    assert holds(uneven())
    up = EvSet.plane_up

    def without_level(self, number, *rest, **named):
        before = self.planes[number].share
        up(self, number, *rest, **named)
        self.planes[number].share = before

    monkeypatch.setattr(EvSet, "plane_up", without_level)
    monkeypatch.setattr(soak, "_MAX_TRIES", {"mrc": 2})
    assert any("bytes take" in text for text in soak.run_plan(uneven()))


@pytest.mark.sources
def test_a_port_that_is_believed_down_for_ever_is_found(monkeypatch):
    """One end forgets its last QP while its port is down, and the port comes back; the other end keeps its QP."""
    one = SoakFlow("h2", "h1", 0.0, ((4096, False),), {}, ends=20 * RTT, notice_delay=100 * RTT)
    other = SoakFlow("h2", "h1", 50 * RTT, ((4096, False),), {})
    plan = planned(one, other, faults=(cut(10, 40),))
    assert holds(plan)
    monkeypatch.setattr(MrcEndpoint, "query_ports", lambda *_, **__: None)
    assert any("as down: mask 1" in text for text in soak.run_plan(plan))


@pytest.mark.sources
def test_a_path_that_stays_out_of_rotation_is_found(monkeypatch):
    flow = SoakFlow("h1", "h2", 0.0, ((40960, False),) * 8, {})
    plan = planned(flow, faults=(SoakFault("switch_crash", 2 * RTT, 40 * RTT, {"switch": "t1-p1-1"}),))
    assert holds(plan)
    restore = EvSet.restore

    def as_backup(self, ev, now, reason, marked=False):
        restore(self, ev, now, reason, marked)
        self._deactivate(self.planes[ev.plane], ev, now)

    with monkeypatch.context() as patch:
        patch.setattr(EvSet, "restore", as_backup)
        assert any("EVs are in rotation in plane 1" in text for text in soak.run_plan(plan))


@pytest.mark.sources
def test_bytes_that_stay_in_flight_are_found(monkeypatch):
    def lost(self, packet):
        self.packets -= 1
        return packet.nominal

    monkeypatch.setattr(InFlight, "lost", lost)
    plan = planned(
        SoakFlow("h1", "h2", 0.0, ((40960, False),) * 8, {}),
        faults=(SoakFault("switch_crash", 2 * RTT, 40 * RTT, {"switch": "t1-p1-1"}),),
    )
    assert any("bytes are counted in flight to" in text for text in soak.run_plan(plan))


@pytest.mark.sources
def test_needless_retransmissions_are_found(monkeypatch):
    plan = planned(SoakFlow("h1", "h2", 0.0, ((4096, False),) * 8, {}))
    transmit = MrcRequestor._transmit

    def counted_twice(self, packet, *rest):
        self.qp.stats.retx_packets += packet.seq == 3
        return transmit(self, packet, *rest)

    monkeypatch.setattr(MrcRequestor, "_transmit", counted_twice)
    assert any("1 retransmissions for 0 losses" in text for text in soak.run_plan(plan))


@pytest.mark.parametrize("words", [["--seed", "3", "--seeds", "1,2"], ["--runs", "2", "--seeds", "0..99"]])
def test_seeds_that_are_given_twice_are_refused(words, monkeypatch):
    monkeypatch.setattr(soak_cli, "judged", lambda seed: (seed, []))
    done = CliRunner().invoke(app, ["soak", *words])
    assert str(done.exception) == "--seeds and --seed both say which seeds run; give one of them"


def test_an_interrupted_soak_tells_how_many_held(monkeypatch):
    def judged(number):
        if number == 7:
            raise KeyboardInterrupt
        return number, ["not as it should be"] if number == 5 else []

    monkeypatch.setattr(soak_cli, "judged", judged)
    done = CliRunner().invoke(app, ["soak", "--seeds", "4..12"])
    assert done.exit_code != 0
    assert "2 of 3 seeds passed until then" in done.stdout
