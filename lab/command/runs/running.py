"""`mrclab run`: a scenario, or each of its variants, from its file to its report."""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from mrclab.lab.command.display import answer
from mrclab.lab.command.display import progress as progressbar
from mrclab.lab.errors import LabError
from mrclab.lab.report.results import CollectedRun
from mrclab.lab.run import runner, worlds
from mrclab.lab.run.mirror import Mirror
from mrclab.lab.run.virtual import VirtualWorld
from mrclab.lab.run.world import World
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.files import finding
from mrclab.lab.scenario.scenario import Loaded
from mrclab.topo.linux import paths

if TYPE_CHECKING:
    from rich.console import Console

    from mrclab.lab.ui.web.pageprocess import PageProcess


def run(
    run_dir: Path,
    path: Path,
    *,
    target: str | None = None,
    world: str | None = None,
    seed: int | None = None,
    variant: str = "",
    sets: Sequence[str] | None = None,
    slower: float = 1.0,
    results_dir: Path = Path("results"),
    dry_run: bool = False,
    ui: bool = False,
    browser: bool = False,
    place: Path | None = None,
    force: bool = False,
    within: Path | None = None,
    as_json: bool = False,
) -> int:
    """Run a scenario, or each of its variants; return the exit status. The options are those of the command."""
    loaded = scenario.in_world(scenario.load(finding.find_one(path), within), world)
    runs = (loaded.pick(variant),) if variant else loaded.runs
    chosen = _changed(runs, scenario.parse_settings(sets or ()), seed, slower)
    worlds.check_target(target, *(one.scenario.world for one in chosen))
    worlds.check(*chosen)
    if dry_run:
        _print_plans(chosen, as_json)
        _warn(worlds.check_size(*chosen, force=True))
        return 0
    _warn(worlds.check_machine(*chosen, force=force))
    if len(chosen) > 1:
        if ui or browser:
            raise LabError("the live page shows one run; choose one with --variant")
        return _run_all(chosen, loaded.scenario.name, run_dir, results_dir, target, as_json)
    with progressbar.shown() as progress, ExitStack() as stack:
        page: PageProcess | None = None
        if ui or browser:
            from mrclab.lab.ui.web import pageprocess  # noqa: PLC0415 - most runs have none

            page = pageprocess.PageProcess(run_dir, progress.notify, browser=browser, results=results_dir)
            stack.enter_context(page)

        def show(world: World) -> None:
            kept = run_dir
            if isinstance(world, VirtualWorld):
                if place is None and page is None:
                    return
                kept = _mirror(world, place, stack)
            if page is not None:
                page.show(kept)

        def verdict(outcome: CollectedRun) -> None:
            progress.stop()
            print_verdict(outcome, as_json)
            progress("drawing the report", 0, 0)

        notify = progressbar.notifier(progress)
        outcome = runner.run_scenario(
            chosen[0], results_dir, progress, notify, target, run_dir, show=show, on_verdict=verdict
        )
        progress.stop()
        status = print_place("run", outcome, as_json)
        if outcome.state == "invalid" and not outcome.measures.machine.lateness.stops():
            again = f"--slower {2 * slower:g}"
            _warn([f"if this machine has no other work, {again} asks less of it, with the same results in RTTs"])
        if page is not None:
            page.keep_open("the live page stays until Ctrl-C")
    return status


def _mirror(world: VirtualWorld, place: Path | None, stack: ExitStack) -> Path:
    """Keep the history of virtual time where others read it; return the folder, which is temporary without a place."""
    kept = place or Path(stack.enter_context(TemporaryDirectory(prefix=paths.folder_prefix())))
    world.follow(Mirror(world, kept, keep=place is not None))
    return kept


def _print_plans(runs: Sequence[Loaded], as_json: bool) -> None:
    """Print the plan of each run."""
    from mrclab.lab.command.runs import plan  # noqa: PLC0415 - runs do without

    if as_json:
        answer.give("run", 0, dry_run=True, runs=[plan.as_json(one.fabric, one.scenario) for one in runs])
        return
    for one in runs:
        plan.show(one.fabric, one.scenario, console_of())


def _changed(runs: Sequence[Loaded], values: Mapping[str, Any], seed: int | None, slower: float) -> list[Loaded]:
    """Return runs with other values, another seed and slower links."""
    found = [scenario.with_values(one, values) for one in runs]
    if seed is not None:
        found = [scenario.with_seed(one, seed) for one in found]
    return [scenario.slower(one, slower) for one in found]


def _run_all(
    runs: Sequence[Loaded], name: str, run_dir: Path, results_dir: Path, target: str | None, as_json: bool
) -> int:
    """Run the variants of a scenario as a suite; return the exit status."""
    from mrclab.lab.report import suitereport  # noqa: PLC0415 - single runs do without
    from mrclab.lab.run import suite  # noqa: PLC0415

    with progressbar.shown() as progress:
        made = suite.Suite(results_dir, progress, progressbar.notifier(progress), target, run_dir)
        result = suitereport.run(made, runs, name, console_of(stderr=True))
    suitereport.show(result, console_of(stderr=as_json))
    if as_json:
        answer.give("run", result.status, directory=str(result.directory), **suitereport.as_json(result))
    return result.status


def _warn(warnings: list[str]) -> None:
    for text in warnings:
        if text:
            progressbar.line(f"mrclab: {text}")


def console_of(stderr: bool = False) -> "Console":
    """Return the console of standard error or output. rich takes long to load, and tables come after the run."""
    from mrclab.lab import console  # noqa: PLC0415

    return console.console(stderr=True) if stderr else console.standard()


def print_verdict(outcome: CollectedRun, as_json: bool) -> None:
    """Print tables and verdict as soon as they are known."""
    if outcome.facts:
        from mrclab.lab.command.display import terminal  # noqa: PLC0415 - it loads rich

        terminal.show(outcome.facts, console_of(stderr=as_json))


def print_place(command: str, outcome: CollectedRun, as_json: bool) -> int:
    """Print where the report is; return the exit status."""
    status = 0 if outcome.ok else 3 if outcome.state == "invalid" else 1
    if outcome.facts:
        from mrclab.lab.command.display import terminal  # noqa: PLC0415 - it loads rich

        terminal.show_place(outcome.directory, console_of(stderr=as_json))
    if as_json:
        verdicts = [dataclasses.asdict(verdict) for verdict in outcome.verdicts]
        directory = str(outcome.directory)
        answer.give(
            command, status, state=outcome.state, directory=directory, error=outcome.error, expectations=verdicts
        )
    return status
