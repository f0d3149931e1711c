"""Estimates of a run in virtual time before it starts, compared with the use of a small one."""

import gc
import tracemalloc

import pytest

from mrclab.lab.errors import Refused
from mrclab.lab.run import size, virtualsize, worlds
from mrclab.lab.run.size import MachineCapacity
from mrclab.lab.scenario.scenario import loads
from mrclab.sim.world import SimWorld

pytestmark = pytest.mark.once

PERMUTATION = """
name: all
world: sim
fabric: {{planes: {planes}, t0s: {t0s}, t1s: {t1s}, hosts_per_t0: {down}, link: {{rate: 100 Gb/s, delay: 600ns}}}}
traffic: [{{name: all, kind: permutation, size: 64 KiB, depth: 1, content: counted}}]
expect: [{{kind: health}}]
"""


def permutation(planes, t0s, t1s, down):
    return loads(PERMUTATION.format(planes=planes, t0s=t0s, t1s=t1s, down=down))


@pytest.mark.parametrize("shape", [(8, 16, 64, 4), (2, 8, 8, 8)], ids=["paths on demand", "all paths"])
def test_the_estimate_is_within_a_factor_of_two_of_what_hosts_and_qps_take(shape, tmp_path):
    loaded = permutation(*shape)
    (entry,) = loaded.scenario.traffic
    tracemalloc.start()
    try:
        made = SimWorld(loaded.fabric, seed=1, transport=loaded.scenario.transport, mapper=None, files=tmp_path)
        for flow in entry.flows(loaded.fabric, 1):
            made.call(flow.source, "create_qp", peer=flow.destination)
            made.call(flow.destination, "create_qp", peer=flow.source)
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    wanted = virtualsize.need(loaded)
    assert (wanted.hosts, wanted.qps) == (len(made.hosts), 2 * len(made.hosts))
    later = virtualsize.of_traffic(loaded, [(entry, entry.flows(loaded.fabric, 1))])  # nothing is sent here
    later += virtualsize.of_samples(loaded, wanted.hosts)
    crossing = wanted.ports * virtualsize._PORT + 2 * wanted.hosts * virtualsize._HISTORY
    report = virtualsize._REPORT + wanted.hosts * virtualsize._REPORT_HOST
    estimated = wanted.memory - virtualsize._BASE - report - crossing - later
    assert 0.5 < estimated / taken < 2


def test_a_qp_of_rocev2_takes_what_it_takes_in_a_job_of_1024_nics():
    """212,992 QPs took 578 MiB, without a report."""
    text = PERMUTATION.format(planes=1, t0s=32, t1s=32, down=32)
    few, many = (virtualsize.need(loads(text + f"transport: {{kind: roce, qps: {qps}}}\n")) for qps in (1, 64))
    assert many.qps == 2 * 1024 * 64
    assert 0.8 < (many.memory - few.memory) / (many.qps - few.qps) / ((578 << 20) / 212_992) < 1.25


def test_what_nobody_uses_needs_nothing():
    text = PERMUTATION.format(planes=8, t0s=512, t1s=256, down=256)
    pair = text.replace("kind: permutation", "kind: stream, from: h1, to: h131072")
    assert virtualsize.need(loads(pair)).memory < 1 << 30
    assert virtualsize.need(loads(pair)).hosts == 2


def test_a_run_that_does_not_fit_is_refused_with_the_estimate_unless_forced(monkeypatch):
    monkeypatch.setattr(size, "here", lambda: MachineCapacity(memory=1 << 28, threads=20_000, cpus=2))
    loaded = permutation(8, 64, 64, 64)
    with pytest.raises(Refused, match=r"all: 4,096 hosts with 8,192 QPs .* need some \d\.\d GiB .* 0\.2 GiB are free"):
        worlds.check_size(loaded)
    (told,) = worlds.check_size(loaded, force=True)
    assert "lower t0s or hosts_per_t0" in told


def test_bytes_that_are_kept_count_and_those_that_are_counted_do_not():
    loaded = permutation(2, 4, 4, 8)
    kept = loads(loaded.text.replace("counted", "random"))
    assert virtualsize.need(kept).memory - virtualsize.need(loaded).memory == 32 * 2 * 65536


def test_a_first_traffic_after_very_many_samples_is_warned_of():
    late = permutation(2, 2, 2, 2).text.replace("depth: 1,", "depth: 1, start: 59s,")
    (told,) = worlds.check_size(loads(late))
    assert "nothing is sent until 59.00 s" in told
    assert told.endswith("set fabric.sample_every, for example to 0.059s")
    assert not worlds.check_size(loads(late.replace("{rate: 100 Gb/s, delay: 600ns}", "{rate_pps: 500}")))
    seldom = loads(late.replace("planes: 2,", "planes: 2, sample_every: 0.059s,"))
    assert not worlds.check_size(seldom)
    assert seldom.fabric.spec.telemetry_scale == seldom.fabric.spec.display_scale
