"""The page of what failures cost jobs: figures from rows, and every variant of the scenario as it should be."""

import contextlib
import json
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from mrclab.bench.sim import __main__ as benchsim
from mrclab.bench.sim import baselines, losses
from mrclab.experiments.campaign import plan, work
from mrclab.experiments.campaign.journal import Journal
from mrclab.experiments.paperscale import __main__ as paperscale
from mrclab.experiments.runs import store
from mrclab.experiments.training import __main__ as training
from mrclab.experiments.training import branches, figures, page, sizes
from mrclab.experiments.worlds import cli as worlds_cli
from mrclab.lab.command.cli import app
from mrclab.lab.errors import LabError
from mrclab.lab.faults.kinds.carrier import LinkDown
from mrclab.lab.measure.intervals import summary
from mrclab.lab.report import template
from mrclab.lab.report.plots import style
from mrclab.lab.scenario import scenario


def worlds(words):
    done = CliRunner().invoke(app, ["worlds", "link-failure", *words])
    raise done.exception or AssertionError(done.output)


def row(variant, seed, average, *, ok=True):
    told = {"ok": ok, "value": average, "unit": "s", "expected": "", "observed": ""}
    verdicts = {"integrity": {**told, "value": None}, "step_time (average)": told, "step_time (usual)": told}
    known = {"variant": variant, "values": {}, "seed": seed, "state": "passed", "error": "", "seconds": 1.0}
    return {**known, "verdicts": verdicts}


def rows():
    found = [row("mrc-calm", seed, 1e-3) for seed in (1, 2, 3)]
    found += [row("mrc-flap", seed, 1e-3 + extra) for seed, extra in ((1, 1e-5), (2, 2e-5), (3, 3e-5))]
    found += [row("roce-1-calm", seed, 2e-3) for seed in (1, 2)]
    return [*found, row("roce-1-flap", 1, 1e-3, ok=False), row("roce-1-flap", 2, 4e-3)]


def of_sources(digest, found):
    """Runs as they are kept, with the digest of their sources."""
    return [sizes._of_row(one, digest) for one in found]


def test_a_cost_is_told_against_the_same_seed_with_its_interval():
    found = figures.cost(of_sources("abc", rows()), "mrc", "flap")
    lost = [1e3 * sizes.STEPS * extra for extra in (1e-5, 2e-5, 3e-5)]
    assert found.lost == pytest.approx(lost)
    assert found.mean - found.half == pytest.approx(summary(lost).low)
    assert found.gpu_hours == pytest.approx(1e-3 * found.mean * 100_000 / 3600)
    assert figures.cost(of_sources("abc", rows()), "mrc", "t0") is None


def test_a_job_that_broke_off_is_counted_and_costs_no_time():
    found = figures.cost(of_sources("abc", rows()), "roce-1", "flap")
    assert found.aborted == 1
    assert found.lost == pytest.approx((1e3 * sizes.STEPS * 2e-3,))
    assert page.cost_text(found) == f"{found.mean:.3f} (one seed); ends in 1 of 2"
    assert page.cost_text(figures.FaultCost((), 2)) == "ends (2 of 2)"


def test_the_page_says_what_was_run_and_what_was_not(tmp_path):
    page.write(tmp_path / "training.md", {64: of_sources("abc", rows()), 1024: of_sources("0ld", rows()[:4])})
    text = (tmp_path / "training.md").read_text()
    assert "| a T0–T1 cable is down for 200 µs | 64 NICs | 0.080 ± " in text
    assert "| a T0–T1 cable is down for 200 µs | 0.080 ± " in text
    assert "| RoCEv2, 1 QP | 64 NICs | 8.000 (one seed); ends in 1 of 2 | 0.222 | 1,344 |" in text
    assert "* 64 NICs: 10 runs with sources `abc`" in text
    assert "* 1,024 NICs: 4 runs with sources `0ld`" in text
    assert "* 8,192 NICs: not run." in text
    ran = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "`mrc`" in line]
    assert [line[0] for line in ran] == ["64", "1,024"]
    assert ran[0][2:] == ["3", "3", *["–"] * 5]
    assert ran[1][2:] == ["3", "1", *["–"] * 5]
    assert (tmp_path / page.PICTURE).stat().st_size > 1000


def test_the_page_names_the_seeds_that_ran_and_no_others(tmp_path):
    ran = [row(variant, seed, 1e-3) for seed in (1, 2, 7) for variant in ("mrc-calm", "mrc-flap")]
    page.write(tmp_path / "training.md", {64: of_sources("abc", ran)})
    assert "Seeds 1 to 2, 7; ms." in (tmp_path / "training.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", ["lab/measure", "lab/expectations", "lab/scenario", "lab/topology", "events", "sim"])
