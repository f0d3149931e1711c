"""Transcripts with packets in them: what a switch tells its controller because of traffic, and what it then reads.

Run and recorded as the cases of `p4runtime_cases` are. Times of day and ages are left out of what is compared.
"""

import time
from collections.abc import Callable
from typing import Any

from finsy.proto import p4r
from p4runtime_transcript import Transcript, as_json

MS = 1_000_000  # nanoseconds
HOUR = 3_600_000 * MS
PORT_OUT = 2
TIMEOUT_S = 120


def frame(dst: int, src: int = 0x55, kind: int = 0x1234, length: int = 64) -> bytes:
    head = dst.to_bytes(6, "big") + src.to_bytes(6, "big") + kind.to_bytes(2, "big")
    return head + bytes(number & 0xFF for number in range(length - len(head)))


def _forwarding(t: Transcript) -> None:
    """Frames to destination 1 leave, counted; nothing is learnt yet."""
    t.modify("nothing is learnt", t.names.default("idle_table", t.names.action("NoAction")))
    entry = t.names.entry("exact_table", {"hdr.ethernet.dst": 1}, t.names.action("count_exact", PORT_OUT))
    t.insert("a way out", entry)


def _told(t: Transcript, label: str) -> Any:
    """The stream's next message, without its time."""
    messages = []

    def call() -> Any:
        assert t.client.stream is not None
        found = as_json(t.client.stream.next())
        for message in found.values():
            message.pop("timestamp", None)
        messages.append(found)
        return found

    t.do(label, call)
    return messages[0]


def _ack(t: Transcript, digest: Any) -> None:
    """Acknowledge a list. The answer to an arbitration (by a new id: a change) tells that it was taken, and a read of
    the digest that it was acted upon: BMv2 does both one after the other.
    """
    stream = t.client.stream
    assert stream is not None
    ack = p4r.DigestListAck(digest_id=t.names.id("learn_t"), list_id=int(digest["digest"]["list_id"]))
    stream.send(p4r.StreamMessageRequest(digest_ack=ack))
    t.client.election_id += 1
    stream.arbitrate(t.client.election_id)
    t.stream("the list is acknowledged", stream)
    t.read("and forgotten", p4r.DigestEntry(digest_id=t.names.id("learn_t")))


def _until_told(t: Transcript, source: int) -> None:
    """Let a source be seen until the switch tells something: what forgets it may be late on a busy machine."""
    assert t.client.stream is not None
    for _ in range(TIMEOUT_S):
        deadline = time.monotonic() + 1
        while t.client.stream.responses.empty():
            if time.monotonic() > deadline:
                t.exit_of(1, frame(1, source))
                break
            time.sleep(0.01)
        else:
            return


def digest_lists(t: Transcript) -> None:
    """Each frame has left before the next one comes, so that the order of what is learnt is known.

    BMv2 learns behind the packets' backs: what was learnt just before a change may count after it. So everything that
    was learnt is waited for before something is changed. And it collects twice, first without regard to what the
    controller knows already: known sources fill a list that new ones then wait for. So sources repeat only where lists
    have a length of one.
    """

    def learn(label: str, *sources: int) -> None:
        t.exits(label, 1, [frame(1, source) for source in sources])

    def configure(label: str, write: Callable[..., None], size: int, timeout: int, ack: int) -> None:
        config = p4r.DigestEntry.Config(max_list_size=size, max_timeout_ns=timeout, ack_timeout_ns=ack)
        write(label, p4r.DigestEntry(digest_id=t.names.id("learn_t"), config=config))

    _forwarding(t)
    t.modify("all sources are learnt", t.names.default("idle_table", t.names.action("learn")))
    configure("lists of three", t.insert, 3, HOUR, HOUR)
    learn("three sources", 0xA3, 0xA1, 0xA2)
    first = _told(t, "a full list")
    configure("lists of one", t.modify, 1, HOUR, HOUR)
    learn("a known source", 0xA3)
    learn("a new one", 0xB1)
    _told(t, "the new one only")
    _ack(t, first)
    learn("a source of the list that was acknowledged", 0xA1)
    _told(t, "that one again")
    learn("one of another list", 0xB1)
    learn("one more of the list that was acknowledged", 0xA3)
    _told(t, "that one again, but not the other")
    configure("lists of many, or of what came in 0.2 s", t.modify, 100, 200 * MS, HOUR)
    learn("one source", 0xC1)
    _told(t, "a list of one after its time")
    configure("lists of one, forgotten after 0.1 s", t.modify, 1, HOUR, 100 * MS)
    learn("another source", 0xD1)
    _told(t, "that source")
    time.sleep(0.5)  # the time itself is what is tried; BMv2 looks at it every 0.1 s and acts the second time
    learn("the same source after its time", 0xD1)
    _until_told(t, 0xD1)
    _told(t, "that source again")
    t.delete("no digests", p4r.DigestEntry(digest_id=t.names.id("learn_t")))
    configure("lists of one again", t.insert, 1, 0, HOUR)
    learn("a last source", 0xE2)
    _told(t, "the last source")


