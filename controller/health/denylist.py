"""Denylist: the operators', Clustermapper's and drains' requests, and the part sent to each host.

The list survives the controller: it is a file in the run directory, and so is its version, which only grows.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from mrclab.controller.errors import ControllerError
from mrclab.controller.health.elements import Element, cut_off, element, rules
from mrclab.topo.config.nodeconfig import DenyRule
from mrclab.topo.input import files
from mrclab.topo.model import Fabric, UnknownName


class DenyError(ControllerError):
    """A denial that would leave hosts without a path, or removal of one that does not exist."""


class Denial(NamedTuple):
    """One element that must not be used. `source`: operator, drain or clustermapper."""

    element: Element
    reason: str
    source: str


class _SavedDenial(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid")
    element: str
    reason: str
    source: str


class _Saved(BaseModel):
    model_config = ConfigDict(defer_build=True, extra="forbid")
    version: int
    denied: list[_SavedDenial]


class Denylist:
    """The denials in force over `fabric`; each change makes a new `version`. Saved to `path` where one is given."""

    def __init__(self, fabric: Fabric, path: Path | None = None) -> None:
        self.version = 1
        self._fabric = fabric
        self._path = path
        self._denials: dict[tuple[Element, str], Denial] = {}

    @property
    def denials(self) -> tuple[Denial, ...]:
        """All denials, oldest first."""
        return tuple(self._denials.values())

    def load(self) -> None:
        """Take up where the last controller stopped; ControllerError where its file is damaged."""
        if self._path is None or not self._path.exists():
            return
        try:
            saved = _Saved.model_validate_json(files.read_bytes(self._path))
            self._denials = {}
            for entry in saved.denied:
                denial = Denial(element(self._fabric, entry.element), entry.reason, entry.source)
                self._denials[denial.element, denial.source] = denial
        except (ValidationError, UnknownName) as error:
            first = " ".join(str(error).split())
            raise ControllerError(f"{self._path} is damaged: {first}; remove it to start without denials") from None
        self.version = saved.version

    def deny(self, what: Element, reason: str, source: str) -> bool:
        """Deny `what`; return False if `source` already does. DenyError where two hosts would be left without a
        path."""
        if (what, source) in self._denials:
            return False
        added = Denial(what, reason, source)
        lost = cut_off(self._fabric, self._rules([*self._denials.values(), added]))
        already = set(cut_off(self._fabric, self._rules(self._denials.values()))) if lost else set()
        if new := [pair for pair in lost if pair not in already]:
            pairs = f"{new[0][0]} to {new[0][1]}" + (f" and {len(new) - 1} more pairs" if len(new) > 1 else "")
            raise DenyError(f"denying {what} would leave no path from {pairs}; undeny something else first")
        self._denials[what, source] = added
        self._advance()
        return True

    def undeny(self, what: Element, source: str | None = None) -> int:
        """Remove the denials of `what` by one source, or by all; return their number."""
        gone = [key for key in self._denials if key[0] == what and source in {None, key[1]}]
        for key in gone:
            del self._denials[key]
        if gone:
            self._advance()
        return len(gone)

    def by_host(self) -> dict[str, tuple[DenyRule, ...]]:
        """Return each host's deny rules; hosts without any are left out."""
        return self._rules(self._denials.values())

    def _rules(self, denials: Iterable[Denial]) -> dict[str, tuple[DenyRule, ...]]:
        found: dict[str, tuple[DenyRule, ...]] = {}
        for denial in denials:
            for host, some in rules(self._fabric, denial.element, denial.reason).items():
                found[host] = found.get(host, ()) + some
        return found

    def _advance(self) -> None:
        """Count a change, and write the list to its file in one step."""
        self.version += 1
        if self._path is None:
            return
        denied = [{"element": str(d.element), "reason": d.reason, "source": d.source} for d in self.denials]
        files.replace_file(self._path, json.dumps({"version": self.version, "denied": denied}, indent=1) + "\n")
