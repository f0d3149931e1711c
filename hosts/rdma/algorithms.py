"""Algorithms of a transport made by name: congestion controls and path selections, with the verbs' errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mrclab.hosts.rdma.errors import VerbsError
from mrclab.topo.registry import Registry


def make(registry: Registry, name: str, settings: Mapping[str, Any], *facts: Any) -> Any:
    """Return a new algorithm, made from its facts and settings; EINVAL for a name or setting that does not exist."""
    try:
        made, chosen = registry.choose(name, settings)
    except ValueError as error:
        raise VerbsError("EINVAL", str(error)) from None
    return made(*facts, **chosen)
