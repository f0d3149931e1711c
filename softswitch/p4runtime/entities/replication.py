"""The packet replication engine: multicast groups and clone sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from finsy.proto import p4r

from mrclab.softswitch.objects.runtime_api import CloneSession, Replica
from mrclab.softswitch.p4runtime.entities.common import DELETE, INSERT, check_update_type, own_copy
from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError, invalid
from mrclab.softswitch.p4runtime.state import Apply, EntityHandler

FIRST_RESERVED_ID = 1 << 15  # PI keeps the multicast groups from here on for clone sessions
MAX_PORT_BYTES = 4
Message = p4r.MulticastGroupEntry | p4r.CloneSessionEntry


class ReplicationHandler(EntityHandler):
    """`p4.v1.PacketReplicationEngineEntry`."""

    def _written(self, entry: p4r.PacketReplicationEngineEntry) -> tuple[str, str, dict[int, Any]]:
        """Return the field that is set in a message, PI's word for its kind, and what was written of this kind."""
        kind = entry.WhichOneof("type")
        if kind == "multicast_group_entry":
            return kind, "Multicast group", self._state.multicast
        if kind == "clone_session_entry":
            return kind, "Clone session id", self._state.clones
        raise invalid("Invalid PRE operation")

    def parse(self, update_type: int, entity: p4r.Entity) -> Apply:
        """Check an update of a multicast group or clone session."""
        entry = entity.packet_replication_engine_entry
        kind, what, written = self._written(entry)
        message = getattr(entry, kind)
        check, copies = (_group, "groups") if kind == "multicast_group_entry" else (_session, "sessions")
        number, value = check(update_type, message)

        def apply() -> None:
            exists = number in written
            if exists and update_type == INSERT:
                raise P4RuntimeError(Code.ALREADY_EXISTS, f"{what} already exists")
            if not exists and update_type != INSERT:
                raise _missing(what)
            target = getattr(self._switch.replication, copies)
            if update_type == DELETE:
                del written[number]
                target.pop(number, None)
            else:
                written[number], target[number] = _in_order(message), value

        return apply

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Yield one multicast group or clone session, or all (id 0)."""
        entry = entity.packet_replication_engine_entry
        kind, what, written = self._written(entry)
        if kind == "multicast_group_entry":
            number = entry.multicast_group_entry.multicast_group_id
            _check_group_id(number)
        else:
            number = entry.clone_session_entry.session_id
        if number and number not in written:
            raise _missing(what)
        for found, message in sorted(written.items()):
            if number in {0, found}:
                entity = p4r.Entity()
                getattr(entity.packet_replication_engine_entry, kind).CopyFrom(message)
                yield entity


def _group(update_type: int, message: p4r.MulticastGroupEntry) -> tuple[int, tuple[Replica, ...]]:
    """Return the number and the replicas of a multicast group; refused where they are wrong."""
    if message.multicast_group_id == 0:
        raise invalid("0 is not a valid group id")
    _check_group_id(message.multicast_group_id)
    check_update_type(update_type)
    return message.multicast_group_id, () if update_type == DELETE else _replicas(message)


def _session(update_type: int, message: p4r.CloneSessionEntry) -> tuple[int, CloneSession]:
    """Return the number of a clone session, and the session; refused where they are wrong."""
    if message.session_id == 0:
        raise invalid("0 is not a valid session id")
    check_update_type(update_type)
    if message.session_id >= FIRST_RESERVED_ID:
        raise invalid("Clone session id out-of-range")
    if update_type == DELETE:
        return message.session_id, CloneSession(())
    replicas = _replicas(message)
    if message.class_of_service:
        raise P4RuntimeError(Code.UNIMPLEMENTED, "COS for clone sessions not supported yet")
    if message.packet_length_bytes < 0:
        raise invalid("packet_length_bytes must not be negative")
    return message.session_id, CloneSession(replicas, message.packet_length_bytes)


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
