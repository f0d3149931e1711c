"""The page Prometheus reads, and the little HTTP that serves it."""

import asyncio
import re

import pytest

from mrclab.controller import metrics
from mrclab.controller.metrics import MetricsServer, Page
from mrclab.controller.provisioning import counters
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

SWITCH = Fabric(FabricSpec()).switch("t1-p1-1")
SAMPLE = re.compile(r'mrclab_[a-z_]+\{(?:[a-z_]+="[^"]*",?)*\} -?\d+(?:\.\d+)?')


def test_the_page_is_grouped_by_metric_with_one_head_each() -> None:
    page = Page()
    page.add("a_total", "counter", "what a is", {"switch": "s1"}, 3)
    page.add("b", "gauge", "what b is", {}, 0.5)
    page.add("a_total", "counter", "what a is", {"switch": "s2"}, 12_345_678_901)
    assert page.text() == (
        "# HELP mrclab_a_total what a is\n"
        "# TYPE mrclab_a_total counter\n"
        'mrclab_a_total{switch="s1"} 3\n'
        'mrclab_a_total{switch="s2"} 12345678901\n'
        "# HELP mrclab_b what b is\n"
        "# TYPE mrclab_b gauge\n"
        "mrclab_b{} 0.5\n"
    )


def test_labels_are_escaped() -> None:
    page = Page()
    page.add("denied", "gauge", "", {"reason": 'a "b" \\ c\nd'}, 1)
    assert '{reason="a \\"b\\" \\\\ c\\nd"} 1' in page.text()


def test_every_counter_of_a_switch_is_a_well_formed_sample() -> None:
    page = Page()
    metrics.add_switches(page, {"t1-p1-1": counters.summary(SWITCH, {("rx", 1): (7, 700)})})
    lines = [line for line in page.text().splitlines() if not line.startswith("#")]
    assert all(SAMPLE.fullmatch(line) for line in lines)
    assert 'mrclab_switch_rx_packets_total{switch="t1-p1-1",port="1"} 7' in lines
    assert 'mrclab_switch_dropped_packets_total{switch="t1-p1-1",reason="queue"} 7' in lines


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        (b"GET /metrics HTTP/1.1", b"200 OK", b"the page\n"),
        (b"GET /metrics?x=1 HTTP/1.0", b"200 OK", b"the page\n"),
        (b"GET /etc/passwd HTTP/1.1", b"404 Not Found", b"only GET /metrics is served here\n"),
        (b"POST /metrics HTTP/1.1", b"404 Not Found", b"only GET /metrics is served here\n"),
    ],
)
def test_only_the_page_is_served_and_only_on_loopback(request_line: bytes, status: bytes, body: bytes) -> None:
    async def page() -> str:
        return "the page\n"

    async def body_of() -> bytes:
        async with MetricsServer(0, page) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(request_line + b"\r\nHost: x\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return answer

    head, _, content = asyncio.run(body_of()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + status)
    assert f"Content-Length: {len(body)}".encode() in head
    assert content == body
