"""Collectives without PyTorch: the algorithms alone, and ranks over lib_mrc.so on hosts joined in memory."""

import itertools
import random
import sys
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path

import pytest
import roce_sim
from verbs_ground import Ground, build, needs_compiler

from mrclab.hosts.collectives import algorithms, steps
from mrclab.hosts.collectives.algorithms import SEGMENT, Collective
from mrclab.hosts.collectives.mesh import environment_setting

PROGRAM = Path(__file__).with_name("collective_rank.py")


class Wires:
    """Ranks in one process: whoever has something to do goes on, in an order drawn from a seed."""

    def __init__(self, size: int, seed: int = 1) -> None:
        self._draw = random.Random(seed)
        self._queues: dict[tuple[int, int], deque[bytes]] = defaultdict(deque)
        self.sent = [0] * size
        self.size = size

    def sender(self, rank: int) -> "_Sender":
        return _Sender(self, rank)

    def put(self, source: int, to: int, view: memoryview) -> None:
        assert source != to
        self._queues[source, to].append(bytes(view))
        self.sent[source] += len(view)

    def run(self, collective: Callable[["_Sender", int], Collective]) -> None:
        ranks = {rank: collective(self.sender(rank), rank) for rank in range(self.size)}
        wants = {rank: next(generator, None) for rank, generator in ranks.items()}
        while any(want is not None for want in wants.values()):
            able = [rank for rank, want in wants.items() if want is not None and self._queues[want[0], rank]]
            assert able, "every rank waits"
            rank = self._draw.choice(able)
            source, length = wants[rank]
            segment = self._queues[source, rank].popleft()
            assert len(segment) == length
            try:
                wants[rank] = ranks[rank].send(memoryview(segment))
            except StopIteration:
                wants[rank] = None
        assert not any(self._queues.values()), "something was sent that nobody takes"


class _Sender:
    def __init__(self, wires: Wires, rank: int) -> None:
        self._wires, self._rank = wires, rank

    def send(self, rank: int, view: memoryview) -> None:
        self._wires.put(self._rank, rank, view)


def words(rank: int, items: int) -> list[int]:
    return [(rank + 1) * (place % 251 + 1) for place in range(items)]


