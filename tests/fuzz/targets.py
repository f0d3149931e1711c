"""Fuzz targets: each takes bytes that somebody else made, and raises only where the code under it is wrong.

Refusals in a sentence are right; anything else that comes out of the parsers is a finding. `run.py` drives them with
Atheris, `tests/unit/test_boundary_fuzz.py` replays the kept corpus.
"""

import asyncio
import atexit
import contextlib
import gzip
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

UNIT = Path(__file__).parents[1] / "unit"
SWITCH = Path(__file__).parents[1] / "switch"
if str(UNIT) not in sys.path:
    sys.path.append(str(UNIT))

# ruff: noqa: E402 - helpers of the unit tests are found only now
import mrc_sim
import roce_sim
from finsy.proto import p4r
from google.protobuf import text_format
from google.protobuf.message import DecodeError

from mrclab.hosts.mrc.packets import headers
from mrclab.hosts.rdma.packets import icrc
from mrclab.lab import history
from mrclab.lab.errors import LabError, ScenarioError
from mrclab.lab.report import compare, results, summary
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.files import yamlfile
from mrclab.lab.traffic import matrix
from mrclab.lab.ui.checking import checked
from mrclab.lab.ui.sources import Blank, RunIndex
from mrclab.lab.ui.web import server
from mrclab.lab.ui.web.server import LivePage
from mrclab.rpc.dispatch import Operations, Subscription, error_response, response
from mrclab.rpc.errors import FramingError, RpcError
from mrclab.rpc.framing import LineSplitter, decode
from mrclab.softswitch.p4runtime.device import Device
from mrclab.softswitch.p4runtime.messages.status import P4RuntimeError
from mrclab.softswitch.switch import SoftSwitch
from mrclab.topo import fabricfile
from mrclab.topo.spec import SpecError

CORPUS = Path(__file__).parent / "corpus"
_LONGEST = 2000  # characters of a sentence, with the path that it may name


