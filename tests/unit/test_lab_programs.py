"""Traffic that is other people's programs: how they are started, told ready, judged and ended."""

import os
import re
import subprocess
import sys

import pytest

from mrclab.lab.errors import ScenarioError
from mrclab.lab.run import worlds
from mrclab.lab.run.wire import programs
from mrclab.lab.run.wire.attach import LabClients
from mrclab.lab.scenario import scenario
from mrclab.topo.linux import processes
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

TEXT = """
name: theirs-run
title: a program of somebody else
traffic:
  - name: theirs
    kind: program
    programs:
      - {host: h3, command: "sh -c 'echo listening; read x < $MRCLAB_FILES/pipe; exit 0'", ready: listen}
      - {host: h1, command: "sh -c 'echo to {h3} > $MRCLAB_FILES/said.txt; echo go > $MRCLAB_FILES/pipe; exit STATUS'"}
    files: ["*.txt"]
expect: [{kind: integrity}]
"""


class World(LabClients):
    """A lab of plain processes, whose hosts have one QP each."""

    def __init__(self, run_dir):
        super().__init__(run_dir, Fabric(FabricSpec()))
        (run_dir / "log").mkdir()
        self.records = []

    def call(self, node, op, /, **_):
        peer = {"h1": "h3", "h3": "h1"}.get(node, "h1")
        return {"qps": [{"qp": 256, "peer": self.fabric.host(peer).address}]} if op == "stats" else {"pid": os.getpid()}

    def record(self, event, t=None):
        self.records.append({"t": t, **event.to_record()})
        return t or self.now

    def of(self, kind):
        return [record for record in self.records if record["kind"] == kind]


def started(tmp_path, monkeypatch, status):
    path = tmp_path / "x.yaml"
    path.write_text(TEXT.replace("STATUS", str(status)))
    entry = scenario.load(path).scenario.traffic[0]
    world = World(tmp_path)
    monkeypatch.setattr(programs, "join", lambda *_: None)
    monkeypatch.setattr(programs, "prepare", lambda _lab, _host, argv: (list(argv), dict(os.environ)))
    made = entry.running(world, 1, 1)
    made.prepare()
    os.mkfifo(world.files / "theirs" / "pipe")
    made.start(world.now)
    return world, made


def driven(tmp_path, monkeypatch, status):
    world, made = started(tmp_path, monkeypatch, status)
    while not made.over:
        made.share(world.now)
        world.pause(0.01)
    made.finish()
    return world, made


def test_programs_that_end_well_leave_their_output_their_files_and_their_qps(tmp_path, monkeypatch):
    world, made = driven(tmp_path, monkeypatch, 0)
    assert made.outcome["exit_status"] == 0
    assert "error" not in made.outcome
    (start,) = world.of("traffic.start")
    assert start["flows"][0]["flow"] == "theirs/h1>h3"
    assert start["flows"][0]["qps"] == [{"source_qp": 256, "destination_qp": 256}]
    assert (tmp_path / "log" / "theirs-said.txt").read_text() == f"to {programs.address(3)}\n"
    assert (tmp_path / "log" / "theirs-1-h3.log").read_text() == "listening\n"


def test_only_regular_files_are_taken_into_the_results(tmp_path, monkeypatch):
    monkeypatch.setitem(
        globals(), "TEXT", TEXT.replace("*.txt", "*").replace("echo to", "mkdir $MRCLAB_FILES/d; echo to")
    )
    driven(tmp_path, monkeypatch, 0)
    assert {path.name for path in (tmp_path / "log").glob("theirs-[a-z]*")} == {"theirs-said.txt"}


def test_files_of_one_name_in_several_folders_are_all_taken_into_the_results(tmp_path, monkeypatch):
    made = "cd $MRCLAB_FILES; mkdir a b; echo a > a/x.txt; echo b > b/x.txt; echo to"
    monkeypatch.setitem(globals(), "TEXT", TEXT.replace("*.txt", "**/*.txt").replace("echo to", made))
    driven(tmp_path, monkeypatch, 0)
    found = {path.name: path.read_text()[:1] for path in (tmp_path / "log").glob("theirs-*.txt")}
    assert found == {"theirs-a-x.txt": "a", "theirs-b-x.txt": "b", "theirs-said.txt": "t"}


def test_a_program_that_fails_fails_the_traffic_and_says_how(tmp_path, monkeypatch):
    world, made = driven(tmp_path, monkeypatch, 4)
    assert re.search(r"^h1: sh -c .* ended with status 4", made.outcome["error"])
    assert world.of("flow.end")[0]["exit_status"] == 4


def test_a_program_that_a_signal_ends_fails_the_traffic_and_says_so(tmp_path, monkeypatch):
    _, made = driven(tmp_path, monkeypatch, "$(kill -9 $$)")
    assert re.search(r"^h1: sh -c .* ended by signal 9$", made.outcome["error"])


def test_programs_of_an_aborted_run_end_and_leave_their_files(tmp_path, monkeypatch):
    world, made = started(tmp_path, monkeypatch, 0)
    (world.files / "theirs" / "half.txt").write_text("half")
    made.abandon()
    assert [one.process.poll() for one in made._processes] == [-9]
    assert (world.run_dir / "log" / "theirs-half.txt").read_text() == "half"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("host: h1", "host: h3"), "two hosts"),
        (("ready: listen", 'ready: "("'), "not a regular expression"),
        (("exit STATUS'", "exit"), "quotation"),
        (("files:", "qps: 2\n    files:"), "makes its QPs by itself"),
        (("*.txt", "/tmp/*"), "'/tmp/*' is not a pattern of files in $MRCLAB_FILES"),
        (("*.txt", "../*"), "'../*' is not a pattern of files in $MRCLAB_FILES"),
    ],
)
def test_a_mistake_is_named(tmp_path, change, said):
    path = tmp_path / "x.yaml"
    path.write_text(TEXT.replace(*change))
    with pytest.raises(ScenarioError) as error:
        scenario.load(path)
    assert said in " ".join(error.value.mistakes)


def test_virtual_time_refuses_programs(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text("world: sim\n" + TEXT)
    with pytest.raises(ScenarioError) as error:
        worlds.check(scenario.load(path))
    assert "--world wire" in " ".join(error.value.mistakes)


@pytest.mark.skipif(sys.platform != "linux", reason="marks are read from /proc")
def test_a_program_carries_the_marks_by_which_clean_finds_it(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "LIBRARY", tmp_path)
    marks = {processes.TOKEN_VARIABLE: "token", processes.BASE_VARIABLE: str(tmp_path)}
    agent = subprocess.Popen(["sleep", "60"], env=marks)
    try:
        found = programs.environment(World(tmp_path), "h1", agent.pid)
    finally:
        agent.kill()
        agent.wait()
    assert {name: found.get(name) for name in marks} == marks
