"""A P4Runtime session that ends while somebody waits for an answer; over real gRPC, from a switch that gives none."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
import pytest
from finsy.grpcutil import GRPCStatusCode
from finsy.proto import p4r, p4r_grpc, rpc_status
from google.protobuf.any_pb2 import Any as AnyMessage

from mrclab.controller.__main__ import BUILD
from mrclab.controller.errors import SwitchError
from mrclab.controller.p4runtime.session import Role, SwitchSession
from mrclab.controller.provisioning import intent
from mrclab.controller.provisioning.program import PipelineConfig
from mrclab.controller.provisioning.reconcile import Change, UpdateKind
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

WAIT = 120.0  # seconds before a test that hangs fails
PROGRAM = PipelineConfig(BUILD / "mrc.p4info.txtpb", BUILD / "mrc.json")


_FABRIC = Fabric(FabricSpec())
ROUTE = intent.usid_route(_FABRIC.switch("t0-p1-1").port(1))


class Stuck(p4r_grpc.P4RuntimeServicer):
    """Makes whoever asks the primary, and answers nothing else."""

    def __init__(self):
        self.asked = asyncio.Event()

    async def _arbitrate(self, requests, _context):
        async for request in requests:
            yield p4r.StreamMessageResponse(arbitration=request.arbitration)

    async def _never(self, _request, _context):
        self.asked.set()
        await asyncio.Event().wait()

    async def _no_entities(self, request, context):
        await self._never(request, context)
        yield p4r.ReadResponse()

    StreamChannel, Read = _arbitrate, _no_entities
    Write = SetForwardingPipelineConfig = GetForwardingPipelineConfig = _never


class LastWords(Stuck):
    """Another controller is primary; then none is, and at that the switch ends the stream."""

    async def _leave(self, requests, _context):
        async for request in requests:
            for code in (GRPCStatusCode.ALREADY_EXISTS, GRPCStatusCode.NOT_FOUND):
                answer = p4r.StreamMessageResponse(arbitration=request.arbitration)
                answer.arbitration.status.code = code
                answer.arbitration.election_id.low = 200
                yield answer
            return

    StreamChannel = _leave


class Garbled(Stuck):
    """Refuses writes with details of its own."""

    details = b""

    async def _refuse(self, _request, context):
        context.set_trailing_metadata((("grpc-status-details-bin", self.details),))
        await context.abort(grpc.StatusCode.UNKNOWN, "no room")

    Write = _refuse


@asynccontextmanager
async def session(path, switch=Stuck) -> AsyncIterator[tuple[SwitchSession, Stuck]]:
    server, stuck = grpc.aio.server(), switch()
    p4r_grpc.add_P4RuntimeServicer_to_server(stuck, server)
    server.add_insecure_port(f"unix:{path}/switch.sock")
    await server.start()
    it = SwitchSession("t0-p1-1", f"unix:{path}/switch.sock", 1, PROGRAM, 100, lambda _port, _frame: None)
    try:
        await it.open()
        yield it, stuck
    finally:
        await it.close()
        await server.stop(None)


REQUESTS = {
    "read": lambda it: it.read([p4r.Entity()]),
    "write": lambda it: it.write([Change(UpdateKind.DELETE, ROUTE)]),
    "cookie": lambda it: it.cookie(),
    "set_pipeline": lambda it: it.set_pipeline(),
}
REQUEST = pytest.mark.parametrize("request_of", REQUESTS.values(), ids=list(REQUESTS))


async def asked(switch, request):
    """The task of a request that has reached the switch."""
    asking = asyncio.create_task(request)
    await switch.asked.wait()
    return asking


@REQUEST
def test_who_waits_for_an_answer_when_the_session_is_closed_hears_of_it(tmp_path, request_of):
    async def body():
        async with session(tmp_path) as (it, switch):
            asking = await asked(switch, request_of(it))
            await it.close()
            await asyncio.wait({asking})
            assert not asking.cancelled(), "nobody cancelled it: whoever awaits it would end as if it had been"
            with pytest.raises(SwitchError, match="t0-p1-1"):
                await asking

    asyncio.run(asyncio.wait_for(body(), WAIT))


@REQUEST
def test_who_is_cancelled_while_it_waits_for_an_answer_ends(tmp_path, request_of):
    async def body():
        async with session(tmp_path) as (it, switch):
            asking = await asked(switch, request_of(it))
            asking.cancel()
            await asyncio.wait({asking})
            assert asking.cancelled()
            assert it.is_open

    asyncio.run(asyncio.wait_for(body(), WAIT))


def test_a_stream_that_ends_as_this_controller_bids_for_the_primarys_place_ends_the_session(tmp_path):
    async def body():
        async with session(tmp_path, LastWords) as (it, _):
            with pytest.raises(SwitchError, match="t0-p1-1"):
                await it.until_role(Role.PRIMARY)
            assert not it.is_open

    asyncio.run(asyncio.wait_for(body(), WAIT))


def status(message):
    packed = AnyMessage()
    packed.Pack(message)
    return rpc_status.Status(code=2, details=[packed]).SerializeToString()


UNREADABLE = {
    "no status": b"\xff\xff",
    "another message": status(p4r.WriteResponse()),
    "a code that there is not": status(p4r.Error(canonical_code=99)),
}


@pytest.mark.parametrize("details", UNREADABLE.values(), ids=list(UNREADABLE))
def test_details_of_a_refusal_that_cannot_be_read_are_left_out(tmp_path, details):
    async def body():
        async with session(tmp_path, Garbled) as (it, switch):
            switch.details = details
            with pytest.raises(SwitchError, match="t0-p1-1: Write failed: UNKNOWN no room"):
                await it.write([Change(UpdateKind.DELETE, ROUTE)])

    asyncio.run(asyncio.wait_for(body(), WAIT))
