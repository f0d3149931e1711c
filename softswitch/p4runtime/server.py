"""The gRPC server: P4Runtime's service on a Unix socket or a TCP address, one device behind it."""

from __future__ import annotations

import contextlib
import importlib
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import grpc
from finsy.proto import p4r
from google.protobuf.message import DecodeError, Message

from mrclab.softswitch.p4runtime.device import Device
from mrclab.softswitch.p4runtime.messages.address import ServerError, check_address, private
from mrclab.softswitch.p4runtime.messages.status import ERROR_SPACE, Code, P4RuntimeError, abort, code_number, invalid
from mrclab.softswitch.p4runtime.stream.arbitration import ArbitratedController, not_primary
from mrclab.softswitch.p4runtime.stream.notifications import StreamChannel
from mrclab.softswitch.switch import SoftSwitch

log = logging.getLogger(__name__)

_CAPABILITIES = p4r.CapabilitiesResponse(p4runtime_api_version="1.3.0")  # what PI answers
MAX_STREAMS = 32  # more than arbitration admits, so that a refused controller gets a reason
MAX_RPCS = MAX_STREAMS + 16
MAX_REQUEST_BYTES = 256 << 20  # as PI
STOP_GRACE_SECONDS = 0.2
STOP_SECONDS = 5.0
SERVICE_NAME = "p4.v1.P4Runtime"

T = TypeVar("T")
M = TypeVar("M", bound=Message)


class P4RuntimeService:
    """P4Runtime's RPCs, each handed to the device.

    Requests arrive as bytes and are parsed here: grpcio keeps an RPC forever if a stream's message fails to parse in
    its own hands, and logs a traceback for every malformed request.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._open_streams = 0
        self._lock = threading.Lock()

    def handlers(self) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        """Return the RPCs by name."""
        return {
            "Write": _unary(p4r.WriteRequest, self._device.write),
            "Read": grpc.unary_stream_rpc_method_handler(self.read, response_serializer=_serialize),
            "SetForwardingPipelineConfig": _unary(p4r.SetForwardingPipelineConfigRequest, self._device.set_pipeline),
            "GetForwardingPipelineConfig": _unary(p4r.GetForwardingPipelineConfigRequest, self._device.get_pipeline),
            "StreamChannel": grpc.stream_stream_rpc_method_handler(self.stream, response_serializer=_serialize),
            "Capabilities": _unary(p4r.CapabilitiesRequest, lambda _: _CAPABILITIES),
        }

    def read(self, data: bytes, context: grpc.ServicerContext) -> Iterator[p4r.ReadResponse]:
        """Stream the entities that match a request."""

        def call() -> list[p4r.ReadResponse | P4RuntimeError]:
            return list(self._device.read(_parse(p4r.ReadRequest, data)))

        for item in _guard(context, call):
            if isinstance(item, P4RuntimeError):
                abort(context, item)
            yield item

    def stream(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[p4r.StreamMessageResponse]:
        """Serve one controller: arbitration, packets, digests, idle notifications."""
        with self._lock:
            if self._open_streams >= MAX_STREAMS:
                abort(context, P4RuntimeError(Code.RESOURCE_EXHAUSTED, "Too many connections"))
            self._open_streams += 1
        stream = StreamChannel()
        receiver = threading.Thread(target=self._receive, args=(requests, stream), daemon=True)
        receiver.start()
        try:
            yield from stream.messages()
        except P4RuntimeError as error:
            abort(context, error)
        finally:
            with self._lock:
                self._open_streams -= 1

    def _receive(self, requests: Iterator[bytes], stream: StreamChannel) -> None:
        """Handle one controller's messages until it hangs up; the stream is closed in any case."""
        controller: ArbitratedController | None = None
        failure: P4RuntimeError | None = None
        try:
            for data in requests:
                controller = self._handle(_parse(p4r.StreamMessageRequest, data), stream, controller)
        except P4RuntimeError as error:
            failure = error
        except grpc.RpcError:
            log.debug("a controller's stream broke off")
        except Exception as error:
            log.exception("unexpected error on a controller's stream")
            failure = P4RuntimeError(Code.INTERNAL, f"{type(error).__name__}: {error}")
        finally:
            if controller is not None:
                self._device.arbiter.leave(controller)
            stream.close(failure)

    def _handle(
        self, request: p4r.StreamMessageRequest, stream: StreamChannel, controller: ArbitratedController | None
    ) -> ArbitratedController | None:
        kind = request.WhichOneof("update")
        if kind == "arbitration":
            if controller is None:
                return self._device.arbiter.introduce(stream, request.arbitration)
            self._device.arbiter.update(controller, request.arbitration)
        elif kind is not None and controller is not None:
            try:
                self._handle_event(kind, request, controller)
            except P4RuntimeError as error:
                failure = error
                stream.offer(lambda: _stream_error(kind, request, failure))
        return controller

    def _handle_event(self, kind: str, request: p4r.StreamMessageRequest, controller: ArbitratedController) -> None:
        if not self._device.arbiter.is_primary(controller):
            raise not_primary()
        if kind == "packet":
            self._device.packet_out(request.packet)
        elif kind == "digest_ack":
            self._device.digest_ack(request.digest_ack)
        else:
            raise P4RuntimeError(Code.UNIMPLEMENTED, f"Stream messages of type {kind} are not supported")


