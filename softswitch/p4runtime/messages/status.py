"""Refusals: canonical gRPC codes, one error per update, and how both travel to the client.

The layout is that of the P4Runtime specification ("Error Reporting Messages") and of PI: a `google.rpc.Status` in the
trailer `grpc-status-details-bin`; for a Write it holds one `p4.v1.Error` for every update, with code OK where it
succeeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage

from mrclab.softswitch.objects.runtime_api import RuntimeApiError
from mrclab.softswitch.p4runtime.messages.stubs import p4r, rpc_status

ERROR_SPACE = "ALL-sswitch-p4org"  # the error space of simple_switch
DETAILS_TRAILER = "grpc-status-details-bin"

Code = grpc.StatusCode


class P4RuntimeError(Exception):
    """A request, or one update of it, that is refused with a canonical code."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def invalid(message: str) -> P4RuntimeError:
    """Return the error for a request that is wrong in itself."""
    return P4RuntimeError(Code.INVALID_ARGUMENT, message)


def invalid_id() -> P4RuntimeError:
    """Return PI's error for an id that names nothing, or something of another kind."""
    return invalid("Invalid P4 id")


def target_error(what: str, cause: RuntimeApiError) -> P4RuntimeError:
    """Return PI's error for a well-formed request that the data plane refuses: always UNKNOWN, with the cause added."""
    return P4RuntimeError(Code.UNKNOWN, f"{what}: {cause}")


def code_number(code: grpc.StatusCode) -> int:
    """Return the number that a canonical code has on the wire."""
    number: int = code.value[0]
    return number


def update_error(error: P4RuntimeError | None) -> p4r.Error:
    """Return the message that reports one update; None means success."""
    if error is None:
        return p4r.Error()
    return p4r.Error(canonical_code=code_number(error.code), message=error.message, space=ERROR_SPACE)


class WriteFailedError(P4RuntimeError):
    """A Write of which at least one update failed; `errors` has one item per update, None for success."""

    def __init__(self, errors: Sequence[P4RuntimeError | None]) -> None:
        super().__init__(Code.UNKNOWN, "")
        self.errors = tuple(errors)


def status_details(error: P4RuntimeError) -> bytes:
    """Return the serialised `google.rpc.Status` for `error`."""
    status = rpc_status.Status(code=code_number(error.code), message=error.message)
    if isinstance(error, WriteFailedError):
        for item in error.errors:
            packed = AnyMessage()
            packed.Pack(update_error(item))
            status.details.append(packed)
    return status.SerializeToString()


def abort(context: grpc.ServicerContext, error: P4RuntimeError) -> NoReturn:
    """End the RPC with `error`."""
    context.set_trailing_metadata(((DETAILS_TRAILER, status_details(error)),))
    context.abort(error.code, error.message)
    raise AssertionError("abort returned")  # grpc's abort always raises
