"""Campaigns: every combination is run once, whatever dies meanwhile, and the page says which field matters."""

import dataclasses
import errno
import gc
import html
import json
import multiprocessing
import operator
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mrclab.experiments.campaign import calls, cli, figure, journal, page, plan, work
from mrclab.experiments.runs import processes
from mrclab.lab.api import Scenario
from mrclab.lab.command.cli import app
from mrclab.lab.errors import Interrupted, LabError, Refused, RunError, ScenarioError
from mrclab.lab.measure.measures import Measures
from mrclab.lab.run import runner
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.seeds import parse as parse_seeds
from mrclab.lab.scenario.seeds import shown as seeds_shown
from mrclab.sim.world import SimWorld

SCENARIO = """
name: small
fabric: {planes: 1, t0s: 2, t1s: 2, hosts_per_t0: 1, link: {rate_pps: 400, delay: 2ms}}
traffic:
  - {name: all, kind: permutation, duration: 500ms}
faults:
  - {name: cut, kind: link_down, at: 300ms, link: t0-p1-1/t1-p1-1}
expect:
  - {kind: integrity}
  - {kind: goodput, window: start + 100ms .. start + 300ms, at_least: 50% of line}
"""
ROW = {"variant": "", "seed": 1, "values": {}, "state": "passed", "error": "", "seconds": 1.0, "verdicts": {}}
SWEPT = ["fabric.link.rate_pps=200,400", "fabric.trimming=true,false"]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


@pytest.fixture
def in_this_process(monkeypatch):
    """Runs need no worker, of which each takes a second to start."""
    monkeypatch.setattr(processes, "rows", lambda left, *_: ((job, work.run(job)) for job in left))


def planned(file, seeds="1,2", swept=SWEPT, flows=False):
    return plan.make(scenario.load(file), parse_seeds(seeds), plan.parse_sweeps(swept), flows=flows)


def rows_of(directory):
    return list(journal.Journal(directory).read())


def arguments(file, directory, seeds="1,2"):
    sets = [word for one in SWEPT for word in ("--set", one)]
    return ["campaign", str(file), "--seeds", seeds, *sets, "--workers", "2", "--output", str(directory)]


@pytest.mark.parametrize(("text", "seeds"), [("1..4", [1, 2, 3, 4]), ("7,2..3,7", [7, 2, 3]), ("0", [0])])
def test_seeds_are_numbers_and_ranges(text, seeds):
    assert parse_seeds(text) == seeds
    assert parse_seeds(seeds_shown(seeds)) == seeds


@pytest.mark.parametrize("text", ["", "4..1", "one", "1..", "-3", "9" * 5000])
def test_what_is_no_seed_is_refused(text):
    with pytest.raises(LabError, match="--seeds"):
        parse_seeds(text)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("fabric.tls=2", "no such field"),
        ("fabric.t1s=2,many", "fabric.t1s"),
        ("faults.cat.at=1s", "no entry is named 'cat'"),
        (f"faults.{'9' * 5000}.at=1s", "no entry is named '9"),
        ("measure.cat.at_most=1s", "no entry is named 'cat'; there is none"),
        ("fabric.t1s", "write a field and its value"),
        ("fabric.t1s=", "write a field and its value"),
        ("variants=1", "cannot be set"),
        ("seed=1,2", "--seeds"),
        ("world=wire", "virtual time"),
    ],
)
def test_a_sweep_that_no_run_could_have_is_refused_before_anything_starts(file, word, said):
    with pytest.raises((LabError, ScenarioError), match=said):
        planned(file, swept=[word])


def test_every_seed_meets_every_combination_once(file):
    jobs = list(planned(file))
    assert len(jobs) == len(planned(file)) == 2 * 2 * 2
    assert len({job.key for job in jobs}) == len(jobs)


def test_a_row_says_what_the_run_alone_says(file, tmp_path):
    job = next(job for job in planned(file) if job.values["fabric.link.rate_pps"] == 200 and job.seed == 2)
    row = work.run(job)
    loaded = scenario.with_values(scenario.in_world(scenario.load(file), "sim"), job.values)
    outcome = runner.run_scenario(scenario.with_seed(loaded, 2), tmp_path, lambda *_: None, lambda _: None)
    assert row["state"] == outcome.state
    assert [verdict["value"] for verdict in row["verdicts"].values()] == [verdict.value for verdict in outcome.verdicts]
    assert row["verdicts"]["goodput"]["value"] > 0.5


