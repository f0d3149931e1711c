"""Names in a scenario, checked against what the scenario has: hosts, switches, cables, faults, traffics, windows.

The validators read pydantic's validation context: `fabric` (None while the fabric itself is wrong), and lists of the
names under `traffic`, `faults` and `goodput`. Without a context every name is taken as it is.
"""

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo

from mrclab.lab.scenario.base import Strict
from mrclab.lab.scenario.moments import Trigger, TriggerField, Window, WindowField
from mrclab.lab.scenario.yamlfile import nearest
from mrclab.topo import srv6
from mrclab.topo.model import Fabric, UnknownName


def _fabric(info: ValidationInfo) -> Fabric | None:
    fabric = (info.context or {}).get("fabric")
    return fabric if isinstance(fabric, Fabric) else None


def _host(text: str, info: ValidationInfo) -> str:
    fabric = _fabric(info)
    try:
        return fabric.host(text).name if fabric else text
    except UnknownName as error:
        raise ValueError(str(error)) from None


def _cable(text: str, info: ValidationInfo) -> str:
    fabric = _fabric(info)
    try:
        return fabric.link(text).name if fabric else text
    except UnknownName as error:
        raise ValueError(str(error)) from None


def _switch(text: str, info: ValidationInfo) -> str:
    fabric = _fabric(info)
    try:
        return fabric.switch(text).name if fabric else text
    except UnknownName as error:
        raise ValueError(str(error)) from None


def _plane(number: int, info: ValidationInfo) -> int:
    fabric = _fabric(info)
    if fabric and not 1 <= number <= fabric.planes:
        raise ValueError(f"there is no plane {number}; the fabric has planes 1 to {fabric.planes}")
    return number


def _one_of(section: str, what: str) -> Callable[[str, ValidationInfo], str]:
    def check(text: str, info: ValidationInfo) -> str:
        known = (info.context or {}).get(section)
        if known is None or text in known:
            return text
        hint = nearest(text, known) if known else "this scenario names none"
        raise ValueError(f"no {what} is named {text!r}; {hint}")

    return check


def _moments(window: Window, info: ValidationInfo) -> Window:
    context = info.context or {}
    if context.get("faults") is not None and context.get("traffic") is not None:
        names = [*context["faults"], *context["traffic"]]
        known = ["start", "end", *names, *(f"{name}.end" for name in names)]
        for moment in (window.begin, window.end):
            if moment.name not in known:
                raise ValueError(f"no moment is called {moment.name!r}; {nearest(moment.name, known)}")
    return window


def _trigger(trigger: Trigger, info: ValidationInfo) -> Trigger:
    context = info.context or {}
    traffic = context.get("traffic")
    if traffic is None or not trigger.name:
        return trigger
    known = list(traffic) if trigger.traffic else [*traffic, *(context.get("faults") or [])]
    if trigger.name not in known:
        what = "traffic" if trigger.traffic else "traffic or fault"
        raise ValueError(f"no {what} is named {trigger.name!r}; {nearest(trigger.name, known)}")
    return trigger


def _free(name: str) -> str:
    if name in _TAKEN:
        raise ValueError(f"{name!r} has a meaning of its own in windows and levels; choose another name")
    return name


_TAKEN = frozenset({"start", "end", "line", "mean", "rtt"})

NewName = Annotated[str, Field(pattern=r"^[A-Za-z][\w-]*$", max_length=40), AfterValidator(_free)]
HostName = Annotated[str, AfterValidator(_host)]
SwitchName = Annotated[str, AfterValidator(_switch)]
PlaneNumber = Annotated[int, AfterValidator(_plane)]
CableName = Annotated[str, AfterValidator(_cable)]
TrafficName = Annotated[str, AfterValidator(_one_of("traffic", "traffic"))]
FaultName = Annotated[str, AfterValidator(_one_of("faults", "fault"))]
KnownTrigger = Annotated[TriggerField, AfterValidator(_trigger)]
KnownWindow = Annotated[WindowField, AfterValidator(_moments)]


class PathName(Strict):
    """One path out of a host, whatever the tag of the EV: plane, and uplink of the T0 (0 inside a T0 group)."""

    plane: PlaneNumber
    uplink: int = Field(ge=0, le=srv6.MAX_INDEX)
