"""Digests that both ends of a flow have in common: always those of hashlib, whatever arrives."""

import hashlib

import pytest

from mrclab.hosts.workloads.digests import SharedDigests

MESSAGES = [bytes([number]) * (64 + number) for number in range(6)]
CHANGED = [*MESSAGES[:3], b"other", *MESSAGES[4:]]


def ends(shared_digests, order=("send", "recv")):
    made = {role: shared_digests.digests("w", "f", role, 1)[0] for role in order}
    return made["send"], made["recv"]


def digest(messages):
    return hashlib.sha256(b"".join(messages)).digest()


@pytest.mark.parametrize("order", [("send", "recv"), ("recv", "send")])
@pytest.mark.parametrize("arrived", [MESSAGES, MESSAGES[:4], [], CHANGED, MESSAGES[::-1], [*MESSAGES, b"more"]])
@pytest.mark.parametrize("ahead", [1, 2, 6])
def test_each_end_has_the_digest_of_its_own_bytes(order, arrived, ahead):
    sender, receiver = ends(SharedDigests(), order)
    for place in range(max(len(MESSAGES), len(arrived)) + ahead):
        if place < len(MESSAGES):
            sender.update(memoryview(MESSAGES[place]))
        if ahead <= place < len(arrived) + ahead:
            receiver.update(memoryview(arrived[place - ahead]))
        assert sender.digest() == digest(MESSAGES[: place + 1])
        assert receiver.digest() == digest(arrived[: max(0, place + 1 - ahead)])


def test_bytes_that_are_equal_are_digested_once(monkeypatch):
    taken = []

    class Counting:
        def update(self, data):
            taken.append(len(data))

    monkeypatch.setattr("mrclab.hosts.workloads.digests.hashlib.sha256", Counting)
    sender, receiver = ends(SharedDigests())
    for message in MESSAGES:
        sender.update(memoryview(message))
        receiver.update(memoryview(message))
    assert taken == [len(message) for message in MESSAGES]


def test_an_end_whose_peer_never_came_is_not_that_of_a_later_flow_of_the_same_name():
    shared_digests = SharedDigests()
    (lost,) = shared_digests.digests("w", "f", "send", 1)
    lost.update(memoryview(b"lost"))
    sender, receiver = ends(shared_digests)
    assert sender.digest() == receiver.digest() == digest([])
