"""The agent's verbs: completions sorted by QP, and whose regions they are."""

import random

import pytest
from mrc_sim import Simulation

from mrclab.hosts.agent.verbs import UnreadCompletions, VerbOperations
from mrclab.hosts.memory.memory import Memory
from mrclab.hosts.rdma.completion import WorkCompletion
from mrclab.hosts.rdma.errors import VerbsError


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


def test_a_qp_without_completions_learns_that_its_queue_overflowed():
    sim = Simulation()
    host = sim.hosts["h1"]
    operations = VerbOperations(host, sim, Memory(), str)
    queue = host.verbs._cqs[host.verbs.default_cq]
    for wr_id in range(queue.depth + 1):
        queue.push(done(wr_id, 1))
    with pytest.raises(VerbsError, match="overflowed"):
        operations.poll_cq(qp=2)
    assert len(operations.poll_cq(qp=1, limit=9000)["completions"]) == queue.depth
    with pytest.raises(VerbsError, match="overflowed"):
        operations.poll_cq(qp=1)


def test_a_region_of_a_workload_or_program_is_not_deregistered():
    sim = Simulation()
    host = sim.hosts["h1"]
    region = host.verbs.reg_mr(bytearray(8))
    with pytest.raises(VerbsError, match="no file is registered"):
        VerbOperations(host, sim, Memory(), str).dereg_mr(region.lkey)
    assert host.memory.region(region.lkey) is region
