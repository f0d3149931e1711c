"""A P4Runtime server without a data plane: entries in a dictionary, packets along given cables.

For tests with a faulty switch: refused writes, late and missing responses. It
follows P4Runtime 1.3 as far as a controller can see, wildcard reads of tables and reads of counter cells included.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
from finsy.proto import U128, p4r, p4r_grpc, rpc_code, rpc_status

Context = Any  # grpc.aio.ServicerContext; its stubs are generic over the messages

Egress = Callable[[int, bytes], None]
"""Called with the port and frame of a packet-out."""


@dataclass
class FaultMode:
    """Fault modes of a switch. Set the fields while it runs."""

    refuse_tables: set[int] = field(default_factory=set)  # ids of tables whose writes fail with RESOURCE_EXHAUSTED
    forget_tables: set[int] = field(default_factory=set)  # ids of tables whose writes are accepted and not kept
    stall: asyncio.Event | None = None  # requests wait for it
    refuse_pipeline: str = ""  # message of an INVALID_ARGUMENT to SetForwardingPipelineConfig
    invent: list[p4r.Entity] = field(default_factory=list)  # extra entries that a read returns


class MemorySwitch(p4r_grpc.P4RuntimeServicer):
    """One switch. `start` serves it at a gRPC address; `receive` hands it a frame as if from the wire."""

    def __init__(self, device_id: int, egress: Egress | None = None) -> None:
        self.device_id = device_id
        self.entries: dict[bytes, p4r.TableEntry] = {}
        self.config = p4r.ForwardingPipelineConfig()
        self.fault_mode = FaultMode()
        self.writes = 0
        self.programs = 0  # programs offered, refused ones included
        self._egress = egress
        self._streams: dict[int, asyncio.Queue[p4r.StreamMessageResponse]] = {}
        self._highest = 0
        self._server: grpc.aio.Server | None = None

    async def start(self, address: str) -> None:
        """Serve at `address`, for example `unix:/tmp/s1.sock`."""
        self._server = grpc.aio.server()
        p4r_grpc.add_P4RuntimeServicer_to_server(self, self._server)
        self._server.add_insecure_port(address)
        await self._server.start()

    async def stop(self) -> None:
        """End at once, as a crash would."""
        if self._server is not None:
            await self._server.stop(0)

    def receive(self, port: int, frame: bytes) -> None:
        """A frame comes in at `port`: the primary gets it as a packet-in."""
        metadata = [p4r.PacketMetadata(metadata_id=1, value=port.to_bytes(2, "big").lstrip(b"\0") or b"\0")]
        message = p4r.StreamMessageResponse(packet=p4r.PacketIn(payload=frame, metadata=metadata))
        if self._streams:
            self._streams[max(self._streams)].put_nowait(message)

    # --- P4Runtime --------------------------------------------------------------------------------------------------

    async def StreamChannel(  # noqa: N802 - the service's name
        self, requests: AsyncIterator[p4r.StreamMessageRequest], context: Context
    ) -> AsyncIterator[p4r.StreamMessageResponse]:
        """Arbitration and packets."""
        send_queue: asyncio.Queue[p4r.StreamMessageResponse | None] = asyncio.Queue()
        reader = asyncio.create_task(self._read_stream(requests, send_queue))
        try:
            while (message := await send_queue.get()) is not None:
                yield message
            if reader.done() and reader.exception():
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(reader.exception()))
        finally:
            reader.cancel()
            self._leave(send_queue)

    async def _read_stream(self, requests: AsyncIterator[p4r.StreamMessageRequest], send_queue: Any) -> None:
        try:
            async for request in requests:
                if request.HasField("arbitration"):
                    self._bid(U128.decode(request.arbitration.election_id), send_queue)
                elif request.HasField("packet") and self._egress is not None:
                    port = int.from_bytes(request.packet.metadata[0].value, "big")
                    self._egress(port, request.packet.payload)
        finally:
            send_queue.put_nowait(None)

    def _bid(self, election_id: int, send_queue: Any) -> None:
        if self._streams.get(election_id, send_queue) is not send_queue:
            raise ValueError("Election id already exists")
        self._forget(send_queue)
        self._streams[election_id] = send_queue
        self._highest = max(self._highest, election_id)
        self._announce()

    def _leave(self, send_queue: Any) -> None:
        was_primary = self._streams.get(self._highest) is send_queue
        self._forget(send_queue)
        if was_primary:
            self._announce()

    def _forget(self, send_queue: Any) -> None:
        self._streams = {key: queue for key, queue in self._streams.items() if queue is not send_queue}

    def _announce(self) -> None:
        """Notify every controller of its role, or that there is no primary."""
        absent = self._highest not in self._streams
        for election_id, send_queue in self._streams.items():
            primary = election_id == self._highest
            code = rpc_code.OK if primary else rpc_code.NOT_FOUND if absent else rpc_code.ALREADY_EXISTS
            update = p4r.MasterArbitrationUpdate(
                device_id=self.device_id,
                election_id=U128.encode(self._highest),
                status=rpc_status.Status(code=code),
            )
            send_queue.put_nowait(p4r.StreamMessageResponse(arbitration=update))

    async def SetForwardingPipelineConfig(self, request: Any, context: Context) -> Any:  # noqa: N802
        """Load a program; all entries are lost."""
        await self._ready(context, request.election_id)
        self.programs += 1
        if self.fault_mode.refuse_pipeline:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.fault_mode.refuse_pipeline)
        self.config.CopyFrom(request.config)
        self.entries.clear()
        return p4r.SetForwardingPipelineConfigResponse()

    async def GetForwardingPipelineConfig(self, request: Any, context: Context) -> Any:  # noqa: N802
        """Return the cookie, or the whole config."""
        await self._ready(context)
        if not self.config.HasField("p4info"):
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "No forwarding pipeline config set")
        if request.response_type == p4r.GetForwardingPipelineConfigRequest.COOKIE_ONLY:
            return p4r.GetForwardingPipelineConfigResponse(
                config=p4r.ForwardingPipelineConfig(cookie=self.config.cookie)
            )
        return p4r.GetForwardingPipelineConfigResponse(config=self.config)

    async def Write(self, request: Any, context: Context) -> Any:  # noqa: N802
        """Apply each update; report each that failed."""
        await self._ready(context, request.election_id)
        self.writes += 1
        errors = [self._update(update) for update in request.updates]
        if any(error.canonical_code != rpc_code.OK for error in errors):
            await _abort_batch(context, errors)
        return p4r.WriteResponse()

    def _update(self, update: Any) -> p4r.Error:
        entry = update.entity.table_entry
        key = _key(entry)
        if entry.table_id in self.fault_mode.refuse_tables:
            return p4r.Error(canonical_code=rpc_code.RESOURCE_EXHAUSTED, message="table is full")
        if (update.type == p4r.Update.INSERT) == (key in self.entries):
            code = rpc_code.ALREADY_EXISTS if key in self.entries else rpc_code.NOT_FOUND
            return p4r.Error(canonical_code=code, message="entry exists" if key in self.entries else "no such entry")
        if update.type == p4r.Update.DELETE:
            del self.entries[key]
        elif entry.table_id not in self.fault_mode.forget_tables:
            self.entries[key] = entry
        return p4r.Error(canonical_code=rpc_code.OK)

    async def Read(self, request: Any, context: Context) -> AsyncIterator[p4r.ReadResponse]:  # noqa: N802
        """Table entries by table or all; every counter cell reads zero."""
        await self._ready(context)
        reply = p4r.ReadResponse(entities=self.fault_mode.invent)
        for requested in request.entities:
            if requested.HasField("counter_entry"):
                cell = reply.entities.add().counter_entry
                cell.CopyFrom(requested.counter_entry)
                cell.data.packet_count = 0
            else:
                table = requested.table_entry.table_id
                for entry in self.entries.values():
                    if table in {0, entry.table_id}:
                        reply.entities.add().table_entry.CopyFrom(entry)
        yield reply

    async def Capabilities(self, request: Any, context: Context) -> Any:  # noqa: N802
        """Return the P4Runtime version."""
        return p4r.CapabilitiesResponse(p4runtime_api_version="1.3.0")

    async def _ready(self, context: Context, election_id: Any = None) -> None:
        """Wait while stalled; refuse a client that is not primary."""
        if self.fault_mode.stall is not None:
            await self.fault_mode.stall.wait()
        if election_id is not None and U128.decode(election_id) != self._highest:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "Not primary")


def _key(entry: p4r.TableEntry) -> bytes:
    """Return the key of an entry: table, match and priority."""
    bare = p4r.TableEntry(table_id=entry.table_id, match=entry.match, priority=entry.priority)
    return bare.SerializeToString(deterministic=True)


async def _abort_batch(context: Context, errors: list[p4r.Error]) -> None:
    """End the call as P4Runtime §12.3 requires: UNKNOWN, with one p4.v1.Error per update in the trailing metadata."""
    status = rpc_status.Status(code=rpc_code.UNKNOWN, message="some updates failed")
    for error in errors:
        status.details.add().Pack(error)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    await context.abort(grpc.StatusCode.UNKNOWN, "some updates failed")
