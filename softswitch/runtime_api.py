"""What a control plane may ask of the data plane: the one interface between the P4Runtime server and the switch.

Everything is said in the names of the BMv2 JSON (which are the P4Info's fully qualified names) and in Python integers;
P4Info ids, byte strings, translation and arbitration stay on the P4Runtime side.

Threads: one thread owns the data plane. Every method of `RuntimeApi` except `compile` and `run` must be called in that
thread, which `run(function)` does for any other thread: it hands the function over, waits, and returns its result or
raises its exception. One `run` may carry a whole batch of updates, but no packet is forwarded meanwhile: keep batches
near 100 updates. Callbacks (packet-in, digest, idle) are called in the data-plane thread and must neither block nor
raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

T = TypeVar("T")

FieldMatch = int | tuple[int, int] | None
"""One key field, by the match kind that `TableInfo.key` gives:
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


class UnsupportedError(RuntimeApiError):
    """The program or the request uses something this target does not have."""

    code = "UNIMPLEMENTED"


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


@dataclass
class TableEntry:
    """One table entry. `priority` as in P4Runtime: larger wins, 0 where the table has no ternary/range/optional key.

    On reads `counter`, `meter` and `idle_for` (seconds since the last hit) are filled in where the table has them.
    On writes `counter` and `meter`, if not None, initialise the direct resources.
    """

    match: MatchKey
    action: EntryAction
    priority: int = 0
    idle_timeout: float = 0.0
    counter: CounterValue | None = None
    meter: MeterConfig | None = None
    idle_for: float | None = None
    is_const: bool = False


@dataclass(frozen=True)
class KeyInfo:
    """One key field of a table: its control-plane name, width in bits and match kind."""

    name: str
    width: int
    kind: str


@dataclass(frozen=True)
class TableInfo:
    """What is fixed about a table: key, actions by name with parameter widths, and which direct resources it has."""

    name: str
    key: tuple[KeyInfo, ...]
    actions: dict[str, tuple[int, ...]]
    size: int
    profile: str | None
    has_selector: bool
    has_counter: bool
    has_meter: bool
    supports_idle: bool
    const_entries: bool
    const_default: bool

    @property
    def has_priority(self) -> bool:
        """Whether entries are ordered by priority."""
        return any(key.kind in {"ternary", "range", "optional"} for key in self.key)


class GroupMember(NamedTuple):
    """A member of a selector group. `watch_port` None: always in use."""

    member_id: int
    weight: int = 1
    watch_port: int | None = None


@dataclass
class ProfileMember:
    """One action of an action profile."""

    member_id: int
    action: ActionCall


@dataclass
class ProfileGroup:
    """One group of an action selector."""

    group_id: int
    members: tuple[GroupMember, ...] = ()
    max_size: int = 0


class Replica(NamedTuple):
    """One copy of a replicated packet: egress port and egress_rid."""

    port: int
    instance: int = 0


@dataclass(frozen=True)
class CloneSession:
    """A clone (mirror) session: where the copies go, and after how many bytes they are cut (0: not at all)."""

    session_id: int
    replicas: tuple[Replica, ...]
    class_of_service: int = 0
    packet_length: int = 0


@dataclass(frozen=True)
class DigestConfig:
    """How digests are collected: seconds until a list is sent at the latest, its length, seconds until unacknowledged
    messages may repeat.
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
IdleCallback = Callable[[str, list[TableEntry]], None]


@dataclass(frozen=True)
class ProgramInfo:
    """Names of the loaded program: what `Pipeline` may be asked for."""

    tables: dict[str, TableInfo] = field(default_factory=dict)
    profiles: dict[str, bool] = field(default_factory=dict)  # name -> has a selector
    counters: dict[str, int] = field(default_factory=dict)  # indirect: name -> size
    meters: dict[str, int] = field(default_factory=dict)
    registers: dict[str, tuple[int, int]] = field(default_factory=dict)  # name -> (size, width)
    digests: dict[str, tuple[int, ...]] = field(default_factory=dict)  # name -> field widths
    value_sets: dict[str, tuple[int, ...]] = field(default_factory=dict)  # name -> key field widths


class CompiledPipeline(Protocol):
    """A program that was compiled and not yet committed."""

    @property
    def info(self) -> ProgramInfo:
        """The program's names."""


# -- the interface ----------------------------------------------------------------------------------------------------


