"""The page's model and server: frames from histories, replay and live alike; what is refused. No browser, no lab."""

import asyncio
import json
import time
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the page needs starlette; it is one of the lab's requirements")
from starlette.testclient import TestClient

from mrclab.lab.command.live import ui
from mrclab.lab.errors import LabError, RunError
from mrclab.lab.history import Record
from mrclab.lab.prompt.remote.client import SOCKET
from mrclab.lab.ui import framestream
from mrclab.lab.ui.checking import checked
from mrclab.lab.ui.editor import EXAMPLE, Editor
from mrclab.lab.ui.framestream import FrameLog, merge, patch
from mrclab.lab.ui.judging import Judge
from mrclab.lab.ui.model import PageModel
from mrclab.lab.ui.phrases import PHRASES, phrase
from mrclab.lab.ui.sources import Blank, Live, Replay, RunIndex
from mrclab.lab.ui.web.server import LivePage, WatchedPackets, Workers
from mrclab.topo import fabricfile
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
    """Two seconds of a flow h1 → h3 over one path at half its rate; a cable cut at 1 s and cleared at 1.5 s."""
    qps = [{"source_qp": 256, "destination_qp": 256}]
    flow = {"flow": "file/h1>h3", "source": "h1", "destination": "h3", "size": 0, "qps": qps}
    begin = Record(0.0, "lab", "traffic.start", {"traffic": "file", "traffic_kind": "write", "flows": [flow]})
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


def frames() -> list[dict]:
    return list(framestream.frames(PageModel(FABRIC), records(), 0.1))


def load(frame: dict, link: str) -> list[float]:
    """Shares of a cable's rate, from its first end and from its second."""
    return frame["load"].get(str(FABRIC.link(link).index), [0, 0])


def at(made: list[dict], t: float) -> dict:
    return min(made, key=lambda frame: abs(frame["t"] - t))


def test_frames_tell_load_goodput_faults_and_states():
    made = frames()
    before, during, after = at(made, 0.9), at(made, 1.2), at(made, 1.9)
    index = FABRIC.link(CUT).index
    assert load(before, CUT) == [pytest.approx(0.5, abs=0.02), 0]
    assert before["goodput"]["1"] == pytest.approx(1000, rel=0.02)
    assert [frame["down"] for frame in (before, during, after)] == [[], [index], []]
    assert during["faults"] == {"cut": f"{CUT} down"}
    assert [frame["evs"]["h1/256"][0][3] for frame in (before, during)] == ["GOOD", "ASSUMED_BAD"]
    assert (before["totals"]["lost"], during["totals"]["lost"]) == (0, 3)
    texts = [event["text"] for frame in made for event in frame["events"]]
    assert f"fault cut: {CUT} down" in texts
    assert "EV plane 1 uplink 2: GOOD → ASSUMED_BAD (time)" in texts


def test_a_packet_on_a_path_loads_every_cable_of_it_in_its_direction():
    loaded = {FABRIC.links[int(index)].name: pair for index, pair in at(frames(), 0.9)["load"].items()}
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


def finished(directory: Path, told: list[Record] | None = None) -> Path:
    write_history(directory / "history", told or records())
    fabricfile.store(FABRIC.spec, directory / "fabric.yaml")
    everything = "".join(path.read_text() for path in sorted((directory / "history").glob("*.jsonl")))
    (directory / "history.jsonl").write_text(everything)
    verdict = {"ok": True, "expected": "all", "observed": "all", "when": ""}
    (directory / "result.json").write_text(json.dumps({"state": "passed", "verdicts": [verdict]}))
    return directory


def until(happened, what: str, seconds: float = 240):
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def live_over(place: Path, told: list[Record]) -> Live:
    """A lab whose history was read in two pieces, and which has gone."""
    place.mkdir()
    fabricfile.store(FABRIC.spec, place / "fabric.yaml")
    alive = True
    half = len(told) // 2
    write_history(place / "history", told[:half])
    live = Live(place, lambda: alive)
    until(lambda: live.frame_log.last, "no frame came")
    write_history(place / "history", told[half:])
    alive = False
    until(lambda: live.outcome is not None, "the end of the lab was not noticed")
    live.stop()
    return live


def virtual(told: list[Record]) -> list[Record]:
    return [Record(0.0, "lab", "world", {"world": "sim"}), *told]