def test_files_that_a_scenario_names_travel_with_its_runs_and_are_part_of_the_campaign(file, tmp_path, monkeypatch):
    (tmp_path / "pairs.cm").write_text("Nodes 2\nConnections 1\n0->1 start 0 size 20000\n", encoding="utf-8")
    text = SCENARIO.replace("kind: permutation, duration: 500ms", "kind: matrix, file: pairs.cm")
    file.write_text(text[: text.index("  - {kind: goodput")], encoding="utf-8")
    first = planned(file, "1", [])
    journal.Journal(tmp_path / "out").begin(first)
    (tmp_path / "pairs.cm").write_text("Nodes 2\nConnections 1\n0->1 start 0 size 30000\n", encoding="utf-8")
    with pytest.raises(LabError, match=r"with another pairs.cm; .*--output"):
        journal.Journal(tmp_path / "out").begin(planned(file, "1", []))
    (tmp_path / "pairs.cm").unlink()
    monkeypatch.chdir("/")
    (job,) = first
    row = work.run(job)
    assert (row["state"], row["error"]) == ("passed", "")


def test_a_run_that_cannot_begin_is_a_row_that_says_why(file):
    job = next(iter(planned(file)))
    lost = dataclasses.replace(job.setting, text="traffic: [{kind: matrix, file: gone.cm}]")
    row = work.run(dataclasses.replace(job, setting=lost))
    assert row["state"] == "aborted"
    assert "gone.cm cannot be read" in row["error"]
    assert "\n" not in row["error"]


def runs_in_memory():
    gc.unfreeze()
    return sum(isinstance(thing, (SimWorld, Measures)) for thing in gc.get_objects())


@pytest.mark.whole
def test_nothing_stays_of_a_run_but_its_row(file):
    job = next(iter(planned(file)))
    gc.unfreeze()
    gc.collect()
    before = runs_in_memory()  # those of other tests
    work.run(job)
    assert runs_in_memory() == before


@pytest.mark.once
def test_killed_at_any_moment_it_goes_on_and_neither_loses_nor_repeats_a_run(file, tmp_path):
    directory = tmp_path / "out"
    command = [
        sys.executable,
        "-c",
        "from mrclab.lab.command.entry import main; main()",
        *arguments(file, directory, "1..6"),
    ]
    table = directory / journal.ROWS
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        while not (table.exists() and table.read_bytes().count(b"\n") >= 3):
            assert first.poll() is None
            time.sleep(0.02)
        first.send_signal(signal.SIGKILL)
    kept = table.read_bytes()
    whole = kept[: kept.rfind(b"\n") + 1]
    table.write_bytes(whole + b'{"variant": "", "se')  # as a write that was cut
    assert CliRunner().invoke(app, arguments(file, directory, "1..6")).exit_code == 0
    assert table.read_bytes().startswith(whole)
    lines = [json.loads(line) for line in table.read_text(encoding="utf-8").splitlines()]
    assert Counter(map(journal.key_of, lines)) == Counter(job.key for job in planned(file, "1..6"))


@pytest.mark.once
def test_a_worker_that_dies_costs_no_row(file):
    jobs = list(planned(file))
    rows = processes.rows(jobs, 2, work.run, work.killed)
    found = [next(rows)]
    os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
    found += rows
    assert Counter(job.key for job, _ in found) == Counter(job.key for job in jobs)
    assert {row["state"] for _, row in found} == {"passed"}


@pytest.mark.once
def test_workers_that_nobody_asks_any_more_end_in_the_middle_of_a_run(file):
    rows = processes.rows(planned(file), 2, never_ends_but_seed_1, work.killed)
    next(rows)
    rows.close()
    assert not multiprocessing.active_children()


def test_workers_none_of_which_begins_are_no_rows_and_the_guard_is_named(file, monkeypatch):
    monkeypatch.setattr(processes, "_serve", operator.is_)
    with pytest.raises(LabError, match=r"needs the guard `if __name__ == \"__main__\":`"):
        next(processes.rows(planned(file), 2, parent_of, work.killed))
    assert not multiprocessing.active_children()


def parent_of(job):
    return {"state": "passed", "parent": os.getppid()}


