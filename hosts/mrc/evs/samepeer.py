"""Dead paths shared by the QPs of a peer, as on a NIC that keeps path state per destination.

Off by default (`share_path_failures`), as public reports describe single QPs: docs/mrc-protocol.md §2.7.
A notified QP retires its EV of that path and leaves the probing to the QP that noticed, for as long as two of the
longest intervals between probes: that QP may end, give up the EV as its last resort, or lose its peer's QP.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from mrclab.hosts.mrc.evs.ev import Ev
from mrclab.hosts.mrc.evs.states import EvState
from mrclab.hosts.rdma.states import QpState

if TYPE_CHECKING:
    from mrclab.hosts.mrc.qp import MrcQueuePair

REASON: Final = "sibling"  # of a change of state that another QP reported
_PROOF: Final = frozenset({"probe", "late", "spurious"})  # reasons of a return that hold for every QP


def notify(qp: MrcQueuePair, ev: Ev, old: str, new: str, reason: str, now: float) -> None:
    """An EV of a QP was retired or restored: change the EVs of the same path in other QPs."""
    if reason == REASON or "ASSUMED_BAD" not in {old, new}:
        return
    if new == "ASSUMED_BAD":
        for other, same in _same_path(qp, ev):
            if same.state in {EvState.GOOD, EvState.SKIP}:
                other.evs.lost(same, now, REASON)
    elif reason in _PROOF:
        for other, same in _same_path(qp, ev):
            if same.state is EvState.ASSUMED_BAD and other.prober.is_by_same_peer(same):
                other.evs.restore(same, now, REASON)


def _same_path(qp: MrcQueuePair, ev: Ev) -> Iterator[tuple[MrcQueuePair, Ev]]:
    """Yield the other QPs of the peer that share news, each with its EV of the same path."""
    for other in list(qp.endpoint.verbs.qps.values()):
        if other is qp or other.peer is not qp.peer or not other.settings.share_path_failures:
            continue
        if other.state is not QpState.RTS or other.known_evs is None:
            continue
        for same in list(other.known_evs.by_value.values()):  # retiring an EV may draw a backup
            if same.plane == ev.plane and same.uplink == ev.uplink:
                yield other, same
