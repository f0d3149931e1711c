"""The Python API: cheap to import, its page is executed, and it refuses what files refuse."""

import json
import pickle
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy
import pytest

import mrclab
from mrclab.experiments.campaign import journal, work
from mrclab.experiments.runs import processes
from mrclab.lab.api import Run
from mrclab.lab.errors import RunError, plain
from mrclab.lab.tables import Table
from mrclab.lab.traffic.running.writes import RunningWrite
from mrclab.topo.errors import TopoError

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
FABRIC = {"planes": 2, "t0s": 2, "t1s": 2, "hosts_per_t0": 1, "link": {"rate": "100Gb/s", "delay": "600ns"}}
FILE = {"name": "file", "kind": "write", "from": "h1", "to": "h2", "size": "1 MiB"}
TABLES = (
    "flows",
    "messages",
    "samples",
    "ev_transitions",
    "losses",
    "queue_depths",
    "queues",
    "faults",
    "expectations",
    "steps",
)
NUMBERS = {"t", "begin", "sent", "seconds", "compute", "packets", "psn", "port", "mean", "p50", "most", "value"}


@pytest.fixture(scope="module")
def scenario():
    return mrclab.scenario(
        fabric=FABRIC,
        traffic=[FILE],
        faults=[{"name": "cut", "kind": "link_down", "link": "h1-p1", "at": "30% of file"}],
    )


@pytest.fixture(scope="module")
def run(scenario):
    return mrclab.run(scenario, seed=3)


def test_importing_it_loads_no_model_and_no_library():
    program = "import sys, mrclab; dir(mrclab); print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split()
    ours = {name for name in found if name.startswith("mrclab.")} - {"mrclab.compiled"}
    assert ours == set()
    assert not {"pydantic", "numpy", "matplotlib", "ruamel"} & set(found)


def test_every_name_it_promises_is_there_and_documented():
    text = PAGE.read_text(encoding="utf-8")
    for name in mrclab.__all__:
        assert getattr(mrclab, name) is not None
        assert name in dir(mrclab)
    for name in {*mrclab.__all__} - {"__version__", "Lab", "Table", "Refused", "RunError"}:
        assert re.search(rf"mrclab\.{name}\b|`{name}`", text), name
    with pytest.raises(AttributeError, match="no attribute 'scenarioo'"):
        _ = mrclab.scenarioo


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    space: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), space)
    assert len(blocks) >= 7
    assert (tmp_path / "goodput.svg").stat().st_size > 5000


