"""Reports made from a history: the page, the pictures, the numbers, and making them again from a result directory."""

import io
import itertools
import json
import math
import os
import re
import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import pytest
from lab_flows_history import measures as flows_measures
from lab_history import NIC, PLANE_RATE, RTT, measures, records, scenario, store
from PIL import Image
from rich.console import Console

from mrclab.lab import history
from mrclab.lab.command.display import terminal
from mrclab.lab.errors import LabError
from mrclab.lab.expectations import judge_all
from mrclab.lab.history import Record
from mrclab.lab.measure.series import Gauge
from mrclab.lab.measure.traffic.flows import Selection
from mrclab.lab.report import palette, plots, results, summary, template
from mrclab.lab.report.plots import durations, evs, fabric, goodput, style, transport
from mrclab.lab.report.summary import phases
from mrclab.lab.run import runner
from mrclab.lab.scenario.scenario import loads as load_text


@pytest.fixture
def directory(tmp_path):
    """A result directory as `collect` leaves it."""
    (tmp_path / "scenario.yaml").write_text(scenario().text)
    store(records(), tmp_path / "history.jsonl")
    info = {"scenario": "link-failure", "seed": 1, "target": "soft", "finished": "now", "error": ""}
    (tmp_path / "run.json").write_text(json.dumps({**info, "versions": {"python": "3.11"}, "machine": {"cores": 2}}))
    return tmp_path


def test_a_report_holds_everything_in_one_page(directory):
    outcome = runner.finish(directory)
    assert outcome.ok
    page = (directory / "report.html").read_text()
    assert page.count("data:image/png;base64,") == len(list(directory.glob("*.png")))
    assert not re.search(r'(src|href)="(?!data:)', page)
    for text in (
        "12 of 12 expectations passed",
        "core-link",
        "t0-p1-1/t1-p1-2",
        "ASSUMED_BAD",
        "PORT_DOWN",
        "usid_miss",
    ):
        assert text in page


@pytest.mark.whole
def test_every_picture_is_a_png_of_sensible_size(directory):
    runner.finish(directory)
    pictures = sorted(directory.glob("*.png"))
    assert [p.stem for p in pictures] == ["cpu", "evs", "goodput", "losses", "paths", "switches"]
    for path in pictures:
        with Image.open(path) as image:
            assert image.width == 1210  # all alike, so that their time axes line up
            assert image.height >= 200


def test_result_json_says_what_the_exit_status_says(directory):
    runner.finish(directory)
    result = json.loads((directory / "result.json").read_text())
    assert result["ok"] is True
    assert len(result["verdicts"]) == 12
    assert result["facts"]["faults"][0]["lost"] == 4


def test_a_run_that_broke_off_has_failed_whatever_else_held(directory):
    info = json.loads((directory / "run.json").read_text())
    (directory / "run.json").write_text(json.dumps({**info, "error": "the traffic took too long"}))
    outcome = runner.finish(directory)
    assert not outcome.ok
    assert "the traffic took too long" in (directory / "report.html").read_text()


def test_series_have_one_value_per_bin_and_add_up():
    data = summary.series(measures())
    goodput = data["goodput_bytes_per_second"]
    assert {len(values) for values in goodput.values()} == {len(data["t"])} == {90}
    assert sum(goodput["total"]) * data["step"] == pytest.approx((4 * 9 - 3) * PLANE_RATE, rel=0.01)
    assert sum(data["lost_packets"]) == sum(data["retransmitted_packets"]) == 10


def test_ev_states_over_time_cover_the_run_without_gaps():
    m = measures()
    spans = m.paths.spans(m.start, m.end)
    assert len(spans) == 8
    for bars in spans.values():
        assert all(a[1] == b[0] for a, b in pairwise(bars))
    (bad,) = [bars for key, bars in spans.items() if m.paths.sender_evs[key] == (1, 2)]
    assert [state for *_, state in bad] == ["GOOD", "ASSUMED_BAD", "GOOD"]


