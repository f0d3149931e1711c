"""A small P4Runtime client on the bare stubs: names in, messages out. Independent of the controller on purpose."""

import queue
import threading
from collections.abc import Iterable
from pathlib import Path

import grpc
from finsy.proto import p4i, p4r, p4r_grpc
from google.protobuf import text_format

ANSWER_TIMEOUT_S = 20


class P4rtClient:
    """One session as primary on one switch. Context manager."""

    def __init__(self, address: str, device_id: int = 1, election_id: int = 1) -> None:
        self.device_id = device_id
        self.election = p4r.Uint128(low=election_id)
        self.channel = grpc.insecure_channel(address)
        grpc.channel_ready_future(self.channel).result(timeout=ANSWER_TIMEOUT_S)
        self.stub = p4r_grpc.P4RuntimeStub(self.channel)
        self.info = p4i.P4Info()
        self.packets: queue.Queue[p4r.PacketIn] = queue.Queue()
        self.others: queue.Queue[p4r.StreamMessageResponse] = queue.Queue()
        self._requests: queue.Queue[p4r.StreamMessageRequest | None] = queue.Queue()
        self._responses = self.stub.StreamChannel(iter(self._requests.get, None))
        threading.Thread(target=self._receive, daemon=True).start()
        hello = p4r.StreamMessageRequest()
        hello.arbitration.device_id = device_id
        hello.arbitration.election_id.CopyFrom(self.election)
        self._requests.put(hello)
        answer = self.others.get(timeout=ANSWER_TIMEOUT_S)
        assert answer.arbitration.status.code == 0, answer

    def __enter__(self) -> "P4rtClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.put(None)
        self.channel.close()

    def _receive(self) -> None:
        try:
            for message in self._responses:
                kind = message.WhichOneof("update")
                if kind == "packet":
                    self.packets.put(message.packet)
                else:
                    self.others.put(message)
        except grpc.RpcError:
            pass  # the channel was closed

    def set_pipeline(self, p4info: Path, p4json: Path) -> None:
        """Load a program and keep its P4Info for the names below."""
        text_format.Parse(p4info.read_text(), self.info)
        request = p4r.SetForwardingPipelineConfigRequest(device_id=self.device_id, election_id=self.election)
        request.action = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        request.config.p4info.CopyFrom(self.info)
        request.config.p4_device_config = p4json.read_bytes()
        self.stub.SetForwardingPipelineConfig(request, timeout=ANSWER_TIMEOUT_S)

    def write(self, entities: Iterable[p4r.Entity], kind: int = p4r.Update.INSERT) -> None:
        """Write all entities in one batch."""
        request = p4r.WriteRequest(device_id=self.device_id, election_id=self.election)
        for entity in entities:
            request.updates.add(type=kind, entity=entity)
        self.stub.Write(request, timeout=ANSWER_TIMEOUT_S)

    def read(self, entity: p4r.Entity) -> list[p4r.Entity]:
        """Everything that matches `entity`; unset ids are wildcards."""
        request = p4r.ReadRequest(device_id=self.device_id, entities=[entity])
        return [found for answer in self.stub.Read(request, timeout=ANSWER_TIMEOUT_S) for found in answer.entities]

    def exact_entry(self, table: str, keys: Iterable[int], action: str, params: Iterable[int] = ()) -> p4r.Entity:
        """A table entry whose match fields are all exact, in the order of the P4 program."""
        found = _named(self.info.tables, table)
        entry = p4r.TableEntry(table_id=found.preamble.id)
        for field, value in zip(found.match_fields, keys, strict=True):
            entry.match.add(field_id=field.id, exact=p4r.FieldMatch.Exact(value=to_bytes(value)))
        self._set_action(entry.action.action, action, params)
        return p4r.Entity(table_entry=entry)

    def _set_action(self, message: p4r.Action, action: str, params: Iterable[int]) -> None:
        found = _named(self.info.actions, action)
        message.action_id = found.preamble.id
        for param, value in zip(found.params, params, strict=True):
            message.params.add(param_id=param.id, value=to_bytes(value))

    def ecmp_route(self, table: str, prefix: int, length: int, members: Iterable[Iterable[int]]) -> list[p4r.Entity]:
        """Action profile members and group for an LPM route; write them in the order given."""
        found = _named(self.info.tables, table)
        profile = found.implementation_id
        group = p4r.ActionProfileGroup(action_profile_id=profile, group_id=1, max_size=8)
        entities = []
        for number, params in enumerate(members, 1):
            member = p4r.ActionProfileMember(action_profile_id=profile, member_id=number)
            self._set_action(member.action, "MrcIngress.forward", params)
            group.members.add(member_id=number, weight=1)
            entities.append(p4r.Entity(action_profile_member=member))
        entities.append(p4r.Entity(action_profile_group=group))
        entry = p4r.TableEntry(table_id=found.preamble.id)
        entry.match.add(field_id=1, lpm=p4r.FieldMatch.LPM(value=to_bytes(prefix), prefix_len=length))
        entry.action.action_profile_group_id = 1
        return [*entities, p4r.Entity(table_entry=entry)]

    def counter(self, name: str, index: int) -> int:
        """Packets counted in one cell of an indirect counter."""
        entry = p4r.CounterEntry(counter_id=_named(self.info.counters, name).preamble.id)
        entry.index.index = index
        [cell] = self.read(p4r.Entity(counter_entry=entry))
        return int(cell.counter_entry.data.packet_count)

    def packet_out(self, port: int, payload: bytes) -> None:
        """Send `payload` out of `port`."""
        message = p4r.StreamMessageRequest()
        message.packet.payload = payload
        message.packet.metadata.add(metadata_id=1, value=to_bytes(port))
        message.packet.metadata.add(metadata_id=2, value=b"\0")
        self._requests.put(message)


def to_bytes(value: int) -> bytes:
    """Canonical P4Runtime byte string: as short as possible, at least one byte."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def _named(collection: Iterable, name: str):
    for item in collection:
        if name in (item.preamble.name, item.preamble.alias):
            return item
    raise KeyError(name)
