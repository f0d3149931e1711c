"""`mrclab run --slower N`: the same scenario on links N times slower and longer."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from mrclab.lab.command import cli
from mrclab.lab.scenario import scenario

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ["link-failure", "paper/e05-t0-dies"])
def test_a_slower_scenario_is_the_same_per_round_trip(name):
    loaded = scenario.load(ROOT / "scenarios" / f"{name}.yaml")
    for as_written, made in zip(loaded.runs, scenario.slower(loaded, 2).runs, strict=True):
        before, after = as_written.fabric.spec, made.fabric.spec
        assert after.link.rate_pps == pytest.approx(before.link.rate_pps / 2, rel=1e-6)
        assert after.link.delay == pytest.approx(2 * before.link.delay)
        assert after.bdp_packets == pytest.approx(before.bdp_packets, rel=0.02)
        assert made.scenario.model_dump(exclude={"fabric"}) == as_written.scenario.model_dump(exclude={"fabric"})


@pytest.mark.parametrize("factor", [1, 2])
def test_windows_of_the_incast_hold_round_trips_enough_at_half_the_rate_too(factor, tmp_path):
    line = ["run", str(ROOT / "scenarios" / "incast.yaml"), "--world", "sim", "--slower", str(factor)]
    done = CliRunner().invoke(cli.app, [*line, "--set", "report=false", "--results", str(tmp_path)])
    assert done.exit_code == 0, done.output


def test_links_with_a_rate_in_bits_get_another():
    loaded = scenario.load(ROOT / "scenarios" / "true-speed.yaml").runs[0]
    before, after = loaded.fabric.spec.link, scenario.slower(loaded, 4).fabric.spec.link
    assert (after.rate, after.delay) == (before.rate / 4, before.delay * 4)


def test_the_plan_of_a_slower_run_has_its_links():
    line = ["run", str(ROOT / "scenarios" / "link-failure.yaml"), "--dry-run", "--slower", "2"]
    done = CliRunner().invoke(cli.app, line)
    assert done.exit_code == 0, done.output
    assert "200 full-size packets/s, 12 ms" in done.output


def test_links_cannot_be_made_faster():
    done = CliRunner().invoke(cli.app, ["run", "link-failure", "--world", "sim", "--slower", "0.5"])
    assert done.exit_code == 2
    assert "greater than or equal to 1" in done.output
