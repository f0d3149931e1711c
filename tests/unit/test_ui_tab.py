"""Lab and page in one interpreter: requests answered, frames published, the same history as a run of the terminal."""

import hashlib
import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from tab_scenario import TEXT

from mrclab.lab.run.runner import run_scenario
from mrclab.lab.scenario import scenario
from mrclab.lab.ui.browser.tab import Tab


@pytest.fixture
def lab(tmp_path):
    told: list[dict] = []
    made = Tab(lambda text: told.append(json.loads(text)), tmp_path)
    yield made, told
    made.close()


def ask(tab: Tab, path: str, **body):
    return json.loads(tab.request(path, json.dumps(body)))


def test_a_cable_is_cut_and_repaired_by_requests(lab):
    tab, told = lab
    tab.source()
    assert told[0]["layout"]["operable"]
    said = ask(
        tab,
        "api/operation",
        operation="inject",
        arguments={"kind": "link_down", "fields": {"link": "h1-p1", "name": "x"}},
    )
    assert "h1-p1" in said["message"]
    assert ask(tab, "api/operation", operation="clear", arguments={"name": "x"})["message"]
    assert "error" in ask(tab, "api/operation", operation="inject", arguments={"kind": "meteor", "fields": {}})
    assert "error" in ask(tab, "api/operation", operation="speed", arguments={"value": 0})


