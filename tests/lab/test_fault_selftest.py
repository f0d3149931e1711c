"""The self-tests of faults hold on this machine, and notice a fault that does not do what it says."""

import os

import pytest
from bmv2 import TARGETS

from mrclab.lab.faults import selftest as kinds
from mrclab.lab.faults.base import FAULTS
from mrclab.lab.faults.kinds import detours, hosts, switches
from mrclab.topo.cables import cablefaults, selftest

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and cables need root"),
]


def test_what_faults_need_of_the_kernel_holds():
    verdicts = list(selftest.faults())
    assert [verdict for verdict in verdicts if not verdict.passed] == []
    assert len(verdicts) == len(selftest._CHECKS) + 1


@pytest.mark.parametrize("target", TARGETS)
def test_every_kind_of_fault_does_what_it_says_on_either_target_and_leaves_nothing(target):
    verdicts = list(kinds.kinds(target))
    assert [verdict for verdict in verdicts if not verdict.passed] == []
    on_the_wire = {name for name in FAULTS.names if "wire" in FAULTS[name].worlds}
    assert {verdict.name for verdict in verdicts} == on_the_wire | {"nothing is left of the lab"}


def test_a_fault_that_does_nothing_or_is_refused_is_told(monkeypatch):
    monkeypatch.setattr(cablefaults.Drop, "rule", lambda _, counter: counter)
    monkeypatch.setattr(cablefaults.Corrupt, "rule", lambda _, counter: f"{counter} no such statement")
    failed = {verdict.name: verdict.detail for verdict in selftest.faults() if not verdict.passed}
    assert set(failed) == {"silent drop", "corruption", "loss of one uSID", "loss of one EV", "loss of one path"}
    assert failed["silent drop"].startswith("40 of 40 frames arrived")
    assert failed["corruption"].startswith("nft refused the cable rules")


def test_an_action_that_does_nothing_or_is_not_undone_is_told(monkeypatch):
    monkeypatch.setattr(cablefaults.SeededLoss, "rule", lambda _, counter: counter)
    monkeypatch.setattr(detours.Relay, "inject", lambda _: None)
    monkeypatch.setattr(switches.Freeze, "inject", lambda _: None)
    monkeypatch.setattr(switches.Misroute, "clear", lambda _: None)
    monkeypatch.setattr(hosts.SendBackground, "clear", lambda _: None)
    changed = {"loss", "delay", "switch_freeze", "wrong_entry", "background"}
    monkeypatch.setattr(kinds, "_TIMEOUT", 1.0)
    verdicts = {verdict.name: verdict for verdict in kinds.kinds("soft", {*changed, "link_down"})}
    assert {name for name, verdict in verdicts.items() if not verdict.passed} == changed
    assert verdicts["wrong_entry"].detail.startswith("still wrong: ['t1-p1-2 ")
