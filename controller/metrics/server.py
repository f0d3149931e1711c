"""HTTP server of the metrics page, on loopback, for clients that have its token."""

import hmac
import secrets
import sys
import threading
import urllib.parse
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class MetricsServer:
    """Serves `GET /metrics` on 127.0.0.1 until `close`; `make` returns the page, and is called in a thread of its own.

    `port` 0 lets the kernel choose; OSError where it is taken. Every user of the machine reaches the port: the page is
    for those who give the token, in the query (`url` has it) or as `Authorization: Bearer`.
    """

    def __init__(self, port: int, make: Callable[[], str]) -> None:
        self.token = secrets.token_urlsafe(24)
        self.make = make
        self._server = _Server(("127.0.0.1", port), lambda *request: _Request(self, *request))
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The page's whole address."""
        return f"http://127.0.0.1:{self.port}/metrics?token={self.token}"

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log an error, unless the client hung up."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Request(BaseHTTPRequestHandler):
    """One request of a client, which has `timeout` seconds to send it."""

    protocol_version = "HTTP/1.1"
    timeout = 2.0

    def __init__(self, page: MetricsServer, *request: Any) -> None:
        self._page = page
        super().__init__(*request)

    def do_GET(self) -> None:
        """Answer with the page, or say why not."""
        target = urllib.parse.urlsplit(self.path)
        bearer = self.headers.get("Authorization", "").removeprefix("Bearer").strip()
        given = [*urllib.parse.parse_qs(target.query).get("token", []), bearer]
        if target.path not in {"/metrics", "/"}:
            self._answer(HTTPStatus.NOT_FOUND, "only GET /metrics is served here\n")
        elif not any(hmac.compare_digest(token.encode(), self._page.token.encode()) for token in given):
            self._answer(HTTPStatus.FORBIDDEN, "the token is missing or wrong; the operation `metrics` returns it\n")
        else:
            self._answer(HTTPStatus.OK, self._page.make())

    def log_message(self, *_: Any) -> None:
        """Log nothing: a scrape every few seconds is no news."""

    def _answer(self, status: HTTPStatus, body: str) -> None:
        content = body.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)