@pytest.mark.skipif("forkserver" not in multiprocessing.get_all_start_methods(), reason="no fork server here")
def test_workers_are_forks_of_one_process_that_has_imported_their_modules(file):
    parents = {row["parent"] for _, row in processes.rows(planned(file), 2, parent_of, work.killed)}
    assert len(parents) == 1
    assert os.getpid() not in parents


def interrupted(*_signal):
    raise Interrupted("interrupted; nothing is left of the run")


def ends_by_a_signal_but_seed_1(job):
    """Do as a run does: it takes SIGTERM for an interruption."""
    begun = Path(job.setting.loaded().source).with_name("begun")
    if job.seed != 1:
        signal.signal(signal.SIGTERM, interrupted)
        begun.touch()
        threading.Event().wait()
    while not begun.exists():
        time.sleep(0.01)
    return {"state": "passed"}


def test_runs_that_are_interrupted_with_the_campaign_leave_no_traceback(file, capfd):
    rows = processes.rows(planned(file, "1..2", []), 2, ends_by_a_signal_but_seed_1, work.killed)
    next(rows)
    rows.close()
    assert "Traceback" not in capfd.readouterr().err


def never_ends_but_seed_1(job):
    if job.seed != 1:
        threading.Event().wait()
    return {"state": "passed"}


def dies_of_seed_2(job):
    if job.seed == 2:
        os._exit(1)
    return {"state": "passed"}


@pytest.mark.once
def test_a_run_that_kills_its_worker_is_named_and_no_other_is(file):
    found = list(processes.rows(planned(file, "1..5", []), 3, dies_of_seed_2, work.killed))
    assert {job.seed: row["state"] for job, row in found} == {
        1: "passed",
        2: "aborted",
        3: "passed",
        4: "passed",
        5: "passed",
    }
    assert len(found) == 5


def test_a_directory_of_another_campaign_is_refused(file, tmp_path):
    journal.Journal(tmp_path / "out").begin(planned(file))
    with pytest.raises(LabError, match="--output"):
        journal.Journal(tmp_path / "out").begin(planned(file, swept=SWEPT[:1]))
    file.write_text(file.read_text(encoding="utf-8").replace("500ms", "600ms"), encoding="utf-8")
    with pytest.raises(LabError, match="--output"):
        journal.Journal(tmp_path / "out").begin(planned(file))


def test_runs_that_kept_no_flows_are_not_taken_for_those_that_do(file, tmp_path):
    """Percentiles of flows would be those of the new runs alone."""
    plain, wanted = planned(file), planned(file, flows=True)
    table = journal.Journal(tmp_path / "out").begin(plain)
    job = next(iter(plain))
    table.append({**ROW, "variant": job.variant, "values": dict(job.values), "seed": job.seed})
    journal.Journal(tmp_path / "out").begin(plain)
    with pytest.raises(LabError, match=r"kept no flows.*--output"):
        journal.Journal(tmp_path / "out").begin(wanted)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("runs.jsonl", b"hi\n", "no campaign.json"),
        ("campaign.json", b"hi\n", "damaged"),
        ("campaign.json", b"[]\n", "does not belong to a campaign"),
        ("campaign.json", b"{}\n", "does not belong to a campaign"),
    ],
)
def test_a_directory_of_something_else_is_refused(file, tmp_path, name, content, said):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_bytes(content)
    with pytest.raises(LabError, match=f"{said}.*--output"):
        journal.Journal(tmp_path / "out").begin(planned(file))


@pytest.mark.parametrize(
    "line",
    [b"\xbe\xff", b"[]", b'{"variant": "", "values": {}, "seed": 1}', json.dumps(dict(ROW, verdicts={"a": 1})).encode(),
     json.dumps(dict(ROW, values=3)).encode()],
)  # fmt: skip
def test_a_line_that_is_no_row_is_named(tmp_path, line):
    (tmp_path / journal.ROWS).write_bytes(json.dumps(ROW).encode() + b"\n" + line + b"\n")
    with pytest.raises(LabError, match="line 2 is not a row of a campaign"):
        list(journal.Journal(tmp_path).read())


def test_a_row_of_an_older_version_is_read(tmp_path):
    old = {name: value for name, value in ROW.items() if name != "error"} | {"trouble": "the wire broke"}
    (tmp_path / journal.ROWS).write_bytes(json.dumps(old).encode() + b"\n")
    assert list(journal.Journal(tmp_path).read()) == [{**ROW, "error": "the wire broke"}]


