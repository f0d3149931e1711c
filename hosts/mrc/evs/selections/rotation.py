"""Rotation: the path selection of docs/mrc-protocol.md §3.5, done by `EvSet` itself."""

from __future__ import annotations

from typing import ClassVar

from mrclab.hosts.mrc.evs.selections import PathSelection
from mrclab.topo.config.algorithms import PATH_SELECTIONS


class Rotation(PathSelection):
    """Every active EV once, then all of them again in a new random order."""

    name: ClassVar[str] = "rotation"


PATH_SELECTIONS.register(Rotation)