def long(told: list[Record]) -> list[Record]:
    """The same, and samples for as long as a run takes whose replay has a frame for each of them."""
    return [*told, *(record for n in range(21, 140) for record in sample(n / 10, 500, 2000))]


def test_a_replay_equals_what_was_seen_live_frame_by_frame(tmp_path):
    told = virtual(long(records()))
    replay, live = Replay(finished(tmp_path / "finished", told)), live_over(tmp_path / "lab", told)
    assert list(live.frame_log.frames()) == list(replay.frame_log.frames())
    assert len(list(live.frame_log.frames())) > 100
    assert live.frame_log.changes_since(10**6)[1] == []


def test_a_time_so_late_that_a_step_does_not_change_it_has_frames_like_any_other():
    class Counting:
        count = 0

        def take(self, _record):
            pass

        def frame(self, _now):
            self.count += 1
            assert self.count < 100
            return {}

    told = [Record(t, "lab", "lab.up", {"seconds": 1}) for t in (1.0, 1e17, 1e17 + 1e5)]
    assert len(list(framestream.frames(Counting(), told, 1e-4))) < 10


def test_a_replay_of_a_run_of_an_earlier_version_has_the_present_names(tmp_path):
    place = finished(tmp_path)
    verdict = {"ok": True, "wanted": "all", "saw": "all", "when": ""}
    (place / "result.json").write_text(json.dumps({"state": "held", "verdicts": [verdict]}))
    found = [{"state": "passed", "expected": "all", "observed": "all", "when": ""}]
    assert Replay(place).outcome == {"state": "passed", "expectations": found}


def test_a_lab_whose_virtual_time_is_slow_is_seen_to_move_between_two_beats(tmp_path, monkeypatch):
    monkeypatch.setattr("mrclab.lab.ui.sources._LONGEST_FRAME_S", 0.0)
    place = tmp_path / "lab"
    place.mkdir()
    fabricfile.store(FABRIC.spec, place / "fabric.yaml")
    write_history(place / "history", virtual(records()))
    live = Live(place, lambda: True)
    try:
        until(lambda: live.frame_log.last and live.frame_log.last["t"] > 1.85, "not all frames of the two seconds came")
        last = live.frame_log.last["t"]
        began = {"fault": "x", "links": [], "text": "late"}
        write_history(place / "history", [Record(last + 0.001, "lab", "fault.begin", began)])
        until(lambda: live.frame_log.last["t"] > last, "nothing moved")
        assert live.frame_log.last["faults"]["x"] == "late"
    finally:
        live.stop()


SCENARIO = """
name: judged
fabric: {planes: 4}
traffic:
  - {name: file, kind: write, from: h1, to: h3, size: 1 MiB}
faults:
  - {name: cut, kind: link_down, link: t0-p1-1/t1-p1-2, at: 1s, until: 1.5s}
expect:
  - {kind: lost, fault: cut, at_most: 5}
  - {kind: lost, fault: cut, at_most: 2}
  - {kind: integrity}
  - {kind: qp_errors}
"""


def judged() -> list[Record]:
    """A run of that scenario from its start: its traffic ends at 2 s."""
    end = {"traffic": "file", "flow": "file", "sent_sha256": "ab", "received_sha256": "ab"}
    return [
        Record(0.0, "lab", "world", {"world": "sim"}),
        Record(0.0, "lab", "scenario", {"text": SCENARIO}),
        *records(),
        Record(2.0, "lab", "traffic.end", end),
    ]


def test_expectations_turn_while_they_are_decided_and_a_window_that_is_over_is_final():
    fabric = Fabric(FabricSpec(planes=4))
    judge = Judge(fabric)
    told = judged()
    seen = {}
    for record in told:
        judge.take(record)
    for t, interim_verdicts in judge.over_time():
        seen[round(t, 1)] = [each["state"] for each in interim_verdicts]
    assert seen[0.2][:2] == ["open", "open"]
    assert seen[1.2] == ["good", "bad", "bad", "good"]
    assert seen[1.7][:2] == ["passed", "failed"]
    state, final = judge.outcome()
    assert [each["state"] for each in final] == ["passed", "failed", "passed", "passed"]
    assert state == "failed"


