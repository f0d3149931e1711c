"""Names in a scenario, checked against the scenario: hosts, switches, cables, faults, workloads, windows.

The validators read pydantic's validation context: `fabric` (None while the fabric itself is wrong), and lists of the
names under `traffic`, `faults` and `goodput`. Without a context every name is taken as it is.
"""

import re
from collections.abc import Callable, Collection
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo

from mrclab.lab.scenario.base import Strict
from mrclab.lab.scenario.triggers import Trigger, TriggerField, Window, WindowField
from mrclab.topo import srv6
from mrclab.topo.input.sentences import brief, nearest, shown
from mrclab.topo.model import Fabric, Host, Link, Switch, UnknownName

_HINTS = 20  # messages per file that suggest the nearest name, for which all names are compared
_HINTS_GIVEN = "hints"  # key in the context: number of hints so far


def hinted(info: ValidationInfo, text: str, known: Collection[str]) -> str:
    """Return the nearest name, as `sentences.nearest` does, for the first mistakes of a file only."""
    return nearest(text[:100], list(known)) if _may_hint(info) else "fix the first mistakes"


def _may_hint(info: ValidationInfo) -> bool:
    if info.context is None:
        return True
    info.context[_HINTS_GIVEN] = info.context.get(_HINTS_GIVEN, 0) + 1
    return bool(info.context[_HINTS_GIVEN] <= _HINTS)


def _known(info: ValidationInfo, find: Callable[[], Host | Switch | Link]) -> str:
    """Return the name of the found object; ValueError if it is unknown."""
    try:
        return find().name
    except UnknownName as error:
        raise ValueError(str(error) if _may_hint(info) else error.plain) from None


def fabric_of(info: ValidationInfo) -> Fabric | None:
    """Return the scenario's fabric; None without one, and while it is wrong itself."""
    fabric = (info.context or {}).get("fabric")
    return fabric if isinstance(fabric, Fabric) else None


def known_host(text: str, info: ValidationInfo) -> str:
    """Return the name of a host; ValueError where the fabric has no such host."""
    fabric = fabric_of(info)
    return _known(info, lambda: fabric.host(text)) if fabric else text


def _cable(text: str, info: ValidationInfo) -> str:
    fabric = fabric_of(info)
    return _known(info, lambda: fabric.link(brief(text))) if fabric else text


def _cable_or_busiest(text: str, info: ValidationInfo) -> str:
    return text if text == BUSIEST else _cable(text, info)


def _switch(text: str, info: ValidationInfo) -> str:
    fabric = fabric_of(info)
    return _known(info, lambda: fabric.switch(text)) if fabric else text


def _plane(number: int, info: ValidationInfo) -> int:
    fabric = fabric_of(info)
    if fabric and not 1 <= number <= fabric.planes:
        raise ValueError(f"there is no plane {number}; the fabric has planes 1 to {fabric.planes}")
    return number


def _uplink(number: int, info: ValidationInfo) -> int:
    fabric = fabric_of(info)
    if fabric and number > fabric.most_paths:
        most = fabric.most_paths
        raise ValueError(f"there is no uplink {number}; a T0 has uplinks 1 to {most}; 0 crosses no T1")
    return number


def _one_of(section: str, what: str) -> Callable[[str, ValidationInfo], str]:
    def check(text: str, info: ValidationInfo) -> str:
        known = (info.context or {}).get(section)
        if known is None or text in known:
            return text
        hint = hinted(info, text, known) if known else "this scenario names none"
        raise ValueError(f"no {what} is named {shown(text)}; {hint}")

    return check


def _window(window: Window, info: ValidationInfo) -> Window:
    context = info.context or {}
    if context.get("faults") is not None and context.get("traffic") is not None:
        named = (context["faults"], context["traffic"])
        for moment in (window.begin, window.end):
            bare = moment.name.removesuffix(".end")
            if moment.name not in {"start", "end"} and not any(bare in names for names in named):
                names = [*context["faults"], *context["traffic"]]
                known = ["start", "end", *names, *(f"{name}.end" for name in names)]
                raise ValueError(f"no moment is called {moment.name!r}; {hinted(info, moment.name, known)}")
    return window


def _trigger(trigger: Trigger, info: ValidationInfo) -> Trigger:
    context = info.context or {}
    traffic = context.get("traffic")
    if traffic is None or not trigger.name:
        return trigger
    faults = {} if trigger.traffic else context.get("faults") or {}
    if trigger.name not in traffic and trigger.name not in faults:
        what = "traffic" if trigger.traffic else "traffic or fault"
        raise ValueError(f"no {what} is named {trigger.name!r}; {hinted(info, trigger.name, [*traffic, *faults])}")
    return trigger


def _compiles(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from None
    return text


def _not_reserved(name: str) -> str:
    if name in _RESERVED:
        raise ValueError(f"{name!r} has a meaning of its own in windows and levels; choose another name")
    return name


_RESERVED = frozenset({"start", "end", "line", "mean", "rtt"})

NewName = Annotated[str, Field(pattern=r"^[A-Za-z][\w-]*$", max_length=40), AfterValidator(_not_reserved)]
HostName = Annotated[str, AfterValidator(known_host)]
SwitchName = Annotated[str, AfterValidator(_switch)]
PlaneNumber = Annotated[int, AfterValidator(_plane)]
UplinkNumber = Annotated[int, Field(ge=0, le=srv6.MAX_INDEX), AfterValidator(_uplink)]
BUSIEST = "busiest"  # in place of a cable's name
CableName = Annotated[str, AfterValidator(_cable)]
CableOrBusiest = Annotated[
    str,
    AfterValidator(_cable_or_busiest),
    Field(description="a cable; or busiest: the cable between switches that carried most bytes until the fault begins"),
]
TrafficName = Annotated[str, AfterValidator(_one_of("traffic", "traffic"))]
FaultName = Annotated[str, AfterValidator(_one_of("faults", "fault"))]
RegularExpression = Annotated[str, AfterValidator(_compiles)]
KnownTrigger = Annotated[TriggerField, AfterValidator(_trigger)]
KnownWindow = Annotated[WindowField, AfterValidator(_window)]


class PathName(Strict):
    """One path out of a host, for any tag of the EV: plane, and uplink of the T0 (0 inside a T0 group)."""

    plane: PlaneNumber
    uplink: UplinkNumber
