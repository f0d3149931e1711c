"""The QP state machine as a table: (state, target) -> attributes that modify_qp must be given, and no others. A pair
that is not there is refused.

RESET and ERROR can be entered from everywhere. The attributes follow the OCP headers: RTR takes the peer's side, RTS
one's own first PSN; what the headers give INIT and RTS besides, create_qp takes here.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from enum import Enum
from typing import Final

from mrclab.hosts.rdma.errors import VerbsError


class QpState(str, Enum):
    """State of a QP. A str, as the hash of any other member of an enum is a function in Python."""

    RESET = "RESET"
    INIT = "INIT"
    RTR = "RTR"
    RTS = "RTS"
    ERROR = "ERROR"


TRANSITIONS: Final[dict[tuple[QpState, QpState], frozenset[str]]] = {
    (QpState.RESET, QpState.INIT): frozenset(),
    (QpState.INIT, QpState.INIT): frozenset(),
    (QpState.INIT, QpState.RTR): frozenset({"qpn", "psn"}),
    (QpState.RTR, QpState.RTS): frozenset({"psn"}),
    (QpState.RTS, QpState.RTS): frozenset(),
}

_OF_ANY_PEER: Final = frozenset({"qpn", "psn", "mpr", "wimm"})
"""Attributes that a `local_info` has; not every transport needs all."""


def check_transition(state: QpState, target: QpState, given: Set[str], of_peer: Collection[str]) -> None:
    """EINVAL for a transition that does not exist, or has missing or extra attributes; RTR also needs `of_peer`."""
    anywhere = target is QpState.RESET or target is QpState.ERROR
    required = frozenset() if anywhere else TRANSITIONS.get((state, target))
    if required is None:
        raise VerbsError("EINVAL", f"a QP cannot go from {state.value} to {target.value}")
    if target is not QpState.RTR and required == given:
        return  # as nearly all do
    needed = required | set(of_peer) if target is QpState.RTR else required
    known = needed | _OF_ANY_PEER if target is QpState.RTR else needed
    unknown = sorted(set(given) - known)
    if unknown:
        takes = f"it takes {', '.join(sorted(known))}" if known else "it takes none; create_qp takes those of a QP"
        raise VerbsError(
            "EINVAL", f"the step from {state.value} to {target.value} has no attribute {unknown[0]!r}; {takes}"
        )
    missing = sorted(needed - set(given))
    if missing:
        raise VerbsError("EINVAL", f"the step from {state.value} to {target.value} needs {', '.join(missing)}")
