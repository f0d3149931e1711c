"""Random runs in virtual time: seeds hold, and what breaks the transport is found."""

import pytest

from mrclab.experiments.soak import run as soak
from mrclab.experiments.soak.plan import draw
from mrclab.hosts.mrc.responder import MrcResponder
from mrclab.hosts.rdma.memory import MemoryTable


@pytest.mark.parametrize("seed", range(24))
def test_a_seed_holds(seed):
    assert soak.run(seed) == []


def test_a_seed_says_all():
    assert repr(draw(5).flows) == repr(draw(5).flows)
    assert repr(draw(5).blows) == repr(draw(5).blows)
    kinds = {blow.kind for seed in range(60) for blow in draw(seed).blows}
    assert len(kinds) == 14
    assert {draw(seed).transport for seed in range(60)} == {"mrc", "roce"}
    assert any(draw(seed).restarts for seed in range(60))


def found(seeds=range(40)):
    return [text for seed in seeds if draw(seed).transport == "mrc" for text in soak.run(seed)]


@pytest.mark.sources
def test_a_responder_that_forgets_a_packet_is_found(monkeypatch):
    place = MemoryTable.place
    calls = []

    def forget(self, *arguments):
        calls.append(arguments)
        return None if len(calls) % 50 == 0 else place(self, *arguments)

    monkeypatch.setattr(MemoryTable, "place", forget)
    assert any("not those sent" in text for text in found(range(8)))


def test_what_is_not_over_when_it_should_be_is_found(monkeypatch):
    monkeypatch.setattr(soak, "QUIET_S", 0.0)
    texts = found()
    assert any("is still ASSUMED_BAD" in text for text in texts)
    assert any("a timer is left" in text for text in texts)


@pytest.mark.sources
def test_a_completion_that_is_lost_is_found(monkeypatch):
    monkeypatch.setattr(soak, "LIMIT_S", 20.0)
    advance = MrcResponder._advance
    monkeypatch.setattr(MrcResponder, "_advance", lambda self, packet: self.base > 30 or advance(self, packet))
    assert any("completions" in text for text in found(range(8)))
