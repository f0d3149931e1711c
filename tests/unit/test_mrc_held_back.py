"""EV sets of many known paths, whose EVs are made as packets take them: as if all had been made with the set."""

import random

import pytest

from mrclab.hosts.mrc.evs.ev import Ev
from mrclab.hosts.mrc.evs.evset import EvSet

PLANES, UPLINKS, ACTIVE = (1, 2), 12, 9
MICRO = 1e-6


class Paths:
    """Source of paths that nobody sends by."""

    def path(self, value):
        raise AssertionError(value)


class Known:
    """The uplinks of a plane in order."""

    def __init__(self, plane):
        self.plane, self.left = plane, UPLINKS

    def make(self):
        self.left -= 1
        return ev(self.plane, UPLINKS - self.left)


def ev(plane, uplink):
    return Ev(Paths(), plane, uplink, 0x8000 | uplink)


def sets(seed):
    """The same set twice: made at once, and held back; with what is said of their changes."""
    said = [], []
    told = [lambda ev, *rest, log=log: log.append((ev.value, *rest)) for log in said]
    known = [ev(plane, uplink) for plane in PLANES for uplink in range(1, UPLINKS + 1)]
    at_once = EvSet(known, ACTIVE, 4, random.Random(seed), told[0])
    held = EvSet((), ACTIVE, 4, random.Random(seed), told[1], [Known(plane) for plane in PLANES])
    held.make_lazily()
    for each in (at_once, held):
        each.fill(0.0)
    return (at_once, held), said


def looks(evs):
    return [(e.value, e.shown_state, e.skip_until) for e in evs.by_value.values()], evs.changes, evs.active_count()


def taken(evs, plane, now):
    found = evs.take(plane, now)
    return None if found is None else found.value


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_they_are_as_if_all_had_been_made(seed):
    both, said = sets(seed)
    draw = random.Random(f"what happens {seed}")
    used = []
    for step in range(200):
        now = step * MICRO
        plane = draw.choice(PLANES)
        first, second = (taken(evs, plane, now) for evs in both)
        assert first == second
        used += [first] if first is not None else []
        act = draw.choice(["", "", "", "skip", "lost", "restore", "deny", "down", "up"])
        value = draw.choice(used) if used else None
        for evs in both if step > 5 and value is not None else ():
            one = evs.find(value)
            if act == "skip":
                evs.skip(one, now, 5 * MICRO, "ecn")
            elif act == "lost":
                evs.lost(one, now, "time")
            elif act == "restore":
                evs.restore(one, now, "probe")
            elif act == "deny":
                evs.deny(one, now)
            elif act == "down":
                evs.plane_down(plane, now, "port")
            elif act == "up":
                evs.plane_up(plane, now, "port", shadow=50 * MICRO)
    assert looks(both[0]) == looks(both[1])
    assert said[0] == said[1]


def test_a_short_transfer_makes_the_evs_that_its_packets_take():
    (at_once, held), _ = sets(1)
    for _ in range(4):
        for plane in PLANES:
            assert taken(held, plane, 0.0) == taken(at_once, plane, 0.0)
    assert sum(len(plane.evs) for plane in held.plane_list) == 8
    assert (held.active_count(), held.count, held.changes) == (18, 24, at_once.changes)
    assert len(held.by_value) == 24
    assert looks(held) == looks(at_once)
