"""Exercises of the lessons: hosts, cable or switch, drawn from a learner's seed; without one, those of the text."""

import random
from dataclasses import dataclass

from mrclab.topo import srv6
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec
from mrclab.topo.srv6 import UsidType

SEEDED = (1, 3, 5, 7)
"""Numbers of the lessons that differ between learners."""

_T0_HOSTS = (("h1", "h2"), ("h3", "h4"))  # of the demo's fabric


@dataclass(frozen=True)
class RoutePart:
    """Lesson 1: hosts, a path between two of them, and the uSID of a switch."""

    source: str = "h1"
    neighbour: str = "h2"
    target: str = "h3"
    plane: int = 2
    uplink: int = 1
    usid: int = 0x2302

    @classmethod
    def drawn(cls, seed: int | None) -> "RoutePart":
        """Return the exercise of a learner."""
        if seed is None:
            return cls()
        draw = _generator(1, seed)
        here, there = draw.sample(_T0_HOSTS, 2)
        source, neighbour = draw.sample(here, 2)
        usid = draw.choice([switch.usid for switch in Fabric(FabricSpec()).switches])
        return cls(source, neighbour, draw.choice(there), draw.randint(1, 4), draw.randint(1, 2), usid)


@dataclass(frozen=True)
class SwitchPart:
    """Lesson 3: the T1 to program, and the uSID of the other one in its plane."""

    switch: str = "t1-p1-2"
    other: int = 0x1101

    @classmethod
    def drawn(cls, seed: int | None) -> "SwitchPart":
        """Return the exercise of a learner."""
        if seed is None:
            return cls()
        draw = _generator(3, seed)
        plane, index = draw.randint(1, 4), draw.randint(1, 2)
        return cls(f"t1-p{plane}-{index}", srv6.usid(UsidType.T1, plane, 3 - index))


@dataclass(frozen=True)
class CablePart:
    """Lessons 5 and 7: a T0–T1 cable and hosts between which it lies. Where it is not `required`, any will do."""

    name: str
    source: str = "h1"
    target: str = "h3"
    required: bool = False

    @classmethod
    def drawn(cls, number: int, seed: int | None) -> "CablePart":
        """Return the exercise of a learner in one of the lessons."""
        if seed is None:
            return cls("t0-p1-1/t1-p1-2" if number == 5 else "t0-p2-1/t1-p2-1")
        draw = _generator(number, seed)
        plane, t0, t1 = draw.randint(1, 4), draw.randint(1, 2), draw.randint(1, 2)
        ends = draw.choice(_T0_HOSTS[t0 - 1]), draw.choice(_T0_HOSTS[2 - t0])
        return cls(f"t0-p{plane}-{t0}/t1-p{plane}-{t1}", *ends, required=True)


def _generator(number: int, seed: int) -> random.Random:
    return random.Random(f"lesson {number}, seed {seed}")
