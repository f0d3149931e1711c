"""Refusals: canonical gRPC codes, one error per update, and how both travel to the client.

The layout is that of the P4Runtime specification ("Error Reporting Messages") and of PI: a `google.rpc.Status` in the
trailer `grpc-status-details-bin`; for a Write it holds one `p4.v1.Error` for every update, with code OK where it
succeeded. A client limits the bytes of trailers, and drops the status above that limit: the list then ends early,
and the message names the number of updates left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import NoReturn

import grpc
from finsy.proto import p4r, rpc_status
from google.protobuf.any_pb2 import Any as AnyMessage

from mrclab.softswitch.objects.runtime_api import RuntimeApiError

ERROR_SPACE = "ALL-sswitch-p4org"  # the error space of simple_switch
DETAILS_TRAILER = "grpc-status-details-bin"
LIMIT_HEADER = "p4runtime-max-metadata-size"
"""In a client's request: how many bytes of trailers it takes, where it is more than gRPC's default."""
DEFAULT_METADATA_BYTES = 8192
_MAX_METADATA_BYTES = 1 << 22
_OTHER_TRAILERS_BYTES = 1024  # gRPC's own, and the message of an error
_MAX_NAMED = 3
_MAX_MESSAGE = 1000  # characters: it may quote a program, and travels twice

Code = grpc.StatusCode


class P4RuntimeError(Exception):
    """A request, or one update of it, that is refused with a canonical code."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    def alone(self) -> P4RuntimeError:
        """Return the error without where it came from: a hundred thousand of them would keep as many frames."""
        return P4RuntimeError(self.code, self.message)


def invalid(message: str) -> P4RuntimeError:
    """Return the error for a request that is wrong in itself."""
    return P4RuntimeError(Code.INVALID_ARGUMENT, message)


def invalid_id() -> P4RuntimeError:
    """Return PI's error for an id that names nothing, or something of another kind."""
    return invalid("Invalid P4 id")


def target_error(what: str, cause: RuntimeApiError) -> P4RuntimeError:
    """Return PI's error for a well-formed request that the data plane refuses: always UNKNOWN, with the cause added."""
    return P4RuntimeError(Code.UNKNOWN, f"{what}: {cause}")


@contextlib.contextmanager
def on_target(what: str) -> Iterator[None]:
    """Turn the data plane's refusals inside the block into `target_error`."""
    try:
        yield
    except RuntimeApiError as error:
        raise target_error(what, error) from error


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


def status_details(error: P4RuntimeError, most: int) -> tuple[bytes, str]:
    """Return the serialised `google.rpc.Status` for `error`, of `most` bytes or so, and its message."""
    if not isinstance(error, WriteFailedError):
        text = error.message if len(error.message) <= _MAX_MESSAGE else f"{error.message[:_MAX_MESSAGE]}…"
        return rpc_status.Status(code=code_number(error.code), message=text).SerializeToString(), text
    status, size = rpc_status.Status(code=code_number(error.code)), 0
    for number, item in enumerate(error.errors):
        packed = AnyMessage()
        packed.Pack(update_error(item))
        size += packed.ByteSize() + 4
        if size > most:
            status.message = _left_out(error.errors, number)
            break
        status.details.append(packed)
    return status.SerializeToString(), status.message


def _left_out(errors: Sequence[P4RuntimeError | None], shown: int) -> str:
    """Return the sentence on updates after the `shown` ones of the details."""
    failed = sum(error is not None for error in errors)
    rest = [f"update {n}: {e.code.name} {e.message[:80]}" for n, e in enumerate(errors[shown:], shown) if e is not None]
    named = f"; {'; '.join(rest[:_MAX_NAMED])}" if rest else ""
    more = f"; and {len(rest) - _MAX_NAMED} more" if len(rest) > _MAX_NAMED else ""
    head = f"{failed} of {len(errors)} updates failed, the details hold the first {shown}"
    return f"{head}{named}{more}; send fewer at a time"


def _most_details(context: grpc.ServicerContext) -> int:
    """Return how many bytes of details the client takes."""
    shown = next((str(value) for key, value in context.invocation_metadata() if key == LIMIT_HEADER), "")
    most = int(shown) if shown.isdecimal() and len(shown) < 10 else DEFAULT_METADATA_BYTES
    return min(most, _MAX_METADATA_BYTES) - _OTHER_TRAILERS_BYTES


def abort(context: grpc.ServicerContext, error: P4RuntimeError) -> NoReturn:
    """End the RPC with `error`."""
    details, message = status_details(error, _most_details(context))
    context.set_trailing_metadata(((DETAILS_TRAILER, details),))
    context.abort(error.code, message)
    raise AssertionError("abort returned")  # grpc's abort always raises