def test_the_page_s_campaign_has_a_table_with_intervals_and_a_figure(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(processes, "rows", lambda jobs, *_: ((job, work.run(job)) for job in jobs))
    (program,) = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for given, fewer in (
        ("range(1, 6)", "[1, 2]"),
        ("[1, 2, 4, 8]", "[1, 4]"),
        ("2 MiB", "128 KiB"),
        ('"hosts_per_t0": 4', '"hosts_per_t0": 1'),
    ):
        assert given in program
        program = program.replace(given, fewer)
    space: dict[str, object] = {"__name__": "__main__"}
    exec(compile(program, str(PAGE), "exec"), space)
    rows = list(space["table"])
    assert [(row["by"], row["x"], row["samples"]) for row in rows] == [
        ("mrc", 4, 2),
        ("mrc", 16, 2),
        ("roce-pfc", None, 2),
    ]
    assert all(row["low"] <= row["value"] <= row["high"] for row in rows)
    assert "EVs of a QP" in (tmp_path / "evs.svg").read_text(encoding="utf-8")
    with pytest.raises(mrclab.LabError, match=r'^y="p999x": write p99, or the name of an expectation'):
        mrclab.campaign_table("evs", space["EVS"], "p999x")
    with pytest.raises(mrclab.LabError, match=r"p99.9: this campaign keeps no flows; run it with flows=True$"):
        mrclab.campaign_table("evs", space["EVS"], "p99.9")
    with pytest.raises(mrclab.LabError, match=r"campaign of .* with other variants .*; choose another directory$"):
        mrclab.campaign(space["scenario"], "evs", seeds=[1], sweep={"fabric.t1s": [2]}, variants={"mrc": {}})


def test_messages_of_a_stream_are_a_table():
    stream = {"name": "flow", "kind": "stream", "from": "h1", "to": "h2", "size": "256 KiB", "message": "64 KiB"}
    run = mrclab.run(mrclab.scenario(fabric=FABRIC, traffic=[stream]))
    assert run.messages.column("bytes") == [1 << 16] * 4
    assert all(0 <= row["posted"] < row["done"] <= run.seconds for row in run.messages)


def test_the_page_names_all_columns_of_all_tables(run):
    section = PAGE.read_text("utf-8").partition("<!-- columns -->")[2]
    rows = re.findall(r"^\| `(\w+)(?:\(.*?\))?` \| (`.*?`) \|", section, re.MULTILINE)
    told = {table: tuple(re.findall(r"`(\w+)`", columns)) for table, columns in rows}
    known = {name: getattr(run, name).columns for name in TABLES} | {"records": run.records().columns}
    assert told == known


def test_tables_agree_with_each_other_and_the_history(run):
    (flow,) = run.flows
    assert flow["bytes"] == flow["size"] == 1 << 20
    assert flow["goodput"] == pytest.approx(flow["bytes"] / flow["seconds"])
    assert flow["lost_packets"] == sum(run.losses.column("packets")) > 0
    carried = sum(row["goodput"] * row["step"] for row in run.samples)
    assert carried == pytest.approx(flow["bytes"], rel=0.35)  # acknowledged on planes that were sampled
    (cut,) = run.faults
    assert 0 < cut["begin"] < flow["ended"]
    assert {row["t"] >= cut["begin"] for row in run.ev_transitions} == {True}
    assert len(run.records("packet.lost")) == len(run.losses)
    with pytest.raises(mrclab.LabError, match=r"no record is called .packet.lots.; did you mean 'packet.lost'"):
        run.records("packet.lots")
    assert run.expectations.column("passed") == [True] * len(run.verdicts)
    with pytest.raises(KeyError, match="no column 'rate'; there are flow, traffic"):
        run.flows.column("rate")


def test_tables_become_arrow_and_pandas_or_say_what_to_install(run, monkeypatch):
    arrow = pytest.importorskip("pyarrow")
    for name in TABLES:
        table = getattr(run, name)
        made = table.to_arrow()
        assert isinstance(made, arrow.Table)
        assert (made.num_rows, tuple(made.column_names)) == (len(table), table.columns)
    units = {field.name: (field.metadata or {}).get(b"unit") for field in run.flows.to_arrow().schema}
    assert (units["seconds"], units["goodput"], units["flow"]) == (b"s", b"bytes/s", None)
    assert json.loads(run.records("fault.begin").to_arrow()["fields"][0].as_py())["fault"] == "cut"
    assert run.records().to_arrow().num_rows == len(run.records())
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pandas is not installed; `pip install pandas`"):
        run.flows.to_pandas()


@pytest.fixture
def two_runs(run):
    """Tables of two runs: the second has no losses, no faults and no queues."""
    quiet = mrclab.run(mrclab.scenario(fabric=FABRIC, traffic=[FILE]))
    assert not any((quiet.losses, quiet.faults, quiet.steps))
    return [[getattr(one, name) for one in (run, quiet)] for name in TABLES]


def test_tables_of_several_runs_have_one_schema(two_runs):
    arrow = pytest.importorskip("pyarrow")
    for tables in two_runs:
        joined = arrow.concat_tables([table.to_arrow() for table in tables])
        assert joined.num_rows == sum(map(len, tables))
        assert not any(arrow.types.is_null(field.type) for field in joined.schema)
    queues = Table(("p50", "most"), [(1, 1), (2, 3)]).to_arrow().schema
    assert [str(field.type) for field in queues] == ["double", "int64"]


def test_numbers_of_several_runs_are_numbers_in_pandas(two_runs):
    pandas = pytest.importorskip("pandas")
    for tables in two_runs:
        joined = pandas.concat([table.to_pandas() for table in reversed(tables)])
        assert all(joined[name].dtype.kind in "fi" for name in NUMBERS & set(joined.columns))


def test_the_same_seed_gives_the_same_run_and_another_one_another(scenario, run):
    again, other = mrclab.run(scenario, seed=3), mrclab.run(scenario, seed=4)
    assert list(again.records()) == list(run.records())
    assert list(other.records()) != list(run.records())


def test_a_pickled_run_is_the_same(run):
    other = pickle.loads(pickle.dumps(run))
    assert other.state == run.state
    assert (list(other.flows), list(other.samples)) == (list(run.flows), list(run.samples))
    assert list(other.records("sample")) == list(run.records("sample"))


def test_a_kept_run_reads_as_the_same(scenario, run, tmp_path):
    kept = mrclab.run(scenario, seed=3, results=tmp_path)
    assert (kept.directory / "report.html").is_file()
    found = mrclab.read(kept.directory)
    assert isinstance(found, Run)
    assert [list(getattr(found, name)) for name in TABLES] == [list(getattr(run, name)) for name in TABLES]
    with pytest.raises(mrclab.LabError, match="is not the result directory"):
        mrclab.read(tmp_path)


def test_a_run_that_fails_or_breaks_off_says_so(scenario):
    strict = mrclab.scenario(fabric=FABRIC, traffic=[FILE], expect=[{"kind": "retransmitted"}, {"kind": "clean"}])
    failed = mrclab.run(strict.with_values({"expect": [{"kind": "qp_errors", "at_least": 1}]}))
    assert (failed.state, failed.passed) == ("failed", False)
    late = mrclab.run(scenario.with_values({"timeout": "1us"}))
    assert (late.state, late.passed) == ("aborted", False)
    assert "more than 1 µs" in late.error


def test_a_crashed_agent_ends_the_traffics_of_its_host_alone():
    fabric = FABRIC | {"hosts_per_t0": 2}
    pairs = [FILE | {"name": "first", "to": "h3"}, FILE | {"name": "second", "from": "h2", "to": "h4"}]
    crash = {"name": "crash", "kind": "agent_crash", "host": "h4", "at": "20us"}
    run = mrclab.run(mrclab.scenario(fabric=fabric, traffic=pairs, faults=[crash]))
    errors = dict(zip(run.flows.column("traffic"), run.flows.column("error"), strict=True))
    assert run.error == ""
    assert errors["first"] == ""
    assert "the agent of h4 ended" in errors["second"]


@pytest.mark.parametrize("at", ["5us", "30us"])
def test_traffic_that_begins_while_an_agent_is_down_fails_at_its_host_alone(at):
    later = [
        {"name": "all", "kind": "permutation", "hosts": ["h1", "h2", "h3", "h4"], "shift": 2, "size": "64 KiB"},
        {"name": "ring", "kind": "ring_all_reduce", "size": "64 KiB"},
    ]
    run = mrclab.run(
        mrclab.scenario(
            fabric=FABRIC | {"hosts_per_t0": 2},
            traffic=[FILE | {"from": "h2", "to": "h4"}, *({**each, "start": "30us"} for each in later)],
            faults=[{"name": "crash", "kind": "agent_crash", "host": "h3", "at": at, "until": "1ms"}],
        )
    )
    assert (run.state, run.error) == ("failed", "")
    failed = {flow["flow"]: flow["error"] for flow in run.flows if flow["error"]}
    assert set(failed.values()) == {"the agent of h3 is down"}
    assert [name for name in failed if name.startswith("all/")] == ["all/h1>h3", "all/h3>h1"]
    assert any(name.startswith("ring/") for name in failed)


def test_stopped_traffic_sends_nothing_more():
    with mrclab.up(FABRIC) as lab:
        flow = lab.start("write", **{"from": "h1", "to": "h2"}, size="8 MiB")
        lab.advance("20us")
        assert 0 < lab.qps("h1")[0]["acked_bytes"] < 1 << 20
        with pytest.raises(ValueError, match="25 is not a share; write a number from 0 to 1"):
            flow.reach(25)
        with pytest.raises(mrclab.RunError, match=r"write-1 is at [0-9]+% after 1us"):
            flow.wait("1us")
        assert not flow.stop().intact
        assert lab.qps("h1") == lab.qps("h2") == []
        lab.cut_short(lab.workloads["write-1"])  # again: nothing is left to end
        with lab.fault("agent_crash", host="h2"), pytest.raises(mrclab.RunError, match=r"^the agent of h2 is down$"):
            lab.transfer("h1", "h2", "64 KiB")
        assert lab.transfer("h1", "h2", "64 KiB").intact


def test_integrity_is_known_when_the_last_flow_ends():
    pair = [FILE | {"name": "long"}, FILE | {"name": "short", "size": "64 KiB"}]
    run = mrclab.run(mrclab.scenario(fabric=FABRIC, traffic=pair, expect=[{"kind": "integrity"}]))
    assert run.expectations[0]["when"] == f"at {max(run.flows.column('ended')) * 1e6:.1f} µs"


def test_null_removes_a_section_a_field_or_an_entry(scenario):
    changed = scenario.with_values(
        {"faults": None, "transport": None, "fabric.queue": None, "traffic.b": None, "linger": None}
        | {"traffic": [FILE, FILE | {"name": "b"}, FILE | {"name": "c", "qps": None}]}
    )
    assert changed.loaded.scenario.faults == []
    assert [entry.name for entry in changed.loaded.scenario.traffic] == [FILE["name"], "c"]


@pytest.mark.parametrize("changes", [{}, {"queue": {"pfc": True}}])
def test_packets_on_their_way_are_not_drops(changes):
    with mrclab.up(FABRIC | changes) as lab:
        flow = lab.start("write", **{"from": "h1", "to": "h2"}, size="1 MiB")
        lab.advance("20us")
        assert flow.share < 1
        assert sum(lab.drops().values()) == 0


def test_evs_that_cannot_be_are_refused_at_the_check(scenario):
    with pytest.raises(mrclab.ScenarioError, match=r"ev_profile: active_per_plane: 3 EVs and 2 uplinks .* at most 2"):
        scenario.with_values({"transport.ev_profile": {"active_per_plane": 3}})
    large = FABRIC | {"planes": 4, "t1s": 200}
    with pytest.raises(mrclab.ScenarioError, match=r"make 800, but a QP has at most 256; give at most 64"):
        mrclab.scenario(
            fabric=large, traffic=[FILE], transport={"ev_profile": {"active_per_plane": 150, "backup_per_plane": 50}}
        )


EVERY_MESSAGE = {"kind": "completion", "traffic": "file", "at_most": "1s"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "traffic[1].paths: uplink 0 does not lead from h1 to h2; those of plane 1 are 1 and 2"),
        (
            {"traffic": [FILE | {"kind": "pingpong", "size": 8}], "expect": [EVERY_MESSAGE]},
            "expect[1].of: the history has no messages of file; write of: flows, or expect its latency",
        ),
        (
            {"traffic": [{"name": "file", "kind": "all_to_all", "size": 8}], "expect": [EVERY_MESSAGE]},
            "expect[1].of: the history has no messages of file; write of: iterations or of: flows",
        ),
        (
            {"faults": [{"name": "slow", "kind": "delay", "link": "h1-p1", "delay": "0s", "at": 0}]},
            "faults[1].delay: this must be greater than 0",
        ),
        ({"transport": {"kind": "roce"}}, "traffic[1].paths: roce has no EVs; leave paths out"),
    ],
)
def test_what_no_run_could_do_is_refused_at_the_check(changes, said):
    astray = [FILE | {"paths": [{"plane": 1, "uplink": 0}]}]
    with pytest.raises(mrclab.ScenarioError, match=re.escape(said)):
        mrclab.scenario(**{"fabric": FABRIC, "traffic": astray} | changes)


