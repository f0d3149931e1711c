"""Elements that can be at fault or be denied, and the paths concerned. Pure.

An element is a switch, a cable, a whole plane, or one path between two hosts. Its name, as typed by users:
`t1-p1-2`, `t0-p1-1/t1-p1-2`, `h1-p1/t0-p1-1`, `plane 3`, `h1>h3 p2 u1`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from mrclab.topo.config.nodeconfig import DenyRule
from mrclab.topo.model import Fabric, Link, UnknownName

ElementKind = Literal["t0", "t1", "t2", "fabric-link", "nic-link", "plane", "path"]

_PLANE = re.compile(r"(?:plane\s*|p)(\d+)")
_PATH = re.compile(r"(\S+?)\s*(?:>|->|to)\s*(\S+)\s+p(?:lane)?\s*(\d+)(?:\s*,?\s*u(?:plink)?\s*(\d+))?")


class Element(NamedTuple):
    """One thing of the fabric by kind and canonical name."""

    kind: ElementKind
    name: str

    def __str__(self) -> str:
        return self.name


def element(fabric: Fabric, text: str) -> Element:
    """Return the element that `text` names; UnknownName with the nearest name where there is none."""
    words = " ".join(text.strip().lower().split())
    if plane := _PLANE.fullmatch(words):
        return _plane(fabric, int(plane[1]))
    if path := _PATH.fullmatch(words):
        return _path(fabric, path[1], path[2], int(path[3]), int(path[4] or 0))
    if fabric.has_switch(words):
        return Element(fabric.switch(words).tier, words)
    try:
        link = fabric.link(words)
    except UnknownName:
        if "/" in words or " " in words:
            raise
        raise UnknownName("switch, cable or plane", text, fabric.near(words, "switch", "link")) from None
    return link_element(link)


def link_element(link: Link) -> Element:
    """The element that a cable is."""
    return Element("nic-link" if link.kind == "nic" else "fabric-link", link.name)


def rules(fabric: Fabric, what: Element, reason: str) -> dict[str, tuple[DenyRule, ...]]:
    """Deny rules by host that keep all traffic off `what`; hosts without any are left out."""
    if what.kind == "path":
        source, rule = _path_rule(fabric, what, reason)
        return {source: (rule,)}
    others, near, within = _rules_of(fabric, what, reason)
    found: dict[str, tuple[DenyRule, ...]] = dict.fromkeys(fabric.host_names, (others,))
    found.update(dict.fromkeys(within, (near,)))
    return found


def _rules_of(fabric: Fabric, what: Element, reason: str) -> tuple[DenyRule, DenyRule, Iterable[str]]:
    """The rule of most hosts, and that of the others with their names; UnknownName for an unknown element."""
    if fabric.spec.pods > 1 and what.kind in {"t1", "t2", "fabric-link"}:
        raise UnknownName(
            "element that can be denied in a fabric with pods", what.name, ["plane 1", "t0-p1-1", "h1-p1"]
        )

    def rule(plane: int, **fields: int) -> DenyRule:
        return DenyRule(plane=plane, **fields, element=what.name, reason=reason)

    match what.kind:
        case "t0":
            switch = fabric.switch(what.name)
            others = rule(switch.plane, group=switch.number)
            return others, rule(switch.plane), _members(fabric, switch.number)
        case "fabric-link":
            link = fabric.link(what.name)
            group, uplink = fabric.switch(link.a.node).number, fabric.switch(link.b.node).number
            others = rule(link.plane, uplink=uplink, group=group)
            return others, rule(link.plane, uplink=uplink), _members(fabric, group)
        case "nic-link":
            link = fabric.link(what.name)
            end = fabric.host(link.a.node)
            return rule(link.plane, group=end.group, downlink=end.downlink), rule(link.plane), [end.name]
        case "t1":
            switch = fabric.switch(what.name)
            others = rule(switch.plane, uplink=switch.number)
        case _:
            others = rule(int(what.name.split()[1]))
    return others, others, ()


def _members(fabric: Fabric, group: int) -> Sequence[str]:
    """Names of the hosts of a T0 group."""
    down = fabric.spec.hosts_per_t0
    return fabric.host_names[(group - 1) * down : group * down]


def _path_rule(fabric: Fabric, what: Element, reason: str) -> tuple[str, DenyRule]:
    """The host that has the path, and its rule."""
    source, destination, plane, uplink = _path_fields(what.name)
    end = fabric.host(destination)
    rule = DenyRule(
        plane=plane, uplink=uplink or None, group=end.group, downlink=end.downlink, element=what.name, reason=reason
    )
    return source, rule


def cut_off(fabric: Fabric, denied: Mapping[str, Iterable[DenyRule]]) -> list[tuple[str, str]]:
    """Pairs of hosts that rules leave without any path, as (source, destination).

    Costs grow with the pairs denied, else with the number of hosts: the rules of most are alike, and say nothing of
    single destinations.
    """
    known: dict[tuple[int, tuple[DenyRule, ...]], list[str]] = {}
    pairs = []
    for source in sorted(denied, key=lambda name: (fabric.group(name), len(name), name)):
        mine, group = tuple(denied[source]), fabric.group(source)
        if len({rule.plane for rule in mine}) < fabric.planes:
            continue  # a plane is free
        if (group, mine) not in known:
            known[group, mine] = list(_unreachable(fabric, group, mine))
        pairs += [(source, name) for name in known[group, mine] if name != source]
    return pairs


def _unreachable(fabric: Fabric, own: int, mine: Sequence[DenyRule]) -> Iterable[str]:
    """Hosts that a host of the group `own` with these rules has no path to."""
    for group in range(1, fabric.spec.t0s + 1):
        here = [rule for rule in mine if rule.group in {None, group}]
        uplinks = {0} if group == own else set(range(1, fabric.uplinks_between(own, group) + 1))
        names = _members(fabric, group)
        if _all_denied(fabric, uplinks, [rule for rule in here if rule.downlink is None]):
            yield from names
            continue
        for downlink in sorted({rule.downlink for rule in here if rule.downlink is not None}):
            if _all_denied(fabric, uplinks, [rule for rule in here if rule.downlink in {None, downlink}]):
                yield names[downlink - 1]


def _all_denied(fabric: Fabric, uplinks: set[int], about: Sequence[DenyRule]) -> bool:
    """Return True if rules about a destination leave none of these uplinks in any plane."""
    for plane in range(1, fabric.planes + 1):
        denied = {rule.uplink for rule in about if rule.plane == plane}
        if None not in denied and not uplinks <= denied:
            return False
    return True


def _plane(fabric: Fabric, number: int) -> Element:
    planes = [f"plane {plane}" for plane in range(1, fabric.planes + 1)]
    if not 1 <= number <= fabric.planes:
        raise UnknownName("plane", f"plane {number}", planes)
    return Element("plane", f"plane {number}")


def _path(fabric: Fabric, source: str, destination: str, plane: int, uplink: int) -> Element:
    paths = fabric.paths(source, destination)
    if (plane, uplink) not in paths:
        known = [_path_name(source, destination, *path) for path in paths]
        raise UnknownName("path", _path_name(source, destination, plane, uplink), known)
    return Element("path", _path_name(source, destination, plane, uplink))


def _path_name(source: str, destination: str, plane: int, uplink: int) -> str:
    return f"{source}>{destination} p{plane}" + (f" u{uplink}" if uplink else "")


def _path_fields(name: str) -> tuple[str, str, int, int]:
    found = _PATH.fullmatch(name)
    if found is None:
        raise ValueError(f"{name!r} names no path")
    return found[1], found[2], int(found[3]), int(found[4] or 0)
