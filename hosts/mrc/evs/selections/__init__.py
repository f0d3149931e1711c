"""Path selection of MRC: which of a plane's active EVs the next packet uses. One algorithm a module.

An algorithm is a subclass of `PathSelection` with a name, in a module here or in another package (entry point group
`mrclab.path_selections`), registered by `PATH_SELECTIONS.register(Class)` at the module's end. The load is balanced
across planes anyway, and EVs that lost a packet are no longer active.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from mypy_extensions import mypyc_attr

from mrclab.hosts.rdma.settings import make_algorithm
from mrclab.topo.config.algorithms import PATH_SELECTIONS
from mrclab.topo.config.registry import Setting

if TYPE_CHECKING:
    from mrclab.hosts.mrc.evs.ev import Ev

ROTATION: Final = "rotation"


@mypyc_attr(allow_interpreted_subclasses=True)
class PathSelection:
    """Path selection of one QP. Called with the host's random numbers and the `settings` as keyword arguments."""

    name: ClassVar[str] = ""  # in scenarios
    profile: ClassVar[str] = ""
    settings: ClassVar[Mapping[str, Setting]] = {}
    uses_skip: ClassVar[bool] = True
    """False if the algorithm ignores the state SKIP: neither marks nor trimmed packets set it then."""

    base_rtt: float  # to the destination, seconds; set after creation

    def choose(self, active: list[Ev], avoid: Ev | None, now: float) -> Ev:
        """Return one of a plane's active EVs, of which there is at least one; `avoid` only if it is the only one.

        If SKIP is used and the EV is in SKIP, `choose` is called once more, and the second EV is used.
        """
        raise NotImplementedError

    def on_ack(self, ev: Ev) -> None:
        """A packet of this EV was acknowledged."""

    def on_mark(self, ev: Ev) -> None:
        """The peer reported a mark, or a trimmed packet, of this EV; called after `on_ack`."""

    def on_loss(self, ev: Ev, now: float) -> None:
        """A packet of this EV was inferred lost; trimmed ones are marks."""


def path_selection(name: str, rng: random.Random, config: Mapping[str, Any], base_rtt: float) -> PathSelection | None:
    """Return a new selection of this name; None for rotation, which an EvSet does itself at the least cost.

    EINVAL for a name or setting that does not exist.
    """
    if name == ROTATION and not config:
        return None
    selection = cast(PathSelection, make_algorithm(PATH_SELECTIONS, name, config, rng))
    selection.base_rtt = base_rtt
    return selection
