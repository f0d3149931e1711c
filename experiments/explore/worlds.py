"""Worlds to explore: packets, paths, application actions, and possible faults with their number."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

MTU: Final = 256
FULL: Final = (MTU, False)  # one full-size packet without an immediate
IMMEDIATE: Final = (8, True)

LOSSES: Final = ("lose", "duplicate", "overtake", "late")


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


_FEW_EVS: Final = {"active_per_plane": 1, "backup_per_plane": 1, "ev_min_active": 1, "successes_needed": 1}

_ENDLESS: Final[dict[str, Any]] = {"retry_exponential": 25}
_TWO: Final = ((2 * MTU, False),)
_THREE: Final = ((3 * MTU, False),)
_SIX: Final = ((4 * MTU, False), FULL, FULL)

WORLDS: Final = (
    Space("orders", "two packets and their answers, in every order", (FULL,) * 2, any_order=True),
    Space("loss", "a packet, and one fault: a frame lost, duplicated, or late", (FULL,), LOSSES, 1),
    Space("trim", "two packets, one trimmed or marked, or a frame lost", (FULL,) * 2, ("lose", "mark", "trim"), 1),
    Space("immediates", "an immediate whose receive is posted late, or never", (IMMEDIATE,), late_receives=True,
          attributes=_ENDLESS, small=False),
    Space("port", "a packet; a NIC port at either end goes down, and comes back", (FULL,), ("down",), 1, small=False),
    Space("restart", "two packets, and another process in a host's place", (FULL,) * 2, ("restart",), 1, may_fail=True),
    Space("siblings", "two QPs that report dead paths to each other, few EVs, many paths", _TWO, ("lose-data",),
          1, planes=1, t1s=4, qps=2, ev_profile=_FEW_EVS, attributes={"share_path_failures": True}, small=False),
    Space("probe-ids", "EV probes whose ids wrap around while one still waits", (), ("lose",), 1, planes=1, probes=5,
          id_mask=3),
    Space("orders-3", "three packets and their answers, in every order", _THREE, any_order=True, small=False),
    Space("loss-2", "two packets and one fault", (FULL,) * 2, LOSSES, 1, small=False),
    Space("loss-2-2", "two packets of one message and two faults", _TWO, LOSSES, 2, small=False),
    Space("loss-3", "three packets of one message and one fault", _THREE, LOSSES, 1, small=False),
    Space("trim-3", "three packets, two of them trimmed or marked", _THREE, ("mark", "trim"), 2, small=False),
    Space("port-2", "two packets; a port goes down, and comes back", (FULL,) * 2, ("down",), 1, small=False),
    Space("window", "three packets through the window of NSCC, and one fault", _THREE, ("lose", "mark", "trim"), 1,
          attributes={"congestion_control": "nscc"}, small=False),
    Space("receives", "two immediates, late receives, and a frame lost", (IMMEDIATE,) * 2, ("lose",), 1,
          late_receives=True, attributes=_ENDLESS, small=False),
    Space("six", "six packets of three messages, and a data packet lost", _SIX, ("lose-data",), 1, small=False),
)  # fmt: skip


def named(name: str) -> Space | None:
    """The world of this name."""
    return next((world for world in WORLDS if world.name == name), None)
