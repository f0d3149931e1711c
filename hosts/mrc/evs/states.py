"""The EV state machine as a table: (state, input) -> next state. Inputs that are not in the table have no effect.

States and transitions are those of docs/mrc-protocol.md §1.4.3. STANDBY (a GOOD EV waiting as backup) and PORT_DOWN are
marks of samples and records; the control interface shows them, and SKIP, as GOOD.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final


class EvState(str, Enum):
    """State of one EV. A str, as the hash of any other member of an enum is a function in Python."""

    GOOD = "GOOD"
    SKIP = "SKIP"
    ASSUMED_BAD = "ASSUMED_BAD"
    DENIED = "DENIED"


class EvInput(IntEnum):
    """Input to the state machine of one EV."""

    MARKED = 0  # ECN mark or trimmed packet
    PASSED_OVER = 1  # left out of the rotation once
    LOST = 2  # a packet was inferred lost on this path, or the peer requested its retirement
    LOST_AT_FLOOR = 3  # the same, where `ev_min_active` keeps the EV in use
    RECOVERED = 4  # probes got their responses, a loss proved spurious, the port came up, or as last resort
    RECOVERED_MARKED = 5  # the response to the last probe had a mark
    DENY = 6  # by the controller
    ALLOW = 7  # the last denial was lifted


TRANSITIONS: Final[dict[tuple[EvState, EvInput], EvState]] = {
    (EvState.GOOD, EvInput.MARKED): EvState.SKIP,
    (EvState.SKIP, EvInput.PASSED_OVER): EvState.GOOD,
    (EvState.GOOD, EvInput.LOST): EvState.ASSUMED_BAD,
    (EvState.SKIP, EvInput.LOST): EvState.ASSUMED_BAD,
    (EvState.GOOD, EvInput.LOST_AT_FLOOR): EvState.SKIP,
    (EvState.ASSUMED_BAD, EvInput.RECOVERED): EvState.GOOD,
    (EvState.ASSUMED_BAD, EvInput.RECOVERED_MARKED): EvState.SKIP,
    (EvState.GOOD, EvInput.DENY): EvState.DENIED,
    (EvState.SKIP, EvInput.DENY): EvState.DENIED,
    (EvState.ASSUMED_BAD, EvInput.DENY): EvState.DENIED,
    (EvState.DENIED, EvInput.ALLOW): EvState.GOOD,
}


def next_state(state: EvState, given: EvInput) -> EvState | None:
    """Return the state that follows; None where the input has no effect."""
    return TRANSITIONS.get((state, given))
