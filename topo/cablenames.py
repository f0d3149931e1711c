"""Cables by the names that people write: both ends in either order, one port's interface, or a host and a plane."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mrclab.topo import names

if TYPE_CHECKING:
    from mrclab.topo.model import Fabric, Link

_SEPARATOR = re.compile(r"\s*(?:/|,|<->|--|–|\s)\s*")
_PLANE_WORD = re.compile(r"(?:p|plane)?(\d+)")


def find(fabric: Fabric, text: str) -> Link | None:
    """Return the cable that `text` names, as `Fabric.link` describes; None where there is none."""
    words = [word for word in _SEPARATOR.split(text.strip().lower()) if word]
    if len(words) == 1:
        return _of_port(fabric, words[0])
    return _between(fabric, *words) if len(words) == 2 else None


def _of_port(fabric: Fabric, word: str) -> Link | None:
    """Return the cable of the port with this interface name."""
    if (nic := names.nic_port(word)) is not None:
        host, plane = nic
        exists = host <= len(fabric.hosts) and plane <= fabric.planes
        return fabric.links[fabric.shape.link_of_nic(host, plane)] if exists else None
    found = names.switch_port(word)
    if found is None or not fabric.shape.has_switch(*found[:3]):
        return None
    tier, plane, number, port = found
    if port > fabric.shape.ports[tier]:
        return None
    return fabric.links[fabric.shape.link_of_switch(tier, plane, number, port)]


def _between(fabric: Fabric, first: str, second: str) -> Link | None:
    for name, other in ((first, second), (second, first)):
        plane = _PLANE_WORD.fullmatch(other)
        if fabric.has_host(name) and plane and 1 <= int(plane[1]) <= fabric.planes:
            return _of_port(fabric, f"{name}-p{int(plane[1])}")
        found = _of_port(fabric, name) or _of_nodes(fabric, name, other)
        if found and _joins(found, name, other):
            return found
    return None


def _of_nodes(fabric: Fabric, name: str, other: str) -> Link | None:
    """Return the cable from a host or switch to one of the tier above."""
    there = names.switch(other)
    if there is None or not fabric.shape.has_switch(*there):
        return None
    if fabric.has_host(name):
        return _of_port(fabric, f"{name}-p{there[1]}")
    here = names.switch(name)
    if here is None or not fabric.shape.has_switch(*here) or here[0] == there[0] or here[1] != there[1]:
        return None
    place = fabric.shape.link_between(here, there)
    return None if place is None else fabric.links[place]


def _joins(link: Link, first: str, second: str) -> bool:
    """Return True if each of two words, node or interface, names another end of a cable."""
    a, b = ({end.node, end.interface} for end in link.ends)
    return (first in a and second in b) or (first in b and second in a)
