"""Completions sorted by QP."""

import random

from mrclab.hosts.agent.verbs import UnreadCompletions
from mrclab.hosts.rdma.completion import WorkCompletion


def done(wr_id, qp):
    return WorkCompletion(wr_id, "SUCCESS", "RDMA_WRITE", 1, qp)


def test_each_qp_gets_its_own_in_order_and_all_of_them_come_in_the_order_of_completion():
    rng = random.Random(1)
    waiting, kept = [], UnreadCompletions()
    for wr_id in range(2000):
        waiting.append(done(wr_id, rng.randrange(5)))
        kept.add(waiting[-1:])
        if rng.random() < 0.1:
            qp, limit = rng.choice([None, 0, 1, 2, 3, 4, 99]), rng.randrange(20)
            expected = [entry for entry in waiting if qp in {None, entry.qp}][:limit]
            assert kept.take(qp, limit) == expected
            waiting = [entry for entry in waiting if entry not in expected]
    assert kept.take(None, 10_000) == waiting
    assert not kept


class Counted(WorkCompletion):
    """Counts how often one is looked at."""

    looks = 0

    def __getattribute__(self, name):
        if name == "qp":
            Counted.looks += 1
        return super().__getattribute__(name)


def test_taking_a_few_looks_at_no_others():
    kept = UnreadCompletions()
    kept.add(Counted(n, "SUCCESS", "RDMA_WRITE", 1, n % 2) for n in range(10_000))
    Counted.looks = 0
    for _ in range(100):
        assert len(kept.take(1, 10)) == 10
    assert Counted.looks <= 2000
