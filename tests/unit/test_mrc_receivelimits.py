"""Receiving hosts with limits: slow memory, few bitmaps, EVs marked bad. And how senders react."""

import pytest
from mrc_sim import FULL_SIZE, RATE, Simulation, Transfer

from mrclab.hosts.mrc.packets import headers as h

LINE = 4 * RATE  # full-size packets per second of a host


class Watched:
    """A transfer whose control packets are looked at."""

    def __init__(self, packets, **config):
        self.sim = Simulation(**config)
        self.sacks, self.reasons = [], []
        self.transfer = Transfer(self.sim, "h1", "h3", packets * FULL_SIZE)
        self.transfer.write(0, packets * FULL_SIZE)
        self.sim.before_send = self.poll

    def poll(self, _name, transit):
        view = memoryview(transit.data)
        if transit.op == h.MrcOpcode.SACK:
            self.sacks.append((self.sim.now, h.Sack.unpack(view, h.BODY_AT)))
        elif transit.op == h.MrcOpcode.NACK:
            self.reasons.append(h.Nack.unpack(view, h.BODY_AT).reason)

    def run(self, until=60.0):
        self.sim.run(until=until, done=self.transfer.done)
        assert [done.status for done in self.transfer.completions] == ["SUCCESS"]
        assert self.transfer.target == self.transfer.source
        return self.sim.hosts["h3"].verbs.qp(self.transfer.qb).stats


def test_without_limits_no_sack_asks_for_anything():
    watched = Watched(400)
    watched.run()
    assert watched.reasons == []
    assert not any(sack.penalty or sack.restore for _, sack in watched.sacks)


def test_a_slow_memory_slows_its_senders_by_penalty_and_gives_their_windows_back():
    watched = Watched(3000, memory_rate=LINE / 2, packet_buffer=64)
    stats = watched.run()
    assert stats.penalties > 0
    assert watched.sim.now == pytest.approx(3000 / (LINE / 2), rel=0.25)
    assert stats.no_pkt_buffer < 0.05 * 3000
    penalised = [sack.penalty for _, sack in watched.sacks if sack.penalty]
    assert 1 <= min(penalised) <= max(penalised) <= 127
    assert any(sack.restore for _, sack in watched.sacks)
    saved = [r["cwnd"] for r in watched.sim.hosts["h1"].stats()["qps"]]
    assert saved[0] > 0


def test_what_no_buffer_holds_is_refused_sent_again_and_blames_no_path():
    watched = Watched(1000, memory_rate=LINE / 4, packet_buffer=4, cc_profile="none")
    stats = watched.run()
    assert stats.no_pkt_buffer > 0
    assert set(watched.reasons) == {h.Reason.NO_PKT_BUFFER}
    assert [r for r in watched.sim.records if r["kind"] == "ev.state" and r["new"] == "ASSUMED_BAD"] == []


def lose_first_write(sim):
    """The first packet is missing for a second; all later ones arrive."""

    def network(transit):
        return [] if transit.is_write and transit.psn == 1 and sim.now < 1.0 else [sim.delay(transit)]

    sim.network = network


@pytest.mark.parametrize(("units", "refused"), [(0, False), (3, False), (2, True)])
def test_a_host_whose_bitmaps_are_all_taken_refuses_what_is_further_out(units, refused):
    sim = Simulation(bitmap_units=units, cc_profile="none")  # a window of 512 PSNs: three units beyond the first
    transfer = Transfer(sim, "h1", "h3", 1000 * FULL_SIZE, first_psn=1)
    lose_first_write(sim)
    transfer.write(0, 1000 * FULL_SIZE)
    sim.run(until=0.95)
    responder = sim.hosts["h3"].verbs.qp(transfer.qb).responder
    assert (responder.highest - responder.base < 384) is refused
    sim.run(until=60.0, done=transfer.done)
    stats = sim.hosts["h3"].verbs.qp(transfer.qb).stats
    assert transfer.target == transfer.source
    assert (stats.no_bitmap > 0) is refused


def test_bitmaps_come_back_when_the_gap_closes_and_when_the_qp_goes():
    sim = Simulation((1, 3), bitmap_units=3, cc_profile="none")
    lose_first_write(sim)
    first = Transfer(sim, "h1", "h3", 1000 * FULL_SIZE, first_psn=1)
    first.write(0, 1000 * FULL_SIZE)
    sim.run(until=0.95)
    limits = sim.hosts["h3"].limits
    assert not limits.take_bitmaps(1)
    sim.run(until=60.0, done=first.done)
    assert limits.take_bitmaps(3)
    limits.give_bitmaps(3)
    second = Transfer(sim, "h1", "h3", 1000 * FULL_SIZE, first_psn=1)
    sim.network = lambda transit: [] if transit.is_write and transit.psn == 1 else [sim.delay(transit)]
    second.write(0, 1000 * FULL_SIZE)
    sim.run(until=sim.now + 0.95)
    assert not limits.take_bitmaps(1)
    sim.hosts["h3"].verbs.modify_qp(second.qb, "RESET", sim.now)
    assert limits.take_bitmaps(3)


@pytest.mark.parametrize("after", [0, 4])
def test_an_ev_with_only_marked_packets_is_marked_bad_if_the_host_is_configured_to(after):
    watched = Watched(1000, always_skip_after=after)
    sim = watched.sim

    def network(transit):
        if transit.is_write and (transit.plane, transit.uplink) == (2, 1):
            transit.mark()
        return [sim.delay(transit)]

    sim.network = network
    stats = watched.run()
    marks = {sack.mark for _, sack in watched.sacks}
    retired = [
        (r["plane"], r["uplink"], r["reason"])
        for r in sim.records
        if r["kind"] == "ev.state" and r["new"] == "ASSUMED_BAD"
    ]
    assert h.Mark.SKIP_ONCE in marks
    assert (h.Mark.ALWAYS_SKIP in marks) is bool(after)
    assert bool(stats.always_skips_sent) is bool(after)
    assert retired == ([(2, 1, "responder")] if after else [])


def test_marks_that_are_not_in_a_row_mark_no_ev_bad():
    watched = Watched(1000, always_skip_after=4)
    sim, seen = watched.sim, {}

    def network(transit):
        if transit.is_write:
            count = seen[transit.entropy] = seen.get(transit.entropy, 0) + 1
            if count % 4:
                transit.mark()
        return [sim.delay(transit)]

    sim.network = network
    assert watched.run().always_skips_sent == 0


def test_always_skip_is_a_mark_for_congestion_control_too():
    sim = Simulation(always_skip_after=1)
    transfer = Transfer(sim, "h1", "h3", 200 * FULL_SIZE)

    def network(transit):
        if not transit.is_write:
            return [sim.delay(transit)]
        transit.mark()
        return [sim.delay(transit) + 0.03]  # above the target delay

    sim.network = network
    cc = sim.hosts["h1"].verbs.qps[transfer.qa].cc
    cc.cwnd = before = 10.0 * cc.parameters.mtu
    transfer.write(0, 200 * FULL_SIZE)
    sim.run(until=0.6)
    assert sim.hosts["h3"].verbs.qps[transfer.qb].stats.always_skips_sent > 10
    assert cc.cwnd < before + 2 * cc.parameters.mtu  # no fair increase: that is for unmarked delay