def test_a_recovery_on_fast_links_is_measured_in_samples_of_its_hosts(scenario):
    expect = [{"kind": "recover", "fault": "cut", "to": "80% of line", "within": "1ms", "keep": 1}]
    expect += [{"kind": "goodput_floor", "window": "cut .. cut.end", "at_least": "10% of line"}]
    cut = {"name": "cut", "kind": "link_down", "link": "h1-p1", "at": "60us", "until": "cut + 120us"}
    changes = {"expect": expect, "faults": [cut], "traffic.file.size": "8 MiB"}
    run = mrclab.run(scenario.with_values(changes))
    assert all(verdict.ok for verdict in run.verdicts)
    assert 100e-6 < run.verdicts[0].value * 9.2e-6 < 150e-6


def test_counted_bytes_are_judged_as_counted(tmp_path):
    matrix = tmp_path / "one.cm"
    matrix.write_text("Nodes 2\nConnections 1\n0->1 id 1 start 0 size 100000\n", encoding="utf-8")
    traffic = [
        {"name": "all", "kind": "permutation", "size": "64 KiB", "content": "counted"},
        {"name": "file", "kind": "matrix", "file": str(matrix), "content": "counted", "start": "all.end"},
    ]
    run = mrclab.run(mrclab.scenario(fabric=FABRIC, traffic=traffic))
    assert run.passed
    assert "counted" in run.verdicts[0].observed