def test_a_run_that_broke_off_is_said_to_be_broken():
    judge = Judge(FABRIC)
    for record in [*judged(), Record(2.1, "lab", "run.broken", {"why": "h1 ended"})]:
        judge.take(record)
    state, final = judge.outcome()
    assert (state, final[0]["observed"]) == ("aborted", "h1 ended")


def test_marks_and_trims_are_told_by_port():
    page = PageModel(FABRIC)
    ports = {"1": {"trimmed": 3, "ecn_marked": 40, "rx_packets": 7}, "2": {"rx_packets": 7}}
    page.take(
        Record(1.0, "controller", "switches", {"switches": {"t0-p1-1": {"ports": ports, "drops": {"usid_miss": 2}}}})
    )
    frame = page.frame(1.1)
    assert frame["ports"] == {"t0-p1-1": {"1": [3, 40]}}
    assert {name: frame["totals"][name] for name in ("trimmed", "marked", "dropped")} == {
        "trimmed": 3, "marked": 40, "dropped": 2,
    }  # fmt: skip


def test_packets_that_wait_in_a_switch_are_not_counted_as_dropped():
    page = PageModel(FABRIC)
    counted = []
    for number, missing in enumerate([0, 9, 3, 8, 12, 4, 7, 9, 5, 4, 4, 4, 4]):  # 4 of them never leave
        told = {"t0-p1-1": {"ports": {}, "drops": {"queue": missing}}}
        page.take(Record(1.0 + number, "controller", "switches", {"switches": told}))
        counted.append(page.frame(1.5 + number)["totals"]["dropped"])
    assert counted == sorted(counted)
    assert counted[3] == 0
    assert counted[-1] == 4


def test_a_patch_makes_one_frame_of_another_and_names_what_changed_alone():
    before = {"t": 1, "faults": {"cut": "x"}, "evs": {"a": [1], "b": [2]}, "same": {"k": 1}}
    after = {"t": 2, "faults": {}, "evs": {"a": [1], "b": [3], "c": [4]}, "same": {"k": 1}}
    assert patch(before, after) == {"t": 2, "faults": {"cut": None}, "evs": {"b": [3], "c": [4]}}


def test_a_frame_log_forgets_its_oldest_frames_and_tells_the_first_that_is_left_whole():
    whole, log, made = FrameLog(), FrameLog(most=10), frames()
    for frame in made:
        whole.add(frame)
        log.add(frame)
    assert list(whole.frames()) == json.loads(json.dumps(made))
    first, changes = log.changes_since(0)
    assert first > 0
    assert json.loads(changes[0]) == json.loads(json.dumps(made[first]))
    assert log.changes_since(first + 3) == (first + 3, changes[3:])
    assert list(log.frames())[-1] == json.loads(json.dumps(log.last))
    small = FrameLog(most_text=2 * len(json.dumps(made[-1])))
    for frame in made * 5:
        small.add(frame)
    assert sum(map(len, small.changes_since(10**6)[1] or small.changes_since(0)[1])) < 4 * len(json.dumps(made[-1]))


def test_frames_as_told_are_the_frames(page):
    told = client(page).get("/api/frames", headers={"x-token": "secret"}).json()["frames"]
    frame: dict = {}
    for change in told:
        frame = merge(frame, change)
    assert frame == json.loads(json.dumps(page.source.frame_log.last))
    assert len(json.dumps(told[-2])) < len(json.dumps(frame)) / 2


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
    assert layout["outcome"]["state"] == "passed"
    assert len(web.get("/api/frames", headers={"x-token": "secret"}).json()["frames"]) > 10
    told = web.get("/api/live", params={"token": "secret", "since": 5}).text
    assert told.startswith("id: 0-6\n")
    assert len(told.splitlines()[1]) < 1000  # what changed alone
    other = web.get("/api/live", params={"token": "secret", "since": 5, "run": 1}).text
    assert other.startswith("event: source\n")
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
        if operation != "inject":
            raise RunError("no such command")
        return {"message": "done"}

    web = client(LivePage(Replay(finished(tmp_path)), operate, token="secret"))
    headers = {"x-token": "secret"}
    wanted = {"operation": "inject", "arguments": {"kind": "link_down", "fields": {"link": CUT}}}
    assert web.post("/api/operation", json=wanted, headers=headers).json() == {"message": "done"}
    assert asked == [("inject", wanted["arguments"])]
    refused = web.post("/api/operation", json={"operation": "clear"}, headers=headers)
    assert (refused.status_code, refused.json()) == (422, {"error": "no such command"})
    assert web.post("/api/operation", content=b"[", headers=headers).status_code == 400
    assert web.post("/api/operation", json=wanted).status_code == 403
    assert web.post("/api/operation", content=b"x" * (2 << 20), headers=headers).status_code == 400


