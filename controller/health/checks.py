"""Checks before maintenance, one line each with a verdict, and the conditions that prevent it; callers collect the
facts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mrclab.controller.errors import ControllerError
from mrclab.controller.health.elements import Element

DRAIN = "drain"
"""Source of the denials that a drain makes."""


class MaintenanceError(ControllerError):
    """An operation that this element does not allow."""


@dataclass(frozen=True)
class PreCheck:
    """One line of a pre-check."""

    name: str
    ok: bool
    detail: str


def switch_name(what: Element) -> str:
    """Name of a switch; MaintenanceError for anything else."""
    if what.kind not in {"t0", "t1"}:
        raise MaintenanceError(f"{what} is not a switch; only a T0 or T1 can be drained, deny anything else")
    return what.name


def check(name: str, bad: Sequence[str], good: str, prefix: str = "") -> PreCheck:
    """Return a passed check if `bad` is empty, else a failed one that names the first three."""
    if not bad:
        return PreCheck(name, True, good)
    more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
    return PreCheck(name, False, prefix + "; ".join(bad[:3]) + more)


def ports(host: str, every: Iterable[tuple[str, bool]]) -> PreCheck:
    """The NIC ports of a host: name, and whether it is up."""
    known = list(every)
    return check(host, [name for name, up in known if not up], f"{len(known)} NIC ports up", "ports down: ")


def answer(
    ready: int,
    not_ready: Sequence[str],
    entries: Sequence[str],
    links: int,
    problems: Sequence[str],
    agents: Iterable[PreCheck],
    denied: Sequence[str],
) -> dict[str, Any]:
    """Return `ok` (True if a job may start) and all checks."""
    checks = [
        check("switches", not_ready, f"{ready} ready", "not ready: "),
        check("entries", entries, "all as they should be"),
        check("cables", problems, f"{links} verified both ways"),
        *agents,
        check("denylist", denied, "empty", "denied: "),
    ]
    return {"ok": all(each.ok for each in checks), "checks": [vars(each) for each in checks]}
