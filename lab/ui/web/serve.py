"""Serves the page on the loopback address until a signal comes, or until its parent process is done."""

import contextlib
import logging
import os
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

from mrclab.lab.errors import LabError

if TYPE_CHECKING:
    from mrclab.lab.ui.web.server import LivePage

_NICE = 5  # the page gives way to the lab
_OUTCOME_S = 10.0  # seconds in which the outcome still reaches browsers, once the parent process is done
_POLL_S = 0.05


def serve(
    page: "LivePage", port: int, notify: Callable[[str], None], *, browser: bool = False, attended: bool = False
) -> None:
    """Serve a page; `notify` gets its address once it answers. LabError where the port is taken.

    `attended`: end once standard input, and with it the lab, has ended, and browsers know how.
    """
    import uvicorn  # noqa: PLC0415 - slow to import

    with contextlib.suppress(OSError):
        os.nice(_NICE)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        raise LabError(f"cannot listen on port {port}: {error.strerror}; choose another with --port") from None
    listener.listen()
    address = page.address(listener.getsockname()[1])
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # browsers go when they like
    config = uvicorn.Config(page.app, log_level="warning", access_log=False, timeout_graceful_shutdown=1)

    class PageServer(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            _end_streams(page)
            super().handle_exit(sig, frame)

    server = PageServer(config)
    if attended:
        threading.Thread(target=_end_with_input, args=(page, server), daemon=True).start()
    notify(address)
    if browser:
        webbrowser.open(address)
    server.run(sockets=[listener])


def _end_with_input(page: "LivePage", server: Any) -> None:
    sys.stdin.read()
    until = time.monotonic() + _OUTCOME_S
    while page.source.outcome is None and time.monotonic() < until:
        time.sleep(_POLL_S)
    _end_streams(page)
    server.should_exit = True


def _end_streams(page: "LivePage") -> None:
    """End the streams to browsers; an error of a browser that reads on is not logged."""
    page.ending = True
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
