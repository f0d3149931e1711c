"""Notifications of a switch caused by packets: packet-in, digests, idle entries; copies by the PRE.

The same assertions hold for softswitch and for BMv2.
"""

import contextlib
import os
import queue
from collections.abc import Iterator
from pathlib import Path

import pytest
from bmv2 import TARGETS
from finsy.proto import p4i, p4r
from google.protobuf import text_format
from p4runtime_client import Client, Names
from rig import Rig

PROGRAM = Path(__file__).parent / "p4runtime"
NAMES = Names(text_format.Parse((PROGRAM / "everything.p4info.txtpb").read_text(), p4i.P4Info()))
NS_PER_SECOND = 1_000_000_000
ACK_ATTEMPTS, ACK_TIMEOUT_S = 40, 0.5

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the switch runs in a network namespace of its own"),
]


@pytest.fixture(params=TARGETS)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    with Rig(request.param, tmp_path, ports=3) as running:
        yield running


@pytest.fixture
def primary(rig: Rig) -> Iterator[Client]:
    with Client(rig.address, NAMES) as client:
        client.become_primary().set_pipeline((PROGRAM / "everything.json").read_bytes())
        client.modify(NAMES.default("idle_table", NAMES.action("NoAction")))  # no digests unless asked for
        yield client


def frame(dst: int, src: int = 0x55, ethertype: int = 0x1234) -> bytes:
    return dst.to_bytes(6, "big") + src.to_bytes(6, "big") + ethertype.to_bytes(2, "big") + b"payload".ljust(50, b".")


def toward(client: Client, mac: int, action: str, *params: int) -> None:
    client.insert(NAMES.entry("exact_table", {"hdr.ethernet.dst": mac}, NAMES.action(action, *params)))


def test_a_packet_in_carries_its_metadata_and_the_whole_frame(rig: Rig, primary: Client) -> None:
    assert primary.stream is not None
    toward(primary, 1, "to_cpu", 0x55)
    rig.send(3, frame(1))
    packet = primary.stream.next().packet
    assert packet.payload == frame(1)
    assert [(m.metadata_id, m.value) for m in packet.metadata] == [(1, b"\3"), (2, b"\x55")]


def test_a_packet_out_leaves_by_its_port_or_passes_the_tables(rig: Rig, primary: Client) -> None:
    toward(primary, 1, "count_exact", 2)
    primary.packet_out(frame(1), m1=b"\3")
    assert rig.receive(3) == frame(1)
    primary.packet_out(frame(1), m1=b"\3", m2=b"\1")
    assert rig.receive(2) == frame(1)


def test_copies_of_one_packet_reach_every_replica(rig: Rig, primary: Client) -> None:
    replicas = [p4r.Replica(egress_port=port, instance=port) for port in (1, 2, 3)]
    primary.insert(p4r.MulticastGroupEntry(multicast_group_id=7, replicas=replicas))
    toward(primary, 1, "multicast", 7)
    rig.send(1, frame(1))
    assert [rig.receive(port) for port in (1, 2, 3)] == [frame(1)] * 3
    primary.modify(p4r.MulticastGroupEntry(multicast_group_id=7, replicas=replicas[2:]))
    rig.send(1, frame(1, src=0x66))
    assert rig.receive(3) == frame(1, src=0x66)
    primary.delete(p4r.MulticastGroupEntry(multicast_group_id=7))
    toward(primary, 2, "count_exact", 1)
    rig.send(1, frame(1))
    rig.send(1, frame(2))
    assert rig.receive(1) == frame(2)


def digest_entry(**config: int) -> p4r.DigestEntry:
    return p4r.DigestEntry(digest_id=NAMES.id("learn_t"), config=p4r.DigestEntry.Config(**config))


def learned(message: p4r.StreamMessageResponse) -> list[list[bytes]]:
    return [[member.bitstring for member in data.struct.members] for data in message.digest.data]


