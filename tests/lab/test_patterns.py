"""Every traffic pattern over a real fabric, by both transports, from one scenario with two variants."""

import json
import os

import pytest
from mrclab_command import mrclab

from mrclab.lab import history

__all__ = ["mrclab"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]

PATTERNS = """\
name: patterns
title: Every pattern
max_wait: 1s
fabric: {planes: 1, t0s: 2, t1s: 2, hosts_per_t0: 2, path_mtu: 1024, link: {rate_pps: 1000, delay: 2ms}}
transport: {qps: 2}
traffic:
  - {name: file, kind: write, from: h1, to: h3, size: 100001}
  - {name: stream, kind: stream, from: h1, to: h3, duration: 500ms, message: 8KiB, rate: 50% of line, start: 9% of file}
  - {name: lat, kind: pingpong, from: h2, to: h4, count: 10, qps: 1}
  - {name: perm, kind: permutation, size: 64 KiB, start: after stream}
  - {name: incast, kind: incast, from: all, to: h4, size: 64 KiB, start: after perm + 20ms}
  - {name: ring, kind: ring_all_reduce, size: 100001, iterations: 3, start: after incast}
  - {name: a2a, kind: all_to_all, hosts: [h1, h2, h3], size: 32 KiB, iterations: 2, start: after incast}
  - {name: pass, kind: send_recv_ring, size: 64 KiB, start: after ring}
  - {name: timed, kind: ring_all_reduce, hosts: [h1, h3, h2], size: 30 KiB, duration: 1s, start: after ring}
expect:
  - {kind: integrity, traffic: file}
  - {kind: integrity, traffic: stream}
  - {kind: integrity, traffic: lat}
  - {kind: integrity, traffic: perm}
  - {kind: integrity, traffic: incast}
  - {kind: integrity, traffic: ring}
  - {kind: integrity, traffic: a2a}
  - {kind: integrity, traffic: pass}
  - {kind: integrity, traffic: timed}
  - {kind: qp_errors}
variants:
  - {name: mrc}
  - {name: roce, set: {transport.kind: roce}}
"""


def test_every_pattern_arrives_whole_by_both_transports(mrclab, tmp_path):
    (tmp_path / "patterns.yaml").write_text(PATTERNS)
    done = mrclab.run("run", tmp_path / "patterns.yaml", "--results", tmp_path / "results")
    (suite,) = (tmp_path / "results").iterdir()
    told = json.loads((suite / "suite.json").read_text())
    assert [run["variant"] for run in told["runs"]] == ["mrc", "roce"]
    for run in told["runs"]:
        missed = [verdict for verdict in run["verdicts"] if not verdict["ok"]]
        assert not missed, done.stdout
        assert len(run["verdicts"]) == 10, done.stdout + done.stderr
        records = history.load(suite / run["directory"] / "history.jsonl")
        check_records(records)
    assert (suite / "index.html").exists()
    assert not mrclab.run_dir.parent.exists()


def check_records(records):
    """Check the history that every pattern must leave."""
    ends = {r["traffic"]: r for r in records.of("traffic.end")}
    starts = {r["traffic"]: r for r in records.of("traffic.start")}
    assert len(ends["ring"]["iterations"]) == 3
    assert len(ends["a2a"]["iterations"]) == 2
    timed = [r for r in records.of("iteration") if r["traffic"] == "timed"]
    count = len(ends["timed"]["iterations"])
    assert count > 1
    assert sorted(r["iteration"] for r in timed) == sorted(3 * list(range(count)))
    assert min(r["began"] for r in timed if r["iteration"] == count - 1) < starts["timed"].t + 1
    assert all(r["ended"] >= starts["timed"].t + 1 for r in timed if r["iteration"] == count - 1)
    assert ends["timed"].t == max(r["ended"] for r in timed)
    assert ends["pass"]["bytes"] == 4 * 64 * 1024
    assert starts["incast"].t >= ends["perm"].t + 0.02
    assert starts["stream"].t > starts["file"].t
    assert [len(flow["qps"]) for flow in starts["perm"]["flows"]] == [2] * 4
    assert sum(len(r["rtt"]) for r in records.of("pingpong")) == 10
    sizes = {r["flow"]: r["bytes"] for r in records.of("flow.end")}
    assert sizes["file/h1>h3"] == 100_001
    messages = [m for r in records.of("messages") if r["traffic"] == "ring" for m in r["done"]]
    assert len(messages) == 4 * 6 * 3
