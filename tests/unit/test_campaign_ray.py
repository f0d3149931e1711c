"""Campaigns on a Ray cluster: the rows of worker processes, whatever dies meanwhile, and from this mrclab alone.

The clusters are real ones of two nodes each, on this machine's loopback; they need the extra `ray`.
"""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from mrclab import HOME, PACKAGES
from mrclab.experiments.campaign import journal, work
from mrclab.experiments.runs import cluster, remote
from mrclab.lab.errors import Refused

needs_ray = pytest.mark.skipif(
    not (importlib.util.find_spec("ray") and Path("/proc").exists()),
    reason="needs Ray, which setup/ray.sh installs where there is a wheel for this Python, and Linux",
)

patient = pytest.mark.timeout(900)  # Ray itself starts a dozen processes

SCENARIO = """
name: small
fabric: {planes: 1, t0s: 2, t1s: 2, hosts_per_t0: 1, link: {rate_pps: 400, delay: 2ms}}
traffic:
  - {name: all, kind: matrix, file: pairs.cm}
expect:
  - {kind: integrity}
  - {kind: goodput, window: start + 100ms .. start + 300ms, at_least: 50% of line}
"""
PAIRS = "Nodes 2\nConnections 2\n0->1 start 0 size 800000\n1->0 start 0 size 800000\n"
RUNS = 12


@contextmanager
def nodes(*wanted):
    """A cluster of these nodes: its address, and the process ids of its raylets."""
    command = [sys.executable, str(Path(__file__).with_name("ray_nodes.py")), *wanted]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        address, *raylets = process.stdout.readline().decode().split() or ["", ""]
        if not address:
            pytest.skip("Ray itself did not bring its nodes up on this machine")
        yield address, [int(pid) for pid in raylets]


@contextmanager
def begun(folder, *more):
    """The campaign as a process in `folder`, and no longer than the block."""
    (folder / "small.yaml").write_text(SCENARIO, encoding="utf-8")
    (folder / "pairs.cm").write_text(PAIRS, encoding="utf-8")
    words = ["campaign", "small.yaml", "--seeds", "1..6", "--set", "fabric.link.rate_pps=200,400", *more]
    process = subprocess.Popen(
        [sys.executable, "-c", "from mrclab.lab.command.entry import main; main()", *words],
        cwd=folder,
        env={**os.environ, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"},  # as ray_nodes.py has it
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def rows_of(directory):
    return {journal.key_of(row): {**row, "seconds": 0} for row in journal.Journal(directory).read()}


def busy_workers(raylets):
    """Process ids of the workers that are at a task, by the name that Ray gives them then."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
            name = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if parent in raylets and name.startswith(b"ray::run"):
            yield int(folder.name)


@needs_ray
@patient
def test_a_cluster_of_two_nodes_gives_the_rows_of_worker_processes_though_a_worker_is_killed(tmp_path):
    table = tmp_path / "ray" / journal.ROWS
    with nodes("1", "1") as (address, raylets), begun(tmp_path, "--out", "ray", "--ray", address) as campaign:
        while not (table.exists() and table.read_bytes().count(b"\n") >= 2) or not (at := [*busy_workers(raylets)]):
            assert campaign.poll() is None, campaign.stdout.read()
            time.sleep(0.01)
        os.kill(at[0], signal.SIGKILL)
        (tmp_path / "pairs.cm").unlink()  # no node has it but this one, and that no longer
        said, _ = campaign.communicate()
    assert campaign.returncode == 0, said
    with begun(tmp_path, "--out", "processes", "--workers", "2") as campaign:
        said, _ = campaign.communicate()
    assert campaign.returncode == 0, said
    lines = [json.loads(line) for line in table.read_text(encoding="utf-8").splitlines()]
    assert max(Counter(map(journal.key_of, lines)).values()) == 1
    assert len(lines) == RUNS
    assert rows_of(tmp_path / "ray") == rows_of(tmp_path / "processes")


@needs_ray
@patient
def test_a_worker_with_other_sources_is_refused_in_one_sentence(tmp_path):
    other = tmp_path / "other" / "mrclab"
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    shutil.copytree(HOME / "mrclab", other, ignore=ignored)
    for package in PACKAGES:
        shutil.copytree(HOME / package, other / package, ignore=ignored)
    with (other / "lab" / "errors.py").open("a", encoding="utf-8") as file:
        file.write("# another line\n")
    with nodes("0", f"1:{other.parent}") as (address, _), begun(tmp_path, "--ray", address) as campaign:
        said, _ = campaign.communicate()
    assert campaign.returncode == Refused.status
    assert "a worker on 127.0.0.1 has mrclab" in said
    assert remote.identity() in said
    assert "Traceback" not in said
    assert not (tmp_path / "results" / "campaign" / journal.ROWS).exists()


@needs_ray
@patient
def test_an_address_where_no_cluster_is_is_refused_at_once(tmp_path):
    with begun(tmp_path, "--ray", "127.0.0.1:1") as campaign:
        said, _ = campaign.communicate()
    assert campaign.returncode == Refused.status
    assert "--ray 127.0.0.1:1: no cluster answers there" in said


def test_without_ray_its_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(Refused, match=r"\[ray\]"):
        next(cluster.rows([], "auto", None, work.run, work.killed))


def test_sources_are_other_ones_when_a_line_or_a_name_is(tmp_path):
    tree = SimpleNamespace(__file__=str(tmp_path / "mrclab" / "__init__.py"), HOME=tmp_path, PACKAGES=("inner",))

    def digest():
        return remote._digest(tree)

    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.py").write_text("a = 1\n", encoding="utf-8")
    seen = [digest()]
    (tmp_path / "inner" / "__pycache__").mkdir()
    (tmp_path / "inner" / "__pycache__" / "b.py").write_text("", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("", encoding="utf-8")
    assert digest() == seen[0]
    (tmp_path / "inner" / "a.py").write_text("a = 2\n", encoding="utf-8")
    seen.append(digest())
    (tmp_path / "inner" / "a.py").rename(tmp_path / "inner" / "b.py")
    seen.append(digest())
    assert len(set(seen)) == 3
