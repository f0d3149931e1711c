"""Lines of JSON: bytes to objects and back, without any I/O."""

import json
from typing import Any

from mrclab.rpc.errors import FramingError

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Longest line either side accepts; an hour of samples of one host stays well below it."""


def encode(message: dict[str, Any]) -> bytes:
    """Return one message as one line; raise FramingError when it is too long or not valid JSON."""
    try:
        line = json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise FramingError(f"message cannot be written as JSON: {error}") from error
    if len(line) > MAX_LINE_BYTES:
        raise FramingError(f"message of {len(line)} bytes is longer than {MAX_LINE_BYTES}")
    return line


def decode(line: bytes) -> dict[str, Any]:
    """Return the object that a line holds; raise FramingError when it holds none."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FramingError(f"line is not JSON: {error}") from error
    if not isinstance(message, dict):
        raise FramingError(f"line holds a {type(message).__name__}, expected an object")
    return message


class LineSplitter:
    """Cuts a byte stream into lines and never holds more than `limit` bytes of an unfinished one."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._partial: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes as they arrive, return the lines they finish; raise FramingError when one is too long."""
        if b"\n" not in data:
            self._keep(data)
            return []
        *lines, rest = data.split(b"\n")
        lines[0] = b"".join([*self._partial, lines[0]])
        self._partial, self._size = [], 0
        self._keep(rest)
        if any(len(line) > self._limit for line in lines):
            raise FramingError(f"line is longer than {self._limit} bytes")
        return [line for line in lines if line.strip()]

    def _keep(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._limit:
            raise FramingError(f"line is longer than {self._limit} bytes")
        if data:
            self._partial.append(data)
