"""The packet replication engine: multicast groups and clone sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mrclab.softswitch.objects.runtime_api import CloneSession, Replica
from mrclab.softswitch.p4runtime.entities.common import DELETE, INSERT, check_update_type, on_target, own_copy
from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError, invalid
from mrclab.softswitch.p4runtime.messages.stubs import p4r
from mrclab.softswitch.p4runtime.state import Apply, PipelineState

FIRST_RESERVED_ID = 1 << 15  # PI keeps the multicast groups from here on for clone sessions
MAX_PORT_BYTES = 4


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

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Yield one multicast group or clone session, or all (id 0)."""
        entry = entity.packet_replication_engine_entry
        kind = entry.WhichOneof("type")
        if kind == "multicast_group_entry":
            return self._read_multicast(entry.multicast_group_entry.multicast_group_id)
        if kind == "clone_session_entry":
            return self._read_clones(entry.clone_session_entry.session_id)
        raise invalid("Invalid PRE operation")

    # -- multicast groups ---------------------------------------------------------------------------------------------

    def _parse_multicast(self, update_type: int, message: p4r.MulticastGroupEntry) -> Apply:
        group_id = message.multicast_group_id
        if group_id == 0:
            raise invalid("0 is not a valid group id")
        _check_group_id(group_id)
        check_update_type(update_type)
        if update_type == DELETE:
            return lambda: self._delete_multicast(group_id)
        replicas = _replicas(message.replicas)

        def apply() -> None:
            exists = group_id in self._state.multicast
            if update_type == INSERT:
                if exists:
                    raise P4RuntimeError(Code.ALREADY_EXISTS, "Multicast group already exists")
                write, what = self._switch.copies().insert_group, "creating"
            else:
                if not exists:
                    raise _no_group()
                write, what = self._switch.copies().modify_group, "modifying"
            on_target(f"Error when {what} multicast group in target", lambda: write(group_id, replicas))()
            self._state.multicast[group_id] = own_copy(message)

        return apply

    def _delete_multicast(self, group_id: int) -> None:
        if group_id not in self._state.multicast:
            raise _no_group()
        on_target(
            "Error when deleting multicast group in target", lambda: self._switch.copies().delete_group(group_id)
        )()
        del self._state.multicast[group_id]

    def _read_multicast(self, group_id: int) -> Iterator[p4r.Entity]:
        _check_group_id(group_id)
        if group_id and group_id not in self._state.multicast:
            raise _no_group()
        for number, written in sorted(self._state.multicast.items()):
            if group_id in {0, number}:
                entity = p4r.Entity()
                group = entity.packet_replication_engine_entry.multicast_group_entry
                group.multicast_group_id = number
                group.replicas.extend(_in_order(written.replicas))
                group.metadata = written.metadata
                yield entity

    # -- clone sessions -----------------------------------------------------------------------------------------------

    def _parse_clone(self, update_type: int, message: p4r.CloneSessionEntry) -> Apply:
        session_id = message.session_id
        if session_id == 0:
            raise invalid("0 is not a valid session id")
        check_update_type(update_type)
        if session_id >= FIRST_RESERVED_ID:
            raise invalid("Clone session id out-of-range")
        if update_type == DELETE:
            return lambda: self._delete_clone(session_id)
        replicas = _replicas(message.replicas)
        if message.class_of_service:
            raise P4RuntimeError(Code.UNIMPLEMENTED, "COS for clone sessions not supported yet")
        if message.packet_length_bytes < 0:
            raise invalid("packet_length_bytes must not be negative")
        session = CloneSession(session_id, replicas, 0, message.packet_length_bytes)

        def apply() -> None:
            exists = session_id in self._state.clones
            if update_type == INSERT:
                if exists:
                    raise P4RuntimeError(Code.ALREADY_EXISTS, "Clone session id already exists")
                write = self._switch.copies().insert_session
            else:
                if not exists:
                    raise _no_session()
                write = self._switch.copies().modify_session
            on_target("Error when creating clone session in target", lambda: write(session))()
            self._state.clones[session_id] = own_copy(message)

        return apply

    def _delete_clone(self, session_id: int) -> None:
        if session_id not in self._state.clones:
            raise _no_session()
        on_target(
            "Error when resetting clone session in target", lambda: self._switch.copies().delete_session(session_id)
        )()
        del self._state.clones[session_id]

    def _read_clones(self, session_id: int) -> Iterator[p4r.Entity]:
        if session_id and session_id not in self._state.clones:
            raise _no_session()
        for number, written in sorted(self._state.clones.items()):
            if session_id in {0, number}:
                entity = p4r.Entity()
                session = entity.packet_replication_engine_entry.clone_session_entry
                session.session_id = number
                session.class_of_service = written.class_of_service
                session.packet_length_bytes = written.packet_length_bytes
                session.replicas.extend(_in_order(written.replicas))
                yield entity


def _no_group() -> P4RuntimeError:
    return P4RuntimeError(Code.NOT_FOUND, "Multicast group does not exist")


def _no_session() -> P4RuntimeError:
    return P4RuntimeError(Code.NOT_FOUND, "Clone session id does not exist")


def _check_group_id(group_id: int) -> None:
    if group_id >= FIRST_RESERVED_ID:
        raise P4RuntimeError(Code.OUT_OF_RANGE, "Group id value is too high")


def _replicas(messages: Iterable[p4r.Replica]) -> tuple[Replica, ...]:
    replicas = tuple(Replica(_port(message), message.instance) for message in messages)
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


def _in_order(replicas: Iterable[p4r.Replica]) -> Iterable[p4r.Replica]:
    """Return replicas in the order in which PI gives them back: by instance, then port."""
    return sorted(replicas, key=lambda r: (r.instance, r.WhichOneof("port_kind") or "", _port(r)))