def test_the_page_says_at_what_pace_time_passes_or_why_no_single_packet_is_drawn(tmp_path):
    source = Replay(finished(tmp_path))
    source.outcome = None  # as of a lab that goes on

    def wire(_since: int | None) -> dict:
        raise RunError("a host counts them")

    def virtual(since: int | None) -> dict:
        return {"next": 3, "now": 1.0, "speed": 0.01, "slow": True, "seen": [] if since is None else [[0, 1, 2, 0, 1]]}

    def layout(packets):
        return client(LivePage(source, lambda *_: {}, token="secret", packets=packets)).get(
            "/api/layout", headers={"x-token": "secret"}
        ).json()  # fmt: skip

    assert layout(wire)["packets"] == "a host counts them"
    assert "speed" not in layout(wire)
    assert layout(virtual)["speed"] == 0.01

    async def told(packets) -> list[str]:
        watched = WatchedPackets(packets, Workers())
        return [await watched.next() for _ in range(2)]

    first, second = asyncio.run(told(virtual))
    assert not json.loads(first)["seen"]
    assert json.loads(second)["seen"]
    assert asyncio.run(told(wire)) == ["", ""]


def test_a_finished_run_takes_no_operations_and_a_scenario_is_checked(page):
    web = client(page)
    headers = {"x-token": "secret"}
    assert web.post("/api/operation", json={"operation": "clear"}, headers=headers).status_code == 409
    good = "name: x\ntraffic:\n  - {name: f, kind: write, from: h1, to: h3, size: 1 MiB}\n"
    assert web.post("/api/check", content=good, headers=headers).json()["ok"] is True
    told = web.post("/api/check", content=good.replace("size", "sise"), headers=headers).json()
    assert told["ok"] is False
    (mistake,) = [each for each in told["mistakes"] if "sise" in each["text"]]
    assert mistake["line"] == 3
    assert "size" in mistake["text"]
    assert not mistake["text"].startswith("scenario.yaml")


def test_a_finished_run_is_chosen_from_the_folder_of_results_and_played_again(tmp_path):
    finished(tmp_path / "results" / "one")
    finished(tmp_path / "results" / "suite" / "runs" / "two")
    (tmp_path / "results" / "broken").mkdir()
    (tmp_path / "results" / "broken" / "result.json").write_text("{")
    finished(tmp_path / "elsewhere")
    page = LivePage(Blank(EXAMPLE, "x"), None, token="secret", run_index=RunIndex(tmp_path / "results"))
    web, headers = client(page), {"x-token": "secret"}
    assert web.get("/api/layout", headers=headers).json()["replays"] is True
    listed = web.get("/api/results", headers=headers).json()
    assert {(run["name"], run["state"]) for run in listed} == {("one", "passed"), ("suite/runs/two", "passed")}
    for name in ("../elsewhere", "/", "three"):
        refused = web.post("/api/replay", json={"name": name}, headers=headers)
        assert (refused.status_code, "choose one" in refused.json()["error"]) == (422, True)
    assert web.post("/api/replay", content=b"[]", headers=headers).status_code == 400
    assert web.post("/api/replay", json={"name": "suite/runs/two"}, headers=headers).status_code == 200
    layout = web.get("/api/layout", headers=headers).json()
    assert (layout["title"], layout["own"], layout["outcome"]["state"]) == ("two", False, "passed")
    assert web.post("/api/back", headers=headers).json() == {"message": "x"}


def test_what_is_no_result_directory_is_said(tmp_path):
    with pytest.raises(LabError, match="the result directory"):
        Replay(tmp_path)


def test_rates_of_what_no_longer_moves_go_to_nothing():
    page = PageModel(FABRIC)
    for record in records():
        page.take(record)
    assert page.frame(2.0)["goodput"]["1"] > 0
    assert page.frame(5.0)["goodput"]["1"] == 0