def test_mistakes_raise_the_sentences_of_files(scenario):
    with pytest.raises(mrclab.ScenarioError, match="no host is called 'h9'"):
        mrclab.scenario(fabric=FABRIC, traffic=[FILE | {"to": "h9"}])
    with pytest.raises(mrclab.ScenarioError, match="seed is a whole number of at least 0"):
        mrclab.run(scenario, seed=-1)
    with pytest.raises(mrclab.ScenarioError, match="did you mean"):
        scenario.with_values({"fabric.plane": 2})
    several = mrclab.Scenario.from_yaml(scenario.yaml + "variants:\n- {name: two, set: {fabric.planes: 1}}\n")
    with pytest.raises(mrclab.ScenarioError, match=r"has variants: two; run scenario.variant\(NAME\)"):
        mrclab.run(several)
    assert several.variant("two").name == several.variants[0].name == "scenario-two"
    with pytest.raises(mrclab.LabError, match="no data for this picture"):
        mrclab.run(scenario).plot.training()


def test_a_lab_is_stepped_and_refuses_what_is_no_duration():
    with mrclab.up(FABRIC, seed=2) as lab:
        before = lab.now
        assert lab.advance("10us") == pytest.approx(before + 1e-5)
        assert lab.advance(1e-5) == lab.now == pytest.approx(before + 2e-5)
        for wrong in (-1, float("nan"), "soon"):
            with pytest.raises(ValueError, match="is not a duration; write"):
                lab.advance(wrong)
        with pytest.raises(ValueError, match="True is not a duration"):
            lab.advance(True)
        for wrong in ("h9", 3):
            with pytest.raises(LookupError, match="no host is called"):
                lab.paths(wrong)
    with pytest.raises(mrclab.ScenarioError, match="plane"), mrclab.up({"plane": 1}):
        pass