def test_the_terminal_shows_every_expectation():
    m = measures()
    facts = summary.summarize(m, judge_all(m), {})
    console = Console(width=120, record=True, file=io.StringIO())
    terminal.show(facts, console)
    terminal.show_place(Path("results/x"), console)
    text = console.export_text()
    assert text.count("passed ") >= 12
    assert "results/x/report.html" in text


def test_a_history_without_any_traffic_still_gives_a_report(directory):
    store([Record(1.0, "lab", "lab.up", {"seconds": 1.0})], directory / "history.jsonl")
    assert not runner.finish(directory).ok
    assert "never came" in (directory / "report.html").read_text()


def test_phases_are_not_told_where_samples_say_that_more_arrived_than_links_carry():
    def doubled(found):
        for record in found:
            for port in record.data.get("ports", []) if record.kind == "sample" else []:
                port["placed_bytes"] *= 2
        return found

    assert len(phases(measures())) == 4
    assert phases(measures(change=doubled)) == []


PAUSE = """
name: pause
world: sim
fabric: {planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 1, link: {rate_pps: 400, delay: 4ms}}
traffic:
  - {name: first, kind: write, from: h1, to: h2, size: 256 KiB}
  - {name: second, kind: write, from: h1, to: h2, size: 256 KiB, start: first.end + 1 s}
"""


def test_a_transfer_that_begins_and_ends_between_two_samples_has_the_goodput_of_its_own_time():
    m = runner.measure(load_text(PAUSE), Path(), lambda *_: None, lambda _: None).measures
    for flow, plane, traffic in itertools.product(m.flows, (None, 1), (True, False)):
        chosen = Selection(traffic=flow.traffic if traffic else "", plane=plane)
        carried = 256 * 1024 / (1 if plane is None else 2)
        assert m.goodput(flow.begin, flow.end, chosen) == pytest.approx(carried / (flow.end - flow.begin), rel=0.02)
        assert m.rates.binned([flow.end, flow.end + 0.5], chosen) == [pytest.approx(0, abs=1)]


def test_a_pause_between_transfers_has_no_goodput_and_no_share_of_the_line(tmp_path):
    directory = runner.run_scenario(load_text(PAUSE), tmp_path).directory
    rows = results.read_file(directory, "result.json")["facts"]["phases"]
    assert [row["of_line"] is None for row in rows] == [False, True, False]
    assert [row["goodput"] > 0 for row in rows] == [True, False, True]
    assert [any(row["planes"].values()) for row in rows] == [True, False, True]
    assert '<td class="number">–</td>' in (directory / "report.html").read_text(encoding="utf-8")


def test_a_folder_that_is_no_result_is_refused(tmp_path):
    with pytest.raises(LabError, match="is not the result directory"):
        results.load(tmp_path)


def test_many_flows_are_drawn_and_listed(tmp_path):
    m = flows_measures()
    facts = summary.summarize(m, [], {})
    assert [row["flow"] for row in facts.flows] == ["victim/h1>h4", "ring", "incast/h2>h5", "incast/h3>h5"]
    assert [row["what"] for row in facts.completions] == [
        *("messages of victim", "iterations of ring", "flows of incast", "latency of near", "latency of far")
    ]
    counted = {"trimmed": 40, "marked": 320, "deepest": 7}
    assert facts.ports[0] == {"port": "t0-p1-2 port 2", "link": "h5-p1/t0-p1-2"} | counted
    made = plots.draw(m, tmp_path)
    stems = {path.stem for path in made.values()}
    assert stems == {"goodput", "flows", "evs", "losses", "completions", "paths", "transport", "switches", "cpu"}


@pytest.mark.parametrize("count", [12, 60])
def test_many_faults_are_drawn_too(tmp_path, count):
    def more(rs):
        faults = [r for r in rs if r.kind in {"fault.begin", "fault.end"}]
        copies = [
            Record(r.t + n / 50, r.node, r.kind, {**r.data, "fault": f"{r['fault']}-{n}"})
            for r in faults
            for n in range(count)
        ]
        return [*rs, *copies]

    m = measures(change=more)
    assert len(m.faults) == 2 * count + 2
    assert goodput.by_plane(m) is not None
    assert goodput.lanes_height(m)[0] < 5


