"""Boundary: what a browser sends to the page, which runs as root."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")
from starlette.testclient import TestClient

from mrclab.lab.ui.checking import Checker, checked
from mrclab.lab.ui.editor import EXAMPLE, Editor
from mrclab.lab.ui.sources import Blank, RunIndex
from mrclab.lab.ui.web.server import LivePage

MATRIX = "name: x\nworld: sim\ntraffic:\n  - {{name: a, kind: matrix, file: {}}}\n"
PROGRAM = """\
name: x
traffic:
  - {name: a, kind: program, programs: [{host: h1, command: touch /tmp/x}, {host: h3, command: id}]}
"""


def post(page, path, body):
    with TestClient(page.app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        return client.post(path, content=body, headers={"x-token": "secret"})


@pytest.fixture
def asked():
    return []


@pytest.fixture
def page(asked, tmp_path):
    def operate(operation, **arguments):
        asked.append((operation, arguments))
        return {"text": "done"}

    editor = Editor(results=tmp_path / "results", run_dir=tmp_path / "run", folder=tmp_path)
    check = lambda text: checked(text, tmp_path)  # noqa: E731
    return LivePage(
        Blank(EXAMPLE, "x"), operate, token="secret", editor=editor, run_index=RunIndex(tmp_path), check=check
    )


@pytest.mark.parametrize("name", ["/etc/passwd", "../secret.cm", "link.cm", "fifo.cm", "device.cm", "in/link.cm"])
def test_a_text_reads_nothing_but_files_below_the_folder_of_the_page(page, tmp_path, name):
    folder = tmp_path
    secret = tmp_path.parent / "secret.cm"
    secret.write_text("root:$y$secret\n")
    (folder / "in").mkdir()
    for link in ("link.cm", "in/link.cm"):
        (folder / link).symlink_to(secret)
    (folder / "device.cm").symlink_to("/dev/zero")
    os.mkfifo(folder / "fifo.cm")
    told = post(page, "/api/check", MATRIX.format(name)).json()
    assert not told["ok"]
    assert "root:" not in json.dumps(told)
    assert "cannot be read" in told["mistakes"][0]["text"]
    run = post(page, "/api/run", json.dumps({"text": MATRIX.format(name)}))
    assert run.status_code == 422


@pytest.mark.parametrize("name", ["/etc/passwd", "../secret.goal", "link.goal", "fifo.goal", "device.goal"])
def test_nor_does_a_trace(tmp_path, name):
    (tmp_path.parent / "secret.goal").write_text("num_ranks 2 # root:\n")
    (tmp_path / "link.goal").symlink_to(tmp_path.parent / "secret.goal")
    (tmp_path / "device.goal").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "fifo.goal")
    told = checked(MATRIX.format(name).replace("matrix", "trace"), tmp_path)
    assert "cannot be read" in json.dumps(told)


def test_a_matrix_beside_the_scenario_is_read(page, tmp_path):
    (tmp_path / "m.cm").write_text("Nodes 4\nConnections 1\n0->2 start 0 size 2000\n")
    assert post(page, "/api/check", MATRIX.format("m.cm")).json()["ok"]


@pytest.mark.parametrize(
    "asks",
    [
        {"operation": "command", "arguments": {"line": "capture /etc/cron.d/x h1"}},
        {"operation": "command", "arguments": {"line": "'capture' /etc/cron.d/x"}},
        {"operation": "command", "arguments": {"line": "report /etc"}},
        {"operation": "command", "arguments": {"line": "send h1 h3 /etc/shadow"}},
        {"operation": "command", "arguments": {"line": "traffic matrix file=/etc/shadow"}},
        {"operation": "command", "arguments": {"line": "traffic program programs=[]"}},
        {"operation": "command", "arguments": {"line": "traffic trace file=/etc/shadow.goal"}},
        {"operation": "traffic", "arguments": {"traffic": {"kind": "matrix", "file": "/etc/shadow"}}},
        {"operation": "traffic", "arguments": {"traffic": {"kind": "open_loop", "file": "/etc/shadow"}}},
        {"operation": "command", "arguments": {"line": "traffic open_loop file=/etc/shadow load=10% flows=1"}},
        {"operation": "subscribe", "arguments": {}},
    ],
)
def test_what_reads_or_writes_files_is_not_offered(page, asked, asks):
    answer = post(page, "/api/operation", json.dumps(asks))
    assert answer.status_code == 403
    assert answer.json()["error"].count("\n") == 0
    assert asked == []


def test_the_rest_is_carried_out(page, asked):
    for line in ("down h1-p2", "send h1 h3 16MiB", "traffic stream from=h1 to=h3 size=1MiB", "flows"):
        assert post(
            page, "/api/operation", json.dumps({"operation": "command", "arguments": {"line": line}})
        ).is_success
    assert len(asked) == 4


@pytest.mark.parametrize("kind", [[], {}, 1, None])
def test_a_kind_of_traffic_that_is_no_name_is_left_to_the_lab(page, asked, kind):
    body = {"operation": "traffic", "arguments": {"traffic": {"kind": kind}}}
    assert post(page, "/api/operation", json.dumps(body)).is_success
    assert len(asked) == 1


def test_programs_are_not_run_from_the_page(page):
    answer = post(page, "/api/run", json.dumps({"text": PROGRAM}))
    assert answer.status_code == 422
    assert "runs programs, which the page does not" in answer.json()["error"]


@pytest.mark.parametrize("path", ["/api/operation", "/api/run", "/api/replay", "/api/check"])
@pytest.mark.parametrize("body", ["[" * 200_000, '{"a":' * 100_000, "9" * 9_000, "null", "\xff", '{"operation": 1}'])
def test_any_body_is_one_sentence(page, path, body):
    answer = post(page, path, body.encode("latin-1"))
    assert answer.status_code in {200, 400, 403, 422}
    assert "Traceback" not in answer.text
    assert len(answer.text) < 1000


@pytest.mark.parametrize("path", ["/api/operation", "/api/run", "/api/replay"])
def test_text_that_is_none_is_refused(page, path):
    body = json.dumps({"operation": "\ud800", "name": "\ud800", "text": EXAMPLE, "world": "\ud800"})
    assert post(page, path, body).status_code == 400


@pytest.mark.parametrize("world", ["\0", "nowhere", "--help", "x" * 200_000])
def test_a_world_that_there_is_not_is_named(page, world):
    answer = post(page, "/api/run", json.dumps({"text": EXAMPLE, "world": world}))
    assert answer.status_code == 422
    assert "invalid world" in answer.json()["error"]
    assert len(answer.text) < 200


def test_a_number_longer_than_any_frames_is_none(page):
    page.ending = True  # streams end at once
    many = "9" * 5000
    with TestClient(page.app, base_url="http://127.0.0.1") as client:
        for path in (f"/api/frames?since={many}", f"/api/live?run={many}"):
            assert client.get(path, headers={"x-token": "secret"}).text
        assert client.get("/api/live", headers={"x-token": "secret", "last-event-id": f"0-{many}"}).text


def test_a_check_that_hangs_is_ended_and_the_next_one_is_answered(tmp_path):
    checker = Checker(tmp_path, seconds=60.0)
    try:
        assert checker.check(EXAMPLE)["ok"]
        checker._seconds = 0.2
        os.kill(checker._process.pid, signal.SIGSTOP)
        assert "took longer" in checker.check(EXAMPLE)["mistakes"][0]["text"]
        checker._seconds = 60.0
        assert checker.check(EXAMPLE)["ok"]
    finally:
        checker.close()


def test_a_request_that_blocks_holds_up_neither_others_nor_the_end(tmp_path):
    script = """
import sys, threading, time
from mrclab.lab.ui.web.serve import serve
from mrclab.lab.ui.web.server import LivePage
from mrclab.lab.ui.sources import Blank
def operate(operation, **arguments):
    time.sleep(3600)
page = LivePage(Blank("", "x"), operate, token="secret")
serve(page, 0, lambda address: print(address, flush=True))
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().strip().partition("/?")[0]

        def request(path, data=None):
            made = urllib.request.Request(address + path, data, {"x-token": "secret"})
            with urllib.request.urlopen(made, timeout=60) as answer:
                return answer.status

        def blocked():
            with pytest.raises((urllib.error.URLError, OSError)):
                request("/api/operation", b'{"operation": "clear"}')

        threads = [threading.Thread(target=blocked) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        assert request("/api/layout") == 200
        process.terminate()
        process.wait(60)  # not the hour of those
        for thread in threads:
            thread.join()
    finally:
        process.kill()
        process.wait()
