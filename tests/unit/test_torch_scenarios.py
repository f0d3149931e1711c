"""Ranks in scenarios, the expectation of programs that fail, and `mrclab train`, as far as they need no lab."""

import os
from pathlib import Path

import pytest
from lab_history import measures, scenario
from typer.testing import CliRunner

from mrclab.hosts.collectives import steps
from mrclab.lab.command import cli
from mrclab.lab.command.runs import train
from mrclab.lab.errors import LabError, ScenarioError
from mrclab.lab.history import Record
from mrclab.lab.run.wire import programs
from mrclab.lab.scenario import scenario as scenarios
from mrclab.lab.traffic.running.programs import _reason

SCRIPT = Path(__file__).parents[2] / "examples" / "train" / "gpt.py"
RANKS = "name: job\ntraffic:\n  - {{name: gpt, kind: program, {}}}\n"


def test_ranks_are_a_host_each_and_every_two_have_flows():
    loaded = scenarios.loads(RANKS.format("ranks: {command: python train.py, hosts: [h3, h1], steps: 5}"))
    (entry,) = loaded.scenario.traffic
    assert [one.host for one in entry.commands] == entry.program_hosts == ["h3", "h1"]
    assert entry.steps == 5
    assert [flow.name for flow in entry.flows(loaded.fabric, 1)] == ["gpt/h3>h1", "gpt/h1>h3"]
    everybody = scenarios.loads(RANKS.format("ranks: {command: python train.py}")).scenario.traffic[0]
    assert everybody.program_hosts == ["h1", "h2", "h3", "h4"]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("ranks: {command: ''}", "command"),
        ('ranks: {command: "a \'b"}', "no closing quotation"),
        ("ranks: {command: a, hosts: [h1]}", "two hosts"),
        ("ranks: {command: a, hosts: [h1, h9]}", "h9"),
        ("ranks: {command: a}, programs: [{host: h1, command: b}]", "either programs or ranks"),
        ("files: ['*']", "either programs or ranks"),
    ],
)
def test_what_ranks_cannot_be_is_said(said, message):
    with pytest.raises(ScenarioError, match=message):
        scenarios.loads(RANKS.format(said))


def test_a_rank_finds_what_torchrun_sets():
    found = programs.rank_environment([3, 1], 1)
    assert {name: found[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR")} == {
        "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "10.77.0.3",
    }  # fmt: skip


def judged(expect: str, *ends: tuple[str, int, str]):
    def more(records: list[Record]) -> list[Record]:
        late = records[-1].t
        return records + [
            Record(late, "lab", "program.end",
                   {"traffic": "file", "host": host, "exit_status": status, "error": error})
            for host, status, error in ends
        ]  # fmt: skip

    loaded = scenario(f"  - {{kind: program_fails, traffic: file, {expect}}}\n")
    return loaded.scenario.expect[0].check(measures(loaded, more))


def test_programs_that_must_fail_are_held_to_their_reason():
    ends = ("h1", 1, "rank 2 (h3) is gone"), ("h2", 1, "rank 2 (h3) is gone"), ("h3", -9, "ended by signal 9")
    assert judged("at_least: 2, says: rank 2 .* gone", *ends).ok
    assert not judged("at_least: 3", *ends).ok  # a signal is no failure of its own
    assert not judged("says: timeout", *ends).ok
    verdict = judged(r"says: 'rank 2 \(h3\)'", *ends)
    assert verdict.expected.endswith(r"say 'rank 2 \(h3\)'")
    assert verdict.observed == "2: h1, h2; h3 ended by signal 9"
    assert "ended with status 0" in judged("at_least: 1", ("h1", 0, "")).observed
    assert not judged("at_least: 1").ok


def test_the_reason_of_a_failure_is_the_line_with_the_error():
    said = "warming up\nTraceback:\nValueError: no\nAt:\n  somewhere\n" + steps.line(0, 1, 0.0, 1.0) + "\n"
    assert _reason(said) == "ValueError: no"
    assert _reason("only this\n") == "only this"
    assert not _reason("")


def test_train_makes_a_scenario_of_a_script():
    loaded = train._loaded(SCRIPT, ["--steps", "3"], 3, None, "")
    (entry,) = loaded.scenario.traffic
    assert entry.program_hosts == ["h1", "h2", "h3"]
    assert entry.ranks.command == f"python {SCRIPT} --steps 3"
    taken = train._loaded(SCRIPT, ["--steps", "9"], None, Path("train/link"), "")
    assert train._job(taken).ranks.command.endswith("--steps 9")
    assert [fault.name for fault in taken.scenario.faults] == ["cut"]
    with pytest.raises(LabError, match="no script"):
        train._loaded(Path("none.py"), [], None, None, "")
    with pytest.raises(LabError, match="no traffic with ranks"):
        train._loaded(SCRIPT, [], None, Path("link-failure"), "")
    assert train._as_text(steps.line(0, 3, 1.0, 1.5, 2.0)) == "step 3: 0.500 s, loss 2.0000"
    assert train._as_text("else") == "else"


def test_train_runs_on_slower_links_as_run_does(monkeypatch):
    ran = []

    def run(loaded, *_):
        ran.append(loaded.fabric.spec.link)
        raise LabError("far enough")

    monkeypatch.setattr(train, "_check_library", lambda: None)
    monkeypatch.setattr(train.worlds, "check_machine", lambda *_: [])
    monkeypatch.setattr(train.runner, "run_scenario", run)
    CliRunner().invoke(cli.app, ["train", "--slower", "3", str(SCRIPT)])
    assert [(link.rate_pps, link.delay) for link in ran] == [(100, pytest.approx(12e-3))]


def test_a_log_is_shown_also_where_the_clock_was_set_back_since_the_last_one(tmp_path, capsys):
    log = tmp_path / "rank-0.log"
    log.write_text("the run before\n", encoding="utf-8")
    os.utime(log, (4e9, 4e9))
    with train._shown(log):
        log.write_text("step 1\n", encoding="utf-8")
    assert capsys.readouterr().out == "step 1\n"