def test_the_example_of_the_editor_is_in_order():
    assert checked(EXAMPLE)["mistakes"] == []


@pytest.mark.once
def test_the_editor_runs_what_it_holds_and_everybody_sees_it(tmp_path):
    editor = Editor(results=tmp_path / "results", run_dir=tmp_path / "run")
    page = LivePage(Blank(EXAMPLE, "x"), None, token="secret", editor=editor)
    web, headers = client(page), {"x-token": "secret"}
    assert web.get("/api/layout", headers=headers).json()["runs"] is True
    refused = web.post("/api/run", json={"text": EXAMPLE.replace("size", "sise")}, headers=headers)
    assert (refused.status_code, refused.json()["mistakes"][0]["line"]) == (422, 4)
    try:
        ran = web.post("/api/run", json={"text": EXAMPLE, "world": "sim"}, headers=headers)
        assert (ran.status_code, ran.json()) == (200, {"message": "mine runs"})
        until(lambda: page.source.outcome is not None, "the run did not end", 300)
        assert page.source.outcome["state"] == "passed"
        until(lambda: list((tmp_path / "results").glob("mine-*/result.json")), "no results were kept", 300)
        layout = web.get("/api/layout", headers=headers).json()
        assert (layout["title"], layout["own"], layout["live"]) == ("mine", False, True)
        assert web.post("/api/back", headers=headers).status_code == 200
        assert web.get("/api/layout", headers=headers).json()["title"] == "x"
    finally:
        editor.close()


def test_the_event_log_says_in_words_what_happened():
    told = {
        "port.state": ({"port": 2, "up": False}, "NIC port 2 is down"),
        "peer.ports": ({"peer": "h3", "mask": 0b1101}, "NIC ports of h3 that are up: 1, 3, 4"),
        "fault.edge": ({"link": CUT, "up": True, "fault": "flap"}, f"{CUT} is up (flap)"),
        "denied": ({"element": "plane 1", "source": "operator", "reason": ""}, "plane 1 is denied by operator"),
        "verdict": ({"element": CUT, "state": "dead", "alternatives": []}, f"Clustermapper: {CUT} is dead"),
    }
    for kind, (fields, text) in told.items():
        assert phrase(Record(1.0, "h1", kind, fields)) == text
    known = {"fdcb:bb00:0:1::1": "h1"}
    assert phrase(Record(1.0, "h3", "peer.ports", {"peer": "fdcb:bb00:0:1::1", "mask": 1}), known).startswith(
        "NIC ports of h1 "
    )
    for kind in PHRASES:
        assert phrase(Record(1.0, "h1", kind, {})), "a record without one of its fields has words too"


@pytest.mark.parametrize("back", ["switch.up", "switch.ready"])
def test_a_switch_that_is_back_is_not_drawn_dead(back):
    page = PageModel(FABRIC)
    page.take(Record(1.0, "controller", "switch.down", {"switch": "t1-p1-1"}))
    assert page.frame(1.1)["dead"] == ["t1-p1-1"]
    page.take(Record(2.0, "controller", back, {"switch": "t1-p1-1"}))
    assert page.frame(2.1)["dead"] == []


@pytest.mark.parametrize("kind", ["link_down", "nic_port_down", "nic_down", "plane_down", "transceiver", "loss"])
def test_cables_without_carrier_are_drawn_down_and_those_that_lose_packets_are_not(kind):
    page = PageModel(FABRIC)
    page.take(Record(1.0, "lab", "fault.begin", {"fault": "x", "fault_kind": kind, "links": [CUT], "text": "it"}))
    assert page.frame(1.1)["down"] == ([] if kind == "loss" else [FABRIC.link(CUT).index])
    page.take(Record(2.0, "lab", "fault.end", {"fault": "x"}))
    assert page.frame(2.1)["down"] == []


def test_a_lab_of_virtual_time_has_its_page_in_a_run_directory_that_is_named_too(tmp_path):
    place = tmp_path / "run"
    place.mkdir(mode=0o700)
    (place / SOCKET).touch()
    (place / "fabric.yaml").touch()
    assert ui._alive(place, place)()
    (place / SOCKET).unlink()
    with pytest.raises(LabError, match="no lab is running"):
        ui._alive(place, place)
