"""RoCEv2's loss recovery beside theory: what one lost packet costs, and the page's table."""

import pytest

import mrclab
from mrclab.bench.sim import losses, table

PACKETS = 4 * 256  # of 4 MiB


def run_of(recovery: str, loss: float) -> tuple[dict, int]:
    """Flow of 4 MiB, and the packets that the cable lost."""
    run = mrclab.run(losses.scenario(recovery, loss, 4), world="sim", seed=3)
    (flow,) = run.flows
    (counted,) = (record for record in run.records() if record["kind"] == "fault.counters")
    return flow, counted["fields"]["dropped"]


def test_go_back_n_sends_a_round_trip_of_packets_again_for_a_lost_one():
    flow, dropped = run_of("go_back_n", 0.001)
    assert dropped == 1
    assert flow["sent_packets"] - PACKETS == 29
    expected = losses.theory("go_back_n", 0.001, PACKETS, 0.334e-6, 9.16e-6)
    assert expected.retransmitted == pytest.approx(0.029, rel=0.02)


def test_selective_repeat_sends_each_lost_packet_once_more_and_nothing_else():
    flow, dropped = run_of("selective_repeat", 0.01)
    assert dropped
    assert flow["sent_packets"] - PACKETS == dropped


def test_the_page_has_a_row_for_each_recovery_and_loss_with_its_interval():
    rows = [losses.LossRow("go_back_n", 0.001, [0.005, 0.006], [0.02, 0.03], losses.Expected(0.0055, 0.029))]
    assert "| go-back-n | 0.10% | 5.500 ± 6.353 | 5.500 | +0.0% | 2.50 ± 6.35 | 2.90 |" in losses.text(rows)


@pytest.mark.parametrize("before", [None, "# Head\n", "# Head\n<!-- losses -->\nold\n<!-- end of losses -->\nbelow\n"])
def test_a_section_is_written_into_a_page_whether_or_not_it_is_there(before, tmp_path):
    page = tmp_path / "page.md"
    if before is not None:
        page.write_text(before, encoding="utf-8")
    table.write_section(page, "losses", "new")
    text = page.read_text(encoding="utf-8")
    head, below = "# Head\n" if before else "", "below\n" if before and "below" in before else ""
    assert text == f"{head}<!-- losses -->\n\nnew\n<!-- end of losses -->\n{below}"


def test_a_section_without_an_end_loses_nothing_of_the_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- losses -->\nby hand\n", encoding="utf-8")
    table.write_section(page, "losses", "new")
    assert page.read_text(encoding="utf-8").endswith("<!-- end of losses -->\nby hand\n")