def test_one_flow_of_thousands_is_found_without_going_over_the_others():
    flows = flows_measures().flows
    (one, *_) = flows.all
    flows.all = ()
    assert flows.select(Selection(flow=one.name)) == [one]


def test_flows_that_a_picture_has_no_rows_for_share_them():
    assert goodput.fold([[1.0, 2.0], [3.0, 4.0]]) == ([[1.0, 2.0], [3.0, 4.0]], 1)
    rows, together = goodput.fold([[float(number), 1.0] for number in range(8193)])
    assert (len(rows), together) == (482, 17)
    assert rows[0] == [8.0, 1.0]
    assert rows[-1] == [statistics.fmean(range(17 * 481, 8193)), 1.0]


def test_a_page_tells_the_first_rows_of_a_very_long_table_and_where_the_others_are():
    run = {"scenario": "long", "seed": 1, "target": "soft", "finished": "now"}
    facts = summary.summarize(measures(), [], run)
    facts.losses[:] = [{"host": f"h{n}", "qp": n, "reason": "sack", "packets": 1} for n in range(5000)]
    text = template.report_page(facts, {})
    assert f'<td class="">h{template.MAX_ROWS - 1}</td>' in text
    assert f"h{template.MAX_ROWS}<" not in text
    assert f"The first {template.MAX_ROWS} of 5000; result.json has all." in text


def at_true_speed():
    """A scenario of some microseconds in virtual time."""
    spec = "{planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 2, link: {rate: 100 Gb/s, delay: 600ns}}"
    many = "{name: many, kind: incast, from: [h1, h2, h3], to: h4, size: 1 MiB, message: 64 KiB}"
    pp = "{name: pp, kind: pingpong, from: h1, to: h2, size: 64, count: 20}"
    cut = "{name: cut, kind: loss, link: h4-p1, rate: 2%, at: 5us, until: 20us}"
    return f"name: fast\nworld: sim\nfabric: {spec}\ntraffic: [{many}, {pp}]\nfaults: [{cut}]\n"


def test_a_run_of_microseconds_is_told_in_microseconds_without_empty_sections(tmp_path):
    outcome = runner.run_scenario(load_text(at_true_speed()), tmp_path, lambda *_: None, lambda _: None)
    text = (outcome.directory / "report.html").read_text()
    assert '<th class="number clock">began, µs</th>' in text
    assert re.search(r"latency of pp</td><td[^>]*>20</td><td[^>]*>1\.\d+ µs<", text)
    assert "<h2>Processes</h2>" not in text
    assert "<th>named</th>" not in text
    assert "<th>base</th>" not in text
    m = outcome.measures
    assert transport.losses(m).axes[0].get_ylabel().endswith(" µs")
    assert durations.completions(m).axes[0].get_xlabel() == "time, µs"
    titles = [axes.get_title(loc="left") for axes in fabric.switches(m).axes]
    assert len(titles) == 1
    assert re.fullmatch(r"packets in the data queue, a sample every \d+ µs", titles[0])


@pytest.mark.parametrize("state", get_args(summary.State))
def test_every_outcome_has_a_colour_on_the_pages_of_runs_and_suites(state):
    for name, rule in (("report", rf"\.{state}\b[^{{]*{{ background"), ("suite", rf"td\.{state}\b[^{{]*{{ color")):
        assert re.search(rule, (template.TEMPLATES / f"{name}.html.j2").read_text())


def test_a_picture_without_data_is_not_drawn_and_an_old_one_is_removed(tmp_path):
    (tmp_path / "losses.png").write_bytes(b"of an earlier report")
    kinds = {"packet.lost", "packet.retx"}
    made = plots.draw(measures(change=lambda rs: [r for r in rs if r.kind not in kinds]), tmp_path)
    assert not (tmp_path / "losses.png").exists()
    assert "Packets declared lost, and retransmitted" not in made


