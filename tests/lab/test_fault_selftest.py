"""The self-test of faults holds on this machine, and notices a fault that does not do what it says."""

import os

import pytest

from topo import cablefaults, selftest

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and cables need root"),
]


def test_every_kind_of_fault_holds_on_this_kernel():
    verdicts = list(selftest.faults())
    assert [verdict for verdict in verdicts if not verdict.holds] == []
    assert len(verdicts) == len(selftest._CHECKS) + 1


def test_a_fault_that_does_nothing_or_is_refused_is_told(monkeypatch):
    monkeypatch.setattr(cablefaults.Drop, "rule", lambda _, counter: counter)
    monkeypatch.setattr(cablefaults.Corrupt, "rule", lambda _, counter: f"{counter} no such statement")
    failed = {verdict.name: verdict.detail for verdict in selftest.faults() if not verdict.holds}
    assert set(failed) == {"silent drop", "corruption", "loss of one uSID", "loss of one EV", "loss of one path"}
    assert failed["silent drop"].startswith("40 of 40 frames arrived")
    assert failed["corruption"].startswith("nft refused the cable rules")
