"""The controller's end of each host agent's API: sends it node configs, receives Clustermapper's reports."""

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from mrclab.controller.history import ControllerHistory
from mrclab.events.controller import AgentDown, AgentRefused, AgentUp, AgentUpdated
from mrclab.rpc.errors import RpcError
from mrclab.rpc.framing import LineSplitter, decode, encode
from mrclab.rpc.peers import STOPPED_S, is_stopped, peer_pid, stopped_text
from mrclab.topo.config.nodeconfig import NodeConfig

log = logging.getLogger(__name__)

CONNECT_INTERVAL = 0.1  # seconds between tries while no agent serves the socket
CALL_TIMEOUT = 5.0
SILENT = {"ETIMEDOUT", "ESTOPPED"}  # codes of a process that is there and does not answer
GONE = {"ENOTCONN", "ECONNRESET", *SILENT}  # codes of this end; any other is an answer
_LOOK_S = 0.5  # seconds between two checks whether an agent that has not answered is stopped

EventHandler = Callable[[dict[str, Any]], None]


class AsyncClient:
    """A connection to a JSON-lines server under asyncio: calls side by side, events to a handler."""

    stretch: ClassVar[float] = 1.0  # times the limit that holds on a quick machine; set before the first connection

    def __init__(self, path: Path, on_event: EventHandler) -> None:
        self._path = path
        self._on_event = on_event
        self._ids = itertools.count(1)
        self._calls: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._reader: asyncio.Task[None] | None = None
        self.pid: int | None = None  # of the server's process

    async def open(self) -> None:
        """Connect; OSError if no process listens."""
        reader, self._writer = await asyncio.open_unix_connection(self._path)
        self._reader = asyncio.create_task(self._read(reader))
        self.pid = peer_pid(self._writer.get_extra_info("socket"))

    async def call(self, op: str, seconds: float = CALL_TIMEOUT, /, **arguments: Any) -> dict[str, Any]:
        """Call an operation and return its result; RpcError where it is refused, or the server is gone, stopped or
        silent.
        """
        if self._writer is None or self._reader is None or self._reader.done():
            raise RpcError("ENOTCONN", f"no connection to {self._path}")
        number = next(self._ids)
        self._calls[number] = answer = asyncio.get_running_loop().create_future()
        try:
            self._writer.write(encode({"id": number, "op": op, **arguments}))
            return await self._answered(answer, op, seconds * self.stretch)
        finally:
            del self._calls[number]

    async def _answered(self, answer: asyncio.Future[dict[str, Any]], op: str, limit: float) -> dict[str, Any]:
        """Wait for an answer; a stopped process is given a moment and not the whole time."""
        loop = asyncio.get_running_loop()
        deadline, since = loop.time() + limit, None
        while not (await asyncio.wait({answer}, timeout=min(_LOOK_S, max(0.0, deadline - loop.time()))))[0]:
            since = (since or loop.time()) if is_stopped(self.pid) else None
            if since is not None and self.pid is not None and loop.time() - since >= STOPPED_S - 2 * _LOOK_S:
                raise RpcError("ESTOPPED", f"it {stopped_text(self.pid)}")
            if loop.time() >= deadline:
                raise RpcError("ETIMEDOUT", f"{self._path} did not answer {op} within {limit:g} s")
        return answer.result()

    async def ended(self) -> None:
        """Wait until the server has closed the connection."""
        if self._reader is not None:
            await asyncio.wait({self._reader})

    async def close(self) -> None:
        """Close the connection; calls under way fail."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        if self._writer is not None:
            self._writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        splitter = LineSplitter()
        try:
            while data := await reader.read(1 << 18):
                for line in splitter.feed(data):
                    self._take(decode(line))
        except (OSError, RpcError) as error:
            log.warning("connection to %s ended: %s", self._path, error)
        finally:
            for call in self._calls.values():
                if not call.done():
                    call.set_exception(RpcError("ECONNRESET", f"{self._path} closed the connection"))

    def _take(self, message: dict[str, Any]) -> None:
        if "event" in message:
            if not isinstance(message["event"], dict):
                raise RpcError("EPROTO", "it sent an event that is not an object")
            self._on_event(message["event"])
            return
        call = self._calls.get(message.get("id", -1))
        if call is None or call.done():
            return
        error, result = message.get("error"), message.get("ok") or {}
        if not isinstance(result, dict) or not isinstance(error, dict | None):
            raise RpcError("EPROTO", "it sent an answer of the wrong form")
        if error is not None:
            call.set_exception(RpcError(str(error.get("code", "EIO")), str(error.get("message", ""))))
        else:
            call.set_result(result)


@dataclass(eq=False)
class AgentLink:
    """Connection to one host's agent: `run` connects forever, `send` hands over a config, `version` is the one in use.

    `on_event` is called with events of `kinds`; without kinds it does not subscribe, and the agent need not publish.
    """

    host: str
    path: Path
    history: ControllerHistory
    on_event: Callable[[str, dict[str, Any]], None]
    kinds: Sequence[str] = ()
    version: int = 0

    def __post_init__(self) -> None:
        self._intended: NodeConfig | None = None
        self._config_sent = asyncio.Event()
        self._notified = asyncio.Event()
        self._client: AsyncClient | None = None
        self._pid: int | None = None  # of the agent, as last seen
        self._silent = False  # it did not answer, last time
        self._refused = 0  # version that the agent would not take
        self._complaint = ""

    @property
    def connected(self) -> bool:
        """True if an agent is there."""
        return self.version > 0

    @property
    def unresponsive(self) -> str:
        """Why an agent whose process is there does not answer, without its subject; empty where it does."""
        if self._pid is not None and is_stopped(self._pid):
            return stopped_text(self._pid)
        return "does not answer" if self._silent else ""

    async def poll(self, seconds: float) -> None:
        """Ping the agent; one that does not respond within `seconds` is silent until it responds again."""
        if self._client is not None:
            with suppress(RpcError):
                await self._call(self._client, "hello", seconds)

    def send(self, config: NodeConfig) -> None:
        """Have the agent use `config`: now, or as soon as it is there. An agent that comes up reads the file itself."""
        self._intended = config
        self._notified.clear()
        self._config_sent.set()

    async def notified(self) -> None:
        """Wait until the agent uses the config given last; at once where no agent is there."""
        if self.connected:
            await self._notified.wait()

    async def request(self, op: str) -> dict[str, Any]:
        """Return the agent's response to an operation without arguments; RpcError where there is no agent."""
        if self._client is None:
            raise RpcError("ENOTCONN", f"no agent serves {self.path}")
        return await self._call(self._client, op)

    async def run(self) -> None:
        """Connect, send, listen; and again when the agent went away."""
        while True:
            client = AsyncClient(self.path, lambda event: self.on_event(self.host, event))
            try:
                await client.open()
                await self._serve(client)
            except (FileNotFoundError, ConnectionRefusedError):
                self._pid, self._silent = None, False
            except (OSError, RpcError) as error:
                self._silent = isinstance(error, RpcError) and error.code in SILENT
                self._log_once(str(error))
            finally:
                self._client = None
                await client.close()
                if self.connected:
                    self.history.record(AgentDown(host=self.host))
                self.version = 0
                self._notified.set()
            await asyncio.sleep(CONNECT_INTERVAL)

    async def _serve(self, client: AsyncClient) -> None:
        self._pid = client.pid
        hello = await self._call(client, "hello")
        if hello.get("host") != self.host:
            raise RpcError("EPROTO", f"the agent at {self.path} says it is {hello.get('host')!r}, not {self.host}")
        if self.kinds:
            await self._call(client, "subscribe", kinds=list(self.kinds))
        self._client = client
        self.version = _version(hello.get("config_version", 1))
        self._refused, self._complaint = 0, ""
        self.history.record(AgentUp(host=self.host, version=self.version))
        ended = asyncio.create_task(client.ended(), name=f"agent {self.host}")
        try:
            while not ended.done():
                self._config_sent.clear()
                await self._bring_up_to_date(client)
                sent = asyncio.create_task(self._config_sent.wait())
                await asyncio.wait({ended, sent}, return_when=asyncio.FIRST_COMPLETED)
                sent.cancel()
        finally:
            ended.cancel()

    async def _bring_up_to_date(self, client: AsyncClient) -> None:
        intended = self._intended
        if intended is not None and intended.version > max(self.version, self._refused):
            try:
                answer = await self._call(client, "update_config", config=intended.model_dump(mode="json"))
                self.version = _version(answer.get("version"))
                self.history.record(AgentUpdated(host=self.host, version=self.version))
            except RpcError as error:
                if error.code in GONE:
                    raise
                self._refused = intended.version  # it keeps what it has; asking again would not change its mind
                self.history.record(AgentRefused(host=self.host, version=intended.version, reason=error.message))
        if self._intended is intended:  # else a newer one was given meanwhile
            self._notified.set()

    async def _call(
        self, client: AsyncClient, op: str, seconds: float = CALL_TIMEOUT, /, **arguments: Any
    ) -> dict[str, Any]:
        """Call an operation; note whether the agent answered, be it with a refusal."""
        try:
            answer = await client.call(op, seconds, **arguments)
        except RpcError as error:
            self._silent = error.code in SILENT
            raise
        self._silent = False
        return answer

    def _log_once(self, what: str) -> None:
        """Log a complaint that is not the last one again: an agent that is wrong stays so for many attempts."""
        if what != self._complaint:
            self._complaint = what
            log.warning("%s: %s", self.host, what)


def _version(value: object) -> int:
    if not isinstance(value, int) or value < 1:
        raise RpcError(
            "EPROTO", f"the agent says that it uses node config version {value!r}, which is not a version number"
        )
    return value