@pytest.mark.once
def test_matplotlib_says_nothing_where_the_home_directory_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MPL", "XDG_"))}
    environment["HOME"] = str(tmp_path / "file" / "home")
    argv = [sys.executable, "-c", "from mrclab.lab.report import plots"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.filterwarnings("error")
def test_queues_that_were_empty_all_the_time_are_drawn_without_a_word_of_matplotlibs():
    _, axes = style.panels([1.0])
    m = measures()
    gauge = Gauge()
    for number in range(4):
        gauge.add(m.start + number / 4, 0.0)
    fabric._depths(axes[0], m, {"t0-p1-1-1": gauge})
    assert axes[0].get_ylim()[1] > 1


@pytest.mark.parametrize("every", [20e-6, 0.25, 2.0])
def test_queues_have_no_line_while_their_switch_is_silent(every):
    _, axes = style.panels([1.0])
    m = measures()
    gauge = Gauge()
    for number in (0, 1, 2, 3, 7, 8, 9):
        gauge.add(m.start + number * every, 1.0)
    fabric._depths(axes[0], m, {"t0-p1-1-1": gauge})
    values = list(axes[0].lines[0].get_ydata())
    assert [math.isnan(value) for value in values] == [False] * 4 + [True] + [False] * 3


def test_a_run_that_the_machine_held_up_is_no_result_anywhere(directory):
    late = Record(NIC, "h3", "sample", {"qps": [], "ports": [], "late": 2 * RTT})
    store([*records(), late], directory / "history.jsonl")
    outcome = runner.finish(directory)
    result = json.loads((directory / "result.json").read_text())
    assert (result["state"], result["ok"]) == ("invalid", False)
    assert "the machine let h3 wait" in result["invalid"][0]
    assert not outcome.ok
    page = (directory / "report.html").read_text()
    assert "This run is INVALID" in page
    suite = ElementTree.parse(directory / "junit.xml").getroot()
    assert suite.get("errors") == "1"
    assert "INVALID: the machine let h3 wait" in suite.find(".//error").get("message")
    console = Console(width=120, record=True, file=io.StringIO())
    terminal.show(summary.summarize(outcome.measures, outcome.verdicts, {}), console)
    assert "INVALID" in console.export_text()


def test_merging_keeps_the_order_of_time_and_leaves_out_half_a_line(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a.jsonl").write_text(
        '{"t": 2.5, "node": "a", "kind": "x"}\n{"t":4,"node":"a","kind":"y","n":1}\n'
    )
    (tmp_path / "parts" / "b.jsonl").write_text('{"kind": "z", "node": "b", "t": 3}\n{"t": 9.0, "node": "b", "ki')
    history.merge(tmp_path / "parts", tmp_path / "whole.jsonl")
    whole = history.load(tmp_path / "whole.jsonl")
    assert [(r.t, r.node, r.kind) for r in whole.records] == [(2.5, "a", "x"), (3.0, "b", "z"), (4.0, "a", "y")]


@pytest.mark.parametrize("behind", ["\n", '{"t": 2.5, "node": "a", "kind": "sample", "qps": []}\n'])
def test_a_sample_that_a_full_disk_cut_behind_a_brace_is_left_out(tmp_path, behind):
    (tmp_path / "parts").mkdir()
    whole = '{"t": 1.5, "node": "a", "kind": "sample", "qps": [{"qp": 7, "rtt": 0.5}]}\n'
    cut = '{"t": 2.0, "node": "a", "kind": "sample", "qps": [{"qp": 7}'
    (tmp_path / "parts" / "a.jsonl").write_text(whole + cut + behind)
    history.merge(tmp_path / "parts", tmp_path / "whole.jsonl")
    (kept,) = history.load(tmp_path / "whole.jsonl").records
    assert (kept.t, kept["qps"]) == (1.5, [{"qp": 7, "rtt": 0.5}])


def test_the_worst_state_shows_where_many_share_a_pixel():
    spans = [(0.0, 50.0, "GOOD"), (50.0, 50.001, "ASSUMED_BAD"), (50.001, 100.0, "GOOD")]
    line = list(evs.raster([spans], 0.0, 100.0)[0])
    bad = 1 + list(palette.EV_STATES).index("ASSUMED_BAD")
    assert line.count(bad) == 1
    assert set(line) == {bad, 1 + list(palette.EV_STATES).index("GOOD")}
