"""The Python API: cheap to import, its page is executed, runs and their tables."""

import json
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from api_runs import FABRIC, FILE, run, scenario

import mrclab
from mrclab.experiments.campaign import work
from mrclab.experiments.runs import processes
from mrclab.lab.api import Run
from mrclab.lab.tables import Table

__all__ = ["run", "scenario"]

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
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


def test_pictures_leave_the_users_backend_alone():
    program = (
        "import matplotlib; matplotlib.rcParams['backend'] = 'svg'; import mrclab.lab.report.plots;"
        "import matplotlib.pyplot as plt; print(matplotlib.get_backend(), plt.get_fignums());"
        "line = plt.Line2D([], []); line.set(linewidth=3); Own = type('Own', (plt.Line2D,), {});"
        "print(line.get_linewidth(), plt.Line2D.set.__doc__, Own.set.__doc__.split('.')[0])"
    )
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert found.lower() == "svg []\n3.0 none set multiple properties at once\n"  # docstrings of a class made later


def test_numbers_of_numpy_are_numbers():
    made = mrclab.scenario(fabric=FABRIC | {"planes": numpy.int64(2)}, traffic=[FILE | {"size": numpy.array(1000)}])
    assert "planes: 2\n" in made.yaml
    assert "size: 1000\n" in made.yaml
    assert made.with_values({"traffic.file.size": numpy.int32(7)}).loaded.scenario.traffic[0].size == 7


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