class Numbers:
    """A rank's 32-bit numbers, as bytes that segments are added to."""

    def __init__(self, rank: int, items: int) -> None:
        self.bytes = bytearray()
        self.view = memoryview(bytearray(4 * items))
        self.numbers = self.view.cast("I")
        for place, word in enumerate(words(rank, items)):
            self.numbers[place] = word

    def combine(self, at: int, segment: memoryview) -> None:
        for place, word in enumerate(segment.cast("I"), start=at // 4):
            self.numbers[place] += word


SIZES = [1, 2, 3, 4, 5, 8]
ITEMS = [0, 1, 7, SEGMENT // 4 + 5]


@pytest.mark.parametrize("algorithm", [algorithms.ring_all_reduce, algorithms.halving_doubling])
@pytest.mark.parametrize(("size", "items"), list(itertools.product(SIZES, ITEMS)))
def test_all_reduce_gives_every_rank_the_sum(algorithm, size, items):
    buffers = [Numbers(rank, items) for rank in range(size)]
    wires = Wires(size)
    wires.run(lambda out, rank: algorithm(out, rank, size, buffers[rank].view, 4, buffers[rank].combine))
    factor = size * (size + 1) // 2
    assert all(list(one.numbers) == [factor * word for word in words(0, items)] for one in buffers)


def test_a_ring_sends_what_theory_says_and_the_order_of_arrival_changes_no_bit():
    size, items = 4, 3 * SEGMENT
    orders = []
    for seed in (1, 2):
        buffers = [Numbers(rank, items) for rank in range(size)]
        wires = Wires(size, seed)
        order = defaultdict(list)

        def noted(out, rank, buffers=buffers, order=order):
            def combine(at: int, segment: memoryview) -> None:
                order[rank].append((at, len(segment)))
                buffers[rank].combine(at, segment)

            return algorithms.all_reduce(out, rank, size, buffers[rank].view, 4, combine)

        wires.run(noted)
        assert wires.sent == [2 * (size - 1) * items * 4 // size] * size
        orders.append(order)
    assert orders[0] == orders[1]


@pytest.mark.parametrize(("size", "items", "root"), list(itertools.product([1, 3, 4, 5], [1, 20_000], [0, 2])))
def test_broadcast_and_reduce_reach_and_come_from_everybody(size, items, root):
    root %= size
    buffers = [Numbers(rank, items) for rank in range(size)]
    Wires(size).run(lambda out, rank: algorithms.broadcast(out, rank, size, buffers[rank].view, root))
    assert all(list(one.numbers) == words(root, items) for one in buffers)
    buffers = [Numbers(rank, items) for rank in range(size)]
    Wires(size).run(
        lambda out, rank: algorithms.reduce(out, rank, size, buffers[rank].view, 4, buffers[rank].combine, root)
    )
    assert list(buffers[root].numbers) == [size * (size + 1) // 2 * word for word in words(0, items)]


@pytest.mark.parametrize(("size", "items"), list(itertools.product([1, 2, 3, 4], [0, 3, 20_000])))
def test_gathering_scattering_and_exchanging_bring_each_part_to_its_place(size, items):
    parts = [[Numbers(source if source == rank else 90, items).view for source in range(size)] for rank in range(size)]
    Wires(size).run(lambda out, rank: algorithms.all_gather(out, rank, size, parts[rank]))
    assert all(list(part[source].cast("I")) == words(source, items) for part in parts for source in range(size))

    whole = [Numbers(rank, items * size) for rank in range(size)]
    spans = algorithms.chunks(items * size, 4, size)
    Wires(size).run(
        lambda out, rank: algorithms.reduce_scatter(
            out, rank, size, whole[rank].view, spans, 4, whole[rank].combine
        )
    )  # fmt: skip
    total = [size * (size + 1) // 2 * word for word in words(0, items * size)]
    assert [list(one.view[a:b].cast("I")) for one, (a, b) in zip(whole, spans, strict=True)] == [
        total[a // 4 : b // 4] for a, b in spans
    ]

    sends = [[memoryview(bytes([rank, to] * items)) for to in range(size)] for rank in range(size)]
    receives = [[memoryview(bytearray(2 * items)) for _ in range(size)] for _ in range(size)]
    Wires(size).run(lambda out, rank: algorithms.all_to_all(out, rank, size, sends[rank], receives[rank]))
    assert all(bytes(receives[to][rank]) == bytes(sends[rank][to]) for rank in range(size) for to in range(size))

    got = [memoryview(bytearray(2 * items)) for _ in range(size)]
    own = [memoryview(bytes([rank] * items)) for rank in range(size)]
    back = [memoryview(bytearray(items)) for _ in range(size)]
    Wires(size).run(lambda out, rank: algorithms.gather(out, rank, back, own[rank], 0))
    assert back == own
    Wires(size).run(lambda out, rank: algorithms.scatter(out, rank, sends[0], got[rank], 0))
    assert got == sends[0]


@pytest.mark.parametrize("size", SIZES)
def test_a_barrier_needs_everybody(size):
    Wires(size).run(lambda out, rank: algorithms.barrier(out, rank, size))
    if size > 1:
        with pytest.raises(AssertionError, match="every rank waits"):
            Wires(size).run(lambda out, rank: iter(()) if rank == 1 else algorithms.barrier(out, rank, size))


def test_a_step_is_a_line_that_is_read_again_and_no_other_line_is():
    line = steps.line(2, 7, 1.25, 2.5, 0.1)
    assert steps.parse(line) == {"rank": 2, "step": 7, "began": 1.25, "ended": 2.5, "loss": 0.1}
    assert "loss" not in steps.parse(steps.line(0, 0, 0.0, 1.0))
    for other in ("", "step 7", line[:-3], steps.PREFIX + "[]", steps.PREFIX + '{"rank": "x"}', " " + line):
        assert steps.parse(other) is None


# --- over lib_mrc.so -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("libmrc"))


@pytest.fixture
def ranks(library, tmp_path, monkeypatch):
    """Three ranks of `collective_rank.py` on three hosts; what each of them said."""
    monkeypatch.setenv("LIB_MRC", str(library))
    monkeypatch.delenv("MRCLAB_EXPLAIN", raising=False)
    grounds = []

    def run(what: str, retry: int = 7, roce: bool = False) -> list[str]:
        if roce:
            ground = Ground(tmp_path, (1, 2, 3), roce_sim.Simulation)
        else:
            ground = Ground(tmp_path, (1, 2, 3), retry_linear=1, retry_exponential=retry, timeout_exponent=14)
        grounds.append(ground)
        both = [
            ground.start(f"h{rank + 1}", Path(sys.executable), PROGRAM, what, rank, 3, tmp_path) for rank in range(3)
        ]
        ground.until(lambda: all(one.poll() is not None for one in both))
        assert all(one.returncode == 0 for one in both if what != "killed"), [one.communicate()[0] for one in both]
        return [one.communicate()[0] for one in both]

    yield run
    for ground in grounds:
        ground.close()


@needs_compiler
@pytest.mark.parametrize("roce", [False, True], ids=["MRC", "RoCEv2"])
def test_ranks_reduce_send_and_meet_over_the_verbs(ranks, roce):
    for rank, said in enumerate(ranks("works", roce=roce)):
        assert said.splitlines() == [
            "small 6", "large 6", "at once [6, 12]", "message " + ("none" if rank else "from 2: hello"), "met", "left",
        ]  # fmt: skip


@needs_compiler
@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("late", "rank 1 (h2), it was not done within 1 s"),
        ("killed", "rank 2 (h3) is gone: a QP to it failed with transport retry counter exceeded"),
        ("left", "rank 2 (h3) has left the job"),
        ("other", "calls another collective than all_reduce"),
        ("size", "bytes where"),
    ],
)
def test_a_rank_that_fails_ends_the_collective_on_all_others_with_the_reason(ranks, what, words):
    said = ranks(what, retry=1)
    for rank, text in enumerate(said):
        if what in {"late", "killed", "left"} and rank == {"late": 1}.get(what, 2):
            continue
        assert f"failed on rank {rank} (h{rank + 1})" in text
    assert any(words in text for text in said), said


@pytest.mark.parametrize("text", ["two", "0", "65", "1.5", "nan", ""])
def test_a_setting_that_is_no_number_is_named_with_its_variable(monkeypatch, text):
    monkeypatch.setenv("MRCLAB_QPS", text)
    problem = f"MRCLAB_QPS '{text}' is not a whole number from 1 to 64; correct it, or unset it"
    with pytest.raises(ValueError, match=problem):
        environment_setting("MRCLAB_QPS", 1, 64)
    monkeypatch.delenv("MRCLAB_QPS")
    assert environment_setting("MRCLAB_QPS", 1, 64) == 1
