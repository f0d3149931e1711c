"""The benchmark of virtual time, beside uet-htsim where that is at hand: what it lets run, not how fast."""

import json
import os
import stat
from types import SimpleNamespace

import pytest

from mrclab import compiled
from mrclab.bench import verbs as verbsbench
from mrclab.bench.host import __main__ as hostbench
from mrclab.bench.sim import __main__ as command
from mrclab.bench.sim import common, htsim, load, table, turns
from mrclab.bench.sim.children import SimCost, measure
from mrclab.bench.sim.common import SimLoad
from mrclab.bench.sim.turns import Turns
from mrclab.bench.switch import __main__ as switchbench
from mrclab.bench.switch import measure as switchmeasure
from mrclab.lab.errors import RunError
from mrclab.lab.traffic import matrix

pytestmark = pytest.mark.once

SMALL = SimLoad(16, "permutation", 200_000)
TRANSFERS = [("permutation", 16), ("incast", 15), ("all-to-all", 240), ("poisson", 160)]


@pytest.mark.parametrize(("traffic", "transfers"), TRANSFERS)
def test_every_transfer_completes_and_the_seed_says_when(traffic, transfers):
    one, other = (load.simulate(SimLoad(16, traffic, 40_960)) for _ in range(2))
    assert len(one["completions"]) == transfers
    assert one["completions"] == other["completions"]
    assert one["packets"] == other["packets"] == transfers * 10 + one["retransmitted"]
    assert one["completions"][0] > 10 * 332.8e-9


@pytest.mark.parametrize("traffic", common.TRAFFIC)
@pytest.mark.parametrize("hosts", [16, 128, 1024])
def test_a_load_is_the_same_work_for_both(traffic, hosts):
    made = SimLoad(hosts, traffic, 1000)
    spec, topo = made.fabric().spec, dict(line.split(" ", 1) for line in made.topo().splitlines() if line)
    assert (spec.t0s * spec.hosts_per_t0, spec.t1s) == (hosts, spec.hosts_per_t0)
    assert int(topo["Nodes"]) == hosts
    assert matrix.read(made.matrix().text(), "load.cm").nodes == hosts
    full = (spec.path_mtu + 142) * 8 / spec.link.rate
    assert full == pytest.approx((4096 + 64) * 8 / 100e9)
    assert spec.base_rtt(4) == pytest.approx(12e-6, rel=0.005)
    assert round(spec.bdp_packets) == spec.queue.trim_threshold == spec.queue.last_hop_trim_threshold == 36
    assert spec.last_hop_ecn


def test_groups_of_an_all_to_all_share_no_host():
    found = [(c.source, c.destination) for c in SimLoad(128, "all-to-all", 1).matrix().connections]
    assert len(set(found)) == len(found) == 128 * 15
    assert {len({b for a, b in found if a == host}) for host in range(128)} == {15}


def test_it_tells_an_object_per_load_and_simulator(capsys):
    words = ["--hosts", "16", "--traffic", "permutation,incast", "--size", "40 kB", "--seeds", "2", "--alone"]
    assert command.main([*words, "--json"]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["hosts"], one["traffic"], one["size"], one["simulator"]) for one in said] == [
        (16, "permutation", 40_000, "MRC Lab"),
        (16, "incast", 40_000, "MRC Lab"),
    ]
    assert (said[0]["packets"], said[0]["retransmitted"]) == (160, 0)
    assert 0 < said[0]["completions"][0] <= said[0]["completions"][1]
    assert min(said[0]["cpu"], said[0]["memory"]) > 0


def test_a_number_of_hosts_may_have_a_traffic_of_its_own(capsys):
    words = ["--hosts", "16,16:short-flows", "--traffic", "incast", "--flows", "3", "--alone", "--json"]
    assert command.main(words) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["traffic"], one["packets"]) for one in said if one["traffic"] != "incast"] == [("short-flows", 48)]
    assert [one["size"] for one in said] == [500_000, 4096]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--hosts", "18"], "18 hosts do not fill T0s of 4; give a multiple of it, for example 16"),
        (["--hosts", "1000"], "1000 hosts do not fill T0s of 32; give a multiple of it, for example 992"),
        (["--hosts", "16,x"], "invalid --hosts 'x': expected 16 to 32768 hosts, for example 128,1024"),
        (["--hosts", "8"], "invalid --hosts '8': expected 16 to"),
        (["--hosts", "16:perm"], "--hosts '16:perm': traffic 'perm' is unknown; there are permutation, incast"),
        (["--traffic", "perm"], "--traffic 'perm' is unknown; there are permutation, incast, all-to-all"),
        (["--seeds", "0"], "--seeds 0: at least one run is needed; give, for example, 3"),
        (["--size", "0"], "--size 0: a transfer has at least a byte; give, for example, 64KiB"),
        (["--flows", "0"], "--flows 0: each host sends at least one; give, for example, 10"),
        (["--minutes", "-1"], "--minutes -1: give more than 0"),
        (["--minutes", "nan"], "--minutes nan: give more than 0"),
    ],
)
def test_words_that_mean_nothing_are_refused(words, said, capsys):
    with pytest.raises(SystemExit):
        command.main(words)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        (hostbench.main, ["--planes", "0"], "--planes 0: give 1 or more"),
        (hostbench.main, ["--packets", "0"], "--packets 0: give 1 or more"),
        (verbsbench.main, ["--messages", "0"], "--messages 0: give 1 or more"),
        (switchbench.parse, ["--size", "0"], "--size 0: give 128 to 4352 bytes"),
        (switchbench.parse, ["--seconds", "0"], "--seconds 0: give more than 0"),
        (switchbench.parse, ["--switches", "0"], "--switches 0: give 1 or more"),
    ],
)
def test_numbers_of_the_wire_s_benchmarks_that_measure_nothing_are_refused(command, words, said, capsys):
    with pytest.raises(SystemExit):
        command(words)
    assert said in capsys.readouterr().err


