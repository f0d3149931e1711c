"""A P4Runtime client for tests: every RPC as it is, entities built from names, errors unpacked.

Nothing is checked or repaired on the way, so that malformed requests can be sent too.
"""

import queue
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from finsy.proto import p4i, p4r, p4r_grpc, rpc_status

ANSWER_TIMEOUT_S = 120.0  # only what hangs takes so long
INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE
SetRequest = p4r.SetForwardingPipelineConfigRequest
MAC = "hdr.ethernet.dst"
TERNARY_KEY = {
    "hdr.ethernet.src": (0x0A00, 0xFF00),
    "smeta.ingress_port": 4,
    "hdr.ipv4.dst": (0x0A000000, 8),
    "hdr.ipv4.protocol": (6, 17),
    "hdr.ipv4.tos": 4,
}
"""All match fields of the test program's `ternary_table`, and values that fit them."""


def number(value: int) -> bytes:
    """Canonical byte string."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


class Names:
    """Builds entities from the names in a P4Info."""

    def __init__(self, p4info: p4i.P4Info) -> None:
        self.p4info = p4info

    def _find(self, collection: Iterable[Any], name: str) -> Any:
        for item in collection:
            if name in {item.preamble.name, item.preamble.alias}:
                return item
        raise KeyError(name)

    def id(self, name: str) -> int:
        """Id of a table, counter, meter, profile, digest."""
        info = self.p4info
        groups = (info.tables, info.actions, info.action_profiles, info.counters, info.direct_counters, info.meters,
                  info.direct_meters, info.digests, info.registers, info.value_sets)  # fmt: skip
        return self._find((item for group in groups for item in group), name).preamble.id

    def action(self, name: str, *params: int) -> p4r.Action:
        found = self._find(self.p4info.actions, name)
        message = p4r.Action(action_id=found.preamble.id)
        for param, value in zip(found.params, params, strict=True):
            message.params.add(param_id=param.id, value=number(value))
        return message

    def entry(
        self, table: str, match: dict[str, Any], action: p4r.Action | None = None, priority: int = 0, **fields: Any
    ) -> p4r.TableEntry:
        """A table entry. Match values: exact and optional int, lpm (value, length), ternary (value, mask), range."""
        found = self._find(self.p4info.tables, table)
        entry = p4r.TableEntry(table_id=found.preamble.id, priority=priority, **fields)
        for field in found.match_fields:
            if field.name in match:
                entry.match.append(_field_match(field, match[field.name]))
        if action is not None:
            entry.action.action.CopyFrom(action)
        return entry

    def default(self, table: str, action: p4r.Action | None = None) -> p4r.TableEntry:
        entry = p4r.TableEntry(table_id=self.id(table), is_default_action=True)
        if action is not None:
            entry.action.action.CopyFrom(action)
        return entry

    def member(self, profile: str, member_id: int, action: p4r.Action | None = None) -> p4r.ActionProfileMember:
        return p4r.ActionProfileMember(action_profile_id=self.id(profile), member_id=member_id, action=action)

    def group(
        self, profile: str, group_id: int, weights: dict[int, int] | None = None, max_size: int = 0
    ) -> p4r.ActionProfileGroup:
        members = [p4r.ActionProfileGroup.Member(member_id=m, weight=w) for m, w in (weights or {}).items()]
        return p4r.ActionProfileGroup(
            action_profile_id=self.id(profile), group_id=group_id, members=members, max_size=max_size
        )


def _field_match(field: p4i.MatchField, value: Any) -> p4r.FieldMatch:
    message = p4r.FieldMatch(field_id=field.id)
    kind = field.match_type
    if kind == p4i.MatchField.EXACT:
        message.exact.value = number(value)
    elif kind == p4i.MatchField.LPM:
        message.lpm.value, message.lpm.prefix_len = number(value[0]), value[1]
    elif kind == p4i.MatchField.TERNARY:
        message.ternary.value, message.ternary.mask = number(value[0]), number(value[1])
    elif kind == p4i.MatchField.RANGE:
        message.range.low, message.range.high = number(value[0]), number(value[1])
    else:
        message.optional.value = number(value)
    return message


ENTITY_FIELDS = {field.message_type.name: field.name for field in p4r.Entity.DESCRIPTOR.fields}


def entity(message: Any) -> p4r.Entity:
    """Wrap a message into the entity field of its type."""
    if isinstance(message, p4r.Entity):
        return message
    if isinstance(message, p4r.MulticastGroupEntry):
        message = p4r.PacketReplicationEngineEntry(multicast_group_entry=message)
    elif isinstance(message, p4r.CloneSessionEntry):
        message = p4r.PacketReplicationEngineEntry(clone_session_entry=message)
    return p4r.Entity(**{ENTITY_FIELDS[message.DESCRIPTOR.name]: message})


class RefusedError(Exception):
    """An RPC that ended with an error; `errors` are the per-update errors of a Write."""

    def __init__(self, error: grpc.RpcError) -> None:
        super().__init__(f"{error.code().name}: {error.details()}")
        self.code, self.message = error.code().name, error.details()
        self.errors: list[p4r.Error] = []
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                for packed in rpc_status.Status.FromString(value).details:
                    item = p4r.Error()
                    assert packed.Unpack(item)
                    self.errors.append(item)

    @property
    def codes(self) -> list[str]:
        """Canonical code of each update."""
        return [CODES[item.canonical_code] for item in self.errors]


CODES = {code.value[0]: code.name for code in grpc.StatusCode}


@contextmanager
def unpacked() -> Iterator[None]:
    """Turn grpc's errors into RefusedError."""
    try:
        yield
    except grpc.RpcError as error:
        raise RefusedError(error) from error