def test_a_run_that_the_machine_kept_from_its_end_is_no_row(file, tmp_path, monkeypatch, in_this_process):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(runner, "measure", full)
    told = CliRunner().invoke(app, arguments(file, tmp_path / "out"))
    assert isinstance(told.exception, RunError)
    assert "No space left on device" in str(told.exception)
    assert not rows_of(tmp_path / "out")


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), MemoryError()])
def test_a_run_that_the_machine_ended_under_way_is_no_row(file, tmp_path, monkeypatch, in_this_process, error):
    def lacking(self):
        raise error

    monkeypatch.setattr(runner.Run, "go", lacking)
    told = CliRunner().invoke(app, arguments(file, tmp_path / "out"))
    assert isinstance(told.exception, RunError)
    assert not rows_of(tmp_path / "out")


def test_a_directory_whose_name_is_not_utf_8_takes_a_table(tmp_path):
    pytest.importorskip("pyarrow")
    place = tmp_path / os.fsdecode(b"c\xff")
    place.mkdir()
    assert journal.write_parquet(place, [ROW]).exists()


def test_a_second_campaign_in_a_directory_is_refused(tmp_path):
    with (
        journal.Journal(tmp_path / "out").owned(),
        pytest.raises(LabError, match=r"another process adds runs to .*/out; wait for it, or name another"),
        journal.Journal(tmp_path / "out").owned(),
    ):
        pass
    with journal.Journal(tmp_path / "out").owned():
        assert (tmp_path / "out").is_dir()


@pytest.mark.once
def test_more_seeds_go_into_the_same_table(file, tmp_path, in_this_process):
    assert CliRunner().invoke(app, arguments(file, tmp_path / "out", "1")).exit_code == 0
    assert CliRunner().invoke(app, arguments(file, tmp_path / "out", "1,2")).exit_code == 0
    assert len(rows_of(tmp_path / "out")) == 8


@pytest.mark.once
def test_runs_of_another_program_are_shown_and_not_added_to(file, tmp_path, in_this_process, monkeypatch):
    out = tmp_path / "out"
    assert CliRunner().invoke(app, arguments(file, out, "1")).exit_code == 0
    for module in (cli, calls):
        monkeypatch.setattr(module, "sources", lambda: "another")
    assert CliRunner().invoke(app, arguments(file, out, "1")).exit_code == 0
    said = f"{out} holds runs of mrclab with other sources; name another directory with --output"
    assert str(CliRunner().invoke(app, arguments(file, out, "1,2")).exception) == said
    swept = {"fabric.link.rate_pps": [200, 400], "fabric.trimming": [True, False]}
    with pytest.raises(LabError, match="holds runs of mrclab with other sources; choose another directory"):
        calls.campaign(Scenario.from_yaml(file), out, seeds=[1, 2], sweep=swept)
    assert len(rows_of(out)) == 4


@pytest.mark.once
def test_failing_runs_are_listed_with_a_command_that_replays_them(file, tmp_path, in_this_process):
    file.write_text(file.read_text(encoding="utf-8").replace("50% of line", "99.9% of line"), encoding="utf-8")
    told = CliRunner().invoke(app, arguments(file, tmp_path / "out", "3"))
    assert told.exit_code == 1
    job = next(iter(planned(file, "3")))
    assert html.escape(job.replay) in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    again = CliRunner().invoke(app, [*shlex.split(job.replay)[1:], "--results", str(tmp_path / "again")])
    assert again.exit_code == 1
    (result,) = (tmp_path / "again").glob("*/result.json")
    verdicts = json.loads(result.read_text(encoding="utf-8"))["verdicts"]
    row = next(row for row in rows_of(tmp_path / "out") if journal.key_of(row) == job.key)
    assert [v["value"] for v in verdicts] == [v["value"] for v in row["verdicts"].values()]


