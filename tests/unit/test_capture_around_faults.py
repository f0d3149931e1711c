"""Files of captured frames: that of a fault has all of its time, however late it is written; a count is exact."""

import json
import time

from mrclab.lab.capture import pcapng
from mrclab.lab.capture.recorders import AroundFaults, Faults, record_all

_SECOND = 1_000_000_000


class Taps:
    """Frames that are handed out at the next look."""

    interfaces = (pcapng.Interface("h1-p1", "h1-p1"),)

    def __init__(self):
        self.come = []

    def frames(self, _timeout):
        frames, self.come = self.come, []
        return frames


def test_frames_before_a_fault_are_kept_until_its_file_is_written(tmp_path, monkeypatch):
    history = tmp_path / "lab.jsonl"
    history.touch()
    taps = Taps()
    faults = Faults(history)
    ring = AroundFaults(taps, faults, tmp_path, before=1.0, after=0.1)
    now = time.time_ns()
    times = [now - round(0.9 * _SECOND), now - round(0.1 * _SECOND)]
    taps.come = [pcapng.CapturedFrame(at, 0, pcapng.INBOUND, b"x" * 60, 60) for at in times]
    fault = {"t": time.monotonic(), "node": "lab", "kind": "fault.begin", "fault": "cut", "text": "cable down"}
    history.write_text(json.dumps(fault) + "\n")
    ring.step()
    assert ring.files == []
    monkeypatch.setattr(time, "time_ns", lambda: now + 2 * _SECOND)  # other files were written meanwhile
    ring.step()
    assert ring.files == [tmp_path / "cut.pcapng"]
    _, frames = pcapng.load(ring.files[0])
    assert [frame.time for frame in frames] == times
    faults.close()


def test_a_capture_of_so_many_packets_has_no_more_of_them(tmp_path):
    (tmp_path / "lab.jsonl").touch()
    taps, faults = Taps(), Faults(tmp_path / "lab.jsonl")
    taps.come = [pcapng.CapturedFrame(at, 0, pcapng.INBOUND, b"x" * 60, 60) for at in range(8)]
    assert record_all(taps, faults, tmp_path / "file.pcapng", lambda: False, most=5) == 5
    _, frames = pcapng.load(tmp_path / "file.pcapng")
    assert [frame.time for frame in frames] == [0, 1, 2, 3, 4]
    faults.close()


def test_the_file_of_a_capture_that_is_killed_has_all_frames_read_until_then(tmp_path):
    (tmp_path / "lab.jsonl").touch()
    taps, faults, path = Taps(), Faults(tmp_path / "lab.jsonl"), tmp_path / "file.pcapng"
    taps.come = [pcapng.CapturedFrame(at, 0, pcapng.INBOUND, b"x" * 3000, 3000) for at in range(5)]
    kept = []

    def over():
        kept.append(len(pcapng.load(path)[1]))  # what kill -9 would leave
        return len(kept) == 2

    record_all(taps, faults, path, over)
    assert kept == [0, 5]
    faults.close()
