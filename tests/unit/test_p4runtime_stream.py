"""Packets, digests and idle notifications on the stream."""

import pytest
from finsy.proto import p4r
from p4runtime_client import Client, StreamClient
from p4runtime_fixtures import NAMES, Running, primary, running

from mrclab.softswitch.objects.runtime_api import DigestList, RuntimeApiError
from mrclab.softswitch.p4runtime.messages.status import P4RuntimeError
from mrclab.softswitch.p4runtime.p4info import P4InfoField
from mrclab.softswitch.p4runtime.stream.notifications import MAX_WAITING, StreamChannel
from mrclab.softswitch.p4runtime.stream.packet_io import HeaderCodec

__all__ = ["primary", "running"]


def after_this(client: Client) -> None:
    """Return when the server has handled everything sent on the stream before."""
    assert client.stream is not None
    client.stream.arbitrate(client.election_id)
    while client.stream.next().WhichOneof("update") != "arbitration":
        pass


def test_packet_out_metadata_becomes_the_header(primary: Client, running: Running) -> None:
    primary.packet_out(b"frame", m1=b"\1\xff", m2=b"\1", m3=b"\x2a")
    primary.packet_out(b"frame", m1=b"\3")
    primary.packet_out(b"", m3=b"")
    after_this(primary)
    assert running.switch.packets == [b"\xff\xea" + b"frame", b"\x01\x80" + b"frame", b"\0\0"]


@pytest.mark.parametrize(
    ("metadata", "code", "text"),
    [
        ({"m9": b"\1"}, 3, "Unknown metadata id in PacketOut message"),
        ({"m1": b"\2\0"}, 3, "Bytestring provided does not fit within 9 bits"),
    ],
)
def test_a_wrong_packet_out_is_reported_and_dropped(
    primary: Client, running: Running, metadata: dict[str, bytes], code: int, text: str
) -> None:
    primary.packet_out(b"frame", **metadata)
    assert primary.stream is not None
    error = primary.stream.next().error
    assert (error.canonical_code, error.message, error.packet_out.packet_out.payload) == (code, text, b"frame")
    assert running.switch.packets == []


def test_a_packet_out_the_data_plane_refuses_is_reported(
    primary: Client, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: bytes) -> None:
        raise RuntimeApiError("no CPU port")

    monkeypatch.setattr(running.switch, "packet_out", refuse)
    primary.packet_out(b"frame")
    assert primary.stream is not None
    assert primary.stream.next().error.message == "Error when target sending packet-out: no CPU port"


def test_only_the_primary_sends_packets_and_gets_them(primary: Client, running: Running) -> None:
    backup = StreamClient(primary.stub)
    backup.arbitrate(0)
    backup.next()
    request = p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=b"x"))
    backup.send(request)
    assert backup.next().error.canonical_code == 7
    stranger = StreamClient(primary.stub)
    stranger.send(request)
    assert running.switch.packet_in_callback is not None
    running.switch.packet_in_callback(b"\x01\x85payload")
    assert primary.stream is not None
    packet = primary.stream.next().packet
    assert packet.payload == b"payload"
    assert [(m.metadata_id, m.value) for m in packet.metadata] == [(1, b"\3"), (2, b"\5")]
    stranger.arbitrate(5)
    assert stranger.next().arbitration.status.code == 0
    running.switch.packet_in_callback(b"\0\0second")
    assert stranger.next().packet.payload == b"second"
    assert backup.responses.empty() or backup.next().WhichOneof("update") == "arbitration"
    assert running.switch.packets == []


def test_a_frame_shorter_than_the_header_is_no_packet_in(primary: Client, running: Running) -> None:
    assert running.switch.packet_in_callback is not None
    running.switch.packet_in_callback(b"\x01")
    running.switch.packet_in_callback(b"\x01\x85")
    assert primary.stream is not None
    assert primary.stream.next().packet.payload == b""


def test_without_a_controller_header_frames_travel_bare() -> None:
    codec = HeaderCodec(None)
    assert codec.pack(p4r.PacketOut(payload=b"x")) == b"x"
    unpacked = codec.unpack(b"x")
    assert unpacked == p4r.PacketIn(payload=b"x")