def test_a_digest_comes_again_only_after_its_ack(rig: Rig, primary: Client) -> None:
    assert primary.stream is not None
    toward(primary, 1, "count_exact", 2)
    primary.modify(NAMES.default("idle_table", NAMES.action("learn")))
    primary.insert(digest_entry(max_list_size=1, ack_timeout_ns=3600 * NS_PER_SECOND))
    rig.send(1, frame(1, src=0xA1))
    first = primary.stream.next()
    assert learned(first) == [[b"\xa1", b"\1"]]
    rig.send(1, frame(1, src=0xA1))
    rig.send(1, frame(1, src=0xA2))
    second = primary.stream.next()
    assert learned(second) == [[b"\xa2", b"\1"]]
    assert second.digest.list_id == first.digest.list_id + 1
    ack = p4r.DigestListAck(digest_id=first.digest.digest_id, list_id=first.digest.list_id)
    primary.stream.send(p4r.StreamMessageRequest(digest_ack=ack))
    third = None
    for _ in range(ACK_ATTEMPTS):  # BMv2 handles an ack when it comes to it, in a thread of its own
        rig.send(1, frame(1, src=0xA1))
        with contextlib.suppress(queue.Empty):
            third = primary.stream.responses.get(timeout=ACK_TIMEOUT_S)
            break
    assert third is not None
    assert learned(third) == [[b"\xa1", b"\1"]]
    assert third.digest.list_id == first.digest.list_id + 2


def test_a_list_waits_for_its_time_or_its_length(rig: Rig, primary: Client) -> None:
    assert primary.stream is not None
    toward(primary, 1, "count_exact", 2)
    primary.modify(NAMES.default("idle_table", NAMES.action("learn")))
    primary.insert(digest_entry(max_list_size=100, max_timeout_ns=NS_PER_SECOND, ack_timeout_ns=3600 * NS_PER_SECOND))
    for src in range(0xB1, 0xB5):
        rig.send(1, frame(1, src=src))
    found: list[list[bytes]] = []
    while len(found) < 4:
        found += learned(primary.stream.next())
    assert found == [[bytes([src]), b"\1"] for src in range(0xB1, 0xB5)]


def test_an_entry_that_nothing_hits_is_reported_again_and_again(rig: Rig, primary: Client) -> None:
    assert primary.stream is not None
    idle = NAMES.entry("idle_table", {"hdr.ethernet.src": 0xC1}, NAMES.action("NoAction"),
                       idle_timeout_ns=NS_PER_SECOND, controller_metadata=9)  # fmt: skip
    primary.insert(idle, NAMES.entry("idle_table", {"hdr.ethernet.src": 0xC2}, NAMES.action("NoAction")))
    for _ in range(2):
        [reported] = primary.stream.next().idle_timeout_notification.table_entry
        assert reported.match == idle.match
        assert (reported.idle_timeout_ns, reported.controller_metadata) == (NS_PER_SECOND, 9)
    asked = p4r.TableEntry(table_id=idle.table_id, time_since_last_hit=p4r.TableEntry.IdleTimeout())
    ages = [entry.time_since_last_hit.elapsed_ns for entry in primary.read(asked)]
    assert len(ages) == 2
    assert 0 in ages


def test_the_new_primary_gets_what_comes_after_the_hand_over(rig: Rig, primary: Client) -> None:
    toward(primary, 1, "to_cpu", 1)
    with Client(rig.address, NAMES, election_id=2) as newcomer:
        newcomer.become_primary()
        rig.send(1, frame(1))
        assert newcomer.stream is not None
        assert newcomer.stream.next().packet.payload == frame(1)
    assert primary.stream is not None
    codes = [primary.stream.next().arbitration.status.code for _ in range(2)]
    assert codes == [6, 0]
    rig.send(1, frame(1))
    assert primary.stream.next().packet.payload == frame(1)


def test_counters_count_the_packets_that_came(rig: Rig, primary: Client) -> None:
    toward(primary, 1, "count_exact", 2)
    for _ in range(5):
        rig.send(1, frame(1))
        rig.receive(2)
    cell = p4r.CounterEntry(counter_id=NAMES.id("port_counter"))
    cell.index.index = 1
    [counted] = primary.read(cell)
    assert (counted.data.packet_count, counted.data.byte_count) == (5, 5 * 64)
    entry = NAMES.entry("exact_table", {"hdr.ethernet.dst": 1})
    [direct] = primary.read(p4r.DirectCounterEntry(table_entry=entry))
    assert (direct.data.packet_count, direct.data.byte_count) == (5, 5 * 64)
