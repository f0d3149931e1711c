"""The page's web server: loopback only, a token in the address, requests of other sites refused.

GET  /                   the page; needs ?token=…, as everything but its own static files does
GET  /api/layout         fabric, title, whether it is live
GET  /api/frames?since=N all frames so far (replay: all there are)
GET  /api/live?since=N   frames as they come, as server-sent events; `outcome` at the end
POST /api/operation      {"operation": …, "arguments": {…}} for the lab that runs
POST /api/check          a scenario's text: its mistakes, one sentence each
"""

import asyncio
import hmac
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from mrclab.lab.errors import LabError
from mrclab.lab.scenario import scenario
from mrclab.lab.ui.sources import Source

Operate = Callable[..., dict[str, Any]]  # (operation, **arguments)
Endpoint = Callable[[Request], Awaitable[Response]]

STATIC = Path(__file__).parent / "static"
_BEAT = 0.1  # seconds between two looks for new frames
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_MOST_BYTES = 1 << 20  # of a request
_POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'"


class LivePage:
    """The application for one source of frames. `operate` carries out what is clicked; None where nothing can be."""

    def __init__(self, source: Source, operate: Operate | None = None, token: str = "") -> None:
        self.source = source
        self.token = token or secrets.token_urlsafe(16)
        self._operate = operate
        guarded = {
            "/": self._index,
            "/api/layout": self._layout,
            "/api/frames": self._frames,
            "/api/live": self._live,
        }
        routes: list[Route | Mount] = [Route(path, self._guard(end)) for path, end in guarded.items()]
        routes += [
            Route("/api/operation", self._guard(self._operation), methods=["POST"]),
            Route("/api/check", self._guard(self._check), methods=["POST"]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ]
        self.app = Starlette(routes=routes)

    def address(self, port: int) -> str:
        """What a person opens."""
        return f"http://127.0.0.1:{port}/?token={self.token}"

    def _guard(self, endpoint: Endpoint) -> Endpoint:
        async def guarded(request: Request) -> Response:
            refusal = self._refusal(request)
            if refusal:
                return PlainTextResponse(refusal + "\n", 403)
            response = await endpoint(request)
            response.headers.update({
                "Content-Security-Policy": _POLICY, "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
                "X-Content-Type-Options": "nosniff",
            })  # fmt: skip
            return response

        return guarded

    def _refusal(self, request: Request) -> str:
        """Why a request is not answered; a page of another site can neither name our host nor know the token."""
        host = request.headers.get("host", "")
        if host.rpartition(":")[0] not in _LOOPBACK and host not in _LOOPBACK:
            return "this page answers on the loopback address only"
        origin = request.headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return "requests from other sites are refused"
        token = request.query_params.get("token", "") or request.headers.get("x-token", "")
        if not hmac.compare_digest(token.encode(), self.token.encode()):
            return "wrong token; open the address that the command printed"
        return ""

    async def _index(self, _request: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def _layout(self, _request: Request) -> Response:
        told = {"title": self.source.title, "live": self.source.live, "operable": self._operate is not None}
        return JSONResponse({**self.source.layout(), **told, "outcome": self.source.outcome()})

    async def _frames(self, request: Request) -> Response:
        return JSONResponse(self.source.frames(_since(request)))

    async def _live(self, request: Request) -> Response:
        return StreamingResponse(self._stream(request, _since(request)), media_type="text/event-stream")

    async def _stream(self, request: Request, number: int) -> AsyncIterator[str]:
        while not await request.is_disconnected():
            outcome = self.source.outcome()
            for frame in self.source.frames(number):
                number += 1
                yield f"id: {number}\ndata: {json.dumps(frame)}\n\n"
            if outcome is not None:
                yield f"event: outcome\ndata: {json.dumps(outcome)}\n\n"
                return
            await asyncio.sleep(_BEAT)

    async def _operation(self, request: Request) -> Response:
        if self._operate is None:
            return JSONResponse({"error": "nothing can be done to a run that is over"}, 409)
        try:
            wanted = json.loads(await _body(request))
            operation, arguments = str(wanted["operation"]), dict(wanted.get("arguments", {}))
        except (LabError, ValueError, KeyError, TypeError):
            return JSONResponse({"error": "send an object with operation and arguments, of a megabyte at most"}, 400)
        try:
            return JSONResponse(await run_in_threadpool(self._operate, operation, **arguments))
        except LabError as error:
            return JSONResponse({"error": str(error)}, 422)

    async def _check(self, request: Request) -> Response:
        try:
            text = (await _body(request)).decode()
            loaded = scenario.loads(text, "scenario.yaml")
        except (LabError, UnicodeDecodeError) as error:
            return JSONResponse({"ok": False, "mistakes": str(error).splitlines()})
        return JSONResponse({"ok": True, "name": loaded.scenario.name, "mistakes": []})


def _since(request: Request) -> int:
    text = request.headers.get("last-event-id") or request.query_params.get("since", "0")
    return int(text) if text.isdecimal() else 0


async def _body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise LabError("a request may have a megabyte at most")
    return body
