"""Path selection of MRC: which of a plane's active EVs the next packet takes. One algorithm a module.

An algorithm is a subclass of `PathSelection` with a name, in a module here or in another package (entry point group
`mrclab.path_selections`), registered by `PATH_SELECTIONS.register(Class)` at the module's end. Planes share the load by
themselves, and EVs that lost a packet have left the active ones.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from mypy_extensions import mypyc_attr

from mrclab.hosts.rdma.settings import make_algorithm
from mrclab.topo.algorithms import PATH_SELECTIONS
from mrclab.topo.registry import Setting

if TYPE_CHECKING:
    from mrclab.hosts.mrc.evs.ev import Ev

ROTATION: Final = "rotation"


@mypyc_attr(allow_interpreted_subclasses=True)
class PathSelection:
    """Choice of one QP. Called with the host's random numbers and the `settings` as keyword arguments."""

    name: ClassVar[str] = ""  # in scenarios
    profile: ClassVar[str] = ""
    settings: ClassVar[Mapping[str, Setting]] = {}
    uses_skip: ClassVar[bool] = True
    """False where the state SKIP means nothing to it: neither marks nor trimmed packets set it then."""

    base_rtt: float  # to the destination, seconds; set once it is made

    def choose(self, active: list[Ev], avoid: Ev | None, now: float) -> Ev:
        """Return one of a plane's active EVs, of which there is at least one; `avoid` only where it is alone.

        Where SKIP is used, one in that state is asked for again: what the second call returns is taken.
        """
        raise NotImplementedError

    def on_ack(self, ev: Ev) -> None:
        """A packet of this EV arrived."""

    def on_mark(self, ev: Ev) -> None:
        """The peer saw a mark, or a trimmed packet, of this EV; called after `on_ack`."""

    def on_loss(self, ev: Ev, now: float) -> None:
        """A packet of this EV was inferred lost; trimmed ones are marks."""


def path_selection(name: str, rng: random.Random, config: Mapping[str, Any], base_rtt: float) -> PathSelection | None:
    """A new selection of this name; None for rotation, which an EvSet does by itself at the least cost.

    EINVAL for a name or setting that does not exist.
    """
    if name == ROTATION and not config:
        return None
    selection = cast(PathSelection, make_algorithm(PATH_SELECTIONS, name, config, rng))
    selection.base_rtt = base_rtt
    return selection
