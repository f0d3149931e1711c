"""QPs to the same host tell each other of dead paths, as one NIC would that keeps path state per destination.

Off by default (`tell_siblings`), as the record speaks of QPs; docs/mrc-protocol.md §3.7 has the choice and its worth.
A QP that is told retires its EV of that path and leaves the probing to the one that knows, for as long as two of the
longest intervals between probes: that one may end, give its EV up as its last resort, or have lost its peer's QP.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mrclab.hosts.mrc.evs.ev import Ev, EvState
from mrclab.hosts.rdma.states import QpState

if TYPE_CHECKING:
    from mrclab.hosts.mrc.qp import MrcQueuePair

TOLD: Final = "sibling"  # the reason of a change of state that a sibling told of
_PROOF: Final = frozenset({"probe", "late", "spurious"})  # reasons of a return that hold for every QP


def changed(qp: MrcQueuePair, ev: Ev, old: str, new: str, reason: str) -> None:
    """An EV of a QP was retired or came back: so do its siblings' of the same path."""
    if reason == TOLD or "ASSUMED_BAD" not in {old, new}:
        return
    if new == "ASSUMED_BAD":
        for sibling, other in _same_path(qp, ev):
            if other.state in {EvState.GOOD, EvState.SKIP}:
                sibling.evs.lost(other, qp.host.now, TOLD)
    elif reason in _PROOF:
        for sibling, other in _same_path(qp, ev):
            if other.state is EvState.ASSUMED_BAD and sibling.prober.was_told(other):
                sibling.evs.restore(other, TOLD)


def _same_path(qp: MrcQueuePair, ev: Ev) -> Iterator[tuple[MrcQueuePair, Ev]]:
    """The siblings of a QP that talk to each other, each with its EV of the same path."""
    for sibling in list(qp.host.qps.values()):
        if sibling is qp or sibling.peer is not qp.peer or not sibling.settings.tell_siblings:
            continue
        if sibling.state is not QpState.RTS:
            continue
        for other in list(sibling.evs.by_value.values()):  # to retire one may draw a backup
            if other.plane == ev.plane and other.uplink == ev.uplink:
                yield sibling, other