def test_a_fault_without_a_block_warns_as_it_was_never_in_force_and_one_may_have_several():
    with mrclab.up(FABRIC) as lab:
        with pytest.warns(RuntimeWarning, match="fault link_down was never in force; it lasts as long as its block"):
            lab.link("h1-p1/t0-p1-1").down()
        with pytest.raises(ValueError, match="rate"):
            lab.fault("loss", link="h1-p1/t0-p1-1")
        down = lab.link("h1-p1/t0-p1-1").down()
        for _ in range(2):
            with down:
                assert [fault.kind for fault in lab.time_line.active] == ["link_down"]
                with pytest.raises(ValueError, match="in force already"):
                    down.__enter__()
                assert len(lab.time_line.active) == 1
            assert not lab.time_line.active


def test_a_qp_that_stalls_at_a_host_without_part_in_another_traffic_ends_neither():
    with mrclab.up({**FABRIC, "hosts_per_t0": 2}) as lab:
        stalled = lab.start("write", **{"from": "h1", "to": "h3"}, size="1 MiB")
        other = lab.start("stream", **{"from": "h2", "to": "h4"}, duration="2ms", rate="1% of line", message="4 KiB")
        with lab.nic_down("h1"):
            lab.advance("1ms")  # more than 64 round trips: h1 reports it
            assert stalled.share < 1
        assert stalled.wait().intact
        assert other.wait().intact


def test_a_traffic_may_have_the_name_of_one_that_was_stopped():
    with mrclab.up({**FABRIC, "hosts_per_t0": 2}) as lab:
        lab.start("stream", name="x", **{"from": "h1", "to": "h3"}, size="1 MiB").stop()
        assert lab.run("stream", name="x", **{"from": "h2", "to": "h4"}, size="1 MiB").intact


def test_waiting_for_a_condition_ends_soon_after_it_is_met_on_fast_links():
    with mrclab.up(FABRIC) as lab:
        lab.wait_until(lambda: lab.now > 10e-6)
        assert lab.now < 100e-6  # no tenth of a second, which is thousands of round trips


def test_a_flap_goes_on_while_the_lab_is_stepped_and_what_runs_at_the_end_is_ended():
    with mrclab.up(FABRIC, seed=2) as lab:
        lab.start("stream", **{"from": "h1", "to": "h2"}, size="1 GiB")
        states = set()
        with lab.link("h1-p1").fault("flap", period="100us", duty="50%", count=3):
            for _ in range(40):
                lab.advance("10us")
                states.add(next(path["state"] == "PORT_DOWN" for path in lab.paths("h1") if path["plane"] == 1))
            assert states == {True, False}
        assert not lab.time_line.active
        with lab.link("h1-p1").down(), pytest.raises(ValueError, match="in force already; clear it"):
            lab.inject(lab.fault_of("link_down", {"link": "h1-p2", "name": lab.time_line.active[0].name}))
    assert [running.outcome["error"] for running in lab.workloads.values()] == ["the lab was taken down"]


def test_traffic_whose_bytes_are_counted_is_intact_where_all_of_them_arrived():
    with mrclab.up(FABRIC) as lab:
        assert lab.run("stream", **{"from": "h1", "to": "h2"}, size="64 KiB", content="counted").intact
        assert lab.run("open_loop", sizes="hadoop", load="20%", flows=3).intact
        assert lab.run("training", parameters=1e4, layers=1, forward="1us", hosts=["h1", "h2"]).intact
        flow = lab.start("stream", **{"from": "h1", "to": "h2"}, size="1 GiB", content="counted")
        assert not flow.stop().intact


def test_pictures_leave_the_users_backend_alone():
    program = (
        "import matplotlib; matplotlib.rcParams['backend'] = 'svg'; import mrclab.lab.report.plots;"
        "import matplotlib.pyplot as plt; print(matplotlib.get_backend(), plt.get_fignums());"
        "line = plt.Line2D([], []); line.set(linewidth=3); Own = type('Own', (plt.Line2D,), {});"
        "print(line.get_linewidth(), plt.Line2D.set.__doc__, Own.set.__doc__.split('.')[0])"
    )
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert found.lower() == "svg []\n3.0 none set multiple properties at once\n"  # docstrings of a class made later