def test_the_command_of_a_run_with_a_variant_replays_it_though_other_variants_cannot_have_its_values(file, tmp_path):
    file.write_text(f"{SCENARIO}\nvariants: [{{name: mrc}}, {{name: roce, set: {{transport: {{kind: roce}}}}}}]\n")
    swept = plan.parse_sweeps(["transport.ev_profile.active_per_plane=2"])
    (job,) = plan.make(scenario.load(file), [2], swept, "mrc")
    CliRunner().invoke(app, [*shlex.split(job.replay)[1:], "--results", str(tmp_path / "again")])
    (result,) = (tmp_path / "again").glob("*/result.json")
    found = [verdict["value"] for verdict in json.loads(result.read_text(encoding="utf-8"))["verdicts"]]
    assert found == [verdict["value"] for verdict in work.run(job)["verdicts"].values()]


def test_a_huge_campaign_asks_first(file, tmp_path):
    told = CliRunner().invoke(app, arguments(file, tmp_path / "out", "1..1000000"))
    assert isinstance(told.exception, Refused)
    assert "--yes" in str(told.exception)
    assert not (tmp_path / "out").exists()
    assert cli.ASK_FROM <= 1_000_000


def test_the_share_of_variance_that_a_field_explains():
    assert page.explained([[1.0, 1.0], [3.0, 3.0]]) == 1
    assert page.explained([[1.0, 3.0], [1.0, 3.0]]) == 0
    assert page.explained([[0.0, 2.0], [2.0, 4.0]]) == pytest.approx(0.5)
    assert page.explained([[2.0, 2.0], [2.0]]) is None
    assert page.explained([[2.0, 3.0], []]) is None  # nothing to compare with


def test_a_field_without_influence_is_told_from_one_with_some():
    rows = [made_up(seed, rate, seed + 3 * rate) for seed in range(10) for rate in (1, 2)]
    for row in rows:
        row["values"]["idle"] = f"{row['seed'] // 2 % 2 + 8}"
    (one,) = page.summaries(rows, ["rate", "idle"])
    assert [(field.field, field.chance) for field in one.fields] == [("rate", False), ("idle", True)]
    shown = page.render("x", rows, ["rate", "idle"], [], 20)
    assert shown.count("(chance)</span>") == 1
    f = 2.467  # the 95 % point of F with 4 and 96 degrees of freedom
    critical = f * 4 / (f * 4 + 96)
    assert [page.by_chance(share * critical, 5, 101) for share in (0.98, 1.02)] == [True, False]
    assert not page.by_chance(1.0, 2, 4)


def test_a_value_without_a_figure_is_no_group_of_the_test_for_chance():
    rows = [made_up(seed, rate, seed % 4 + 2.5 * rate) for seed in range(4) for rate in (1, 2)]
    (alone,) = page.summaries(rows, ["rate"])[0].fields
    assert (round(alone.explained, 2), alone.chance) == (0.56, False)
    (beside,) = page.summaries([*rows, made_up(1, 3, None)], ["rate"])[0].fields
    assert (beside.explained, beside.chance) == (alone.explained, alone.chance)


def test_runs_without_a_result_stand_before_what_leaves_them_out():
    rows = [
        made_up(seed, rate, 1.0 + seed, "aborted" if rate == 1 else "passed") for seed in range(4) for rate in (1, 2)
    ]
    ended, limit = page.summaries(rows, ["rate"])
    assert (ended.name, ended.passed, ended.runs) == (page.ENDED, 4, 8)
    assert [(group.value, group.passed) for group in ended.fields[0].values] == [("1", 0), ("2", 4)]
    assert (limit.fields[0].explained, len(limit.fields[0].values)) == (None, 1)


def made_up(seed, rate, value, state="passed"):
    verdict = {"ok": state == "passed", "value": value, "unit": "s", "expected": "≤ 3 s", "observed": f"{value} s"}
    return {"variant": "", "seed": seed, "values": {"rate": rate}, "state": state, "error": "", "seconds": 1.0,
            "verdicts": {"limit": verdict}}  # fmt: skip