def idle_entries(t: Transcript) -> None:
    """Times between notifications are not compared: BMv2 looks once a second, softswitch four times."""
    n = t.names

    def entry(source: int, timeout: int, **fields: Any) -> p4r.TableEntry:
        match = {"hdr.ethernet.src": source}
        return n.entry("idle_table", match, n.action("NoAction"), idle_timeout_ns=timeout, **fields)

    _forwarding(t)
    t.insert("negative", entry(1, -1))
    t.insert("in a table without timeouts", n.entry("tiny_table", {"hdr.ethernet.type": 1, "smeta.ingress_port": 1},
                                                    n.action("drop"), idle_timeout_ns=MS))  # fmt: skip
    t.insert("one that ages and one that does not", entry(1, 100 * MS, metadata=b"m", controller_metadata=7),
             entry(2, 0))  # fmt: skip
    _told(t, "the first notification")
    _told(t, "and again")
    t.read("both", p4r.TableEntry(table_id=n.id("idle_table")))
    t.modify("ages no more", entry(1, 0))
    t.insert("a third", entry(3, 100 * MS))
    _told(t, "the third only")
    t.delete("the third gone", entry(3, 0))
    t.insert("a fourth", entry(4, 100 * MS))
    _told(t, "the fourth only")
    t.modify("longer", entry(4, HOUR))
    t.read("as changed", entry(4, 0))


def counted_traffic(t: Transcript) -> None:
    n = t.names

    def read(label: str) -> None:
        cells = []
        for name, index in (("port_counter", 1), ("port_counter", 2), ("packet_counter", 1), ("byte_counter", 1)):
            cells.append(p4r.CounterEntry(counter_id=n.id(name)))
            cells[-1].index.index = index
        t.read(f"{label}: cells", *cells)
        whole = n.entry("exact_table", {"hdr.ethernet.dst": 1})
        t.read(f"{label}: of the entry", p4r.DirectCounterEntry(table_entry=whole))
        whole.counter_data.SetInParent()
        t.read(f"{label}: with the entry", whole)
        ternary = p4r.TableEntry(table_id=n.id("ternary_table"))
        t.read(f"{label}: of a table", p4r.DirectCounterEntry(table_entry=ternary))

    _forwarding(t)
    t.modify("no packet of ours is dropped", n.default("wide_table", n.action("NoAction")))
    key = {"smeta.ingress_port": 1}
    t.insert("colours", n.entry("ternary_table", key, n.action("colour", PORT_OUT), 1))
    read("before")
    t.exits("frames of all lengths", 1, [frame(1, length=length) for length in (60, 61, 64, 1000, 4200)])
    t.exits("from another port", 3, [frame(1, length=100)])
    ip_header = bytes.fromhex("4500003200000000401100000a0000010a010101")
    t.exits("IPv4 frames", 1, [frame(1, kind=0x0800)[:14] + ip_header + bytes(30)] * 3)
    read("after")
    cell = p4r.CounterEntry(counter_id=n.id("port_counter"), data=p4r.CounterData(packet_count=100, byte_count=5))
    cell.index.index = 1
    t.modify("a cell set", cell)
    entry = n.entry("exact_table", {"hdr.ethernet.dst": 1})
    t.modify("the entry's set", p4r.DirectCounterEntry(table_entry=entry, data=p4r.CounterData(packet_count=9)))
    t.exits("one more", 1, [frame(1, length=70)])
    read("counted on")
    t.modify("another action", n.entry("exact_table", {"hdr.ethernet.dst": 1}, n.action("count_exact", 3)))
    t.exits("by the other port", 1, [frame(1, length=80)])
    read("counted on with another action")


