"""The packet replication engine: multicast groups and clone sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from finsy.proto import p4r

from mrclab.softswitch.objects.runtime_api import CloneSession, Replica
from mrclab.softswitch.p4runtime.entities.common import DELETE, INSERT, check_update_type, own_copy
from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError, invalid
from mrclab.softswitch.p4runtime.state import Apply, PipelineState

FIRST_RESERVED_ID = 1 << 15  # PI keeps the multicast groups from here on for clone sessions
MAX_PORT_BYTES = 4
T = TypeVar("T")
Message = p4r.MulticastGroupEntry | p4r.CloneSessionEntry
GROUP, SESSION = "Multicast group", "Clone session id"  # as PI's messages call them


class ReplicationHandler:
    """`p4.v1.PacketReplicationEngineEntry`."""

    def __init__(self, state: PipelineState) -> None:
        self._state = state
        self._switch = state.switch

    def parse(self, update_type: int, entity: p4r.Entity) -> Apply:
        """Check an update of a multicast group or clone session."""
        entry = entity.packet_replication_engine_entry
        kind = entry.WhichOneof("type")
        if kind == "multicast_group_entry":
            return self._parse_multicast(update_type, entry.multicast_group_entry)
        if kind == "clone_session_entry":
            return self._parse_clone(update_type, entry.clone_session_entry)
        raise invalid("Invalid PRE operation")

    def _parse_multicast(self, update_type: int, message: p4r.MulticastGroupEntry) -> Apply:
        group = message.multicast_group_id
        if group == 0:
            raise invalid("0 is not a valid group id")
        _check_group_id(group)
        check_update_type(update_type)
        replicas = () if update_type == DELETE else _replicas(message)

        def apply() -> None:
            self._write(update_type, GROUP, self._state.multicast, group, message)
            _put(self._switch.copies().groups, update_type, group, replicas)

        return apply

    def _parse_clone(self, update_type: int, message: p4r.CloneSessionEntry) -> Apply:
        number = message.session_id
        if number == 0:
            raise invalid("0 is not a valid session id")
        check_update_type(update_type)
        if number >= FIRST_RESERVED_ID:
            raise invalid("Clone session id out-of-range")
        replicas = () if update_type == DELETE else _replicas(message)
        if update_type != DELETE and message.class_of_service:
            raise P4RuntimeError(Code.UNIMPLEMENTED, "COS for clone sessions not supported yet")
        if update_type != DELETE and message.packet_length_bytes < 0:
            raise invalid("packet_length_bytes must not be negative")
        session = CloneSession(replicas, message.packet_length_bytes)

        def apply() -> None:
            self._write(update_type, SESSION, self._state.clones, number, message)
            _put(self._switch.copies().sessions, update_type, number, session)

        return apply

    @staticmethod
    def _write(update_type: int, what: str, written: dict[int, Any], number: int, message: Message) -> None:
        """Note a group or session as written; refused where it is there already, or is not."""
        exists = number in written
        if exists and update_type == INSERT:
            raise P4RuntimeError(Code.ALREADY_EXISTS, f"{what} already exists")
        if not exists and update_type != INSERT:
            raise _missing(what)
        _put(written, update_type, number, None if update_type == DELETE else _in_order(message))

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Yield one multicast group or clone session, or all (id 0)."""
        entry = entity.packet_replication_engine_entry
        kind = entry.WhichOneof("type")
        written: dict[int, Any]
        if kind == "multicast_group_entry":
            number, written, what = entry.multicast_group_entry.multicast_group_id, self._state.multicast, GROUP
            _check_group_id(number)
        elif kind == "clone_session_entry":
            number, written, what = entry.clone_session_entry.session_id, self._state.clones, SESSION
        else:
            raise invalid("Invalid PRE operation")
        if number and number not in written:
            raise _missing(what)
        for found, message in sorted(written.items()):
            if number in {0, found}:
                entity = p4r.Entity()
                getattr(entity.packet_replication_engine_entry, kind).CopyFrom(message)
                yield entity


def _put(written: dict[int, T], update_type: int, number: int, value: T) -> None:
    if update_type == DELETE:
        written.pop(number, None)
    else:
        written[number] = value


def _missing(what: str) -> P4RuntimeError:
    return P4RuntimeError(Code.NOT_FOUND, f"{what} does not exist")


def _check_group_id(group_id: int) -> None:
    if group_id >= FIRST_RESERVED_ID:
        raise P4RuntimeError(Code.OUT_OF_RANGE, "Group id value is too high")


def _replicas(message: Message) -> tuple[Replica, ...]:
    replicas = tuple(Replica(_port(replica), replica.instance) for replica in message.replicas)
    if len(set(replicas)) != len(replicas):
        raise invalid("Duplicate replica in multicast group")
    return replicas


def _port(message: p4r.Replica) -> int:
    kind = message.WhichOneof("port_kind")
    if kind is None:
        raise invalid("Missing port in multicast group replica")
    if kind == "egress_port":
        return message.egress_port
    if not message.port:
        raise invalid("Port must not be the empty string")
    if len(message.port) > MAX_PORT_BYTES:
        raise P4RuntimeError(
            Code.UNIMPLEMENTED, f"Got port of {len(message.port)} bytes, but only {MAX_PORT_BYTES} bytes are supported"
        )
    port = int.from_bytes(message.port, "big")
    if port == 0 or port >> 31:
        raise invalid("Port must be non-negative.")
    return port


def _in_order(message: Message) -> Any:
    """Return a copy with the replicas in the order in which PI gives them back: by instance, then port."""
    copy = own_copy(message)
    copy.replicas.sort(key=lambda r: (r.instance, r.WhichOneof("port_kind") or "", _port(r)))
    return copy
