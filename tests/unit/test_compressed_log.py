"""The history of a run in virtual time, packed while it grows."""

import zlib

from mrclab.topo.economy import CompressedLog


def written(count):
    lines = CompressedLog()
    for number in range(count):
        lines.append(number // 3 if number % 7 else 0.0, f'{{"n":{number},"text":"é"}}')
    return lines, [f'{{"n":{number},"text":"é"}}' for number in range(count)]


def test_lines_come_back_as_they_were_however_many_there_are():
    for count in (0, 1, 511, 512, 513, 2000):
        lines, wanted = written(count)
        assert lines.since(0) == wanted
        assert lines.since(max(0, count - 3)) == wanted[-3:]
        assert len(lines) == count


def test_lines_of_one_time_stay_in_the_order_of_writing():
    lines, wanted = written(2000)
    times = [number // 3 if number % 7 else 0.0 for number in range(2000)]
    assert list(lines.by_time()) == [line for _, line in sorted(zip(times, wanted, strict=True), key=lambda x: x[0])]


def test_lines_that_are_much_alike_take_a_fraction_of_their_length():
    lines = CompressedLog()
    for number in range(4096):
        lines.append(number, f'{{"t":{number},"node":"h{number}","kind":"sample","qps":[],"paths":[],"ports":[]}}')
    assert sum(map(len, lines._blocks)) < sum(map(len, lines.since(0))) / 4


def test_lines_that_were_written_out_of_order_are_unpacked_once(monkeypatch):
    kept, opened, decompress = CompressedLog(), [], zlib.decompress
    for number in range(4096):
        kept.append(float(number % 64), f"line {number}")
    monkeypatch.setattr(zlib, "decompress", lambda block: opened.append(block) or decompress(block))
    found = list(kept.by_time())
    assert found == [f"line {first + 64 * turn}" for first in range(64) for turn in range(64)]
    assert len(opened) == 8
