"""The page's web server: loopback only, a token in the address, requests of other sites refused.

docs/page.md lists the requests. Changes of frames are sent as a JSON merge patch (RFC 7396).
"""

import asyncio
import contextlib
import hmac
import json
import secrets
import shlex
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from mrclab.lab.errors import LabError
from mrclab.lab.kinds import WorldName
from mrclab.lab.scenario import schema
from mrclab.lab.scenario.units import parse_size
from mrclab.lab.traffic.base import TRAFFIC
from mrclab.lab.ui.checking import checked, refused
from mrclab.lab.ui.editor import Editor
from mrclab.lab.ui.sources import RunIndex, Source
from mrclab.topo.input.sentences import listed, shown

Operate = Callable[..., dict[str, Any]]  # (operation, **arguments)
Check = Callable[[str], dict[str, Any]]
Packets = Callable[[int | None], dict[str, Any]]
"""Returns the frames that crossed cables since a number; LabError says why where single packets cannot be seen."""

Endpoint = Callable[[Request], Awaitable[Response]]

STATIC = Path(__file__).parents[1] / "static"
_BEAT = 0.1  # seconds between two looks for new frames
_FAST = 5  # beats between two looks for packets where time is not slow
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_MAX_BYTES = 1 << 20  # of a request
_MAX_DIGITS = 18
_POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'"
_TERMINAL = "use the prompt, or a terminal"
_OPERATIONS = frozenset({"command", "inject", "clear", "traffic", "controller", "speed", "slow"})
_WRITING = frozenset({"capture", "report"})
T = TypeVar("T")

_MAX_THREADS = 16


class RequestRefused(Exception):  # noqa: N818 - the sentence is the error
    """A request that the page does not carry out, with the HTTP status of its answer."""

    def __init__(self, status: int, text: str, **more: Any) -> None:
        super().__init__(text)
        self.answer = JSONResponse({"error": text, **more}, status)