@pytest.mark.parametrize(
    ("scenario", "arguments", "said"),
    [
        ("link-failure", {}, "run takes a Scenario, not 'link-failure'; make one with mrclab.Scenario.from_yaml"),
        (None, {"world": "smi"}, "world: 'smi' is unknown; did you mean 'sim'?"),
        (None, {"seed": "1"}, "seed is a whole number of at least 0, not '1'"),
        (None, {"seed": True}, "seed is a whole number of at least 0, not True"),
        (None, {"target": []}, "target: [] is unknown; known here: soft, bmv2"),
        (None, {"target": "foo"}, "target: 'foo' is unknown; known here: soft, bmv2"),
        (
            None,
            {"target": "soft"},
            'target="soft": virtual time has no P4 switches; leave it out, or choose world="wire"',
        ),
    ],
)
def test_a_run_with_a_wrong_argument_is_refused_in_a_sentence(scenario, arguments, said):
    made = scenario or mrclab.Scenario.from_yaml("true-speed")
    with pytest.raises(mrclab.LabError, match=re.escape(said)):
        mrclab.run(made, **arguments)


def made_with(**sections):
    return mrclab.scenario(**{"fabric": FABRIC, "traffic": [FILE]} | sections)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: made_with(fabric=3), "fabric: a mapping of fields is expected here (got 3)"),
        (lambda: made_with(traffic=None), "traffic: a list is expected here"),
        (lambda: made_with(traffic=[FILE | {"size": object}]), "traffic[1].size: <class 'object'> cannot be in a"),
        (lambda: made_with(traffic=[FILE | {"size": True}]), "traffic[1].size: 'true' is not a size"),
        (lambda: made_with(fabric=FABRIC | {"planes": True}), "whole number is expected here (got 'true'"),
        (
            lambda: made_with(faults=[{"name": "x", "kind": "loss", "link": "h1-p1", "rate": "200%", "at": 0}]),
            "faults[1].rate: this must be at most 100% (got '200%')",
        ),
        (lambda: made_with(fabric=FABRIC | {"planes": "2"}), "planes: a whole number is expected here, without quotes"),
        (lambda: made_with(transport={"ev_profile": {"active_per_plane": True}}), "whole number is expected here"),
        (lambda: mrclab.Scenario.from_yaml(3), "source is the path of a file or folder as text, not 3"),
        (lambda: mrclab.read(None), "directory is the path of a file or folder as text, not None"),
        (lambda: mrclab.up(3), "fabric: a mapping of fields is expected here (got 3)"),
        (lambda: mrclab.up(FABRIC, seed=2**63), "seed is at most 9223372036854775807"),
        (lambda: mrclab.up(FABRIC, target="foo"), "target: 'foo' is unknown; known here: soft, bmv2"),
        (lambda: mrclab.up(FABRIC, target="bmv2"), 'target="bmv2": virtual time has no P4 switches; leave it out'),
    ],
)
def test_values_of_a_wrong_type_are_refused_with_their_place(make, said):
    with pytest.raises(mrclab.LabError, match=re.escape(said)):
        make()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"seeds": "1..3"}, "seeds are whole numbers, such as range(1, 6) or [1, 2, 7], not '1..3'"),
        ({"seeds": [1, True]}, "each of seeds is a whole number of at least 0, not True"),
        ({"seeds": [-1]}, "each of seeds is a whole number of at least 0, not -1"),
        ({"seeds": []}, "seeds is empty; give one at least"),
        ({"workers": 0}, "workers is a whole number of at least 1, not 0"),
        ({"workers": "2"}, "workers is a whole number of at least 1, not '2'"),
        ({"flows": "no"}, "flows is True or False, not 'no'"),
        ({"sweep": {"fabric.t1s": 4}}, "sweep['fabric.t1s'] is a list of values, such as [2, 4], not 4"),
        ({"sweep": {"fabric.t1s": "24"}}, "sweep['fabric.t1s'] is a list of values, such as [2, 4], not '24'"),
        ({"sweep": ["fabric.t1s"]}, "sweep is a dict of fields and their values"),
        ({"sweep": {"seed": [1, 2]}}, "seed cannot be swept; use seeds= for this"),
        ({"variants": {}}, "variants is empty; name one at least, or leave it out for all"),
        ({"variants": ["mrc"]}, "variants is a dict of variants, each with what is swept of it alone, not ['mrc']"),
        ({"scenario": "link-failure"}, "campaign takes a Scenario, not 'link-failure'"),
    ],
)
def test_a_campaign_with_a_wrong_argument_is_refused_in_a_sentence(tmp_path, arguments, said):
    given = {"scenario": made_with(), "seeds": [1], "directory": tmp_path / "c"} | arguments
    with pytest.raises(mrclab.LabError, match=re.escape(said)):
        mrclab.campaign(**given)
    assert not (tmp_path / "c").exists()


