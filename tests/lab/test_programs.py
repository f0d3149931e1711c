"""Somebody else's programs on a small real fabric: a C program of ours at both ends while a cable is cut, and exec."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mrclab_command import mrclab

from mrclab.lab.run.wire import programs
from mrclab.lab.run.wire.attach import LabClients
from mrclab.topo.linux import state
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from verbs_ground import LIBMRC, PROGRAMS, build, compiled, needs_compiler

__all__ = ["mrclab"]

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    needs_compiler,
]

SCENARIO = """\
name: theirs
max_wait: 1s
fabric: {planes: 2, t0s: 2, t1s: 1, hosts_per_t0: 1, path_mtu: 1024, link: {rate_pps: 500, delay: 5ms}}
traffic:
  - name: writes
    kind: program
    programs:
      - host: h2
        command: "sh -c 'cd $MRCLAB_FILES; mkfifo a b; echo listening; exec PROGRAM receive b a'"
        ready: listening
      - {host: h1, command: "sh -c 'cd $MRCLAB_FILES; exec PROGRAM send a b'"}
faults:
  - {name: cut, kind: link_down, link: h1-p2, at: writes + 100ms, until: writes + 500ms}
expect:
  - {kind: integrity, traffic: writes}
  - {kind: qp_errors}
  - {kind: retransmitted}
"""


def test_programs_that_start_side_by_side_make_one_network(tmp_path):
    """Eight hosts come at once, whoever is first: each has its address afterwards, and the one bridge has them all."""
    lab = LabClients(tmp_path, Fabric(FabricSpec(hosts_per_t0=4)))
    cables = state.namespace(tmp_path.parent, "cables")
    subprocess.run(["ip", "netns", "add", cables], check=True)
    hosts = {}
    try:
        for host in lab.fabric.hosts:
            argv = ["unshare", "--net", "sh", "-c", "echo; exec cat"]
            hosts[host.name] = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            hosts[host.name].stdout.readline()  # it is in its namespace
        with ThreadPoolExecutor(len(hosts)) as pool:
            for joined in [pool.submit(programs._join, lab, name, process.pid) for name, process in hosts.items()]:
                joined.result()
        for name, process in hosts.items():
            inside = ["nsenter", "-t", str(process.pid), "-n", "ip", "-brief", "address", "show", "oob"]
            shown = subprocess.run(inside, check=True, capture_output=True, text=True).stdout
            assert programs.address(lab.fabric.host(name).number) in shown
    finally:
        for process in hosts.values():
            process.communicate()
        subprocess.run(["ip", "netns", "del", cables], check=True)


def test_a_program_of_somebody_else_runs_while_a_cable_is_cut_and_is_judged(mrclab, tmp_path):
    build(LIBMRC / "build")
    program = compiled(PROGRAMS / "writes.c", build(tmp_path / "build"))
    path = tmp_path / "theirs.yaml"
    path.write_text(SCENARIO.replace("PROGRAM", str(program)))
    done = mrclab.run("run", path, "--results", tmp_path / "results")
    assert done.returncode in {0, 3}, done.stdout + done.stderr  # 3: the machine was too slow for a result
    logs = {log.name: log.read_text() for log in (tmp_path / "results").rglob("writes-*.log")}
    assert "receive done" in logs["writes-1-h2.log"]
    assert "send done" in logs["writes-2-h1.log"]
