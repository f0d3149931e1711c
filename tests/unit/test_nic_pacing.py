"""Pacing by hand-computed times: a link of 500 full-size frames of 4,000 bytes per second, 2 ms each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mrc_sim import node_config

from mrclab.hosts.nic import nicport
from mrclab.hosts.nic.nicport import Pacer
from mrclab.hosts.rdma.packets.path import WireFrame

FRAME = 4000


def new_pacer() -> Pacer:
    return Pacer(500, FRAME)


def send_all(pacer: Pacer, now: float, limit: int = 1000) -> int:
    """Send full-size frames as long as the link is free at `now`."""
    for count in range(limit):
        if pacer.free_at > now:
            return count
        pacer.sent(now, FRAME)
    return limit


def test_two_frames_leave_together_after_idle_time_and_the_third_waits():
    pacer = new_pacer()
    assert send_all(pacer, 10.0) == 2
    assert pacer.free_at == pytest.approx(10.002)


def test_idle_time_is_not_saved_up():
    pacer = new_pacer()
    send_all(pacer, 10.0)
    pacer.idle()
    assert send_all(pacer, 20.0) == 2


def test_a_backlogged_port_sends_at_the_link_rate():
    pacer = new_pacer()
    send_all(pacer, 0.0)
    assert [send_all(pacer, 0.002 * n + 1e-9) for n in range(1, 6)] == [1] * 5


def test_a_late_wake_up_is_made_good():
    pacer = new_pacer()
    send_all(pacer, 0.0)
    assert send_all(pacer, 0.0121) == 6
    assert pacer.free_at == pytest.approx(0.014)


def test_lateness_beyond_the_limit_is_lost_time():
    pacer = new_pacer()
    send_all(pacer, 0.0)
    assert send_all(pacer, 1.0) == 11


def test_lateness_is_reported_once():
    pacer = new_pacer()
    send_all(pacer, 0.0)
    send_all(pacer, 0.0121)
    assert pacer.take_max_lateness() == pytest.approx(0.0101)
    assert pacer.take_max_lateness() == 0.0


def test_waiting_for_work_is_not_lateness():
    pacer = new_pacer()
    send_all(pacer, 0.0)
    pacer.idle()
    pacer.sent(5.0, FRAME)
    assert pacer.take_max_lateness() < 1e-6


def test_small_frames_take_their_share_of_the_link():
    pacer = new_pacer()
    pacer.sent(0.0, FRAME)
    pacer.sent(0.0, 400)
    assert pacer.free_at == pytest.approx(0.0002, abs=1e-8)


def test_a_reset_forgets_the_backlog():
    pacer = new_pacer()
    send_all(pacer, 0.0)
    pacer.reset()
    assert send_all(pacer, 0.0001) == 2


@given(st.lists(st.floats(0.0, 0.01), min_size=1, max_size=200))
def test_whatever_the_wake_ups_the_rate_is_neither_lost_nor_exceeded(gaps):
    pacer = new_pacer()
    now, sent = 100.0, send_all(new_pacer(), 100.0)
    send_all(pacer, now)
    for gap in gaps:
        now += gap
        sent += send_all(pacer, now)
    carried = (now - 100.0) * 500
    assert carried < sent <= carried + 2.01


@pytest.mark.parametrize(("rate", "size"), [(0, 100), (-1, 100), (500, 0)])
def test_a_link_that_carries_nothing_is_refused(rate, size):
    with pytest.raises(ValueError, match="carries nothing"):
        Pacer(rate, size)


class FailingSocket:
    """The socket of an interface that is down."""

    def __init__(self, *_: object) -> None:
        self.truncated = 0

    def sendmsg(self, _parts: object) -> int:
        raise OSError(100, "Network is down")

    def count_drops(self) -> int:
        return 0


def test_a_frame_that_the_kernel_failed_to_send_takes_its_link_time_and_is_not_counted_as_sent(monkeypatch):
    monkeypatch.setattr(nicport, "PacketSocket", FailingSocket)
    config = node_config(1)
    port = nicport.SocketPort(config.ports[0], config)
    assert port.send(WireFrame(b"", None, b"", FRAME), 1.0)
    assert port.pacer.free_at > 1.0
    counters = port.counters()
    assert (counters.tx_packets, counters.tx_bytes, counters.tx_errors) == (0, 0, 1)