def test_a_switch_that_answers_no_frame_in_time_has_no_latency():
    none = switchmeasure._latencies(SimpleNamespace(latencies=lambda *_: []), 128, 1e3, 50)
    assert none == (None, None)
    rates = switchmeasure.SwitchRates(1e3, 0.0, 1e3, 1e-6, *none)
    assert switchbench._speed(rates)[-2:] == [switchbench.NO_VALUE] * 2


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Puts a program called htsim_uec on the path, which says what it is given."""

    def make(*lines):
        program = tmp_path / "htsim_uec"
        program.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return make


def finished(place, at):
    """A line as uet-htsim says it of each connection."""
    return f"Flow Uec_{place}_1 flowId {place} uecSrc {place} finished at {at} total messages 1 total packets 49 RTS 0"


def test_what_uet_htsim_says_is_read(stand_in, tmp_path):
    stand_in(*(finished(place, 100 - place) for place in range(16)), "Done", "New: 784 Rtx: 3 RTS: 0 Bounced: 0")
    cost = htsim.run(SMALL, tmp_path)
    assert (cost.packets, cost.retransmitted, len(cost.completions)) == (787, 3, 16)
    assert (cost.completed(0), cost.completed(1)) == (pytest.approx(85e-6), pytest.approx(100e-6))
    assert (tmp_path / "load.cm").read_text() == SMALL.matrix().text()


def test_a_flow_that_begins_later_takes_what_lies_between(stand_in, tmp_path):
    late = SimLoad(16, "poisson", 32_768)
    begun = [one.start for one in late.matrix().connections]
    assert begun == sorted(begun[:10]) + begun[10:]
    assert all(at == round(at) for at in begun)
    stand_in(*(finished(place, at + 20) for place, at in enumerate(begun, 1)), "New: 1280 Rtx: 0 RTS: 0")
    assert htsim.run(late, tmp_path).completions == pytest.approx([20e-6] * 160)


def test_the_memory_of_a_program_is_its_own_and_not_that_of_what_starts_it():
    held = bytearray(b"x" * (100 << 20))
    output, cost = measure(["sh", "-c", "echo done"])
    assert (output, bool(held)) == ("done\n", True)
    assert 0 < cost.memory < 40 << 20
    with pytest.raises(RunError, match="sh ended with status 3; its last output: gone"):
        measure(["sh", "-c", "echo gone; exit 3"])


def test_a_run_that_did_not_end_is_no_result(stand_in, tmp_path, capsys):
    stand_in(finished(1, 99), "New: 49 Rtx: 0 RTS: 0")
    with pytest.raises(RunError, match="ended 1 of 16 connections; its last output: New: 49"):
        htsim.run(SMALL, tmp_path)
    assert command.main(["--hosts", "16", "--traffic", "permutation", "--size", "8 kB"]) == 1
    assert "16 hosts, permutation: " in capsys.readouterr().err


def test_the_page_counts_what_is_near(stand_in, tmp_path, monkeypatch):
    here = [at * 1e6 for at in load.simulate(SMALL)["completions"]]
    stand_in(*(finished(place, at) for place, at in enumerate(here)), "New: 784 Rtx: 0 RTS: 0")
    words = ["--hosts", "16", "--traffic", "permutation", "--size", "200 kB", "--page", str(tmp_path / "page.md")]
    assert command.main(words) == 0
    text = (tmp_path / "page.md").read_text()
    assert "within 10 % of each other on 1 of 1 loads" in text
    assert "| 16 | permutation |" in text
    assert f"mrclab bench sim --hosts=16 --traffic=permutation --size=200000 --seeds=1 --page={tmp_path}" in text
    assert "the time that the runs were given was up" not in text
    assert (tmp_path / "page.png").exists()
    stand_in(*(finished(place, 2 * at) for place, at in enumerate(here)), "New: 784 Rtx: 0 RTS: 0")
    command.main(words)
    assert "within 10 % of each other on 0 of 1 loads" in (tmp_path / "page.md").read_text()


def test_the_largest_fabrics_have_fewer_loads_and_a_permutation_of_fewer_bytes(monkeypatch, capsys):
    monkeypatch.setattr(command, "_LARGE_HOSTS", 16)
    monkeypatch.setattr(command, "_LARGE_SIZE", 10_000)
    assert command.main(["--hosts", "32", "--alone", "--json"]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["traffic"], one["size"]) for one in said] == [("permutation", 10_000), ("incast", 500_000)]


def test_after_the_minutes_that_were_given_no_run_is_begun_and_kept_ones_count(tmp_path, monkeypatch):
    now = iter([0, 60, 120, 180, 240, 300, 360, 0, 240, 300, 360])
    monkeypatch.setattr(turns, "time", SimpleNamespace(monotonic=lambda: next(now)))
    monkeypatch.setattr(load, "run", lambda _load: SimCost(1.0, 1.0, 1).of("MRC Lab", 16, 0, [1e-4]))
    loads = [SMALL, SimLoad(32, "permutation", 200_000)]
    for _ in range(2):
        rows, failed = command.run(loads, 3, Turns(tmp_path, minutes=3), with_htsim=False)
        assert ([len(row.cpus) for row in rows], failed) == ([2, 1], False)


def test_a_run_that_is_kept_is_not_repeated(tmp_path, monkeypatch):
    words = ["--hosts", "16", "--traffic", "permutation", "--size", "8 kB", "--alone", "--json", "--runs"]
    assert command.main([*words, str(tmp_path / "runs")]) == 0
    monkeypatch.setattr(load, "run", lambda _load: pytest.fail("it ran again"))
    assert command.main([*words, str(tmp_path / "runs")]) == 0
    with pytest.raises(pytest.fail.Exception, match="ran again"):
        command.main([*words, str(tmp_path / "others")])


def test_a_run_of_the_compiled_form_is_not_taken_for_one_of_plain_python(tmp_path, monkeypatch):
    for runs, cpu in ((True, 1.0), (False, 2.0), (True, 3.0), (False, 4.0)):
        monkeypatch.setattr(compiled, "state", lambda runs=runs: compiled.State(runs, ""))
        monkeypatch.setattr(load, "run", lambda _load, cpu=cpu: SimCost(1.0, cpu, 1).of("MRC Lab", 16, 3, [1e-4]))
        assert Turns(tmp_path).here(SMALL).cpu == (1.0 if runs else 2.0)


def test_a_run_kept_by_an_earlier_version_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(load, "run", lambda _load: SimCost(1.0, 1.0, 1).of("MRC Lab", 16, 3, [1e-4]))
    first = Turns(tmp_path).here(SMALL)
    (kept,) = tmp_path.iterdir()
    kept.write_text(kept.read_text().replace('"retransmitted"', '"again"'))
    monkeypatch.setattr(load, "run", lambda _load: pytest.fail("it ran again"))
    assert Turns(tmp_path).here(SMALL) == first


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"cost": 5}', '{"cost": {"wall": 1}}', "\xff"])
def test_a_kept_run_that_is_damaged_is_named(tmp_path, monkeypatch, text):
    monkeypatch.setattr(load, "run", lambda _load: SimCost(1.0, 1.0, 1).of("MRC Lab", 16, 3, [1e-4]))
    Turns(tmp_path).here(SMALL)
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(text.encode("latin-1"))
    with pytest.raises(RunError, match=f"{kept} is not a run that was kept here; remove it"):
        Turns(tmp_path).here(SMALL)


def test_what_uet_htsim_cannot_hold_is_run_without_it(monkeypatch, capsys):
    monkeypatch.setattr(htsim, "MAX_HOSTS", 8)
    rows, failed = command.run([SimLoad(16, "permutation", 65_536)], 1, Turns(), with_htsim=True)
    assert ([row.cost.simulator for row in rows], failed) == (["MRC Lab"], False)
    assert "16 hosts: uet-htsim is left out" in capsys.readouterr().err


def test_a_picture_of_cost_against_size(tmp_path):
    rows = [table.SimRow.of(SMALL, Turns().once(SMALL, 1, with_htsim=False))]
    table.picture(rows, tmp_path / "cost.png")
    assert (tmp_path / "cost.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(htsim.program() is None, reason="htsim_uec is not on the path")
@pytest.mark.parametrize(("traffic", "size"), [("permutation", 2_000_000), ("all-to-all", 131_072)])
def test_completion_times_are_near_those_of_uet_htsim(traffic, size):
    spec = SimLoad(16, traffic, size)
    here, there = (table.SimRow.of(spec, [cost]) for cost in Turns().once(spec, 1, with_htsim=True))
    assert table.within(here, there), [row.times() for row in (here, there)]