def test_a_change_of_what_makes_a_figure_makes_another_program(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "HOME", tmp_path)
    (tmp_path / folder).mkdir(parents=True)
    before = sizes.digest()
    (tmp_path / folder / "steps.py").write_text("SECONDS = 2\n", encoding="utf-8")
    assert sizes.digest() != before


def test_a_size_of_one_seed_is_in_its_chapter_and_in_no_summary(tmp_path):
    one = of_sources("abc", [found for found in rows() if found["seed"] == 1])
    page.write(tmp_path / "training.md", {64: of_sources("abc", rows()), 32768: one})
    text = (tmp_path / "training.md").read_text()
    assert "| a T0–T1 cable is down for 200 µs | 0.040 (one seed) |" in text
    assert "32,768 NICs | 0" not in text


def test_a_size_without_a_run_free_of_faults_has_no_table_of_costs(tmp_path):
    page.write(
        tmp_path / "training.md", {64: of_sources("abc", rows()), 1024: of_sources("abc", [row("mrc-flap", 1, 1e-3)])}
    )
    text = (tmp_path / "training.md").read_text()
    assert "## 64 NICs" in text
    assert "## 1,024 NICs" not in text
    assert "* 1,024 NICs: 1 run with" in text


def test_figures_are_kept_and_give_the_same_page(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "draw", lambda *_: False)
    found = {64: of_sources("abc", rows()[:6]) + of_sources("new", rows()[6:])}
    figures.save(tmp_path / "kept.json", found)
    again = figures.load(tmp_path / "kept.json")
    for name, made in (("a", found), ("b", again)):
        (tmp_path / name).mkdir()
        page.write(tmp_path / name / "training.md", made)
    assert (tmp_path / "a" / "training.md").read_text() == (tmp_path / "b" / "training.md").read_text()


