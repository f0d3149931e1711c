"""Packets of a run by filter: a scenario's trace in pcapng and Parquet, and `mrclab packets` on any capture."""

import csv
import errno

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from mrclab.hosts.mrc.packets.headers import MrcOpcode
from mrclab.hosts.roce.headers import RoceOpcode
from mrclab.lab.capture import packets, pcapng, tracing
from mrclab.lab.command.cli import app
from mrclab.lab.errors import LabError, ScenarioError
from mrclab.lab.run import runner, worlds
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.sections.trace import COLUMNS, KINDS, PacketFilter

TEXT = """
name: traced
world: sim
report: false
fabric: {planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 1, link: {rate: 100 Gb/s, delay: 600ns}}
traffic: [{name: file, kind: write, from: h1, to: h2, size: 1 MiB}]
faults: [{name: lossy, kind: loss, link: t0-p1-1/t1-p1-1, rate: 20%, at: 30% of file}]
"""
TRACE = "trace: {where: [h1, t0-p1-1/t1-p1-1], kind: data, plane: 1}\n"


def traced(folder, text=TEXT + TRACE):
    said = []
    loaded = scenario.loads(text, str(folder / "traced.yaml"))
    outcome = runner.run_scenario(loaded, folder, lambda *_: None, said.append)
    return outcome.directory, said


def table(directory):
    interfaces, frames = pcapng.load(directory / "trace.pcapng")
    return [dict(zip(COLUMNS, packets.row(frame, interfaces), strict=True)) for frame in frames]


def test_the_opcodes_of_both_transports_can_be_named():
    opcodes = {op.name.lower() for op in (*MrcOpcode, *RoceOpcode)}
    assert set(KINDS) == opcodes | {"data", "other"}


def test_a_trace_keeps_the_packets_that_its_filter_names_where_it_names(tmp_path):
    directory, _ = traced(tmp_path)
    rows = table(directory)
    assert {row["kind"] for row in rows} == {"write_first", "write_middle"} | {rows[-1]["kind"]}
    assert {row["plane"] for row in rows} == {1}
    assert {row["link"] for row in rows} == {"h1-p1/t0-p1-1", "t0-p1-1/t1-p1-1"}
    out = [row for row in rows if row["link"] == "t0-p1-1/t1-p1-1" and row["direction"] == "out"]
    came = [row for row in rows if row["link"] == "t0-p1-1/t1-p1-1" and row["direction"] == "in"]
    assert {row["uplink"] for row in out} == {1}
    assert 0 < len(came) < len(out)  # some were lost on the cable
    assert rows == sorted(rows, key=lambda row: row["t_ns"])


def test_a_packet_is_followed_by_its_psn(tmp_path):
    directory, _ = traced(tmp_path / "all")
    psn = table(directory)[10]["psn"]
    one, _ = traced(tmp_path / "one", TEXT + f"trace: {{where: [h1], qp: 0..16777215, psn: {psn}, kind: [data]}}\n")
    rows = table(one)
    assert {row["psn"] for row in rows} == {psn}
    assert [row["direction"] for row in rows[:2]] == ["out", "in"]  # of h1's port and of its T0's


def test_parquet_holds_what_the_capture_holds_with_names_of_hosts(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    directory, _ = traced(tmp_path)
    found = parquet.read_table(directory / "trace.parquet").to_pylist()
    assert [(row["t_ns"], row["psn"], row["port"]) for row in found] == [
        (row["t_ns"], row["psn"], row["port"]) for row in table(directory)
    ]
    assert {(row["source"], row["destination"]) for row in found} == {("h1", "h2")}
    assert {type(row["ce"]) for row in found} == {bool}


def test_an_empty_trace_is_reported(tmp_path):
    _, said = traced(tmp_path, TEXT + "trace: {kind: data, plane: 1, trimmed: true}\n")
    assert "trace: no packet met all of its conditions; a QP's first PSN is a random number" in said


def test_a_trace_that_does_not_fit_costs_nothing_else_of_the_run(tmp_path, monkeypatch):
    def full(path, *_arguments):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(tracing.pcapng, "store", full)
    directory, said = traced(tmp_path)
    assert (directory / "result.json").exists()
    what = f"{directory}/trace.pcapng: No space left on device"
    assert f"the trace could not be written: {what}; all else of the run is kept" in said


def test_more_packets_than_most_are_counted(tmp_path):
    directory, said = traced(tmp_path, TEXT + "trace: {kind: data, most: 7}\n")
    assert len(table(directory)) == 7
    assert any("packets more than most: 7 met the filter" in line for line in said)


def test_a_run_is_the_same_with_a_trace_and_without(tmp_path):
    digests = [
        [line for line in (traced(tmp_path / name, text)[0] / "history.jsonl").read_text().splitlines()
         if '"kind": "scenario"' not in line and '"text"' not in line]
        for name, text in (("with", TEXT + TRACE), ("without", TEXT))
    ]  # fmt: skip
    assert digests[0] == digests[1]


def test_packets_filters_a_capture_into_a_table_and_a_smaller_capture(tmp_path):
    directory, _ = traced(tmp_path)
    run = CliRunner().invoke
    psn = table(directory)[10]["psn"]
    words = ["packets", str(directory / "trace.pcapng"), f"psn={psn}", "kind=data", "direction=out", "plane=1"]
    done = run(app, [*words, "--output", str(tmp_path / "some.csv")])
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader((tmp_path / "some.csv").open()))
    assert {row["psn"] for row in rows} == {str(psn)}
    assert {(row["source"], row["direction"]) for row in rows} == {("h1", "out")}
    assert run(app, [*words, "--output", str(tmp_path / "some.pcapng")]).exit_code == 0
    assert len(pcapng.load(tmp_path / "some.pcapng")[1]) == len(rows)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"kind": "dat"}, "invalid value 'dat': expected one of ack"),
        ({"psn": "9..3"}, "ends before it begins"),
        ({"psn": "x"}, "expected a number or a range such as 100..200"),
        ({"psn": "9" * 5000}, "expected a number or a range such as 100..200"),
    ],
)
def test_a_condition_that_means_nothing_is_refused(asked, text):
    with pytest.raises(ValidationError, match=text):
        PacketFilter(**asked)


def test_a_trace_names_places_of_its_fabric_and_virtual_time():
    with pytest.raises(ScenarioError, match=r"trace\.where.*h9"):
        scenario.loads(TEXT + "trace: {where: [h9]}\n", "traced.yaml")
    wire = scenario.loads((TEXT + TRACE).replace("world: sim", "world: wire"), "traced.yaml")
    with pytest.raises(LabError, match="trace: on the wire `mrclab capture` records frames"):
        worlds.check(wire)


def test_what_is_no_capture_is_refused(tmp_path):
    (tmp_path / "x.pcapng").write_bytes(b"no capture")
    with pytest.raises(ValueError, match="not a little-endian pcapng file"):
        pcapng.load(tmp_path / "x.pcapng")
    directory, _ = traced(tmp_path)
    whole = (directory / "trace.pcapng").read_bytes()
    (tmp_path / "x.pcapng").write_bytes(whole[:-6])
    with pytest.raises(ValueError, match="cut short"):
        pcapng.load(tmp_path / "x.pcapng")
