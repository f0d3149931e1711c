"""The lab benchmark tells every part and leaves nothing behind; how fast a machine is, no test says."""

import os
from pathlib import Path

import pytest

from mrclab.bench.lab import __main__ as bench
from mrclab.bench.lab.__main__ import PARTS, Stopwatch, bring_up
from mrclab.topo.linux import processes

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces")]


@pytest.fixture(scope="module")
def place():
    return Path(f"/run/mrct-{os.getpid()}-bench/lab")


@pytest.fixture(scope="module")
def result(place):
    return bring_up(4, "soft", place)


def test_every_part_is_measured_and_they_add_up(result, place):
    assert list(result.parts) == list(PARTS.values())
    for part in ("namespaces", "cables", "switches answer"):
        assert result.parts[part].wall > 0
    assert result.total.cpu == pytest.approx(sum(part.cpu for part in result.parts.values()))
    assert result.total.cpu > 0
    assert (result.switches, result.hosts, result.cables, result.target) == (4, 2, 6, "soft")
    assert not place.parent.exists()
    assert place.parent.resolve() not in processes.of_labs()


def test_memory_is_told_of_each_kind_of_process_and_rings_only_of_those_that_have_some(result):
    assert set(result.memory) == {"switch", "agent", "controller"}
    assert all(weight.private > 0 and weight.pss > 0 for weight in result.memory.values())
    assert result.memory["switch"].rings > 0
    assert result.memory["controller"].rings == 0


def test_the_table_names_sizes_parts_and_kinds(result):
    text = bench.table([result, result])
    assert all(word in text for word in ("4 (soft)", *PARTS.values(), "total", "switch", "agent", "controller"))


def test_a_stage_that_comes_in_pieces_is_one_part_and_what_is_no_stage_is_nobodys(tmp_path):
    watch = Stopwatch(tmp_path)
    for stage in ("left by an earlier run: process 1", "nodes", "cables", "nodes", "something new", "switches", ""):
        watch.progress(stage, 0, 1)
    watch.lap("")
    measured = {name for name, part in watch.parts.items() if part.wall > 0}
    assert measured == {"namespaces", "cables", "switches answer"}
