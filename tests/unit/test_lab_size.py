"""Estimates of a fabric's needs before anything starts; one too large for this machine is refused."""

from pathlib import Path

import pytest

from mrclab.lab.command.runs import send
from mrclab.lab.errors import LabError, Refused
from mrclab.lab.run import size, worlds
from mrclab.lab.run.size import Load, MachineCapacity
from mrclab.lab.scenario.scenario import load, loads
from mrclab.topo.spec import FabricSpec

pytestmark = pytest.mark.once

SMALL = MachineCapacity(memory=4 << 30, threads=20_000, cpus=2)
LARGE = FabricSpec(planes=4, t0s=32, t1s=32, hosts_per_t0=8)


def test_the_demo_fits_into_a_small_machine_and_grows_with_its_sizes():
    demo = size.need(FabricSpec())
    assert (demo.switches, demo.hosts) == (16, 4)
    assert size.shortage(FabricSpec(), SMALL) == ""
    assert size.need(LARGE).memory > 10 * demo.memory - size._OTHERS * 10


def test_a_fabric_that_is_too_large_is_refused_with_what_it_needs_and_what_fits():
    told = size.shortage(LARGE, SMALL)
    assert told.startswith("256 switches and 256 hosts need")
    assert "of memory, of which 4.0 GiB are free" in told
    assert "this machine can hold some 1" in told
    assert "lower planes, t0s, t1s or hosts_per_t0" in told
    many = size.shortage(LARGE, MachineCapacity(memory=1 << 40, threads=1000, cpus=2))
    assert "processes and threads, of which the kernel allows 1000 more" in many
    assert size.shortage(LARGE, MachineCapacity(memory=1 << 40, threads=100_000, cpus=2)) == ""


def test_only_force_starts_it(monkeypatch):
    monkeypatch.setattr(size, "here", lambda: SMALL)
    with pytest.raises(Refused, match="--force starts it even so"):
        size.check(LARGE)
    assert "256 switches" in size.check(LARGE, force=True)
    assert size.check(FabricSpec()) == ""


def test_a_machine_with_few_cpus_gets_a_warning_and_not_a_refusal():
    assert size.warning(FabricSpec(), Load(1, 1), SMALL) == ""
    told = size.warning(FabricSpec(), Load(4, 4), SMALL)
    assert told.startswith("concurrent traffic needs some")
    assert "INVALID" in told
    assert size.shortage(FabricSpec(), SMALL, Load(4, 4)) == ""


MANY = """\
name: many
fabric: {planes: 4, t0s: 2, t1s: 2, hosts_per_t0: 2, path_mtu: 1024, link: {rate_pps: RATE}}
traffic:
  - {name: a, TRAFFIC}
"""


@pytest.mark.parametrize(
    ("rate", "cpus", "traffic", "said"),
    [
        (9000, 2, "kind: permutation, duration: 1s", "this traffic needs 6.6 CPUs at least, and this machine has 2;"),
        (20000, 16, "kind: stream, from: h1, to: h2, duration: 1s", "a host that sends at line rate needs 1.4 CPUs at"),
        (12000, 2, "kind: incast, from: all, to: h1, duration: 1s", "this traffic needs 2.2 CPUs at least"),
        (12000, 2, "kind: stream, from: h1, to: h2, duration: 1s, rate: 5% of line", ""),
        (12000, 2, "kind: pingpong, from: h1, to: h2, size: 1 KiB, count: 9", ""),
        (12000, 2, "kind: ring_all_reduce, hosts: [all], size: 1 MiB", ""),
    ],
)
def test_traffic_that_this_machine_cannot_hold_at_the_least_that_a_packet_costs_is_refused(
    monkeypatch, rate, cpus, traffic, said
):
    monkeypatch.setattr(size, "here", lambda: MachineCapacity(4 << 30, 20_000, cpus))
    loaded = loads(MANY.replace("RATE", str(rate)).replace("TRAFFIC", traffic))
    if not said:
        worlds.check_size(loaded)
        return
    with pytest.raises(Refused, match="lower rate_pps to ") as refused:
        worlds.check_size(loaded)
    assert said in str(refused.value)
    assert "; --force starts it even so" in str(refused.value)
    (warned,) = worlds.check_size(loaded, force=True)
    assert said in warned
    fits = str(refused.value).partition("rate_pps to ")[2].split()[0]
    worlds.check_size(loads(MANY.replace("RATE", fits).replace("TRAFFIC", traffic)))


def test_no_committed_scenario_is_refused_on_two_cpus(monkeypatch):
    monkeypatch.setattr(size, "here", lambda: SMALL)
    for path in (Path(__file__).parents[2] / "scenarios").rglob("*.yaml"):
        if path.parent.name != "scale":
            worlds.check_size(*load(path).runs)


def test_the_largest_permutation_is_refused_on_a_small_machine_and_the_smallest_is_not(monkeypatch):
    monkeypatch.setattr(size, "here", lambda: SMALL)
    folder = Path(__file__).parents[2] / "scenarios" / "scale"
    with pytest.raises(Refused, match=r"131,072 hosts .* need some \d\d\.\d GiB of memory in virtual time"):
        worlds.check_size(load(folder / "nics-131k.yaml"))
    assert worlds.check_size(load(folder / "nics-1k.yaml")) == []


def test_this_machine_can_be_looked_at():
    machine = size.here()
    assert machine.memory > 0
    assert machine.threads > 0
    assert machine.cpus > 0


def test_an_output_that_cannot_be_written_is_found_out_before_anything_is_sent(tmp_path):
    send._check_output(None)
    send._check_output(tmp_path / "new")
    for wrong in (tmp_path / "none" / "x", tmp_path):
        with pytest.raises(LabError, match="name a file in a directory that is there"):
            send._check_output(wrong)
