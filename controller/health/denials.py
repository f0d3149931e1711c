"""Denials: recorded and published to the hosts, those of operators and of Clustermapper."""

from typing import TYPE_CHECKING, Any

from mrclab.controller.driver import Driver
from mrclab.controller.health.denylist import Denial, DenyError, Denylist
from mrclab.controller.health.elements import Element
from mrclab.events.controller import ElementDenied, ElementUndenied

if TYPE_CHECKING:
    from mrclab.controller.health.mapper import Clustermapper


class Denials:
    """Changes one denylist; `sender_chooses`: hosts choose their paths (MRC), so that denials have an effect."""

    def __init__(self, driver: Driver, denylist: Denylist, sender_chooses: bool) -> None:
        self.denylist = denylist
        self._driver = driver
        self._sender_chooses = sender_chooses

    @property
    def listed(self) -> list[dict[str, str]]:
        """The denials in force, oldest first."""
        return [
            {"element": str(d.element), "kind": d.element.kind, "reason": d.reason, "source": d.source}
            for d in self._current()
        ]

    def sources(self, what: Element) -> list[str]:
        """Return the sources that deny `what`."""
        return [d.source for d in self._current() if d.element == what]

    def _current(self) -> tuple[Denial, ...]:
        """Return the denials of the file, which is the truth: another controller may have been primary meanwhile."""
        self.denylist.load()
        return self.denylist.denials

    def deny(self, what: Element, why: str, source: str) -> bool:
        """Deny `what`; return False if `source` already does. DenyError where hosts would be cut off, or choose no
        paths."""
        if not self._sender_chooses:
            raise DenyError(f"{what} cannot be denied: RoCE's paths are the switches' choice; cut cables, or run MRC")
        self.denylist.load()
        changed = self.denylist.deny(what, why, source)
        if changed:
            self._driver.record(ElementDenied(element=str(what), reason=why, source=source))
            self._driver.nodes.publish()
        return changed

    def undeny(self, what: Element, source: str | None = None) -> int:
        """Lift denials of `what`, of one source or of all; return their number."""
        self.denylist.load()
        count = self.denylist.undeny(what, source)
        if count:
            self._driver.record(ElementUndenied(element=str(what), source=source or "any"))
            self._driver.nodes.publish()
        return count

    def apply_decisions(self, mapper: "Clustermapper", now: float) -> None:
        """Run Clustermapper on the new reports, and apply its decisions."""
        from mrclab.controller.health.mapper import SOURCE, reason  # noqa: PLC0415 - most runs have no Clustermapper

        decision = mapper.poll(now)
        for verdict in decision.deny:
            try:
                self.deny(verdict.element, reason(verdict), SOURCE)
            except DenyError as error:
                mapper.refused(verdict, error)
        for element in decision.undeny:
            self.undeny(element, SOURCE)

    def outcome(self, what: Element, changed: bool) -> dict[str, Any]:
        """Outcome of a denial; `unnotified` are hosts that do not respond, each with the reason."""
        done = {"element": str(what), "kind": what.kind, "changed": changed, "version": self._driver.nodes.version}
        return {**done, "unnotified": self._driver.nodes.unresponsive}
