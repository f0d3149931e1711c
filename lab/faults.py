"""Faults on a time line: each strikes at its trigger, is healed at its own or at the end, in reverse order.

A kind of fault is a class with `strike` and `heal`; the registry maps the entries of a scenario to them. How a cable is
cut is up to `topo`. The time of a fault is taken just before it is done, so that no effect precedes it.
"""

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from lab.moments import Trigger
from lab.scenario import Fault, LinkDown
from lab.session import Session


class Action(Protocol):
    """One fault that can be done and undone."""

    def strike(self) -> None:
        """Do it."""

    def heal(self) -> None:
        """Undo it."""


class CutCable:
    """Carrier goes at both ends of a cable."""

    def __init__(self, session: Session, entry: LinkDown) -> None:
        self._cables = session.emulation.cables
        self._link = entry.link

    def strike(self) -> None:
        """Take the cable down."""
        self._cables.down(self._link)

    def heal(self) -> None:
        """Bring it up again."""
        self._cables.up(self._link)


KINDS: Mapping[str, Callable[[Session, Fault], Action]] = {"link_down": CutCable}


class TimeLine:
    """Strikes and heals the faults of a scenario as time and transfers go on."""

    def __init__(self, session: Session, faults: list[Fault]) -> None:
        self._session = session
        self._waiting = list(faults)
        self._active: list[tuple[Fault, Action]] = []

    @property
    def pending(self) -> bool:
        """Whether something is still to strike, or to be healed at a time of its own."""
        return bool(self._waiting) or any(fault.until for fault, _ in self._active)

    def advance(self, seconds: float, progress: Mapping[str, float]) -> list[str]:
        """Do everything that is due, `seconds` after the traffic began; returns one phrase per thing done."""
        done = []
        for fault, action in list(self._active):
            if fault.until is not None and due(fault.until, seconds, progress):
                done.append(self._heal(fault, action))
        for fault in list(self._waiting):
            if due(fault.at, seconds, progress):
                self._waiting.remove(fault)
                done.append(self._strike(fault))
        return done

    def heal_all(self) -> list[str]:
        """Undo what is still active, the last first."""
        return [self._heal(fault, action) for fault, action in reversed(self._active.copy())]

    def _strike(self, fault: Fault) -> str:
        action = KINDS[fault.kind](self._session, fault)
        self._active.append((fault, action))
        at = time.monotonic()
        action.strike()
        self._session.record("fault.begin", at, fault=fault.name, fault_kind=fault.kind, link=fault.link)
        return f"{fault.name}: {fault.link} down"

    def _heal(self, fault: Fault, action: Action) -> str:
        self._active = [entry for entry in self._active if entry[0] is not fault]
        at = time.monotonic()
        action.heal()
        self._session.record("fault.end", at, fault=fault.name, fault_kind=fault.kind, link=fault.link)
        return f"{fault.name}: {fault.link} up"


def due(trigger: Trigger, seconds: float, progress: Mapping[str, float]) -> bool:
    """Whether a trigger's time has come."""
    if trigger.fraction is None:
        return seconds >= trigger.seconds
    return progress.get(trigger.traffic, 0.0) >= trigger.fraction
