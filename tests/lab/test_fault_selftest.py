"""The self-tests of faults hold on this machine, and notice a fault that does not do what it says."""

import os

import pytest
from bmv2 import TARGETS

from mrclab.lab.faults import selftest
from mrclab.lab.faults.base import FAULTS
from mrclab.lab.faults.kinds import detours, hosts, switches
from mrclab.topo.cables import cablefaults

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and cables need root"),
]


@pytest.mark.parametrize("target", TARGETS)
def test_every_kind_of_fault_does_what_it_says_on_either_target_and_leaves_nothing(target):
    verdicts = list(selftest.kinds(target))
    assert [verdict for verdict in verdicts if not verdict.passed] == []
    on_the_wire = {name for name in FAULTS.names if "wire" in FAULTS[name].worlds}
    assert {verdict.name for verdict in verdicts} == on_the_wire | {"nothing is left of the lab"}


def test_an_action_that_does_nothing_or_is_not_undone_is_told(monkeypatch):
    monkeypatch.setattr(cablefaults.SeededLoss, "rule", lambda _, counter: counter)
    monkeypatch.setattr(cablefaults.Drop, "rule", lambda _, counter: counter)
    monkeypatch.setattr(cablefaults.Corrupt, "rule", lambda _, counter: f"{counter} no such statement")
    monkeypatch.setattr(detours.Relay, "inject", lambda _: None)
    monkeypatch.setattr(switches.Freeze, "inject", lambda _: None)
    monkeypatch.setattr(switches.Misroute, "clear", lambda _: None)
    monkeypatch.setattr(hosts.SendBackground, "clear", lambda _: None)
    changed = {
        "loss", "silent_drop", "ev_loss", "corrupt", "delay", "switch_freeze", "wrong_entry", "background",
    }  # fmt: skip
    monkeypatch.setattr(selftest, "_TIMEOUT", 1.0)
    verdicts = {verdict.name: verdict for verdict in selftest.kinds("soft", {*changed, "link_down"})}
    assert {name for name, verdict in verdicts.items() if not verdict.passed} == changed
    assert verdicts["silent_drop"].detail.startswith("of forty frames upwards these arrived: [0, 1,")
    assert "nft refused the cable rules" in verdicts["corrupt"].detail
    assert verdicts["wrong_entry"].detail.startswith("still wrong: ['t1-p1-2 ")