def tagged_frames(t: Transcript) -> None:
    """The kernel takes a VLAN tag out of a frame before a packet socket sees it; the program must see it in place."""
    _forwarding(t)
    n = t.names
    t.insert("a way up", n.entry("exact_table", {"hdr.ethernet.dst": 2}, n.action("to_cpu", 5)))
    inner = frame(0)[12:]
    tags = {
        "one tag": "8100 2064",
        "a priority tag": "8100 e000",
        "drop eligible": "8100 1fff",
        "a service tag": "88a8 0005",
        "two tags": "88a8 0005 8100 0007",
        "twice the same": "8100 0005 8100 0007",
        "an old double tag": "9100 0005 8100 0007",
        "a tag within a tag within a tag": "8100 0001 8100 0002 8100 0003",
    }
    for label, tag in tags.items():
        for destination, way in ((1, "out"), (2, "up")):
            data = frame(destination)[:12] + bytes.fromhex(tag) + inner
            if way == "out":
                t.leaves(f"{label}, {way}", 1, data)
            else:
                assert t.rig is not None
                t.rig.send(3, data)
                _told(t, f"{label}, {way}")
    long = frame(1)[:12] + bytes.fromhex("8100 0001") + inner + bytes(4200)
    t.leaves("a long one", 1, long)


def selector_choice(t: Transcript) -> None:
    """The member that a packet uses depends on the order of members in the target, weights included."""
    n = t.names
    sel = "IngressImpl.selector"
    flows = [_ipv4_frame(source=0x0A000000 + 7 * k, identification=13 * k) for k in range(48)]
    t.modify("no packet of ours is dropped", n.default("wide_table", n.action("NoAction")))
    t.insert("members", *(n.member(sel, k, n.action("forward", k)) for k in (1, 2, 3)))
    t.insert("a group", n.group(sel, 1, {1: 1, 2: 3, 3: 2}, 8))
    entry = p4r.TableEntry(table_id=n.id("selector_table"))
    entry.match.add(field_id=1, exact=p4r.FieldMatch.Exact(value=b"\x0a\1\1\1"))
    entry.action.action_profile_group_id = 1
    t.insert("an entry", entry)
    t.exits("weights 1 3 2", 1, flows)
    t.modify("other weights", n.group(sel, 1, {3: 1, 1: 4}))
    t.exits("weights 4 0 1", 1, flows)
    t.modify("all again", n.group(sel, 1, {3: 1, 1: 1, 2: 1}))
    t.exits("weights 1 1 1", 1, flows)
    t.modify("heavier", n.group(sel, 1, {2: 2, 3: 3}))
    t.exits("weights 0 2 3", 1, flows)
    t.modify("a member moves", n.member(sel, 2, n.action("forward", 1)))
    t.exits("port 1 for 2", 1, flows)
    t.delete("entry gone", entry)
    t.delete("group gone", n.group(sel, 1))
    t.delete("members gone", *(n.member(sel, k) for k in (1, 2, 3)))
    actions = entry.action.action_profile_action_set.action_profile_actions
    actions.add(action=n.action("forward", 3), weight=2)
    actions.add(action=n.action("forward", 1), weight=1)
    t.insert("a set", entry)
    t.exits("weights 1 0 2", 1, flows)
    actions.add(action=n.action("forward", 2), weight=2)
    t.modify("a larger set", entry)
    t.exits("weights 1 2 2", 1, flows)


def _ipv4_frame(source: int, identification: int) -> bytes:
    header = (
        bytes([0x45, 0]) + (46).to_bytes(2, "big") + identification.to_bytes(2, "big") + bytes([0, 0, 64, 99, 0, 0])
    )
    addresses = source.to_bytes(4, "big") + b"\x0a\1\1\1"
    return bytes(5) + b"\xff" + bytes(6) + b"\x08\0" + header + addresses + bytes(26)


TRAFFIC_CASES: dict[str, Callable[[Transcript], None]] = {
    case.__name__: case for case in (digest_lists, idle_entries, counted_traffic, tagged_frames, selector_choice)
}