def test_distributions_leave_out_runs_that_are_no_result():
    rows = [made_up(seed, rate, rate + seed % 2) for seed in range(10) for rate in (1.0, 2.0)]
    _, one = page.summaries([*rows, made_up(99, 1.0, 1000.0, "aborted")], ["rate"])
    assert (one.runs, one.passed) == (20, 20)
    assert one.figure.most == 3.0
    assert sum(one.bars) == 20
    (field,) = one.fields
    assert [(group.value, group.figure.mean) for group in field.values] == [("1.0", 1.5), ("2.0", 2.5)]
    assert field.explained == pytest.approx(0.5)
    assert [sum(group.bars) for group in field.values] == [10, 10]
    assert sum(field.values[0].bars[len(one.bars) // 2 + 1 :]) == 0  # its bins are those of all runs


def test_a_field_that_decides_whether_an_expectation_without_a_figure_holds_explains_it():
    rows = [made_up(seed, rate, None, "passed" if rate == 1 else "failed") for seed in range(4) for rate in (1, 2)]
    (one,) = page.summaries(rows, ["rate"])
    (field,) = one.fields
    assert (field.explained, field.passed) == (1, (0, 1))
    html_page = page.render("x", rows, ["rate"], [], 8)
    assert "100 %, passed 0 % … 100 %" in html_page


@pytest.mark.parametrize(
    ("given", "numbers", "unit"),
    [
        (["1%", "0.5%", 0], [0.01, 0.005, 0], b"1"),
        (["2ms", "500 us"], [0.002, 0.0005], b"s"),
        (["100 Gb/s", "400 Gb/s"], [1e11, 4e11], b"b/s"),
        (["64 KiB", "1 MiB"], [65536, 1048576], b"B"),
    ],
)
def test_swept_quantities_are_numbers_with_a_unit(tmp_path, given, numbers, unit):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = journal.Journal(tmp_path)
    for seed, value in enumerate(given):
        table.append(made_up(seed, value, 0.5))
    read = parquet.read_table(journal.write_parquet(tmp_path, journal.Journal(tmp_path).read()))
    by_seed = dict(zip(read.to_pydict()["seed"], read.to_pydict()["set.rate"], strict=True))
    assert [by_seed[seed] for seed in range(len(given))] == numbers
    assert read.schema.field("set.rate").metadata == {b"unit": unit}


def test_the_page_of_a_huge_campaign_names_only_its_first_failing_runs():
    rows = [made_up(seed, 1, 5.0, "failed") for seed in range(1500)]
    shown = page.render("x", rows, ["rate"], [(row, f"again {row['seed']}") for row in rows], 1500)
    assert "The first 1000 of 1500" in shown
    assert shown.count("again ") < 1010
    assert "In all of them: rate = 1" in shown


def test_parquet_page_and_figure_hold_the_runs_of_the_command_and_the_journal_those_before_it(
    tmp_path, file, in_this_process
):
    parquet = pytest.importorskip("pyarrow.parquet")
    text = SCENARIO.replace(
        "expect:", "measure:\n  - {kind: completion, name: ct, of: messages, traffic: all}\nexpect:"
    )
    file.write_text(text)
    for seeds in ("1..3", "1,2"):
        result = CliRunner().invoke(
            app, ["campaign", str(file), "--seeds", seeds, "--flows", "--output", str(tmp_path / "c")]
        )
        assert result.exit_code == 0, result.output
    assert "2 runs: 2 passed" in result.stdout
    assert re.search(r"^completion \(ct\): median [\d.]+ ms$", result.stdout, re.MULTILINE)
    assert len(rows_of(tmp_path / "c")) == 3
    assert parquet.read_table(tmp_path / "c" / "runs.parquet").to_pydict()["seed"] == [1, 2]
    assert set(parquet.read_table(tmp_path / "c" / "flows.parquet").to_pydict()["seed"]) == {1, 2}
    html_page = (tmp_path / "c" / "index.html").read_text()
    assert "(measured) in 2 runs" in html_page
    assert [row["seed"] for row in journal.Journal(tmp_path / "c").latest()] == [1, 2]
    ((_, (point,)),) = figure.plotted(tmp_path / "c", "variant", ["completion (ct)"]).curves
    assert point.count == 2


def test_the_table_as_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = journal.Journal(tmp_path)
    for row in (made_up(2, "fast", None, "failed"), made_up(1, 1, 0.5), made_up(10, 1, 0.5), made_up(9, 1, 0.5)):
        table.append(row)
    written = journal.write_parquet(tmp_path, journal.Journal(tmp_path).read())
    columns = parquet.read_table(written).to_pydict()
    assert columns["seed"] == [2, 1, 9, 10]
    assert columns["set.rate"] == ["fast", "1", "1", "1"]
    assert columns["value.limit"] == [None, 0.5, 0.5, 0.5]
    assert columns["passed.limit"] == [False, True, True, True]
