"""Counters and states as Prometheus text (exposition format 0.0.4), served on loopback to clients with the token."""

from __future__ import annotations

import hmac
import logging
import secrets
import urllib.parse
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mrclab.controller.metrics.names import CONTROLLER, KEYS, PREFIX, SWITCHES, Metric, agent_metric

if TYPE_CHECKING:
    import asyncio

log = logging.getLogger(__name__)

REQUEST_TIMEOUT = 2.0  # seconds a client has to send its request line and headers
_ROWS = {"qps": "qp", "paths": "path", "ports": "port"}
_KNOWN = {**CONTROLLER, **SWITCHES}

Labels = Mapping[str, str]


class MetricsPage:
    """Builds one page: each metric's HELP and TYPE once, its samples together."""

    def __init__(self) -> None:
        self._samples: dict[str, list[str]] = {}
        self._heads: dict[str, str] = {}

    def add(self, name: str, labels: Labels, value: float, metric: Metric | None = None) -> None:
        """One sample of metric `name` (without prefix): one that is known, or the given one."""
        metric = metric or _KNOWN[name]
        full = f"{PREFIX}_{name}"
        self._heads.setdefault(full, f"# HELP {full} {metric.text}\n# TYPE {full} {metric.kind}")
        inner = ",".join(f'{key}="{_escape(label)}"' for key, label in labels.items())
        number = str(int(value)) if value == int(value) else repr(value)
        self._samples.setdefault(full, []).append(f"{full}{{{inner}}} {number}")

    def text(self) -> str:
        """The page."""
        blocks = ["\n".join([self._heads[name], *samples]) for name, samples in self._samples.items()]
        return "\n".join(blocks) + "\n"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def add_switches(page: MetricsPage, switches: Mapping[str, Any]) -> None:
    """Add the API's `counters`, per switch, port, class and drop reason."""
    for switch, found in switches.items():
        for port, cells in found["ports"].items():
            labels = {"switch": switch, "port": port}
            for name in ("rx_packets", "rx_bytes", "trimmed", "ecn_marked"):
                page.add(f"switch_{name}_total", labels, cells[name])
            for kind, cell in cells["class"].items():
                sent = {**labels, "class": kind}
                page.add("switch_tx_packets_total", sent, cell["packets"])
                page.add("switch_tx_bytes_total", sent, cell["bytes"])
        for reason, packets in found["drops"].items():
            page.add("switch_dropped_packets_total", {"switch": switch, "reason": reason}, packets)


def add_states(page: MetricsPage, status: Mapping[str, Any]) -> None:
    """Add the API's `status`: switches that are ready, cables verified, agents connected, elements denied."""
    for name, state in status["by_switch"].items():
        ready = state["state"] == "ready"
        page.add("switch_ready", {"switch": name}, ready)
    page.add("links_verified", {}, status["links_verified"])
    page.add("links", {}, status["links"])
    for host, version in status["agents"].items():
        page.add("agent_config_version", {"host": host}, version)
    for denial in status["denied"]:
        page.add("denied", {"element": denial["element"], "source": denial["source"]}, 1)


def add_evs(page: MetricsPage, counts: Mapping[int, Mapping[str, Mapping[str, int]]]) -> None:
    """Packets and bytes of watched EVs by switch."""
    for ev, by_switch in counts.items():
        for switch, cell in by_switch.items():
            labels = {"ev": f"{ev:#010x}", "switch": switch}
            page.add("ev_packets_total", labels, cell["packets"])
            page.add("ev_bytes_total", labels, cell["bytes"])


def add_agents(page: MetricsPage, stats: Mapping[str, Mapping[str, Any]]) -> None:
    """Add the counters of the hosts' agents, per QP, path and port."""
    for host, found in stats.items():
        for kind, row_kind in _ROWS.items():
            keys = KEYS[row_kind]
            for row in found.get(kind, ()):
                labels = {"host": host, **{key: str(row[key]) for key in keys if key in row}}
                for field, value in row.items():
                    if field not in keys and isinstance(value, (int, float)):
                        name, metric = agent_metric(row_kind, field)
                        page.add(name, labels, value, metric)


class MetricsServer:
    """Serves `GET /metrics` on 127.0.0.1; `make` gives the page. `port` 0 lets the kernel choose.

    Every user of the machine reaches the port: the page is for those who give the token, in the query (`url` has it) or
    as `Authorization: Bearer`.
    """

    def __init__(self, port: int, make: Callable[[], Awaitable[str]]) -> None:
        self.port = port
        self.token = secrets.token_urlsafe(24)
        self._make = make
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The page's whole address."""
        return f"http://127.0.0.1:{self.port}/metrics?token={self.token}"

    async def start(self) -> None:
        """Listen; OSError where the port is taken."""
        import asyncio  # noqa: PLC0415 - virtual time, which serves nothing, does without

        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def __aenter__(self) -> MetricsServer:
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        import asyncio  # noqa: PLC0415

        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), REQUEST_TIMEOUT)
            writer.write(await self._answer(head.decode("latin-1")))
            await writer.drain()
        except (asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            log.debug("a metrics client sent no request")
        finally:
            writer.close()

    async def _answer(self, head: str) -> bytes:
        request, *fields = head.split("\r\n")
        method, _, rest = request.partition(" ")
        path, _, query = rest.partition(" ")[0].partition("?")
        if method != "GET" or path not in {"/metrics", "/"}:
            return _response("404 Not Found", "only GET /metrics is served here\n")
        if not self._may(query, fields):
            return _response("403 Forbidden", "the token is missing or wrong; the operation `metrics` returns it\n")
        return _response("200 OK", await self._make())

    def _may(self, query: str, fields: Iterable[str]) -> bool:
        """Return True if a request gives the token."""
        given = urllib.parse.parse_qs(query).get("token", [])
        for field in fields:
            name, _, value = field.partition(":")
            if name.strip().lower() == "authorization":
                given.append(value.strip().removeprefix("Bearer").strip())
        return any(hmac.compare_digest(word.encode(), self.token.encode()) for word in given)


def _response(status: str, body: str) -> bytes:
    content = body.encode()
    lines: Iterable[str] = (
        f"HTTP/1.1 {status}",
        "Content-Type: text/plain; version=0.0.4; charset=utf-8",
        f"Content-Length: {len(content)}",
        "Connection: close",
    )
    return "\r\n".join([*lines, "", ""]).encode() + content