class StreamClient:
    """One StreamChannel."""

    def __init__(self, stub: p4r_grpc.P4RuntimeStub) -> None:
        self._requests: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()
        self.responses: queue.Queue[p4r.StreamMessageResponse | RefusedError | None] = queue.Queue()
        self.call = stub.StreamChannel(iter(self._requests.get, None))
        threading.Thread(target=self._receive, daemon=True).start()

    def _receive(self) -> None:
        try:
            for response in self.call:
                self.responses.put(response)
            self.responses.put(None)
        except grpc.RpcError as error:
            self.responses.put(RefusedError(error))

    def send(self, request: p4r.StreamMessageRequest) -> None:
        self._requests.put(request)

    def next(self) -> p4r.StreamMessageResponse:
        """The next message; raises the error that ended the stream."""
        item = self.responses.get(timeout=ANSWER_TIMEOUT_S)
        if isinstance(item, RefusedError):
            raise item
        assert item is not None, "the stream has ended"
        return item

    def arbitrate(self, election_id: int | None = 1, device_id: int = 1, role: str = "") -> None:
        request = p4r.StreamMessageRequest()
        request.arbitration.device_id = device_id
        if election_id is not None:
            request.arbitration.election_id.high, request.arbitration.election_id.low = divmod(election_id, 1 << 64)
        if role:
            request.arbitration.role.name = role
        self.send(request)

    def drain(self) -> None:
        """Forget what has arrived."""
        while not self.responses.empty():
            self.next()

    def hang_up(self) -> None:
        """End the stream and wait until the server has ended it too."""
        self._requests.put(None)
        while True:
            item = self.responses.get(timeout=ANSWER_TIMEOUT_S)
            if item is None or isinstance(item, RefusedError):
                return


class Client:
    """RPCs with one device id and election id. `stream` is opened by `become_primary`."""

    def __init__(self, address: str, names: Names, device_id: int = 1, election_id: int = 1) -> None:
        self.names, self.device_id, self.election_id = names, device_id, election_id
        self.channel = grpc.insecure_channel(address)
        self.stub = p4r_grpc.P4RuntimeStub(self.channel)
        self.stream: StreamClient | None = None
        self.role = ""

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()

    def become_primary(self, role: str = "") -> "Client":
        self.stream = StreamClient(self.stub)
        self.stream.arbitrate(self.election_id, self.device_id, role)
        self.role = role
        answer = self.stream.next()
        assert answer.arbitration.status.code == 0, answer
        return self

    @property
    def _election(self) -> p4r.Uint128:
        return p4r.Uint128(high=self.election_id >> 64, low=self.election_id % (1 << 64))

    def set_pipeline(
        self, config: bytes, action: int = SetRequest.VERIFY_AND_COMMIT, cookie: int | None = None,
        p4info: p4i.P4Info | None = None,
    ) -> None:  # fmt: skip
        request = SetRequest(device_id=self.device_id, election_id=self._election, action=action, role=self.role)
        request.config.p4info.CopyFrom(p4info or self.names.p4info)
        request.config.p4_device_config = config
        if cookie is not None:
            request.config.cookie.cookie = cookie
        with unpacked():
            self.stub.SetForwardingPipelineConfig(request, timeout=ANSWER_TIMEOUT_S)

    def write(self, *updates: tuple[int, Any], atomicity: int = 0) -> None:
        """Write (type, message) pairs in one request."""
        request = p4r.WriteRequest(
            device_id=self.device_id, election_id=self._election, atomicity=atomicity, role=self.role
        )
        for kind, message in updates:
            request.updates.add(type=kind, entity=entity(message))
        with unpacked():
            self.stub.Write(request, timeout=ANSWER_TIMEOUT_S)

    def insert(self, *messages: Any) -> None:
        self.write(*((INSERT, message) for message in messages))

    def modify(self, *messages: Any) -> None:
        self.write(*((MODIFY, message) for message in messages))

    def delete(self, *messages: Any) -> None:
        self.write(*((DELETE, message) for message in messages))

    def read(self, *messages: Any) -> list[Any]:
        """The messages inside of the entities that were read."""
        request = p4r.ReadRequest(device_id=self.device_id, entities=[entity(m) for m in messages])
        with unpacked():
            answers = list(self.stub.Read(request, timeout=ANSWER_TIMEOUT_S))
        return [_inner(found) for answer in answers for found in answer.entities]

    def get_pipeline(self, response_type: int = 0) -> p4r.ForwardingPipelineConfig:
        request = p4r.GetForwardingPipelineConfigRequest(device_id=self.device_id, response_type=response_type)
        with unpacked():
            return self.stub.GetForwardingPipelineConfig(request, timeout=ANSWER_TIMEOUT_S).config

    def packet_out(self, payload: bytes, **metadata: bytes) -> None:
        """Send a packet; metadata by the ids m1, m2, …"""
        assert self.stream is not None
        request = p4r.StreamMessageRequest()
        request.packet.payload = payload
        for name, value in metadata.items():
            request.packet.metadata.add(metadata_id=int(name[1:]), value=value)
        self.stream.send(request)


def _inner(found: p4r.Entity) -> Any:
    message = getattr(found, found.WhichOneof("entity"))
    if isinstance(message, p4r.PacketReplicationEngineEntry):
        return getattr(message, message.WhichOneof("type"))
    return message
