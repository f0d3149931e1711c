"""The host benchmark runs, adds up, and leaves nothing behind; how fast a machine is, no test says."""

import os
import subprocess

import pytest

from mrclab.bench.host import __main__ as bench

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces")]


@pytest.fixture(scope="module")
def result() -> bench.HostResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench, "_ROUNDS", 2)  # the best of more is for figures
        return bench.run(planes=2, packets=1000, seconds=0.1, paced_seconds=0.2)


def test_every_part_is_measured(result):
    for costs in (result.bare_send, result.bare_receive):
        assert set(costs) == set(bench.SIZES)
        assert all(cost.packets > 0 and cost.cpu > 0 and cost.elapsed > 0 for cost in costs.values())
    for split in (result.sender, result.receiver):
        assert split.codec > 0
        assert split.total > split.codec


def test_hosts_at_the_rate_of_their_links_are_measured_too(result):
    assert [paced.rate_pps for paced in result.paced] == list(bench.PACED_RATES)
    for paced in result.paced:
        assert paced.sender.cpu > 0
        assert paced.receiver.cpu > 0


def test_no_more_arrives_than_was_sent(result):
    assert all(result.bare_receive[size].packets <= result.bare_send[size].packets for size in bench.SIZES)


def test_the_share_is_the_ratio_of_the_two_rates(result):
    assert result.share == pytest.approx(result.transfer_rate / result.bare_receive[bench.SIZES[-1]].rate)


def test_the_table_names_both_ends_and_the_goal(result):
    text = bench.table(result)
    assert all(word in text for word in ("sender", "receiver", "goal 50%", "4238 B frames", "400 packets/s each"))


def test_nothing_is_left(result):
    listed = subprocess.run(["ip", "netns"], check=True, capture_output=True, text=True).stdout
    assert f"mrclab-bench-{os.getpid()}" not in listed
