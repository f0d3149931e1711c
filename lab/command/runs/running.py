"""`mrclab run`: a scenario, or each of its variants, from its file to its report."""

import dataclasses
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

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
    sets: Sequence[str] = (),
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
    values = scenario.parse_settings(sets)
    chosen = tuple(scenario.with_values(one, values) for one in ((loaded.pick(variant),) if variant else loaded.runs))
    if seed is not None:
        chosen = tuple(scenario.with_seed(one, seed) for one in chosen)
    chosen = tuple(scenario.slower(one, slower) for one in chosen)
    worlds.check_target(target, *(one.scenario.world for one in chosen))
    worlds.check(*chosen)
    if dry_run:
        from mrclab.lab.command.runs import plan as planning  # noqa: PLC0415 - runs do without

        if as_json:
            answer.give("run", 0, dry_run=True, runs=[planning.as_json(one.fabric, one.scenario) for one in chosen])
        else:
            for one in chosen:
                planning.show(one.fabric, one.scenario, console_of())
        _warn(worlds.check_size(*chosen, force=True))
        return 0
    _warn(worlds.check_machine(*chosen, force=force))
    if len(chosen) > 1:
        if ui or browser:
            raise LabError("the live page shows one run; choose one with --variant")
        from mrclab.lab.report import suitereport  # noqa: PLC0415 - single runs do without
        from mrclab.lab.run import suite  # noqa: PLC0415

        with progressbar.shown() as progress:
            made = suite.Suite(results_dir, progress, progressbar.notifier(progress), target, run_dir)
            result = suitereport.run(made, chosen, loaded.scenario.name, console_of(stderr=True))
        suitereport.show(result, console_of(stderr=as_json))
        if as_json:
            answer.give("run", result.status, directory=str(result.directory), **suitereport.as_json(result))
        return result.status
    with (
        progressbar.shown() as progress,
        Watched(run_dir, place, progress.notify, results_dir, ui=ui, browser=browser) as shown,
    ):

        def verdict(outcome: CollectedRun) -> None:
            progress.stop()
            print_verdict(outcome, as_json)
            progress("drawing the report", 0, 0)

        outcome = runner.run_scenario(
            chosen[0],
            results_dir,
            progress,
            progressbar.notifier(progress),
            target,
            run_dir,
            show=shown.show,
            on_verdict=verdict,
        )
        progress.stop()
        status = print_place("run", outcome, as_json)
        if outcome.state == "invalid" and not outcome.measures.machine.stopped:
            again = f"--slower {2 * slower:g}"
            _warn([f"if this machine has no other work, {again} asks less of it, with the same results in RTTs"])
        shown.keep_open()
    return status


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


class Watched:
    """Keeps a run's history where others read it: the run directory, or a place of its own in virtual time.

    `place` names that one; with `ui` or `browser` the page is shown as well, until the block ends.
    """

    def __init__(
        self,
        run_dir: Path,
        place: Path | None,
        notify: Callable[[str], None],
        results: Path,
        *,
        ui: bool,
        browser: bool,
    ) -> None:
        self._run_dir, self._place = run_dir, place
        self._stack = ExitStack()
        self._page: PageProcess | None = None
        if ui or browser:
            from mrclab.lab.ui.web import pageprocess  # noqa: PLC0415 - most runs have none

            self._page = pageprocess.PageProcess(run_dir, notify, browser=browser, results=results)

    def show(self, world: World) -> None:
        """The lab is up."""
        place = self._run_dir
        if isinstance(world, VirtualWorld):
            if self._place is None and self._page is None:
                return
            place = self._place or Path(
                self._stack.enter_context(tempfile.TemporaryDirectory(prefix=paths.folder_prefix()))
            )
            world.follow(Mirror(world, place, keep=self._place is not None))
        if self._page is not None:
            self._page.show(place)

    def keep_open(self) -> None:
        """The run is over and reported."""
        if self._page is not None:
            self._page.keep_open("the live page stays until Ctrl-C")

    def __enter__(self) -> "Watched":
        if self._page is not None:
            self._stack.enter_context(self._page)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