@cache
def _folder() -> Path:
    """An empty folder of this process."""
    path = tempfile.mkdtemp(prefix="mrclab-fuzz-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return Path(path)


def scenario_text(data: bytes) -> None:
    """A scenario file, and the matrices that it could name: none."""
    try:
        scenario.loads(data.decode("utf-8", "replace"), "scenario.yaml", within=_folder())
    except ScenarioError as error:
        if not all(0 < len(line) < _LONGEST for line in error.mistakes):
            raise AssertionError("a mistake is no short sentence") from error


def value_text(data: bytes) -> None:
    """A value of `--set`, or of a field at the prompt."""
    with contextlib.suppress(ValueError):
        yamlfile.parse_value(data.decode("utf-8", "replace"))


def matrix_text(data: bytes) -> None:
    """A connection matrix."""
    with contextlib.suppress(matrix.MatrixError):
        found = matrix.read(data.decode("utf-8", "replace"), "x.cm")
        assert matrix.read(found.text(), "again.cm").text() == found.text()


def fabric_text(data: bytes) -> None:
    """A fabric.yaml of a result directory."""
    path = _folder() / "fabric.yaml"
    path.write_bytes(data)
    with contextlib.suppress(SpecError):
        fabricfile.load(path)


def rpc_lines(data: bytes) -> None:
    """Bytes that a client of a control socket sends."""
    operations = Operations(
        {"echo": lambda text, count=1: {"text": str(text) * (int(count) % 4)}, "none": lambda: None}
    )
    splitter, lines = LineSplitter(1 << 12), []
    with contextlib.suppress(FramingError):
        for start in range(0, len(data), 7):
            lines += splitter.feed(data[start : start + 7])
    for line in lines:
        request = {}
        try:
            request = decode(line)
            if request.get("op") == "subscribe":
                Subscription(request).wants({"kind": "x"})
            told = response(request, operations.invoke(request))
        except (RpcError, ValueError, TypeError) as error:  # of the operation itself
            told = error_response(request, error)
        json.loads(told)


def history_lines(data: bytes) -> None:
    """A history.jsonl."""
    path = _folder() / "history.jsonl"
    path.write_bytes(data)
    with contextlib.suppress(ValueError):
        for record in history.load(path).records:
            assert isinstance(record.t, float)
            assert isinstance(record.data, dict)


@cache
def _run() -> Path:
    """A finished run, whole."""
    place = _folder() / "run"
    place.mkdir()
    stored = UNIT / "stored-run"
    for name in ("run.json", "scenario.yaml"):
        shutil.copy(stored / name, place)
    info = json.loads((place / "run.json").read_text())
    info["history_sha256"] = ""
    (place / "run.json").write_text(json.dumps(info))
    (place / "history.jsonl").write_bytes(gzip.decompress((stored / "history.jsonl.gz").read_bytes()))
    (place / "result.json").write_text(json.dumps({"state": "held", "verdicts": [], "invalid": []}))
    return place


_PARTS = ("run.json", "scenario.yaml", "history.jsonl", "result.json")


def result_directory(data: bytes) -> None:
    """A result directory in which one file is somebody else's: the first byte says which, the second where it goes."""
    if len(data) < 2:
        return
    name, place = _PARTS[data[0] % len(_PARTS)], _folder() / "hostile"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(_run(), place)
    whole, rest = (place / name).read_bytes(), data[2:]
    lines = whole.splitlines(keepends=True)
    if data[1] & 1 and lines:
        at = data[1] * len(lines) // 256
        (place / name).write_bytes(b"".join([*lines[:at], rest + b"\n", *lines[at + 1 :]]))
    else:
        (place / name).write_bytes(rest)
    with contextlib.suppress(LabError):
        compare.read(place)
    with contextlib.suppress(LabError), results.foreign(place):
        found = results.load(place)
        summary.summarize(found.measures, found.verdicts, found.info)


@cache
def _page() -> LivePage:
    def operate(operation: str, **arguments: object) -> dict[str, Any]:
        assert not server.refused_operation(operation, arguments)
        return {"message": operation}

    def check(text: str) -> dict[str, Any]:
        return checked(text, _folder())

    return LivePage(Blank("", "x"), operate, token="secret", run_index=RunIndex(_folder() / "results"), check=check)


_PATHS = ("/api/operation", "/api/check", "/api/run", "/api/replay", "/api/frames", "/api/layout", "/api/back")


def page_request(data: bytes) -> None:
    """A request to the page from a browser that knows the token: its first byte says which, its second how."""
    if len(data) < 2:
        return
    path, sent = _PATHS[data[0] % len(_PATHS)], []
    method = "POST" if path in _PATHS[:4] or path == "/api/back" else "GET"
    query = data[2:] if method == "GET" else b""
    headers = [(b"host", b"127.0.0.1"), (b"x-token", b"secret" if data[1] else b"wrong")]
    scope = {"type": "http", "http_version": "1.1", "method": method, "path": path, "raw_path": path.encode(),
             "root_path": "", "scheme": "http", "query_string": query, "headers": headers,
             "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2)}  # fmt: skip

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": data[2:], "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(_page().app(scope, receive, send))  # type: ignore[arg-type]
    assert sent[0]["status"] in {200, 400, 403, 409, 422}


@cache
def _frames(roce: bool) -> tuple[bytes, ...]:
    """Frames of a transfer with everything in it, as they came to h3 and h1."""
    sim = (roce_sim if roce else mrc_sim).Simulation()
    sim.keep_sent = True
    transfer = (mrc_sim.Transfer)(sim, "h1", "h3", 60_000)
    transfer.write(0, 50_000)
    transfer.write(50_000, 100, imm=7)
    sim.run(1.0)
    return tuple({sent.op: bytes(sent.data) for sent in sim.sent}.values())


def _frame_to(data: bytes, roce: bool) -> None:
    """One frame after another: a real one with some bytes changed, with a right ICRC or a wrong one."""
    frames = _frames(roce)
    sim = (roce_sim if roce else mrc_sim).Simulation()
    transfer = mrc_sim.Transfer(sim, "h1", "h3", 20_000)
    transfer.write(0, 20_000)
    sim.kick()
    for start in range(0, min(len(data), 64), 8):
        part = data[start : start + 8].ljust(8, b"\0")
        frame = bytearray(frames[part[0] % len(frames)])
        for place, value in ((part[1], part[2]), (part[3], part[4])):
            at = (54 if part[5] & 1 else 0) + place
            if at < len(frame):
                frame[at] ^= value
        if part[5] & 2:
            del frame[part[6] :]
        if part[5] & 4:
            _seal(frame, roce)
        host = sim.hosts["h3" if part[5] & 8 else "h1"]
        host.receive(1 + part[7] % 4 % len(sim.configs["h1"].ports), bytes(frame), sim.now)
    sim.run(sim.now + 0.01)
    for host in sim.hosts.values():
        for qp in host.verbs.qps.values():
            assert qp.state is not None


def _seal(frame: bytearray, roce: bool) -> None:
    """Put the right ICRC at the end of the inner packet, where the frame has one."""
    udp = 54 if roce else headers.UDP_AT
    if len(frame) < udp + 24:
        return
    length = int.from_bytes(frame[udp + 4 : udp + 6], "big")
    end = udp + length - 4
    if not udp + 20 <= end <= len(frame) - 4:
        return
    view = memoryview(frame)
    prefix = icrc.ipv6_prefix(length.to_bytes(2, "big") + b"\x11", bytes(view[udp - 32 : udp]))
    head = bytearray(view[udp:end])
    head[6:8], head[12] = b"\0\0", 0
    frame[end : end + 4] = (crc32(head, prefix) ^ icrc.mask_correction(len(head))).to_bytes(4, "little")


def mrc_frames(data: bytes) -> None:
    """Frames at a host that runs MRC."""
    _frame_to(data, roce=False)


def roce_frames(data: bytes) -> None:
    """Frames at a host that runs RoCEv2."""
    _frame_to(data, roce=True)


@cache
def _device() -> Device:
    """A P4Runtime device with the program of the unit tests, which has every kind of entity."""
    program = SWITCH / "p4runtime"
    action = p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
    request = p4r.SetForwardingPipelineConfigRequest(device_id=1, action=action)
    text_format.Parse((program / "everything.p4info.txtpb").read_text(), request.config.p4info)
    request.config.p4_device_config = (program / "everything.json").read_bytes()
    device = Device(SoftSwitch(510), 1)
    device.set_pipeline(request)
    return device


def p4runtime_message(data: bytes) -> None:
    """A P4Runtime message of a client, after its election: the first byte says which; then all entities are read."""
    if not data:
        return
    device = _device()
    kinds = (p4r.WriteRequest, p4r.ReadRequest, p4r.PacketOut, p4r.DigestListAck)
    calls = (device.write, lambda request: list(device.read(request)), device.packet_out, device.digest_ack)
    try:
        message = kinds[data[0] % len(kinds)].FromString(data[1:])
    except DecodeError:
        return
    if isinstance(message, p4r.WriteRequest | p4r.ReadRequest):
        message.device_id = 1
    if isinstance(message, p4r.WriteRequest):  # of the primary
        message.ClearField("election_id")
    device._commit(device._running(), [])  # no entry of the input before
    with contextlib.suppress(P4RuntimeError):
        calls[data[0] % len(kinds)](message)
    everything = p4r.ReadRequest(device_id=1, entities=[p4r.Entity(table_entry=p4r.TableEntry())])
    assert not any(isinstance(found, P4RuntimeError) for found in device.read(everything))


TARGETS: dict[str, Callable[[bytes], None]] = {
    "scenario": scenario_text, "value": value_text, "matrix": matrix_text, "fabric": fabric_text, "rpc": rpc_lines,
    "page": page_request, "history": history_lines, "results": result_directory, "mrc": mrc_frames, "roce": roce_frames,
    "p4runtime": p4runtime_message,
}  # fmt: skip
