"""Interface between a control plane and the switch: names, values and errors.

Names are those of the BMv2 JSON (the P4Info's fully qualified names), values are Python integers;
P4Info ids, byte strings, translation and arbitration stay on the P4Runtime side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

FieldMatch = int | tuple[int, int] | None
"""One key field, by the match kind of its `p4.program.TableKey`:
exact: value; lpm: (value, prefix length); ternary: (value, mask); range: (low, high), both inside;
optional: value, or None for "any". Not-care fields are (0, 0) for lpm and ternary and the full range for range.
Bits outside the mask or prefix must be zero."""

MatchKey = tuple[FieldMatch, ...]


class RuntimeApiError(Exception):
    """A request that the data plane refuses; `code` is the canonical status name that P4Runtime uses for it."""

    code = "UNKNOWN"


class NotFoundError(RuntimeApiError):
    """No such object, entry, member, group or session."""

    code = "NOT_FOUND"


class AlreadyExistsError(RuntimeApiError):
    """An object with this key is there already."""

    code = "ALREADY_EXISTS"


class InvalidRequestError(RuntimeApiError):
    """A value, index or reference that the program does not allow."""

    code = "INVALID_ARGUMENT"


class ExhaustedError(RuntimeApiError):
    """The table, profile or group is full."""

    code = "RESOURCE_EXHAUSTED"


class ImmutableError(RuntimeApiError):
    """A const table, const entry or const default action."""

    code = "PERMISSION_DENIED"


class PreconditionError(RuntimeApiError):
    """Not in this state: no pipeline yet, a member still in use."""

    code = "FAILED_PRECONDITION"


class PipelineError(RuntimeApiError):
    """A device configuration that cannot be loaded; the message names the construct and its source line."""

    code = "INVALID_ARGUMENT"


# -- what travels -----------------------------------------------------------------------------------------------------


class ActionCall(NamedTuple):
    """An action of the table (by its JSON name) with its arguments in declaration order."""

    name: str
    args: tuple[int, ...] = ()


class MemberRef(NamedTuple):
    """A member of the table's action profile."""

    member_id: int


class GroupRef(NamedTuple):
    """A group of the table's action selector."""

    group_id: int


EntryAction = ActionCall | MemberRef | GroupRef


class CounterValue(NamedTuple):
    """Packets and bytes counted."""

    packets: int
    bytes: int


class MeterConfig(NamedTuple):
    """Two rates (per second) and bursts, in the meter's unit: bytes or packets."""

    cir: int
    cburst: int
    pir: int
    pburst: int


@dataclass(slots=True)
class TableEntry:
    """One table entry. `priority` as in P4Runtime: larger wins, 0 where the table has no ternary/range/optional key.

    On reads `counter`, `meter` and `idle_for` (seconds since the last hit) are filled in where the table has them.
    On writes `counter`, if not None, and `meter` set the direct resources. `notes` are kept for the control plane; the
    program's own entries have none.
    """

    match: MatchKey
    action: EntryAction
    priority: int = 0
    idle_timeout: float = 0.0
    counter: CounterValue | None = None
    meter: MeterConfig | None = None
    idle_for: float | None = None
    is_const: bool = False
    notes: Any = None


class Replica(NamedTuple):
    """One copy of a replicated packet: egress port and egress_rid."""

    port: int
    instance: int = 0


@dataclass(frozen=True)
class CloneSession:
    """A clone (mirror) session: where the copies go, and after how many bytes they are cut (0: not at all)."""

    replicas: tuple[Replica, ...]
    packet_length: int = 0


@dataclass(frozen=True)
class DigestConfig:
    """Settings of digests: seconds until a list is sent at the latest, its length (0: any), seconds until
    unacknowledged messages may repeat.
    """

    max_timeout: float
    max_list_size: int
    ack_timeout: float


@dataclass(frozen=True)
class DigestList:
    """A list of digest messages; each message is the tuple of its field values."""

    name: str
    list_id: int
    messages: tuple[tuple[int, ...], ...]
    timestamp_ns: int


PacketInCallback = Callable[[bytes], None]
DigestCallback = Callable[[DigestList], None]
