"""HPCC: its law against the paper's formulas, telemetry through switches, and what it does to an incast's queue."""

import pytest

import mrclab
from mrclab.hosts.roce.cc import RateFacts
from mrclab.hosts.roce.cc.hpcc import Hpcc
from mrclab.hosts.roce.telemetry import Hop
from mrclab.lab.errors import ScenarioError
from mrclab.lab.run import worlds
from mrclab.topo.config.nodeconfig import DcqcnSection

LINE = 12.5e9  # bytes per second
RTT = 10e-6
BDP = LINE * RTT


def control(**settings: float) -> Hpcc:
    return Hpcc(RateFacts(LINE, RTT, 4096, DcqcnSection()), 0.0, **settings)


def hop(at: float, sent: float, queue: float = 0.0, port: int = 1) -> Hop:
    return Hop(port, LINE, round(queue), round(sent), at)


def test_a_flow_begins_with_a_window_of_one_bdp():
    hpcc = control()
    assert hpcc.window() == BDP
    assert hpcc.rate(0.0) == LINE


def test_a_full_link_with_a_queue_of_one_bdp_halves_the_window():
    """U = qlen/(B T) + txRate/B = 1 + 1; the window becomes W / (U / eta) + W_AI (Algorithm 1, lines 12 to 15)."""
    hpcc = control(flows=100)
    hpcc.on_telemetry(1000, 200_000, [hop(0.0, 0, BDP)], 0.0)
    assert hpcc.window() == BDP  # nothing to compare with yet
    hpcc.on_telemetry(2000, 200_000, [hop(RTT, BDP, BDP)], RTT)
    assert hpcc.utilisation == pytest.approx(2.0)
    assert hpcc.window() == pytest.approx(BDP * 0.95 / 2 + BDP * 0.05 / 100)


@pytest.mark.parametrize("late", [hop(RTT, BDP), hop(3 * RTT, 0)], ids=["overtaken", "counts from zero again"])
def test_telemetry_that_shows_nothing_sent_leaves_the_utilisation(late):
    hpcc = control(max_stage=0)
    hpcc.on_telemetry(1000, 200_000, [hop(RTT, BDP)], RTT)
    hpcc.on_telemetry(2000, 200_000, [hop(2 * RTT, 2 * BDP)], 2 * RTT)
    before = hpcc.utilisation
    assert before == pytest.approx(1.0)
    hpcc.on_telemetry(3000, 200_000, [late], 3 * RTT)
    assert hpcc.utilisation == before


def test_the_reference_is_replaced_once_per_rtt():
    hpcc = control()
    for step in range(4):  # four ACKs of one window: each is against the same reference
        hpcc.on_telemetry(1000 * (step + 1), 200_000, [hop(RTT * (step + 1), BDP * (step + 1), BDP)], 0.0)
    assert hpcc.reference == pytest.approx(BDP * 0.95 / 2 + BDP * 0.05 / 100)


def test_an_idle_link_is_taken_in_steps_and_then_at_once():
    hpcc = control(flows=100, max_stage=2)
    hpcc.cwnd = hpcc.reference = BDP / 10
    hpcc.utilisation = 0.1
    step = BDP * 0.05 / 100
    seen = []
    for rtt in range(1, 5):
        hpcc.on_telemetry(rtt * 1000, rtt * 1000, [hop(RTT * rtt, BDP / 10 * rtt)], 0.0)
        seen.append(hpcc.window())
    assert seen[:3] == pytest.approx([BDP / 10, BDP / 10 + step, BDP / 10 + 2 * step])
    assert seen[3] == pytest.approx((BDP / 10 + 2 * step) * 0.95 / 0.1 + step, rel=0.02)


def test_the_busiest_link_of_a_path_decides_and_another_path_begins_anew():
    hpcc = control()
    hpcc.on_telemetry(1, 2, [hop(0.0, 0), hop(0.0, 0, BDP, port=2)], 0.0)
    hpcc.on_telemetry(2, 2, [hop(RTT, 0), hop(RTT, BDP, BDP, port=2)], 0.0)
    assert hpcc.utilisation == pytest.approx(2.0)
    before = hpcc.window()
    hpcc.on_telemetry(3, 3, [hop(2 * RTT, 0), hop(2 * RTT, 0, BDP, port=3)], 0.0)
    assert hpcc.window() == before


def incast(control: str) -> tuple[float, float]:
    """Seven senders of 1 MB to one host: most packets that waited, share of the receiver's line that was used."""
    scenario = mrclab.scenario(
        fabric={
            "planes": 1, "t0s": 2, "t1s": 4, "hosts_per_t0": 4, "link": {"rate": "100 Gb/s", "delay": "600ns"},
            "queue": {"pfc": True},
        },
        transport={"kind": "roce", "congestion_control": control},
        traffic=[{"name": "in", "kind": "incast", "from": "all", "to": "h1", "size": "1 MB", "message": "1 MB"}],
    )  # fmt: skip
    run = mrclab.run(scenario, world="sim", seed=1)
    assert run.passed
    most = max((row["packets"] for row in run.queue_depths if row["link"] == "h1-p1/t0-p1-1"), default=0)
    moved = sum(flow["bytes"] for flow in run.flows)
    return most, moved / run.seconds / LINE


def test_an_incast_keeps_its_link_busy_with_a_shorter_queue_than_dcqcn():
    (queue, used), (longer, _) = incast("hpcc"), incast("dcqcn")
    assert used > 0.7
    assert queue < longer / 10


def test_the_wire_has_no_telemetry():
    loaded = mrclab.scenario(
        world="wire",
        transport={"kind": "roce", "congestion_control": "hpcc"},
        traffic=[{"name": "f", "kind": "write", "from": "h1", "to": "h3", "size": "1 MB"}],
    ).loaded
    with pytest.raises(ScenarioError, match="hpcc needs telemetry of the switches"):
        worlds.check(loaded)
