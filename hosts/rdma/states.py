"""The QP state machine as a table: (state, target) -> attributes that modify_qp must be given. A pair that is not
there is refused.

RESET and ERROR can be entered from everywhere. Required attributes follow the OCP headers: INIT the profiles, RTR
the peer's side, RTS one's own.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from mrclab.hosts.rdma.errors import VerbsError


class QpState(Enum):
    """State of a QP."""

    RESET = "RESET"
    INIT = "INIT"
    RTR = "RTR"
    RTS = "RTS"
    ERROR = "ERROR"


TRANSITIONS: dict[tuple[QpState, QpState], frozenset[str]] = {
    (QpState.RESET, QpState.INIT): frozenset(),
    (QpState.INIT, QpState.INIT): frozenset(),
    (QpState.INIT, QpState.RTR): frozenset({"qpn", "psn"}),
    (QpState.RTR, QpState.RTS): frozenset({"psn"}),
    (QpState.RTS, QpState.RTS): frozenset(),
}


def check_transition(state: QpState, target: QpState, given: Collection[str], of_peer: Collection[str]) -> None:
    """EINVAL for a transition that does not exist or lacks an attribute; `of_peer` are those RTR needs besides."""
    if target in {QpState.RESET, QpState.ERROR}:
        return
    required = TRANSITIONS.get((state, target))
    if required is None:
        raise VerbsError("EINVAL", f"a QP cannot go from {state.value} to {target.value}")
    needed = required | set(of_peer) if target is QpState.RTR else required
    missing = sorted(needed - set(given))
    if missing:
        raise VerbsError("EINVAL", f"the step from {state.value} to {target.value} needs {', '.join(missing)}")
