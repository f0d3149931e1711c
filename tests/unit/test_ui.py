"""The page's model and server: frames from histories, replay and live alike; what is refused. No browser, no lab."""

import json
import time
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the page needs starlette; it is one of the lab's requirements")
from starlette.testclient import TestClient

from mrclab.lab.errors import LabError, RunError
from mrclab.lab.history import Record
from mrclab.lab.run.wire.attach import store_fabric
from mrclab.lab.ui.model import PageModel, frames
from mrclab.lab.ui.server import LivePage
from mrclab.lab.ui.sources import Live, Replay
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

FABRIC = Fabric(FabricSpec())
CUT = "t0-p1-1/t1-p1-2"
EV = 0x1020_8001


def sample(t: float, packets: int, placed: int) -> list[Record]:
    path = {"qp": 256, "ev": EV, "plane": 1, "uplink": 2, "sent_packets": packets}
    qp = {"qp": 256, "rtt": 0.05, "cwnd": 8192}
    return [
        Record(t, "h1", "sample", {"qps": [qp], "paths": [path], "ports": [{"port": 1, "placed_bytes": 0}]}),
        Record(t, "h3", "sample", {"qps": [], "paths": [], "ports": [{"port": 1, "placed_bytes": placed}]}),
    ]


def records() -> list[Record]:
    """Two seconds of a flow h1 → h3 over one path at half its rate; a cable cut at 1 s and healed at 1.5 s."""
    flow = {"source": "h1", "destination": "h3", "qps": [{"source_qp": 256, "destination_qp": 256}]}
    begin = Record(0.0, "lab", "traffic.start", {"traffic": "file", "flows": [flow]})
    half = FABRIC.spec.link.rate_pps / 2
    told = [record for n in range(21) for record in sample(n / 10, round(n / 10 * half), round(n / 10 * 1000))]
    told += [
        Record(1.0, "lab", "fault.begin",
               {"fault": "cut", "fault_kind": "link_down", "links": [CUT], "text": f"{CUT} down", "link": CUT}),
        Record(1.1, "h1", "packet.lost", {"qp": 256, "ev": EV, "count": 3}),
        Record(1.1, "h1", "ev.state",
               {"qp": 256, "ev": EV, "plane": 1, "uplink": 2, "old": "GOOD", "new": "ASSUMED_BAD", "reason": "time"}),
        Record(1.5, "lab", "fault.end", {"fault": "cut", "links": [CUT]}),
    ]  # fmt: skip
    return [begin, *sorted(told, key=lambda record: record.t)]


def at(made: list[dict], t: float) -> dict:
    return min(made, key=lambda frame: abs(frame["t"] - t))


def test_frames_tell_load_goodput_faults_and_states():
    made = frames(FABRIC, records())
    before, during, after = at(made, 0.9), at(made, 1.2), at(made, 1.9)
    index = FABRIC.link(CUT).index
    up, down = before["load"][index]
    assert (up, down) == (pytest.approx(0.5, abs=0.02), 0)
    assert before["goodput"]["1"] == pytest.approx(1000, rel=0.02)
    assert [frame["down"] for frame in (before, during, after)] == [[], [index], []]
    assert during["faults"] == {"cut": f"{CUT} down"}
    assert [frame["qps"][0]["evs"][0][3] for frame in (before, during)] == ["GOOD", "ASSUMED_BAD"]
    assert (before["totals"]["lost"], during["totals"]["lost"]) == (0, 3)
    texts = [event["text"] for frame in made for event in frame["events"]]
    assert f"cut strikes: {CUT} down" in texts
    assert "EV plane 1 uplink 2: GOOD → ASSUMED_BAD (time)" in texts


def test_a_packet_on_a_path_loads_every_cable_of_it_in_its_direction():
    load = at(frames(FABRIC, records()), 0.9)["load"]
    loaded = {FABRIC.links[index].name: pair for index, pair in enumerate(load) if any(pair)}
    assert set(loaded) == {link.name for link in FABRIC.path_links("h1", "h3", 1, 2)}
    assert loaded[FABRIC.link("h1-p1").name][0] > 0
    assert loaded[FABRIC.link("h3-p1").name][1] > 0