def test_slow_motion_tells_of_single_packets_and_of_those_that_a_cut_cable_loses(lab):
    tab, told = lab
    tab.source()
    ask(
        tab,
        "api/operation",
        operation="traffic",
        arguments={"traffic": {"kind": "stream", "from": "h1", "to": "h3", "size": "4 MiB"}},
    )
    tab.session.lab.advance_to(0.1)
    ask(tab, "api/operation", operation="slow", arguments={"speed": 0.001, "seconds": 60})
    ask(
        tab,
        "api/operation",
        operation="inject",
        arguments={"kind": "link_down", "fields": {"link": "t0-p1-1/t1-p1-2"}},
    )
    tab.session.lab.advance_to(tab.session.world.now + 0.05)
    tab.step()
    packets = [each for each in told if each["kind"] == "packets"]
    seen = [one for each in packets for one in each["seen"]]
    lost = {half_link // 2 for _, _, half_link, _, arrived in seen if not arrived}
    names = [link["name"] for link in tab._side.frames.layout["links"]]
    assert [names[number] for number in lost] == ["t0-p1-1/t1-p1-2"]
    assert packets[-1]["slow"]
    events = [event for each in told if each["kind"] == "frames" for one in each["changes"] for event in one["events"]]
    assert any(event.get("new") == "ASSUMED_BAD" for event in events)  # frames come between two samples of a host
    tab.session.speed = 1.0
    tab.step()
    tab.step()
    assert not [each for each in told if each["kind"] == "packets"][-1]["slow"]
    assert "error" in ask(tab, "api/operation", operation="slow", arguments={"speed": 0.02, "seconds": 1e9})


def test_a_scenario_runs_to_the_verdict_and_history_of_the_terminal_and_is_on_the_shelf(lab, tmp_path):
    tab, told = lab
    assert ask(tab, "api/run", text=TEXT) == {"message": "in-the-tab runs"}
    assert tab.waits()
    assert told[-1]["kind"] == "source"
    assert not told[-1]["layout"]["operable"]
    tab.step()
    assert told[-1]["kind"] == "outcome"
    assert told[-1]["outcome"]["state"] == "passed"
    frames = [frame for each in told if each["kind"] == "frames" for frame in each["changes"]]
    assert frames[0]["t"] == 0.0  # the run's beginning: no fault lies before the first frame
    assert not [*tmp_path.glob("*/result.json")]  # the verdict is told before the figures are written
    (run,) = json.loads(tab.request("api/results"))
    here = (tmp_path / run["name"] / "history.jsonl").read_bytes()
    loaded = scenario.in_world(scenario.loads(TEXT, "scenario.yaml"), "sim")
    there = run_scenario(loaded, tmp_path / "terminal", lambda *_: None, lambda _: None, report=False)
    assert here == (there.directory / "history.jsonl").read_bytes()
    assert told[-1]["outcome"]["history_sha256"] == hashlib.sha256(here).hexdigest()
    assert ask(tab, "api/replay", name=run["name"]) == {"message": run["name"]}
    assert json.loads(tab.request("api/back")) == {"message": "the lab in this tab"}
    assert told[-1]["layout"]["operable"]


def test_a_mistake_is_named_with_its_line(lab):
    tab, _ = lab
    told = ask(tab, "api/run", text=TEXT.replace("write", "wirte"))
    assert told["mistakes"][0]["line"] == 3
    assert not tab.waits()
    assert Path(tab._run_index.results).exists()


def test_the_report_of_a_run_has_the_series_that_its_pictures_are_drawn_from(lab):
    tab, _ = lab
    assert "no run has ended" in ask(tab, "api/report")["error"]
    ask(tab, "api/run", text=TEXT)
    tab.step()
    tab.step()  # writes its figures
    told = ask(tab, "api/report")
    (directory,) = tab._run_index.results.iterdir()
    assert told["series"] == json.loads((directory / "series.json").read_text())
    assert [each["ok"] for each in told["verdicts"]] == [True]
    (fault,) = told["faults"]
    assert fault["name"] == "cut"
    assert 0 < fault["begin"] < fault["end"]
    tab.request("api/back")
    ask(tab, "api/replay", name=directory.name)
    assert ask(tab, "api/report") == told


def test_roce_beside_mrc_has_the_same_cut_and_stands_still_where_mrc_goes_on(lab):
    tab, told = lab
    assert "message" in json.loads(tab.request("api/beside", '{"on": true}'))
    source = [each for each in told if each["kind"] == "source"][-1]
    assert source["layout"]["beside"]
    assert [frame["t"] for frame in source["rival"]] == [0.0]

    def operate(operation, **arguments):
        return json.loads(tab.request("api/operation", json.dumps({"operation": operation, "arguments": arguments})))

    sides = tab._sides()
    operate("traffic", traffic={"kind": "stream", "from": "h1", "to": "h3", "duration": "60s"})
    for side in sides:
        side.session.world.pause(1.0)
        side.frames.take_in()
    watch = sides[1].session.world.watch()
    sides[1].session.world.pause(0.1)
    sides[0].session.world.pause(0.1)
    links = source["layout"]["links"]
    crossed = [each.half_link // 2 for each in watch.taken() if each.kind == 0]
    used = next(number for number in crossed if links[number]["name"].startswith("t0-"))
    watch.close()
    operate("inject", kind="link_down", fields={"link": links[used]["name"], "name": "cut"})
    for side in sides:
        side.session.world.pause(3.0)
        side.frames.take_in()
    mrc, roce = (sum(side.frames.frame_log.last["goodput"].values()) for side in sides)
    assert [side.frames.frame_log.last["faults"].keys() for side in sides] == [{"cut"}, {"cut"}]
    assert mrc > 0.9 * 4 * source["layout"]["line_rate"]
    assert roce == 0
    assert any(each["kind"] == "rival" for each in told)
    operate("clear", name="cut")
    tab.request("api/beside", '{"on": false}')
    assert len(tab._sides()) == 1


ALONE = """
import json, sys
allowed = set(sys.argv[1].split())

class Nothing:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        known = top == "mrclab" or top.startswith("_") or "mypyc" in top or top in allowed | sys.stdlib_module_names
        if path is None and not known:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Nothing())
sys.modules |= dict.fromkeys(sys.argv[4].split())  # what the site leaves out of the standard library
from mrclab.lab.ui.browser.tab import Tab
tab = Tab(lambda text: None)
tab.source()
assert "message" in json.loads(tab.request("api/operation", json.dumps(
    {"operation": "inject", "arguments": {"kind": "link_down", "fields": {"link": "h1-p1"}}})))
for number, text in ((1, "paths_across: 8"), (4, sys.argv[2]), (5, "")):
    told = json.loads(tab.request("api/grade", json.dumps({"number": number, "text": text})))
    assert not told["done"] and told["checks"], told
    assert number != 1 or told["checks"][0]["ok"]
assert "terminal" in json.loads(tab.request("api/grade", '{"number": 7}'))["error"]
tab.step()
tab.close()
import mrclab.lab.ui.browser.shortrun
import os, select
sys.modules |= dict.fromkeys(("pwd", "ctypes", "fcntl", "grpc"))  # a browser's Python has none of these
del os.geteuid, select.epoll, select.EPOLLERR
from mrclab.lab.ui.browser.p4tab import P4Tab
p4 = P4Tab()
told = json.loads(p4.request("api/p4/walk", json.dumps({"from": "h1", "to": "h3", "plane": 1, "uplink": 1})))
assert [hop["node"] for hop in told["hops"]] == ["t0-p1-1", "t1-p1-1", "t0-p1-2", "h3"], told
assert not json.loads(p4.request("api/grade", json.dumps({"number": 2, "text": sys.argv[3]})))["done"]
print(*(name for name in sys.modules if name.startswith('mrclab.')))
"""


ROOT = Path(__file__).parents[2]


def test_the_tab_needs_no_package_and_no_module_that_the_site_does_not_bring(tmp_path):
    wanted = (ROOT / "setup/site/requirements.txt").read_text(encoding="utf-8")
    pinned = [line.partition("==")[0] for line in wanted.splitlines() if "==" in line]
    names = {name.partition(".")[0].replace("-", "_") for name in pinned}
    spray = (ROOT / "docs/lessons/04-spraying/spray.yaml").read_text(encoding="utf-8")
    pack = runpy.run_path(str(ROOT / "setup/site/pack.py"))
    shift = (ROOT / "docs/lessons/02-shift/shift.p4").read_text(encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-c", ALONE, " ".join(names), spray, shift, " ".join(pack["NEVER"])],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    parts = [ROOT / name for name in ("controller", "events", "hosts", "lab", "rpc", "sim", "softswitch", "topo")]
    modules = {f"mrclab.{part.name}.{name}".removesuffix("."): path for part in parts
               for name, path in pack["sources"](part).items()}  # fmt: skip
    modules = {name.removesuffix(".__init__"): path for name, path in modules.items()} | {
        "mrclab.compiled": ROOT / "mrclab/compiled.py"
    }
    assert set(ran.stdout.split()) & modules.keys() - pack["reached"](modules) == set()