def test_runs_of_one_program_are_joined_and_of_two_the_larger_set_is_taken(tmp_path):
    folder = tmp_path / f"64-{sizes.digest()}"
    folder.mkdir()
    new = [row("mrc-calm", 4, 1e-3), row("mrc-flap", 1, 9e-3)]
    (folder / "runs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in new))
    for digest, count, changed in ((sizes.digest(), 7, 9e-3), ("0ld", 6, 1.01e-3)):
        all_found = figures.merged({64: of_sources(digest, rows())}, tmp_path)[64]
        found = [one for one in all_found if one.variant.startswith("mrc")]
        assert ({one.sources for one in found}, len(found)) == ({digest}, count)
        assert [one for one in all_found if one not in found] == of_sources(digest, rows()[6:])
        (flap,) = (one for one in found if (one.variant, one.seed) == ("mrc-flap", 1))
        assert flap.seconds == pytest.approx(sizes.STEPS * changed)


def test_a_transport_is_added_to_those_of_another_program_and_the_page_tells_both(tmp_path, monkeypatch):
    folder = tmp_path / f"64-{sizes.digest()}"
    folder.mkdir()
    new = [row("roce-16-calm", 1, 1e-3), row("roce-16-flap", 1, 2e-3)]
    (folder / "runs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in new))
    found = figures.merged({64: of_sources("b14077e82c00", rows())}, tmp_path)
    assert {(one.transport, one.sources) for one in found[64]} == {
        ("mrc", "b14077e82c00"), ("roce-1", "b14077e82c00"), ("roce-16", sizes.digest())
    }  # fmt: skip
    monkeypatch.setattr(page, "draw", lambda *_: False)
    page.write(tmp_path / "training.md", found)
    text = (tmp_path / "training.md").read_text()
    assert "* 64 NICs: 10 runs with sources `b14077e82c00`" in text
    assert f"* 64 NICs: 2 runs with sources `{sizes.digest()}`" in text
    assert "The runs of MRC; RoCEv2, 1 QP drew the same compute times with every seed" in text


def test_the_newest_rows_are_taken_where_those_of_these_sources_are_missing(tmp_path):
    size = sizes.SIZES[0]
    assert sizes.kept(size, tmp_path) == []
    for name, age in (("old", 1), ("new", 2), (sizes.digest(), 0)):
        folder = tmp_path / f"64-{name}"
        folder.mkdir()
        lines = (json.dumps(row(variant, 1, 1e-3)) + "\n" for variant in ("mrc-calm", "no-more"))
        (folder / "runs.jsonl").write_text("".join(lines))
        os.utime(folder / "runs.jsonl", (age, age))
        if name == "new":
            assert sizes.kept(size, tmp_path)[0].sources == "new"
    found = sizes.kept(size, tmp_path)
    assert [(run.variant, run.sources) for run in found] == [("mrc-calm", sizes.digest())]


def test_the_picture_has_a_panel_for_each_size_and_an_axis_with_its_unit(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(style, "save", lambda figure, _: drawn.append(figure) or True)
    assert page.draw(tmp_path / "x.png", sizes.SIZES[:2], dict.fromkeys((64, 1024), of_sources("abc", rows())))
    (figure,) = drawn
    assert [axes.get_title(loc="left").partition(",")[0] for axes in figure.axes] == ["64 NICs", "1"]
    for axes in figure.axes:
        assert axes.get_ylabel() == "ms lost (mean, 95 % interval)"
        assert axes.get_yscale() == "linear"
        assert len(axes.get_xticks()) == 1  # the one fault that rows have
    assert not page.draw(tmp_path / "x.png", sizes.SIZES[:1], {64: []})
    one_seed = of_sources("abc", [row("mrc-calm", 1, 1e-3), row("mrc-t0", 1, 2e-3)])
    assert page.draw(tmp_path / "x.png", sizes.SIZES[:1], {64: one_seed})
    assert [text.get_text() for text in drawn[-1].axes[0].texts] == ["one seed"]


def test_plans_of_some_variants_continue_each_other(monkeypatch):
    monkeypatch.setattr(sizes, "_LARGE", 1024)  # a field of MRC's variants alone
    one, other = (sizes.SIZES[1].plan([1], [variant]) for variant in ("mrc-flap", "roce-1-calm"))
    assert "transport.ev_profile" in one.fields
    assert [job.variant for job in (*one, *other)] == ["mrc-flap", "roce-1-calm"]
    assert (one.fields, one.digest) == (other.fields, other.digest)


def test_a_size_without_the_variants_that_are_named_has_no_runs(tmp_path):
    assert not list(sizes.SIZES[3].plan([1], ["roce-1-calm"]))
    sizes.run(sizes.SIZES[3], [1], tmp_path, 1, lambda _: pytest.fail("it ran"), ["roce-1-calm"])


def test_a_second_command_in_a_directory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sizes.processes, "rows", lambda *_: (row for row in ()))
    with (
        Journal(tmp_path / f"64-{sizes.digest()}").owned(),
        pytest.raises(LabError, match=r"another process adds runs to .*; wait for it, .* --results"),
    ):
        sizes.run(sizes.SIZES[0], [1], tmp_path, 1, print)
    sizes.run(sizes.SIZES[0], [1], tmp_path, 1, print)
    assert sizes.kept(sizes.SIZES[0], tmp_path) == []


@pytest.mark.parametrize("main", [training.main, paperscale.main])
def test_a_command_without_a_worker_is_refused(main, capsys):
    with pytest.raises(SystemExit):
        main(["--workers", "0"])
    assert "--workers 0: at least one process is needed" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["file/page.md", "n" * 300, "folder"])
@pytest.mark.parametrize(
    ("main", "words", "runs"),
    [
        (training.main, ["--sizes", ""], (figures, "load")),
        (paperscale.main, [], (paperscale.table, "run")),
        (benchsim.main, ["--hosts", "16", "--alone"], (benchsim, "run")),
        (baselines.main, [], (baselines, "rows")),
        (losses.main, [], (losses, "rows")),
        (worlds, [], (worlds_cli, "Store")),
    ],
)
def test_a_page_that_could_not_be_written_is_refused_before_anything_runs(
    main, words, runs, name, tmp_path, monkeypatch
):
    monkeypatch.setattr(*runs, lambda *_, **_more: pytest.fail("it began to run"))
    (tmp_path / "file").touch()
    place = tmp_path / name / "README.md" if main is paperscale.main else tmp_path / name  # its page is a folder
    if name == "folder":
        place.mkdir(parents=True)
    with pytest.raises(LabError, match=rf"^--page {place}: no page can be written there \(.*\); name another$"):
        main([*words, "--page", str(tmp_path / name)])
    assert not (tmp_path / "file").read_bytes()


def test_a_page_that_can_be_written_is_left_as_it_was(tmp_path):
    template.check_page(tmp_path / "new" / "page.md")
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "page.md").write_text("as before", encoding="utf-8")
    template.check_page(tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text(encoding="utf-8") == "as before"


def test_every_size_and_variant_is_a_scenario_of_as_many_ranks_and_steps():
    for size in sizes.SIZES:
        assert size.nics == size.t0s * size.hosts_per_t0 == 8 * size.pipeline * size.data
    loaded = scenario.load(sizes.SCENARIO)
    assert {run.variant for run in loaded.runs} == set(sizes.SIZES[0].variants)
    job = loaded.scenario.traffic[0]
    assert job.steps == sizes.STEPS
    assert len(job.placed) == 64
    assert {run.scenario.transport.kind for run in loaded.runs} == {"mrc", "roce"}
    flapping = [fault for run in loaded.runs for fault in run.scenario.faults if fault.kind == "flap"]
    assert len(flapping) == len(page.TRANSPORTS)
    assert all(fault.ends_at for fault in flapping)  # else the run goes on to its timeout


SMALL = """\
name: small
world: sim
history: none
fabric: {planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 2, path_mtu: 4096, link: {rate: 100 Gb/s, delay: 600ns}}
traffic: [{name: job, kind: training, layers: 2, parameters: 65536, forward: 2us, jitter: 2%, steps: 2}]
expect: [{kind: integrity}, {kind: step_time, name: average, traffic: job, percentile: mean, at_most: 1s}]
variants:
  - {name: calm}
  - {name: flap, set: {faults: [{name: fault, kind: link_down, link: h1/t0-p1-1, at: 30% of job, until: fault + 20us}]}}
  - {name: t1, set: {faults: [{name: fault, kind: switch_crash, switch: t1-p1-1, at: 30% of job}]}}
  - {name: again, set: {faults: [{name: fault, kind: flap, link: h1/t0-p1-1, at: 30% of job, period: 40us, count: 2}]}}
"""


@pytest.mark.parametrize("variants", [{"calm", "flap", "t1", "again"}, {"flap", "t1"}, {"calm"}])
def test_variants_that_branch_off_one_run_are_the_runs_that_each_makes_alone(variants):
    jobs = [job for job in plan.make(scenario.loads(SMALL), [3], {}) if job.variant in variants]
    found = {row["variant"]: row for row in branches.run(jobs)}
    assert found.keys() == variants
    alone = {job.variant: work.run(job) for job in jobs}
    for variant, row in alone.items():
        assert (found[variant]["state"], found[variant]["verdicts"]) == (row["state"], row["verdicts"])
    times = [row["verdicts"]["step_time (average)"]["value"] for row in found.values()]
    assert len(set(times)) == len(times)  # each fault shows


def test_a_branch_finds_the_busiest_cable_when_its_fault_begins():
    text = SMALL.replace("link: h1/t0-p1-1, at: 30% of job, until: fault + 20us", "link: busiest, at: 30% of job")
    jobs = [job for job in plan.make(scenario.loads(text), [3], {}) if job.variant in {"calm", "flap"}]
    found = {row["variant"]: row for row in branches.run(jobs)}
    alone = work.run(next(job for job in jobs if job.variant == "flap"))
    assert (found["flap"]["state"], found["flap"]["verdicts"]) == (alone["state"], alone["verdicts"])
    assert not found["flap"]["error"]


def test_a_branch_whose_process_dies_has_no_row_and_takes_no_other_with_it(monkeypatch):
    jobs = [job for job in plan.make(scenario.loads(SMALL), [3], {}) if job.variant != "again"]
    inject = LinkDown.action
    monkeypatch.setattr(
        LinkDown, "action", lambda fault, context: os._exit(9) if fault.until else inject(fault, context)
    )
    assert {row["variant"] for row in branches.run(jobs)} == {"calm", "t1"}


def _wait_in_a_branch(path):
    fault = LinkDown.model_construct(name="fault", at=None)
    if branches.Branches({"flap": fault}, goes_on=False).fork() is fault:
        path.write_text(str(os.getpid()))
        signal.pause()


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_branch_ends_with_the_process_that_it_branched_off(tmp_path):
    found = tmp_path / "pid"
    parent = multiprocessing.get_context("fork").Process(target=_wait_in_a_branch, args=(found,))
    parent.start()
    until = time.monotonic() + 20
    while not (found.exists() and found.read_text()) and time.monotonic() < until:
        time.sleep(0.01)
    branch = int(found.read_text())
    try:
        parent.kill()
        parent.join()
        while _runs(branch) and time.monotonic() < until:
            time.sleep(0.01)
        assert not _runs(branch)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(branch, signal.SIGKILL)


def test_faults_of_other_moments_do_not_branch_off_one_run():
    later = SMALL.replace("switch: t1-p1-1, at: 30%", "switch: t1-p1-1, at: 40%")
    with pytest.raises(ValueError, match="one trigger"):
        branches.run(list(plan.make(scenario.loads(later), [3], {})))
