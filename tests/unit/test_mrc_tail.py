"""Questions about the tail of the data: they must not stand in its way."""

import pytest
from sim_pair import Sim, Write, finish


@pytest.mark.parametrize("seed", range(3))
def test_questions_that_queue_on_a_link_that_counts_packets_do_not_keep_all_data_off_it(seed):
    queue = {"depth": 32, "trim_threshold": 5, "last_hop_trim_threshold": 5, "ecn_min": 2, "ecn_max": 4}
    sim = Sim(seed=seed, planes=1, t0s=1, t1s=1, hosts_per_t0=9, link={"rate_pps": 200, "delay": 0.0}, queue=queue,
              switch_latency=0.0003)  # fmt: skip
    writes = [Write(sim, f"h{number}", "h9", 100_000, mpr=1) for number in range(1, 9)]
    assert finish(sim, *writes) < 10 * sum(len(write.sent) for write in writes) / 4096 / 200
    assert all(write.received == write.sent for write in writes)