class RuntimeApi(Protocol):
    """The data plane as its control plane sees it. Errors are `RuntimeApiError`s."""

    # pipeline
    def run(self, function: Callable[[], T]) -> T:
        """Run `function` in the data-plane thread, between two packets, and return what it returns."""

    def compile(self, config: str | bytes) -> CompiledPipeline:
        """Compile a BMv2 JSON text. Slow; any thread; changes nothing. Raises PipelineError."""

    def save(self, pipeline: Any) -> None:
        """From now on read and write `pipeline`, which starts empty; the running one forwards on until `commit`."""

    def commit(self, pipeline: Any, keep_state: bool = False) -> None:
        """Make `pipeline` the running one, with what was written since it was saved; else empty unless `keep_state`."""

    @property
    def info(self) -> ProgramInfo | None:
        """The running program's names, None before the first commit."""

    # tables
    def table_insert(self, table: str, entry: TableEntry) -> None:
        """Add an entry; the key (match and priority) must be new."""

    def table_modify(self, table: str, entry: TableEntry) -> None:
        """Replace action and idle timeout of the entry with this key; counters are kept as BMv2 keeps them."""

    def table_delete(self, table: str, match: MatchKey, priority: int = 0) -> None:
        """Remove the entry with this key."""

    def table_get(self, table: str, match: MatchKey, priority: int = 0) -> TableEntry:
        """Return the entry with this key."""

    def table_entries(self, table: str) -> list[TableEntry]:
        """Return all entries (const ones too), without the default entry, oldest first."""

    def table_set_default(self, table: str, action: EntryAction | None) -> None:
        """Set the default action; None restores the program's own."""

    def table_default(self, table: str) -> TableEntry | None:
        """Return the default entry (match is empty), None where the table has none."""

    def table_set_counter(self, table: str, match: MatchKey | None, priority: int, value: CounterValue) -> None:
        """Write an entry's direct counter; match None means the default entry."""

    def table_set_meter(self, table: str, match: MatchKey | None, priority: int, config: MeterConfig | None) -> None:
        """Write an entry's direct meter; config None means always green."""

    # action profiles
    def profile_insert_member(self, profile: str, member: ProfileMember) -> None:
        """Add a member."""

    def profile_modify_member(self, profile: str, member: ProfileMember) -> None:
        """Replace a member's action."""

    def profile_delete_member(self, profile: str, member_id: int) -> None:
        """Remove a member; refused while an entry or group refers to it."""

    def profile_members(self, profile: str) -> list[ProfileMember]:
        """Return all members."""

    def profile_insert_group(self, profile: str, group: ProfileGroup) -> None:
        """Add a group with its members."""

    def profile_modify_group(self, profile: str, group: ProfileGroup) -> None:
        """Replace a group's members."""

    def profile_delete_group(self, profile: str, group_id: int) -> None:
        """Remove a group; refused while an entry refers to it."""

    def profile_groups(self, profile: str) -> list[ProfileGroup]:
        """Return all groups."""

    # indirect counters, meters, registers, value sets
    def counter_read(self, name: str, index: int) -> CounterValue:
        """Return one cell."""

    def counter_write(self, name: str, index: int, value: CounterValue) -> None:
        """Set one cell."""

    def meter_read(self, name: str, index: int) -> MeterConfig | None:
        """Return one cell's configuration, None where it was never set."""

    def meter_write(self, name: str, index: int, config: MeterConfig | None) -> None:
        """Configure one cell; None makes it always green again."""

    def register_read(self, name: str, index: int) -> int:
        """Return one cell."""

    def register_write(self, name: str, index: int, value: int) -> None:
        """Set one cell."""

    def value_set_members(self, name: str) -> list[tuple[tuple[int, int], ...]]:
        """Return the members of a parser value set, each a (value, mask) per key field."""

    def value_set_replace(self, name: str, members: Iterable[tuple[tuple[int, int], ...]]) -> None:
        """Replace the members of a parser value set."""

    # replication
    def multicast_insert(self, group_id: int, replicas: Sequence[Replica]) -> None:
        """Add a multicast group."""

    def multicast_modify(self, group_id: int, replicas: Sequence[Replica]) -> None:
        """Replace a multicast group's replicas."""

    def multicast_delete(self, group_id: int) -> None:
        """Remove a multicast group."""

    def multicast_groups(self) -> dict[int, tuple[Replica, ...]]:
        """Return all multicast groups."""

    def clone_insert(self, session: CloneSession) -> None:
        """Add a clone session."""

    def clone_modify(self, session: CloneSession) -> None:
        """Replace a clone session."""

    def clone_delete(self, session_id: int) -> None:
        """Remove a clone session."""

    def clone_sessions(self) -> list[CloneSession]:
        """Return all clone sessions."""

    # digests, packets, idle entries
    def digest_enable(self, name: str, config: DigestConfig | None) -> None:
        """Start collecting a digest with this configuration, or stop (None)."""

    def digest_ack(self, name: str, list_id: int) -> None:
        """Acknowledge a list: its messages may be sent again when they occur again."""

    def on_digest(self, callback: DigestCallback | None) -> None:
        """Set who gets digest lists."""

    def packet_out(self, data: bytes) -> None:
        """Inject a packet as received on the CPU port; `data` begins with the packet_out header."""

    def on_packet_in(self, callback: PacketInCallback | None) -> None:
        """Set who gets packets that leave through the CPU port; they begin with the packet_in header."""

    def on_idle(self, callback: IdleCallback | None) -> None:
        """Set who hears of entries whose idle timeout ran out: table name and the entries, at most once per period."""

    # ports and queues
    def add_port(self, port: int, interface: str) -> None:
        """Attach a network interface."""

    def remove_port(self, port: int) -> None:
        """Detach a network interface."""

    def ports(self) -> dict[int, str]:
        """Return the attached interfaces by port number."""

    def set_queue_rate(self, rate_pps: int, port: int | None = None, priority: int | None = None) -> None:
        """Limit a queue to packets per second (0: no limit); None means every port or every priority."""

    def set_queue_depth(self, depth: int, port: int | None = None, priority: int | None = None) -> None:
        """Set a queue's capacity in packets."""
