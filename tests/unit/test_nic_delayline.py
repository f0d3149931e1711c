"""The delay line by hand-computed times."""

from mrclab.hosts.nic import delayline
from mrclab.hosts.nic.delayline import DelayLine


def test_a_frame_is_due_after_the_delay_of_every_link_it_crossed():
    line = DelayLine(0.002)
    line.put(1, b"cross-t1", 61, arrival=10.0)
    line.put(2, b"t0-local", 63, arrival=10.0)
    line.put(3, b"direct", 64, arrival=10.0)
    assert line.next_due() == 10.002
    assert list(line.take_due(10.0019)) == []
    assert [(round(due, 6), port, frame) for due, port, frame in line.take_due(11.0)] == [
        (10.002, 3, b"direct"),
        (10.004, 2, b"t0-local"),
        (10.008, 1, b"cross-t1"),
    ]
    assert line.next_due() is None


def test_frames_of_one_path_keep_their_order_also_when_the_clock_stands_still():
    line = DelayLine(0.002)
    for number in range(100):
        line.put(1, bytes([number]), 61, arrival=5.0)
    assert [frame[0] for _, _, frame in line.take_due(6.0)] == list(range(100))


def test_only_what_is_due_is_taken():
    line = DelayLine(0.001)
    for number in range(10):
        line.put(1, bytes([number]), 64, arrival=number * 0.001)
    assert len(list(line.take_due(0.0055))) == 5
    assert len(line) == 5


def test_a_hop_limit_no_sender_uses_counts_as_one_link():
    line = DelayLine(0.002)
    line.put(1, b"", 255, arrival=1.0)
    assert line.next_due() == 1.002


def test_a_flood_is_dropped_and_counted(monkeypatch):
    monkeypatch.setattr(delayline, "MAX_FRAMES", 3)
    line = DelayLine(0.002)
    for _ in range(5):
        line.put(1, b"", 64, arrival=1.0)
    assert (len(line), line.drops) == (3, 2)
