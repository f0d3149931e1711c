"""Lateness of a switch: from the kernel's stamps on frames, and packets that stayed in a queue beyond their time."""

from mrclab.softswitch.clock import SetClock
from mrclab.softswitch.process.control_socket import ControlSocket
from mrclab.softswitch.process.lateness import LongestWait
from mrclab.softswitch.switch import SoftSwitch
from mrclab.softswitch.traffic_manager import TrafficManager


class Clocks:
    """Time of day and time since boot."""

    wall, monotonic = 1_000_000_000.5, 50.0

    def go(self, seconds):
        self.wall += seconds
        self.monotonic += seconds

    def lateness(self):
        return LongestWait(lambda: self.wall, lambda: self.monotonic)


def test_the_frame_that_waited_longest_is_told_once():
    clocks = Clocks()
    late = clocks.lateness()
    for milliseconds in (2, 30, 1):
        received = divmod(round((clocks.wall - milliseconds / 1000) * 1e6), 1_000_000)
        late.frame(received[0], received[1] * 1000)
        clocks.go(0.1)
    assert round(late.take(), 4) == 0.03
    assert late.take() == 0.0


def test_a_time_of_day_that_was_set_is_no_lateness_and_what_comes_after_it_counts():
    clocks = Clocks()
    late = clocks.lateness()
    clocks.wall += 3600
    late.frame(1_000_000_000, 500_000_000)
    assert late.take() == 0.0
    clocks.go(0.25)
    late.frame(1_000_003_600, 500_000_000)
    assert round(late.take(), 4) == 0.25


def test_a_packet_that_left_its_queue_too_late_is_told_once():
    time, left = SetClock(), []
    traffic = TrafficManager(1, lambda: 0, time.clock)
    traffic.set_rate(100)
    for name in "abc":
        traffic.enqueue(1, 0, (lambda state, *_: left.append(state[1]), name))
    time.now_ns = 10_000_000
    traffic.run()
    assert round(traffic.take_lateness(), 6) == 0.0
    time.now_ns = 27_000_000
    traffic.run()
    assert left == ["a", "b", "c"]
    assert round(traffic.take_lateness(), 6) == 0.007
    assert traffic.take_lateness() == 0.0


def test_the_control_socket_tells_lateness_and_cpu_seconds(tmp_path):
    switch = SoftSwitch(None, 511, 2)
    control = ControlSocket(switch, tmp_path / "ctl")
    word, late, cpu = control.answer("lateness").split()
    assert (word, float(late)) == ("ok", 0.0)
    assert float(cpu) > 0
    control.close()
    switch.close()