def _unary(kind: type[M], serve: Callable[[M], Message]) -> grpc.RpcMethodHandler[Any, Any]:
    """Return the handler of an RPC with one request of a type and one response, which `serve` makes."""

    def handle(data: bytes, context: grpc.ServicerContext) -> Message:
        return _guard(context, lambda: serve(_parse(kind, data)))

    return grpc.unary_unary_rpc_method_handler(handle, response_serializer=_serialize)


def _parse(kind: type[M], data: bytes) -> M:
    """Return the message in `data`."""
    try:
        message: M = kind.FromString(data)
    except DecodeError as error:
        raise invalid(f"Malformed {kind.DESCRIPTOR.name}") from error
    return message


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()


def _stream_error(kind: str, request: p4r.StreamMessageRequest, error: P4RuntimeError) -> p4r.StreamMessageResponse:
    response = p4r.StreamMessageResponse()
    response.error.canonical_code = code_number(error.code)
    response.error.message = error.message
    response.error.space = ERROR_SPACE
    if kind == "packet":
        response.error.packet_out.packet_out.CopyFrom(request.packet)
    elif kind == "digest_ack":
        response.error.digest_list_ack.digest_list_ack.CopyFrom(request.digest_ack)
    else:
        response.error.other.other.CopyFrom(request.other)
    return response


def _guard(context: grpc.ServicerContext, call: Callable[[], T]) -> T:
    """Return the result of `call`; any exception ends the RPC with a canonical code."""
    try:
        return call()
    except P4RuntimeError as error:
        failure = error
    except Exception as error:
        log.exception("unexpected error in the P4Runtime server")
        failure = P4RuntimeError(Code.INTERNAL, f"{type(error).__name__}: {error}")
    return abort(context, failure)


class P4RuntimeServer:
    """A running server; `stop` ends it.

    A program that the switch was started with runs, but as in BMv2 it is served only after a controller has set the
    pipeline together with its P4Info.
    """

    def __init__(self, switch: SoftSwitch, address: str, device_id: int) -> None:
        """Listen on `address` (`unix:/path` or `host:port`). Raises ServerError."""
        check_address(address)
        self.device = Device(switch, device_id)
        self._server = grpc.server(
            ThreadPoolExecutor(MAX_RPCS, thread_name_prefix="p4runtime"),
            maximum_concurrent_rpcs=MAX_RPCS,
            options=(
                ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),
            ),
        )
        handlers = P4RuntimeService(self.device).handlers()
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE_NAME, handlers),))
        try:
            with private(address):
                self.port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise ServerError(f"cannot listen on {address}: it is in use, or no address of this machine") from error
        self._server.start()

    def stop(self) -> None:
        """Refuse new RPCs, end those that run, and wait (a few seconds at most) until they are gone."""
        self._server.stop(STOP_GRACE_SECONDS).wait(STOP_SECONDS)


def prepare() -> None:
    """Import grpc's modules for servers, 4 MB, before forking, so that forks share them."""
    with contextlib.suppress(ImportError):
        importlib.import_module("grpc._server")
