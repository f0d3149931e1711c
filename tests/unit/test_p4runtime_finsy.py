"""finsy, as an unmodified controller, against the server."""

import asyncio

import pytest
from finsy import (
    Match,
    P4ClientError,
    P4CounterEntry,
    P4DigestEntry,
    P4DigestListAck,
    P4PacketOut,
    P4TableAction,
    P4TableEntry,
    Switch,
    SwitchOptions,
)
from p4runtime_fixtures import PROGRAM_DIR, Running, running

__all__ = ["running"]

TIMEOUT_S = 120
ALREADY_EXISTS = 6
OPTIONS = SwitchOptions(
    p4info=PROGRAM_DIR / "everything.p4info.txtpb",
    p4blob=PROGRAM_DIR / "everything.json",
)
TO_CPU = P4TableEntry(
    "exact_table",
    match=Match({"hdr.ethernet.dst": "00:00:00:00:00:0a"}),
    action=P4TableAction("to_cpu", reason=5),
)
FRAME = bytes.fromhex("00000000000a0000000000551234") + bytes(50)


async def tables(switch: Switch) -> None:
    await switch.insert([TO_CPU])
    [found] = [entry async for entry in switch.read(P4TableEntry("exact_table"))]
    assert dict(found.match or {}) == {"dst": 0x0A}
    assert found.action == TO_CPU.action
    with pytest.raises(P4ClientError) as caught:
        await switch.insert([TO_CPU])
    assert caught.value.details[0].canonical_code == ALREADY_EXISTS
    [cell] = [entry async for entry in switch.read(P4CounterEntry("port_counter", index=1))]
    assert cell.packet_count == 0


async def packets(switch: Switch, running: Running) -> None:
    incoming = switch.read_packets()
    await switch.write(P4PacketOut(FRAME, egress_port=1, through_tables=1, _pad=0))
    packet = await anext(incoming)
    assert (packet.payload, packet["ingress_port"], packet["reason"]) == (FRAME, 510, 5)
    running.inject(3, FRAME)
    assert (await anext(incoming))["ingress_port"] == 3


async def digests(switch: Switch, running: Running) -> None:
    lists = switch.read_digests("learn_t")
    await switch.insert([P4DigestEntry("learn_t", max_list_size=1, ack_timeout_ns=10**12)])
    await switch.modify([P4TableEntry("idle_table", is_default_action=True, action=P4TableAction("learn"))])
    running.inject(3, FRAME)
    found = await anext(lists)
    assert [dict(item) for item in found] == [{"src": 0x55, "port": 3}]
    await switch.write(P4DigestListAck(found.digest_id, found.list_id))


def test_a_finsy_session_from_tables_to_digests(running: Running) -> None:
    async def session() -> None:
        async with Switch("s1", running.address, OPTIONS) as switch:
            assert switch.is_primary
            await tables(switch)
            await packets(switch, running)
            await digests(switch, running)
            await switch.delete_all()
            assert [entry async for entry in switch.read(P4TableEntry("exact_table"))] == []

    asyncio.run(asyncio.wait_for(session(), TIMEOUT_S))


def test_a_pipeline_that_runs_already_is_not_set_again(running: Running) -> None:
    async def two_sessions() -> None:
        for _ in range(2):
            async with Switch("s1", running.address, OPTIONS) as switch:
                if not running.entries("IngressImpl.exact_table"):
                    await switch.insert([TO_CPU])
        assert len(running.entries("IngressImpl.exact_table")) == 1

    asyncio.run(asyncio.wait_for(two_sessions(), TIMEOUT_S))
