"""The primary controller of one switch that runs the lab's own program; it shares nothing with the lab's controller."""

from collections.abc import Iterable
from typing import Any

import grpc
from finsy.proto import p4i, p4r
from google.protobuf import text_format
from p4runtime_client import ANSWER_TIMEOUT_S, Client, Names, number

from mrclab.lab.command.p4build import P4_INFO, P4_JSON


class MrcSwitch(Client):
    """Context manager: waits for the server and becomes primary."""

    def __init__(self, address: str, device_id: int = 1) -> None:
        super().__init__(address, Names(text_format.Parse(P4_INFO.read_text(), p4i.P4Info())), device_id)

    def __enter__(self) -> "MrcSwitch":
        grpc.channel_ready_future(self.channel).result(timeout=ANSWER_TIMEOUT_S)
        self.become_primary()
        return self

    def load(self) -> None:
        """Load the compiled program."""
        self.set_pipeline(P4_JSON.read_bytes())

    def exact(self, table: str, keys: Iterable[int], action: str, *params: int) -> p4r.TableEntry:
        """A table entry whose match fields are all exact, in the order of the program."""
        fields = next(found for found in self.names.p4info.tables if found.preamble.name == table).match_fields
        match = {field.name: key for field, key in zip(fields, keys, strict=True)}
        return self.names.entry(table, match, self.names.action(action, *params))

    def route(self, prefix: int, length: int, members: Iterable[tuple[int, ...]], group_id: int = 1) -> list[Any]:
        """Plain IPv6 over several ports: action profile members, their group, and the entry, to write in this order."""
        profile = "MrcIngress.ecmp"
        made = [
            self.names.member(profile, number, self.names.action("MrcIngress.forward", *params))
            for number, params in enumerate(members, group_id << 4)
        ]
        group = self.names.group(profile, group_id, {member.member_id: 1 for member in made}, max_size=8)
        entry = self.names.entry("MrcIngress.ipv6_fib", {"hdr.ipv6.dst": (prefix, length)})
        entry.action.action_profile_group_id = group_id
        return [*made, group, entry]

    def count(self, counter: str, index: int) -> int:
        """Packets counted in one cell of an indirect counter."""
        entry = p4r.CounterEntry(counter_id=self.names.id(counter))
        entry.index.index = index
        [cell] = self.read(entry)
        return int(cell.data.packet_count)

    def send_by(self, port: int, frame: bytes) -> None:
        """Let the switch send `frame` out of `port`."""
        self.packet_out(frame, m1=number(port), m2=b"\0")

    def next_packet_in(self) -> p4r.PacketIn:
        """The next packet that the switch sends to its controller."""
        assert self.stream is not None
        return self.stream.next().packet
