"""Worlds to explore: packets, paths, application actions, and possible faults with their number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from mrclab.lab.scenario.files.yamlfile import read

MTU: Final = 256
FULL: Final = (MTU, False)  # one full-size packet without an immediate


@dataclass(frozen=True, eq=False)
class Space:
    """One world. `messages` are (bytes, with an immediate), posted on each QP at the start.

    `faults` may each happen at any time to any frame, port or host, `budget` of them in one run: lose, duplicate, mark
    and trim a frame (lose-data: only those with data); overtake, a frame that comes before an older one of its class
    and plane; late, a timer that fires while frames that are due are still on their way; down, a NIC port that loses
    carrier, and comes back at any time; restart, another process in a host's place.
    """

    name: str
    about: str
    messages: tuple[tuple[int, bool], ...]
    faults: tuple[str, ...] = ()
    budget: int = 0
    planes: int = 2
    t1s: int = 1
    qps: int = 1
    late_receives: bool = False  # receives are posted at any time, or never
    probes: int = 0  # EV probes requested by the receiver's controller, at any time
    id_mask: int = 0  # EV probe ids are cut to these bits; 0: as they are
    any_order: bool = False  # frames of one class overtake each other in a plane, too, and that is no fault
    may_fail: bool = False  # a QP may end in ERROR, with a reason
    attributes: dict[str, Any] = field(default_factory=dict)
    ev_profile: dict[str, Any] = field(default_factory=dict)
    small: bool = True  # explored by the tests

    @property
    def packets(self) -> int:
        """Total of all messages of one QP."""
        return sum(max(1, -(-size // MTU)) for size, _ in self.messages)

    @property
    def bytes(self) -> int:
        """Total of all messages of one QP."""
        return sum(size for size, _ in self.messages)


@cache
def known_worlds() -> Mapping[str, Space]:
    """All worlds, by name."""
    fields = read(Path(__file__).with_name("worlds.yaml")).data
    return {name: TypeAdapter(Space).validate_python({"name": name, **own}) for name, own in fields.items()}