def test_a_header_that_fills_no_whole_byte_is_rounded_up() -> None:
    codec = HeaderCodec((P4InfoField(1, "a", 3), P4InfoField(2, "b", 9)))
    packet = p4r.PacketOut(payload=b"x")
    packet.metadata.add(metadata_id=2, value=b"\1\xff")
    packet.metadata.add(metadata_id=1, value=b"\5")
    assert codec.pack(packet) == b"\xbf\xf0x"


def configured_digest(client: Client) -> int:
    config = p4r.DigestEntry.Config(max_timeout_ns=5_000_000, max_list_size=2, ack_timeout_ns=1_000_000_000)
    digest_id = NAMES.id("learn_t")
    client.insert(p4r.DigestEntry(digest_id=digest_id, config=config))
    return digest_id


def test_a_digest_list_is_sent_and_acknowledged(primary: Client, running: Running) -> None:
    switch = running.switch
    assert switch.digest_callback is not None
    found = DigestList("learn_t", 7, ((0x0A, 3), (0x0B, 0)), 99)
    switch.digest_callback(found)  # not configured: nobody hears of it
    digest_id = configured_digest(primary)
    switch.digest_callback(found)
    assert primary.stream is not None
    digest = primary.stream.next().digest
    assert (digest.digest_id, digest.list_id, digest.timestamp) == (digest_id, 7, 99)
    assert [[m.bitstring for m in d.struct.members] for d in digest.data] == [[b"\x0a", b"\3"], [b"\x0b", b"\0"]]
    primary.stream.send(p4r.StreamMessageRequest(digest_ack=p4r.DigestListAck(digest_id=digest_id, list_id=7)))
    after_this(primary)
    assert switch.acks == [("learn_t", 7)]


def test_an_ack_for_no_digest_is_reported(primary: Client) -> None:
    assert primary.stream is not None
    primary.stream.send(p4r.StreamMessageRequest(digest_ack=p4r.DigestListAck(digest_id=3)))
    error = primary.stream.next().error
    assert (error.canonical_code, error.WhichOneof("details")) == (3, "digest_list_ack")


def test_idle_entries_are_reported_with_what_the_controller_attached(primary: Client, running: Running) -> None:
    aged = NAMES.entry("idle_table", {"hdr.ethernet.src": 1}, NAMES.action("learn"),
                       idle_timeout_ns=10**9, controller_metadata=4, metadata=b"m")  # fmt: skip
    forever = NAMES.entry("idle_table", {"hdr.ethernet.src": 2}, NAMES.action("learn"))
    primary.insert(aged, forever)
    held = running.entries("IngressImpl.idle_table")
    assert running.switch.idle_callback is not None
    running.switch.idle_callback("IngressImpl.idle_table", held[1:])
    running.switch.idle_callback("tbl_unknown", held)
    running.switch.idle_callback("IngressImpl.idle_table", held)
    assert primary.stream is not None
    [found] = primary.stream.next().idle_timeout_notification.table_entry
    aged.ClearField("action")
    aged.ClearField("metadata")  # PI leaves it out, as recorded in idle_entries
    assert found == aged
    running.switch.idle_callback("IngressImpl.idle_table", held[:1] * 1500)
    found = [len(primary.stream.next().idle_timeout_notification.table_entry) for _ in range(2)]
    assert found == [1000, 500]


def test_a_controller_that_does_not_read_loses_events_but_no_answers() -> None:
    stream = StreamChannel()
    for _ in range(MAX_WAITING + 3):
        stream.offer(p4r.StreamMessageResponse)
    stream.send(p4r.StreamMessageResponse(arbitration=p4r.MasterArbitrationUpdate(device_id=1)))
    stream.close()
    assert stream.dropped == 3
    assert [m.WhichOneof("update") for m in stream.messages()][-2:] == [None, "arbitration"]


def test_a_controller_that_asks_without_reading_loses_its_stream() -> None:
    stream = StreamChannel()
    for _ in range(3 * MAX_WAITING):
        stream.send(p4r.StreamMessageResponse())
    with pytest.raises(P4RuntimeError, match="Too many answers"):
        list(stream.messages())