def test_a_campaign_in_a_directory_that_cannot_be_made_or_sweeps_other_fields_is_refused(tmp_path):
    (tmp_path / "file").touch()
    for name, said in (("file", "it is not a directory"), ("file/x", "Not a directory")):
        with pytest.raises(mrclab.LabError, match=f"cannot be made: {said}; choose another directory$"):
            mrclab.campaign(made_with(), tmp_path / name, seeds=[1])
    mrclab.campaign(made_with(), tmp_path / "c", seeds=[1], workers=1)
    with pytest.raises(mrclab.LabError, match=r"c holds a campaign that sweeps no field; choose another directory$"):
        mrclab.campaign(made_with(), tmp_path / "c", seeds=[1], sweep={"fabric.t1s": [2]})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"directory": None}, "directory is the path of a file or folder as text, not None"),
        ({"x": 3}, "x is a text, not 3"),
        ({"y": 50}, "each of y is a text, not 50"),
        ({"scale": "4"}, "scale is a number above 0, not '4'"),
        ({"scale": 0}, "scale is a number above 0, not 0"),
        ({"by": ""}, "'' is not a swept field of this campaign"),
    ],
)
def test_a_table_of_a_campaign_with_a_wrong_argument_is_refused_in_a_sentence(tmp_path, arguments, said):
    row = {"variant": "", "seed": 1, "values": {}, "state": "passed", "error": "", "seconds": 1.0, "verdicts": {}}
    journal.Journal(tmp_path).append({**row, "flows": [["job", 1000, 0.0, 1.0, 1.0]]})
    with pytest.raises(mrclab.LabError, match=re.escape(said)):
        mrclab.campaign_table(**{"directory": tmp_path, "x": "variant", "y": "p50"} | arguments)


def test_numbers_of_numpy_are_numbers():
    made = mrclab.scenario(fabric=FABRIC | {"planes": numpy.int64(2)}, traffic=[FILE | {"size": numpy.array(1000)}])
    assert "planes: 2\n" in made.yaml
    assert "size: 1000\n" in made.yaml
    assert made.with_values({"traffic.file.size": numpy.int32(7)}).loaded.scenario.traffic[0].size == 7


def test_errors_name_arguments_not_options(scenario):
    with pytest.raises(mrclab.LabError, match=r"not a directory that can be written to; choose another for results=$"):
        mrclab.run(scenario, results="/dev/null")
    faults = [{"name": "gone", "kind": "controller_partition", "switch": "t0-p1-1", "at": "0s"}]
    with pytest.raises(mrclab.ScenarioError, match='run it with world="wire"'):
        mrclab.run(mrclab.scenario(fabric=FABRIC, traffic=[FILE], faults=faults))


def test_a_lab_that_is_down_does_nothing_more():
    with mrclab.up(FABRIC) as lab:
        flow = lab.start("stream", **{"from": "h1", "to": "h2"}, size="1 GiB")
        down = lab.link("h1-p1").down()
    calls = (
        lambda: lab.start("write", **{"from": "h1", "to": "h2"}, size="1 KiB"),
        lambda: lab.transfer("h1", "h2", "1 KiB"),
        lambda: lab.advance("1us"),
        lambda: lab.paths("h1"),
        lambda: flow.share,
        down.__enter__,
    )
    for call in calls:
        with pytest.raises(mrclab.RunError, match="this lab is down: its block has ended; bring up another one"):
            call()
    assert lab.now == 0.0
    assert flow.wait().error == "the lab was taken down"


def test_a_block_is_for_one_lab_and_for_the_main_thread():
    block = mrclab.up(FABRIC)
    with pytest.raises(AttributeError, match=r"write `with mrclab.up\(…\) as lab:`"):
        block.transfer("h1", "h2", 1)
    with block:
        pass
    with pytest.raises(mrclab.LabError, match=r"up already; call mrclab\.up again"), block:
        pass

    def said_elsewhere(call):
        said = []

        def refused():
            with pytest.raises(mrclab.LabError) as found:
                call()
            said.append(str(found.value))

        thread = threading.Thread(target=refused)
        thread.start()
        thread.join()
        return said[0]

    assert said_elsewhere(lambda: mrclab.up(FABRIC)).startswith("mrclab.up works in the main thread only")
    with mrclab.up(FABRIC) as lab:
        said = said_elsewhere(lambda: lab.advance("1us"))
        assert said.startswith("a lab's time passes in the thread that brought it up")
        assert lab.now == 0.0


def test_flows_of_an_open_loop_are_rows_and_a_failed_one_hides_no_bytes(tmp_path):
    fabric = FABRIC | {"hosts_per_t0": 4}
    traffic = [{"name": "s", "kind": "open_loop", "sizes": "web_search", "load": "40%", "flows": 30}]
    made = mrclab.scenario(fabric=fabric, traffic=traffic)
    rows = mrclab.run(made).flows
    assert len(rows) == 30
    assert {row["kind"] for row in rows} == {"open_loop"}
    assert all(row["slowdown"] > 0.9 and row["destination"] in made.hosts and row["bytes"] for row in rows)
    lost = [{"name": "gone", "kind": "nic_down", "host": "h1", "at": "20us"}]
    broken = mrclab.run(mrclab.scenario(fabric=fabric, traffic=traffic, faults=lost), results=tmp_path)
    assert any(row["error"] for row in broken.flows)
    assert " 0 bytes" not in (broken.directory / "result.json").read_text(encoding="utf-8")