def write_history(directory: Path, told: list[Record]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    lines: dict[str, list[str]] = {}
    for record in told:
        line = json.dumps({"t": record.t, "node": record.node, "kind": record.kind, **record.data})
        lines.setdefault(record.node, []).append(line)
    for node, texts in lines.items():
        with (directory / f"{node}.jsonl").open("a") as file:
            file.write("\n".join(texts) + "\n")


def finished(directory: Path) -> Path:
    write_history(directory / "history", records())
    store_fabric(FABRIC.spec, directory / "fabric.yaml")
    everything = "".join(path.read_text() for path in sorted((directory / "history").glob("*.jsonl")))
    (directory / "history.jsonl").write_text(everything)
    verdict = {"ok": True, "wanted": "all", "saw": "all", "when": ""}
    (directory / "result.json").write_text(json.dumps({"state": "held", "verdicts": [verdict]}))
    return directory


def until(happened, what: str):
    deadline = time.monotonic() + 240
    while not happened():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def test_a_replay_equals_what_was_seen_live(tmp_path):
    replay = Replay(finished(tmp_path / "finished"))
    run_dir = tmp_path / "lab"
    run_dir.mkdir()
    store_fabric(FABRIC.spec, run_dir / "fabric.yaml")
    told = records()
    alive = True
    write_history(run_dir / "history", told[:20])
    live = Live(run_dir, lambda: alive)
    write_history(run_dir / "history", told[20:])
    alive = False
    until(lambda: live.outcome() is not None, "the end of the lab was not noticed")
    live.stop()
    shown, seen = replay.frames(0), live.frames(0)
    events = [[event["text"] for frame in made for event in frame["events"]] for made in (shown, seen)]
    assert sorted(events[0]) == sorted(events[1])
    for name in ("totals", "down", "faults", "qps"):
        assert shown[-1][name] == seen[-1][name]
    assert live.frames(len(seen)) == []


@pytest.fixture
def page(tmp_path):
    return LivePage(Replay(finished(tmp_path)), None, token="secret")


def client(page: LivePage, host: str = "127.0.0.1:8000") -> TestClient:
    return TestClient(page.app, base_url=f"http://{host}")


def test_the_page_and_its_frames_are_served_to_who_knows_the_token(page):
    web = client(page)
    index = web.get("/", params={"token": "secret"})
    assert index.status_code == 200
    assert "default-src 'self'" in index.headers["content-security-policy"]
    for name in (
        "static/page.js",
        "static/style.css",
        "static/vendor/uPlot.iife.min.js",
        "static/vendor/uPlot-LICENSE",
    ):
        assert web.get(f"/{name}").status_code == 200
    layout = web.get("/api/layout", headers={"x-token": "secret"}).json()
    assert len(layout["switches"]) == 16
    assert layout["outcome"]["state"] == "held"
    assert len(web.get("/api/frames", headers={"x-token": "secret"}).json()) > 10
    told = web.get("/api/live", params={"token": "secret", "since": 5}).text
    assert told.startswith("id: 6\n")
    assert "event: outcome" in told


@pytest.mark.parametrize(
    ("path", "headers", "host"),
    [
        ("/", {}, "127.0.0.1:8000"),
        ("/api/layout", {"x-token": "guess"}, "127.0.0.1:8000"),
        ("/api/frames", {"x-token": "secret", "origin": "https://elsewhere.example"}, "127.0.0.1:8000"),
        ("/api/frames", {"x-token": "secret"}, "rebound.example:8000"),
    ],
)
def test_wrong_tokens_other_sites_and_other_names_are_refused(page, path, headers, host):
    assert client(page, host).get(path, headers=headers).status_code == 403


def test_operations_reach_the_lab_and_its_refusals_the_page(tmp_path):
    asked = []

    def operate(operation: str, **arguments: object) -> dict:
        asked.append((operation, arguments))
        if operation != "strike":
            raise RunError("no such word")
        return {"said": "done"}

    web = client(LivePage(Replay(finished(tmp_path)), operate, token="secret"))
    headers = {"x-token": "secret"}
    wanted = {"operation": "strike", "arguments": {"kind": "link_down", "fields": {"link": CUT}}}
    assert web.post("/api/operation", json=wanted, headers=headers).json() == {"said": "done"}
    assert asked == [("strike", wanted["arguments"])]
    refused = web.post("/api/operation", json={"operation": "dance"}, headers=headers)
    assert (refused.status_code, refused.json()) == (422, {"error": "no such word"})
    assert web.post("/api/operation", content=b"[", headers=headers).status_code == 400
    assert web.post("/api/operation", json=wanted).status_code == 403
    assert web.post("/api/operation", content=b"x" * (2 << 20), headers=headers).status_code == 400


def test_a_finished_run_takes_no_operations_and_a_scenario_is_checked(page):
    web = client(page)
    headers = {"x-token": "secret"}
    assert web.post("/api/operation", json={"operation": "heal"}, headers=headers).status_code == 409
    good = "name: x\ntraffic:\n  - {name: f, kind: write, from: h1, to: h3, size: 1 MiB}\n"
    assert web.post("/api/check", content=good, headers=headers).json()["ok"] is True
    told = web.post("/api/check", content=good.replace("size", "sise"), headers=headers).json()
    assert told["ok"] is False
    assert any("sise" in mistake and "size" in mistake for mistake in told["mistakes"])


def test_what_is_no_result_directory_is_said(tmp_path):
    with pytest.raises(LabError, match="no result directory"):
        Replay(tmp_path)


def test_rates_of_what_no_longer_moves_go_to_nothing():
    model = PageModel(FABRIC)
    for record in records():
        model.take(record)
    assert model.frame(2.0)["goodput"]["1"] > 0
    assert model.frame(5.0)["goodput"]["1"] == 0
