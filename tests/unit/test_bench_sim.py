"""The benchmark of virtual time: what it lets run, not how fast."""

import json

import pytest

from mrclab.bench.sim import __main__ as command
from mrclab.bench.sim import load


@pytest.mark.parametrize(("traffic", "transfers"), [("permutation", 16), ("incast", 15), ("all-to-all", 240)])
def test_every_transfer_completes_and_the_seed_says_when(traffic, transfers):
    one, other = (load.run(16, traffic, 40_000) for _ in range(2))
    assert len(one.completions) == min(transfers, 240)
    assert one.completions == other.completions
    assert one.packets == other.packets >= transfers * 10
    line = 40_000 * 8 / 100e9
    assert one.completed(0) > line
    assert one.completed(0.5) <= one.completed(1.0)


def test_it_tells_a_line_per_load(capsys):
    assert command.main(["--hosts", "16", "--size", "100 kB", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["hosts"], said["traffic"], said["size"]) == (16, "permutation", 100_000)
    assert said["packets"] >= 16 * 25
    command.main(["--hosts", "16", "--size", "100 kB"])
    assert "16 hosts, permutation of 97.66 KiB: " in capsys.readouterr().out


def test_hosts_that_fill_no_t0_are_refused(capsys):
    with pytest.raises(SystemExit):
        command.main(["--hosts", "20"])
    assert "20 hosts do not fill T0s of 8; give a multiple of it from 16 on" in capsys.readouterr().err
