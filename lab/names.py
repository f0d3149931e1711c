"""Names in a scenario, checked against what the scenario has: hosts, cables, faults, traffics, goodput windows.

The validators read pydantic's validation context: `fabric` (None while the fabric itself is wrong), and lists of the
names under `traffic`, `faults` and `goodput`.
"""

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo

from lab.moments import Window, WindowField
from lab.yamlfile import nearest
from topo.model import Fabric, UnknownName


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


def _one_of(section: str, what: str) -> Callable[[str, ValidationInfo], str]:
    def check(text: str, info: ValidationInfo) -> str:
        known = (info.context or {}).get(section)
        if known is None or text in known:
            return text
        hint = nearest(text, known) if known else "this scenario names none"
        raise ValueError(f"no {what} is named {text!r}; {hint}")

    return check


def _moments(window: Window, info: ValidationInfo) -> Window:
    faults = (info.context or {}).get("faults")
    if faults is not None:
        known = ["start", "end", *faults, *(f"{fault}.end" for fault in faults)]
        for moment in (window.begin, window.end):
            if moment.name not in known:
                raise ValueError(f"no moment is called {moment.name!r}; {nearest(moment.name, known)}")
    return window


NewName = Annotated[str, Field(pattern=r"^[A-Za-z][\w-]*$", max_length=40)]
HostName = Annotated[str, AfterValidator(_host)]
CableName = Annotated[str, AfterValidator(_cable)]
TrafficName = Annotated[str, AfterValidator(_one_of("traffic", "traffic"))]
FaultName = Annotated[str, AfterValidator(_one_of("faults", "fault"))]
KnownWindow = Annotated[WindowField, AfterValidator(_moments)]