class Workers:
    """Daemon threads, at most 16 at a time; one that hangs occupies its place and blocks nothing else."""

    def __init__(self) -> None:
        self._free = threading.Semaphore(_MAX_THREADS)

    async def run(self, work: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
        """Call `work` in a thread of its own and return its result; LabError where too many are at work already."""
        if not self._free.acquire(blocking=False):
            raise LabError(f"{_MAX_THREADS} requests are in progress; try again when one of them is done")
        future: Future[T] = Future()
        future.add_done_callback(lambda _: self._free.release())  # before the request goes on
        future.set_running_or_notify_cancel()  # a request that is given up does not cancel it

        def body() -> None:
            try:
                result = work(*arguments, **named)
            except BaseException as raised:  # handed to the coroutine that waits
                future.set_exception(raised)
            else:
                future.set_result(result)

        threading.Thread(target=body, name="page-work", daemon=True).start()
        return await asyncio.wrap_future(future)


def refused_operation(operation: str, arguments: Mapping[str, Any]) -> str:
    """Return why an operation is not carried out for a browser; empty where it is."""
    if operation not in _OPERATIONS:
        return f"the page has no operation {operation[:60]!r}"
    if operation == "traffic":
        traffic = arguments.get("traffic")
        return _traffic(str(traffic.get("kind")), traffic) if isinstance(traffic, Mapping) else ""
    return _line(str(arguments.get("line", ""))) if operation == "command" else ""


def _line(line: str) -> str:
    try:
        name, *words = shlex.split(line) or [""]
    except ValueError:
        return ""  # the prompt says what is wrong with it
    if name in _WRITING:
        return f"{name} writes files, which the page does not; {_TERMINAL}"
    if name == "send" and len(words) > 2 and not _is_size(words[2]):
        return f"send reads a file, which the page does not; {_TERMINAL}, or give a size such as 16MiB"
    return _traffic(words[0], [word.partition("=")[0] for word in words[1:]]) if name == "traffic" and words else ""


def _traffic(kind: str, fields: Collection[str]) -> str:
    """Return why traffic of a kind with these fields is not started; empty where the lab decides."""
    if kind in TRAFFIC and (local := TRAFFIC[kind].local_fields.intersection(fields)):
        names = listed(sorted(local))
        return f"{names} of {kind}: the page reads no files and runs no programs of this machine; {_TERMINAL}"
    return ""


def _is_size(word: str) -> bool:
    try:
        return isinstance(parse_size(word), int) or word[:1].isdigit()
    except ValueError:
        return False


class LivePage:
    """The application for one source of frames. `operate` carries out a click; None where clicks are refused.

    `editor` runs scenarios; without one they are only checked, by `check`. `run_index` has the runs that can be played
    again. Calls that may block run in threads. Nothing here writes a file, or reads one, that a browser names.
    """

    def __init__(
        self,
        source: Source,
        operate: Operate | None = None,
        token: str = "",
        editor: Editor | None = None,
        run_index: RunIndex | None = None,
        check: Check = checked,
        packets: Packets | None = None,
    ) -> None:
        self.source = self._own = source
        self.token = token or secrets.token_urlsafe(16)
        self.ending = False  # streams to followers end
        self._operate = operate
        self._editor = editor
        self._run_index = run_index
        self._check_text = check
        self._packets = packets
        self._workers = Workers()
        self._shown = 0  # how often another run was shown: numbers them
        guarded: dict[str, tuple[str, Endpoint]] = {
            "/": ("GET", self._index),
            "/api/layout": ("GET", self._layout),
            "/api/frames": ("GET", self._frames),
            "/api/live": ("GET", self._live),
            "/api/schema": ("GET", self._schema),
            "/api/operation": ("POST", self._operation),
            "/api/check": ("POST", self._check),
            "/api/run": ("POST", self._run),
            "/api/results": ("GET", self._results),
            "/api/replay": ("POST", self._replay),
            "/api/back": ("POST", self._back),
        }
        routes: list[Route | Mount] = [
            Route(path, self._guard(end), methods=[method]) for path, (method, end) in guarded.items()
        ]
        self.app = Starlette(routes=[*routes, Mount("/static", StaticFiles(directory=STATIC))])

    def address(self, port: int) -> str:
        """Return the address for a browser."""
        return f"http://127.0.0.1:{port}/?token={self.token}"

    def _guard(self, endpoint: Endpoint) -> Endpoint:
        async def guarded(request: Request) -> Response:
            refusal = self._refusal(request)
            if refusal:
                return PlainTextResponse(refusal + "\n", 403)
            try:
                response = await endpoint(request)
            except RequestRefused as refused_request:
                response = refused_request.answer
            except LabError as error:
                response = JSONResponse({"error": str(error)}, 422)
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
        source = self.source
        own = source is self._own
        answer = {
            "title": source.title,
            "live": source.live,
            "operable": own and self._operate is not None and source.outcome is None,
            "own": own,
            "run": self._shown,
            "runs": self._editor is not None,
            "replays": self._run_index is not None,
            "text": self._editor.text if self._editor else "",
        }
        if answer["operable"]:
            answer |= await self._workers.run(self._speed)
        return JSONResponse({**source.layout, **answer, "outcome": source.outcome})

    def _speed(self) -> dict[str, Any]:
        """Speed of virtual time, or why single packets are not drawn."""
        try:
            return {"speed": self._packets(None)["speed"]} if self._packets else {}
        except LabError as error:
            return {"packets": str(error)}

    async def _frames(self, request: Request) -> Response:
        first, changes = self.source.frame_log.changes_since(_number(request, "since"))
        answer = f'{{"first":{first},"size":{sum(map(len, changes))},"frames":[{",".join(changes)}]}}'
        return Response(answer, media_type="application/json")

    async def _live(self, request: Request) -> Response:
        return StreamingResponse(self._stream(request), media_type="text/event-stream")

    async def _stream(self, request: Request) -> AsyncIterator[str]:
        """Stream the changes of every frame from a number on, which the browser names with the run that it is of."""
        run, number = _number(request, "run"), _number(request, "since")
        last = request.headers.get("last-event-id", "").split("-")
        if len(last) == 2:
            run, number = map(_whole, last)
        over, watched = False, WatchedPackets(self._packets, self._workers)
        while not await request.is_disconnected():
            ending, source = self.ending, self.source
            outcome = source.outcome
            first, changes = source.frame_log.changes_since(number)
            if run != self._shown or first > number:  # another run, or this browser fell behind: it asks again
                yield "event: source\ndata: {}\n\n"
                return
            for text in changes:
                number += 1
                yield f"id: {run}-{number}\ndata: {text}\n\n"
            if source is self._own and outcome is None and (drawn := await watched.next()):
                yield f"event: packets\ndata: {drawn}\n\n"
            if outcome is not None and not over:
                over = True
                yield f"event: outcome\ndata: {json.dumps(outcome)}\n\n"
            if ending or (over and self._editor is None and self._run_index is None):
                return  # nothing else will be shown
            await asyncio.sleep(_BEAT)

    async def _operation(self, request: Request) -> Response:
        if self._operate is None:
            raise RequestRefused(409, "nothing can be done to a run that is over")
        with _readable("operation and arguments, of a megabyte at most"):
            body = await _object(request)
            operation, arguments = str(body["operation"]), dict(body.get("arguments", {}))
        if why := refused_operation(operation, arguments):
            raise RequestRefused(403, why)
        return JSONResponse(await self._workers.run(_carry_out, self._operate, operation, arguments))

    async def _schema(self, _request: Request) -> Response:
        return JSONResponse(await self._workers.run(_schema))

    async def _check(self, request: Request) -> Response:
        try:
            return JSONResponse(await self._workers.run(self._check_text, (await _body(request)).decode()))
        except (LabError, UnicodeDecodeError) as error:
            return JSONResponse(refused(str(error)))

    async def _run(self, request: Request) -> Response:
        if self._editor is None:
            raise RequestRefused(409, "this page shows a run that goes on by itself; `mrclab ui` runs scenarios")
        with _readable("text and world, of a megabyte at most"):
            body = await _object(request)
            text, world = str(body["text"]), str(body.get("world", ""))
        if world not in {"", *get_args(WorldName)}:
            raise LabError(f"invalid world {shown(world)}: expected {' or '.join(get_args(WorldName))}")
        if (answer := await self._workers.run(self._check_text, text))["mistakes"]:
            raise RequestRefused(422, "it has mistakes", **answer)
        if answer["programs"]:
            raise LabError("this scenario runs programs, which the page does not; `mrclab run` does")
        self._show(await self._workers.run(self._editor.run, text, answer, world))
        return JSONResponse({"message": f"{answer['name']} runs"})

    async def _results(self, _request: Request) -> Response:
        return JSONResponse(await self._workers.run(self._run_index.runs) if self._run_index else [])

    async def _replay(self, request: Request) -> Response:
        if self._run_index is None:
            raise RequestRefused(409, "this page has no folder of results; start it with `mrclab ui --results DIR`")
        with _readable("the name of a finished run"):
            name = str((await _object(request))["name"])
        self._show(await self._workers.run(self._run_index.take, name))
        return JSONResponse({"message": f"{name} is played again"})

    async def _back(self, _request: Request) -> Response:
        self._show(self._own)
        return JSONResponse({"message": self._own.title})

    def _show(self, source: Source) -> None:
        """From now on every browser sees this one."""
        former, self.source = self.source, source
        self._shown += 1
        if former is not self._own and former is not source:
            former.stop()


class WatchedPackets:
    """Single packets for one browser: polled often while time is slow, else now and then."""

    def __init__(self, packets: Packets | None, workers: Workers) -> None:
        self._packets, self._workers = packets, workers
        self._number: int | None = None
        self._slow, self._rest = False, 0

    async def next(self) -> str:
        """Return the packets since the last time as JSON; empty where there is nothing to draw."""
        if self._packets is None or self._rest > 0:
            self._rest -= 1
            return ""
        try:
            answer = await self._workers.run(self._packets, self._number)
        except LabError:  # the wire's, or gone
            self._packets = None
            return ""
        was, self._slow, self._number = self._slow, answer["slow"], answer["next"]
        self._rest = 0 if self._slow else _FAST
        return json.dumps(answer) if self._slow or was else ""


@cache
def _schema() -> dict[str, Any]:
    return schema.build()


def _number(request: Request, name: str) -> int:
    return _whole(request.query_params.get(name, "0"))


def _whole(text: str) -> int:
    """Return a number; 0 for all else, and for more digits than the count of any frame has."""
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else 0


def _carry_out(operate: Operate, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        return operate(operation, **arguments)
    except TypeError as error:  # an argument that is not called so
        raise LabError(f"wrong arguments of {operation}: {error}") from None


@contextlib.contextmanager
def _readable(content: str) -> Iterator[None]:
    """Refuse a request that does not hold an object with this content; deeply nested brackets are a RecursionError."""
    try:
        yield
    except (LabError, ValueError, KeyError, TypeError, RecursionError):
        raise RequestRefused(400, f"send an object with {content}") from None


async def _object(request: Request) -> dict[str, Any]:
    """Return the JSON object that a request holds; ValueError or TypeError where it holds none."""
    body = json.loads(await _body(request))
    if not isinstance(body, dict):
        raise TypeError
    json.dumps(body, ensure_ascii=False).encode()  # ValueError: half of a surrogate pair, which no answer could repeat
    return body


async def _body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_BYTES:
            raise LabError("a request may have a megabyte at most")
    return body
