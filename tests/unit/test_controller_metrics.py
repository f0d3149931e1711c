"""The page Prometheus reads, and the little HTTP that serves it."""

import re
import socket
import struct
import threading

import pytest

from mrclab.controller.metrics import names as metricnames
from mrclab.controller.metrics import page as metrics
from mrclab.controller.metrics.names import Metric
from mrclab.controller.metrics.page import MetricsPage
from mrclab.controller.metrics.server import MetricsServer
from mrclab.controller.provisioning import counters
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

SWITCH = Fabric(FabricSpec()).switch("t1-p1-1")
SAMPLE = re.compile(r'mrclab_[a-z_]+\{(?:[a-z_]+="[^"]*",?)*\} -?\d+(?:\.\d+)?')


def test_the_page_is_grouped_by_metric_with_one_head_each() -> None:
    page = MetricsPage()
    page.add("a_total", {"switch": "s1"}, 3, Metric("counter", ("switch",), "what a is"))
    page.add("b", {}, 0.5, Metric("gauge", (), "what b is"))
    page.add("a_total", {"switch": "s2"}, 12_345_678_901, Metric("counter", ("switch",), "what a is"))
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
    page = MetricsPage()
    page.add("denied", {"element": 'a "b" \\ c\nd', "source": "x"}, 1)
    assert '{element="a \\"b\\" \\\\ c\\nd",source="x"} 1' in page.text()


def test_every_counter_of_a_switch_is_a_well_formed_sample() -> None:
    page = MetricsPage()
    metrics.add_switches(page, {"t1-p1-1": counters.summary(SWITCH, {("rx", 1): (7, 700)})})
    lines = [line for line in page.text().splitlines() if not line.startswith("#")]
    assert all(SAMPLE.fullmatch(line) for line in lines)
    assert 'mrclab_switch_rx_packets_total{switch="t1-p1-1",port="1"} 7' in lines
    assert 'mrclab_switch_dropped_packets_total{switch="t1-p1-1",reason="queue"} 7' in lines


REFUSED = "the token is missing or wrong; the operation `metrics` returns it\n"


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        ("GET /metrics?token=TOKEN HTTP/1.1", "200 OK", "the page\n"),
        ("GET /metrics?x=1&token=TOKEN HTTP/1.0", "200 OK", "the page\n"),
        ("GET /metrics HTTP/1.1\r\nauthorization: Bearer TOKEN", "200 OK", "the page\n"),
        ("GET /metrics HTTP/1.1", "403 Forbidden", REFUSED),
        ("GET /metrics?token= HTTP/1.1\r\nAuthorization: Bearer", "403 Forbidden", REFUSED),
        ("GET /metrics?token=TOKENX HTTP/1.1", "403 Forbidden", REFUSED),
        ("GET /etc/passwd HTTP/1.1", "404 Not Found", "only GET /metrics is served here\n"),
    ],
)
def test_only_the_page_is_served_only_on_loopback_and_only_for_its_token(
    request_line: str, status: str, body: str
) -> None:
    server = MetricsServer(0, lambda: "the page\n")
    try:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(f"{request_line}\r\nHost: x\r\n\r\n".replace("TOKEN", server.token).encode())
            head, _, content = b"".join(iter(lambda: client.recv(4096), b"")).partition(b"\r\n\r\n")
    finally:
        server.close()
    assert head.startswith(f"HTTP/1.1 {status}".encode())
    assert f"Content-Length: {len(body)}".encode() in head
    assert content == body.encode()


def test_a_client_that_hangs_up_leaves_nothing_in_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    asked, gone = threading.Event(), threading.Event()

    def make() -> str:
        asked.set()
        gone.wait(10)
        return "a line\n" * 1_000_000  # more than a socket's buffers hold

    server = MetricsServer(0, make)
    try:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close: reset
            client.sendall(f"GET /metrics?token={server.token} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert asked.wait(10)
        gone.set()
        for thread in threading.enumerate():
            if "process_request_thread" in thread.name:
                thread.join(10)
    finally:
        server.close()
    assert capsys.readouterr().err == ""


def test_the_page_of_metrics_has_all_that_the_code_registers() -> None:
    text = metricnames.build()
    assert metricnames.FILE.read_text(encoding="utf-8") == text, (
        "docs/metrics.md is not current; run python -m mrclab.controller.metrics.names"
    )
    for name in (*metricnames.CONTROLLER, *metricnames.SWITCHES, *metricnames.agents()):
        assert f"| `mrclab_{name}` |" in text
