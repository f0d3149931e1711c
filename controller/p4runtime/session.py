"""One P4Runtime connection to one switch: arbitration, pipeline config, writes, reads, packets.

A session exists as long as its stream; when the stream ends, the session is over and its owner opens a new one. It
uses the stubs and not finsy's `Switch`, whose life cycle waits up to ten seconds before it reconnects.
P4Runtime 1.3: §5 arbitration, §7 pipeline config, §12 writes and their errors.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, TypeVar

import grpc
from finsy import P4PacketOut
from finsy.grpcutil import GRPC_EOF, GRPCStatusCode
from finsy.p4client import P4Error, P4RpcStatus
from finsy.p4entity import decode_stream
from finsy.proto import U128, p4r, p4r_grpc
from google.protobuf.message import DecodeError

from mrclab.controller.errors import FailedUpdate, NotPrimaryError, SwitchError, WriteError
from mrclab.controller.provisioning.intent import IntendedEntry
from mrclab.controller.provisioning.program import PipelineConfig
from mrclab.controller.provisioning.reconcile import Change

log = logging.getLogger(__name__)
T = TypeVar("T")

RPC_TIMEOUT = 5.0  # seconds; a switch that needs longer for a batch or a read is stuck
PIPELINE_TIMEOUT = 30.0  # seconds; a target compiles the program, and sixteen may do so on two cores
BATCH_UPDATES = 1000  # updates per write request; keeps a request far below gRPC's 4 MiB
METADATA_BYTES = 64 * 1024  # error details of a large batch travel in trailing metadata

_CHANNEL_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),  # a fresh channel must not inherit the back-off of the one before
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.max_metadata_size", METADATA_BYTES),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.enable_http_proxy", 0),
)

_WRITE_METADATA = (("p4runtime-max-metadata-size", str(METADATA_BYTES)),)
"""Header with the largest reply that softswitch may send to a failed write; other targets ignore it."""

_STREAM_ENDED = (grpc.aio.AioRpcError, asyncio.InvalidStateError)
"""Raised by a write on a stream that has ended."""

PacketHandler = Callable[[int, bytes], None]
"""Called with the ingress port and the frame of each packet-in."""


class Role(Enum):
    """Role of this controller on a switch, by arbitration."""

    PRIMARY = "primary"
    BACKUP = "backup"


def _refused(error: grpc.aio.AioRpcError) -> Mapping[int, P4Error]:
    """Return the errors of a write's updates by index; none where the switch gives none that can be read."""
    try:
        return P4RpcStatus.from_rpc_error(error).details
    except (DecodeError, ValueError):
        return {}


