"""What a fabric needs is reckoned before anything starts, and what this machine cannot hold is refused."""

import pytest

from mrclab.lab.command import cli
from mrclab.lab.errors import LabError, Refused
from mrclab.lab.run import size
from mrclab.lab.run.size import Machine
from mrclab.topo.spec import FabricSpec

SMALL = Machine(memory=4 << 30, threads=20_000, cpus=2)
LARGE = FabricSpec(planes=4, t0s=32, t1s=32, hosts_per_t0=8)


def test_the_demo_fits_into_a_small_machine_and_grows_with_its_sizes():
    demo = size.need(FabricSpec())
    assert (demo.switches, demo.hosts) == (16, 4)
    assert size.trouble(FabricSpec(), SMALL) == ""
    assert size.need(LARGE).memory > 10 * demo.memory - size._REST * 10


def test_a_fabric_that_is_too_large_is_refused_with_what_it_needs_and_what_fits():
    told = size.trouble(LARGE, SMALL)
    assert told.startswith("256 switches and 256 hosts need")
    assert "of memory, of which 4.0 GiB are free" in told
    assert "this machine can hold some 1" in told
    assert "lower planes, t0s, t1s or hosts_per_t0" in told
    many = size.trouble(LARGE, Machine(memory=1 << 40, threads=1000, cpus=2))
    assert "processes and threads, of which the kernel allows 1000 more" in many
    assert size.trouble(LARGE, Machine(memory=1 << 40, threads=100_000, cpus=2)) == ""


def test_only_force_starts_it(monkeypatch):
    monkeypatch.setattr(size, "here", lambda: SMALL)
    with pytest.raises(Refused, match="--force starts it even so"):
        size.check(LARGE)
    assert "256 switches" in size.check(LARGE, force=True)
    assert size.check(FabricSpec()) == ""


def test_a_machine_with_too_few_cpus_gets_a_warning_and_not_a_refusal():
    assert size.warning(FabricSpec(), 1, SMALL) == ""
    told = size.warning(FabricSpec(), 4, SMALL)
    assert told.startswith("4 hosts that send at line rate want some")
    assert "INVALID" in told


def test_this_machine_can_be_looked_at():
    machine = size.here()
    assert machine.memory > 0
    assert machine.threads > 0
    assert machine.cpus > 0


def test_an_output_that_cannot_be_written_is_found_out_before_anything_is_sent(tmp_path):
    cli._check_output(None)
    cli._check_output(tmp_path / "new")
    for wrong in (tmp_path / "none" / "x", tmp_path):
        with pytest.raises(LabError, match="name a file in a directory that is there"):
            cli._check_output(wrong)
