"""Standard output and error that tolerate write errors: a closed pipe, a full disk. Unwritable output is discarded and
the command continues: `mrclab run FILE | head -3` has the run's exit status, and everything that the run measured.
"""

import contextlib
import os
import sys
from typing import Any, TextIO, cast

LOST = 4  # exit status of a command that went well and whose output could not be written


class Sink:
    """A text stream that discards output its underlying stream refuses. `error` says why, except for a closed
    pipe."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._broken = False
        self.error = ""

    def write(self, text: str) -> int:
        """Write, or discard."""
        if not self._broken:
            try:
                self._stream.write(text)
            except OSError as error:
                self._give_up(error)
        return len(text)

    def flush(self) -> None:
        """Flush, or discard."""
        if not self._broken:
            try:
                self._stream.flush()
            except OSError as error:
                self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._broken = True
        if not isinstance(error, BrokenPipeError):
            self.error = error.strerror or str(error)
        with contextlib.suppress(OSError, ValueError):  # what the stream still holds must go somewhere when Python ends
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def install() -> Sink:
    """Put sinks in place of standard output and error; returns that of the output."""
    out, err = Sink(sys.stdout), Sink(sys.stderr)
    sys.stdout, sys.stderr = cast(TextIO, out), cast(TextIO, err)
    return out