@dataclass(eq=False)
class SwitchSession:
    """A connection to the switch `name` at gRPC `address`. `open` it, use it, `close` it; it cannot be reopened."""

    stretch: ClassVar[float] = 1.0  # factor for time limits on a slow machine; set before the first session

    name: str
    address: str
    device_id: int
    program: PipelineConfig
    election_id: int
    on_packet: PacketHandler
    role: Role | None = None
    highest_election_id: int = 0

    def __post_init__(self) -> None:
        self._channel: grpc.aio.Channel | None = None
        self._stub: Any = None
        self._stream: Any = None
        self._send_lock = asyncio.Lock()
        self._role_changed = asyncio.Condition()
        self._reader: asyncio.Task[None] | None = None
        self._end: asyncio.Future[SwitchError] = asyncio.get_running_loop().create_future()

    # --- life cycle -------------------------------------------------------------------------------------------------

    async def open(self, timeout: float | None = None) -> None:
        """Connect and arbitrate; SwitchError if the switch does not respond within `timeout` seconds."""
        timeout = (RPC_TIMEOUT if timeout is None else timeout) * self.stretch
        self._channel = grpc.aio.insecure_channel(self.address, options=_CHANNEL_OPTIONS)
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        self._stream = self._stub.StreamChannel(wait_for_ready=False)
        self._reader = asyncio.create_task(self._read_stream(), name=f"stream {self.name}")
        await self._send(self._bid())
        try:
            await asyncio.wait_for(self._until(lambda: self.role is not None), timeout)
        except asyncio.TimeoutError:
            raise SwitchError(
                self.name, f"no response to arbitration within {timeout:g} s", "DEADLINE_EXCEEDED"
            ) from None

    async def close(self) -> None:
        """End the stream and the connection, which may be ending anyway; closing twice is allowed."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        if self._channel is not None:
            with contextlib.suppress(grpc.aio.AioRpcError):
                await self._channel.close(None)
        self._finish(SwitchError(self.name, "the controller closed the session", "CANCELLED"))

    @property
    def is_open(self) -> bool:
        """True while the stream is open."""
        return not self._end.done()

    async def ended(self) -> SwitchError:
        """Wait until the session is over, and return why."""
        return await asyncio.shield(self._end)

    async def until_role(self, role: Role) -> None:
        """Wait until arbitration gives this controller `role`; SwitchError where the session ends before."""
        await self._until(lambda: self.role is role)

    async def _until(self, reached: Callable[[], bool]) -> None:
        async with self._role_changed:
            await self._role_changed.wait_for(lambda: reached() or self._end.done())
        if self._end.done():
            raise self._end.result()

    def _finish(self, reason: SwitchError) -> None:
        if not self._end.done():
            self._end.set_result(reason)

    # --- stream -----------------------------------------------------------------------------------------------------

    async def _read_stream(self) -> None:
        reason = SwitchError(self.name, "the switch ended the stream", "UNAVAILABLE")
        try:
            while (message := await self._stream.read()) is not GRPC_EOF:
                await self._handle(message)
            status = await self._stream.code()
            if status is not grpc.StatusCode.OK:
                reason = self._stream_error(status, await self._stream.details())
        except grpc.aio.AioRpcError as error:
            reason = self._stream_error(error.code(), error.details())
        finally:
            self._finish(reason)
            async with self._role_changed:
                self._role_changed.notify_all()

    def _stream_error(self, status: grpc.StatusCode, details: str | None) -> SwitchError:
        text = details or status.name
        if status is grpc.StatusCode.INVALID_ARGUMENT and "election id" in text.lower():
            text = f"another controller has election id {self.election_id}; start this one with another --election-id"
        return SwitchError(self.name, text, status.name)

    async def _handle(self, message: p4r.StreamMessageResponse) -> None:
        match message.WhichOneof("update"):
            case "arbitration":
                await self._arbitration_update(message.arbitration)
            case "packet":
                self._packet_in(message)
            case "error":
                log.warning("%s: the switch refused a stream message: %s", self.name, message.error.message)
            case other:
                log.debug("%s: %s ignored", self.name, other)

    def _bid(self) -> p4r.StreamMessageRequest:
        request = p4r.MasterArbitrationUpdate(device_id=self.device_id, election_id=U128.encode(self.election_id))
        return p4r.StreamMessageRequest(arbitration=request)

    async def _arbitration_update(self, update: p4r.MasterArbitrationUpdate) -> None:
        """Handle a MasterArbitrationUpdate of the switch.

        Where the primary is gone, P4Runtime lets a backup bid for its place; BMv2 promotes one by itself. Either way
        this controller bids above the lost primary, which so becomes backup when it returns: roles do not flap.
        """
        code = GRPCStatusCode(update.status.code)
        current = U128.decode(update.election_id)
        promoted = code is GRPCStatusCode.OK and self.election_id < self.highest_election_id
        self.highest_election_id = max(self.highest_election_id, current)
        if code is GRPCStatusCode.NOT_FOUND or promoted:
            self.election_id = self.highest_election_id + 1
            with contextlib.suppress(*_STREAM_ENDED):  # this task's next read says why
                await self._write(self._bid())
            return
        async with self._role_changed:
            self.role = Role.PRIMARY if code is GRPCStatusCode.OK else Role.BACKUP
            self._role_changed.notify_all()

    def _packet_in(self, message: p4r.StreamMessageResponse) -> None:
        try:
            packet = decode_stream(message, self.program.schema)
            self.on_packet(int(packet["ingress_port"]), packet.payload)
        except (LookupError, ValueError) as error:
            log.warning("%s: packet-in without a readable ingress port: %s", self.name, error)

    async def _send(self, message: p4r.StreamMessageRequest) -> None:
        try:
            await self._write(message)
        except _STREAM_ENDED:
            raise (await self.ended()) from None

    async def _write(self, message: p4r.StreamMessageRequest) -> None:
        async with self._send_lock:
            await self._unless_closed(self._stream.write(message))

    async def packet_out(self, port: int, frame: bytes) -> None:
        """Have the switch send `frame` out of `port`."""
        packet = P4PacketOut(frame, egress_port=port, _pad=0)
        message = packet.encode_update(self.program.schema)
        await self._send(message)

    # --- requests ---------------------------------------------------------------------------------------------------

    async def cookie(self) -> int | None:
        """Cookie of the program the switch runs; None where it has none."""
        kind = p4r.GetForwardingPipelineConfigRequest.COOKIE_ONLY
        request = p4r.GetForwardingPipelineConfigRequest(device_id=self.device_id, response_type=kind)
        try:
            reply = await self._call("GetForwardingPipelineConfig", request)
        except SwitchError as error:
            if error.code == "FAILED_PRECONDITION":  # BMv2's way of saying: no pipeline yet
                return None
            raise
        return int(reply.config.cookie.cookie) if reply.config.HasField("cookie") else None

    async def set_pipeline(self) -> None:
        """Load the program; the switch loses all its entries."""
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self.device_id,
            election_id=U128.encode(self.election_id),
            action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
            config=self.program.pipeline_config(),
        )
        await self._call("SetForwardingPipelineConfig", request, PIPELINE_TIMEOUT)

    async def write(self, changes: Sequence[Change]) -> None:
        """Write `changes` in batches; WriteError names each that was refused, after all batches were tried."""
        failed: list[FailedUpdate] = []
        for start in range(0, len(changes), BATCH_UPDATES):
            failed.extend(await self._write_batch(changes[start : start + BATCH_UPDATES]))
        if failed:
            raise WriteError(self.name, tuple(failed), len(changes))

    async def _write_batch(self, batch: Sequence[Change]) -> list[FailedUpdate]:
        request = p4r.WriteRequest(
            device_id=self.device_id,
            election_id=U128.encode(self.election_id),
            updates=[self.program.update(change) for change in batch],
        )
        try:
            call = self._stub.Write(request, timeout=RPC_TIMEOUT * self.stretch, metadata=_WRITE_METADATA)
            await self._unless_closed(call)
        except grpc.aio.AioRpcError as error:
            refused = _refused(error)
            if not refused:
                raise self._error(error, "Write") from None
            return [
                FailedUpdate(str(batch[index]), detail.canonical_code.name, detail.message)
                for index, detail in refused.items()
                if index < len(batch)
            ]
        return []

    async def read(self, entities: Iterable[p4r.Entity], timeout: float | None = None) -> list[p4r.Entity]:
        """Read `entities`, wildcards included, within `timeout` seconds."""
        request = p4r.ReadRequest(device_id=self.device_id, entities=list(entities))
        found: list[p4r.Entity] = []

        async def take() -> None:
            async for reply in self._stub.Read(request, timeout=timeout or RPC_TIMEOUT * self.stretch):
                found.extend(reply.entities)

        try:
            await self._unless_closed(take())
        except grpc.aio.AioRpcError as error:
            raise self._error(error, "Read") from None
        return found

    async def read_entries(self) -> tuple[IntendedEntry, ...]:
        """All entries in the tables that the controller manages."""
        return self.decode(await self.read(self.program.managed_tables()))

    def decode(self, found: Iterable[p4r.Entity]) -> tuple[IntendedEntry, ...]:
        """Return entries that were read; SwitchError where the program cannot hold one."""
        try:
            return self.program.decode(found)
        except (ValueError, LookupError, TypeError) as error:
            text = f"answered a read with an entry that the program cannot hold: {error}"
            raise SwitchError(self.name, text, "DATA_LOSS") from None

    async def _call(self, method: str, request: object, timeout: float | None = None) -> Any:
        limit = (timeout or RPC_TIMEOUT) * self.stretch
        try:
            return await self._unless_closed(getattr(self._stub, method)(request, timeout=limit))
        except grpc.aio.AioRpcError as error:
            raise self._error(error, method) from None

    async def _unless_closed(self, answer: Awaitable[T]) -> T:
        """Wait for a response; SwitchError where the session is closed. gRPC then raises CancelledError in the waiting
        task, which could not distinguish it from its own cancellation.
        """
        waiting = asyncio.ensure_future(answer)
        try:
            await asyncio.wait({waiting})
        finally:
            waiting.cancel()
        if waiting.cancelled():
            raise SwitchError(self.name, "the session was closed", "UNAVAILABLE")
        return waiting.result()

    def _error(self, error: grpc.aio.AioRpcError, method: str) -> SwitchError:
        code = error.code().name
        if code == "PERMISSION_DENIED":
            return NotPrimaryError(self.name, f"{method} refused: another controller is primary", code)
        if code == "DEADLINE_EXCEEDED":
            return SwitchError(self.name, f"{method} timed out", code)
        return SwitchError(self.name, f"{method} failed: {code} {error.details() or ''}".rstrip(), code)