def test_qps_of_a_finished_transfer_are_destroyed_once_however_many_follow(monkeypatch):
    released = []
    with mrclab.up(FABRIC) as lab:
        call = type(lab.world).call

        def counted(world, node, op, /, **arguments):
            released.extend([(node, arguments["name"])] if op == "release_workload" else [])
            return call(world, node, op, **arguments)

        monkeypatch.setattr(type(lab.world), "call", counted)
        for _ in range(4):
            assert lab.transfer("h1", "h2", 1000).intact
    # before each is prepared, so that none of its name is left, and once by the next
    assert [released.count(("h1", f"write-{number}")) for number in (1, 2, 3, 4)] == [2, 2, 2, 1]


def test_a_workload_is_cut_short_as_often_as_somebody_asks():
    with mrclab.up(FABRIC) as lab:
        lab.start("write", **{"from": "h1", "to": "h2"}, size="1 MiB")
        running = lab.workloads["write-1"]
        for _ in range(2):
            lab.cut_short(running)
        assert lab.qps("h1") == []
        lab.start("write", **{"from": "h1", "to": "h2"}, size=1000).wait()
        lab.cut_short(running)
        assert len(lab.qps("h1")) == 1


@pytest.mark.parametrize("error", [RunError("no more records can be written"), FileNotFoundError(2, "No such file")])
def test_a_workload_whose_end_could_not_be_recorded_has_failed_whenever_one_asks(monkeypatch, error):
    def fail(*_arguments):
        raise error

    with mrclab.up(FABRIC) as lab:
        started = lab.start("write", **{"from": "h1", "to": "h2"}, size=1000)
        monkeypatch.setattr(RunningWrite, "_digests", fail)
        with pytest.raises(type(error)):
            started.wait()
        for outcome in (started.wait(), started.stop()):
            assert (outcome.intact, outcome.bytes, outcome.error) == (False, 0, plain(error))


def test_all_traffic_is_ended_also_where_the_end_of_one_cannot_be_recorded(monkeypatch):
    def fail(*_arguments):
        raise RunError("no more records can be written")

    with mrclab.up(FABRIC) as lab:
        for _ in range(2):
            lab.start("stream", **{"from": "h1", "to": "h2"}, size="1 GiB")
        first, second = lab.workloads.values()
        monkeypatch.setattr(first, "finish", fail)
        with pytest.raises(RunError, match="no more records"):
            lab.close()
    assert second.outcome["error"] == "the lab was taken down"


def test_a_file_that_is_sent_is_never_written_also_where_its_size_is_another_one(tmp_path):
    theirs = tmp_path / "log"
    theirs.write_bytes(b"lines that somebody else appends to")
    with mrclab.up(FABRIC) as lab:
        place = lab.world.files / "h1" / "sent"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(theirs)
        with pytest.raises(RunError):
            lab.start("write", **{"from": "h1", "to": "h2"}, name="sent", size=1000)
    assert theirs.read_bytes() == b"lines that somebody else appends to"


def test_a_write_of_an_earlier_name_has_its_own_size():
    with mrclab.up(FABRIC) as lab:
        for size in (2000, 1000, 3000):
            assert lab.start("write", **{"from": "h1", "to": "h2"}, name="again", size=size).wait().intact


def test_a_workload_that_one_of_its_hosts_refuses_leaves_no_qps(monkeypatch):
    with mrclab.up(FABRIC) as lab:
        call = lab.world.call

        def refuse(host, op, **arguments):
            if (host, op) == ("h2", "prepare_workload"):
                raise RunError("h2 has no memory left")
            return call(host, op, **arguments)

        with monkeypatch.context() as patched:
            patched.setattr(lab.world, "call", refuse)
            with pytest.raises(RunError, match="no memory"):
                lab.start("write", **{"from": "h1", "to": "h2"}, size="1 MiB")
        assert lab.qps("h1") == []
        assert lab.transfer("h1", "h2", 1000).intact


def test_a_fault_that_can_neither_be_injected_nor_cleared_says_why_it_could_not_be_injected(monkeypatch):
    def fail(what):
        def raises(*_arguments):
            raise TopoError(what)

        return raises

    with mrclab.up(FABRIC) as lab:
        with monkeypatch.context() as patch:
            patch.setattr(lab.world.injector, "hold_down", fail("no such cable"))
            patch.setattr(lab.world.injector, "release", fail("no such owner"))
            with pytest.raises(RunError, match="could not be injected: no such cable"):
                lab.inject(lab.fault_of("link_down", {"link": "h1-p1"}))
        assert lab.transfer("h1", "h2", 1000).intact
