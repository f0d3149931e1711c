"""Clustermapper on a real fabric: the right cable is named from the hosts' own probes, and denied where it must be."""

import os

import pytest
from bmv2 import TARGETS
from controller_lab import controlled_lab

from mrclab.topo.cables import cablefaults
from mrclab.topo.config.nodeconfig import load

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces"),
]


@pytest.mark.parametrize("target", TARGETS)
def test_clustermapper_names_a_silent_cable_and_denies_a_lossy_nic_cable(target: str) -> None:
    with controlled_lab("-map", target, planes=2, hosts_per_t0=2) as lab:
        lab.start("--mapper-cycle", "0.2")
        lab.wait(lambda: all(link["state"] == "up" for link in lab.call("controller", "map")["links"].values()))
        silent = lab.emulation.cables.inject("t0-p1-1/t1-p1-2", cablefaults.Drop())
        verdict = lab.wait_event("verdict", element="t0-p1-1/t1-p1-2")
        assert verdict["state"] == "down"
        lab.emulation.cables.clear(silent)
        lab.wait_event("verdict.over", verdict["t"], element="t0-p1-1/t1-p1-2")
        lab.emulation.cables.inject("h2-p2/t0-p2-1", cablefaults.every_nth(8), direction="up")
        denied = lab.wait_event("denied", verdict["t"], element="h2-p2/t0-p2-1")
        assert denied["source"] == "clustermapper"
        assert {e["element"] for e in lab.events("verdict")} == {"t0-p1-1/t1-p1-2", "h2-p2/t0-p2-1"}
        lab.wait_event("agent.updated", denied["t"], host="h4")
        assert load(lab.run_dir / "node" / "h4.json").denied(2, 1, lab.fabric.host("h2").address)
