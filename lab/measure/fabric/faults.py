"""Effect of a run's faults on its fabric, from the records `fault.begin` and `fault.end`."""

from typing import NamedTuple

from mrclab.lab.history import History
from mrclab.lab.measure.traffic.rates import Path
from mrclab.topo.model import Fabric, UnknownName


class FaultSpan(NamedTuple):
    """One fault: when it began and was cleared, and the cables whose packets it could take."""

    name: str
    kind: str
    text: str
    begin: float
    end: float | None
    links: tuple[str, ...] = ()
    where: str = ""  # the element that those cables are: a cable, a switch, a host, a plane
    paths: tuple[Path, ...] = ()  # where it affects only some of the paths over its cables
    processes: tuple[str, ...] = ()  # ended on purpose
    stops: tuple[str, ...] = ()  # processes that it ends or stops
    edges: tuple[float, ...] = ()  # times of the edges of an intermittent fault

    def during(self, otherwise: float) -> tuple[float, float]:
        """Return when it began and ended; `otherwise` where it never ended."""
        return self.begin, otherwise if self.end is None else self.end


def fault_spans(history: History, fabric: Fabric) -> dict[str, FaultSpan]:
    """All faults that began, by name, in order; one that began more than once lasts from the first to the last."""
    ends = {record["fault"]: record.t for record in history.of("fault.end")}
    edges: dict[str, list[float]] = {}
    for record in history.of("fault.edge"):
        edges.setdefault(record["fault"], []).append(record.t)
    found: dict[str, FaultSpan] = {}
    for record in history.of("fault.begin"):
        name = record["fault"]
        if name in found:
            continue
        found[name] = FaultSpan(
            name=name,
            kind=record["fault_kind"],
            text=record["text"],
            begin=record.t,
            end=ends.get(name),
            links=tuple(record["links"]),
            where=min(elements(set(record["links"]), fabric), key=len, default=f"the cables of {name}"),
            paths=tuple((int(plane), int(uplink)) for plane, uplink in record.get("paths", ())),
            processes=tuple(record.get("processes", ())),
            stops=tuple(record.get("stops", record.get("processes", ()))),
            edges=tuple(edges.get(name, ())),
        )
    return found


def elements(links: set[str], fabric: Fabric) -> set[str]:
    """The elements that consist of just these cables: the cable, a switch, a host, a plane."""
    if len(links) == 1:
        return set(links)
    if not links:
        return set()
    one = fabric.link(min(links))
    named = [one.a.node, one.b.node]
    if len(links) * fabric.planes == len(fabric.links):
        named.append(f"plane {one.plane}")
    return {name for name in named if set(links_of(name, fabric)) == links}


def links_of(element: str, fabric: Fabric) -> tuple[str, ...]:
    """The cables of an element: of a switch, a host, a plane (`plane 2`), or the cable itself; KeyError otherwise."""
    plane = element.lower().removeprefix("plane ")
    if plane != element.lower() and plane.isdigit():
        return tuple(link.name for link in fabric.links if link.plane == int(plane))
    if fabric.has_switch(element) or fabric.has_host(element):
        return tuple(port.link for port in fabric.node(element).ports)
    try:
        return (fabric.link(element).name,)
    except UnknownName:
        raise KeyError(f"element {element}") from None
