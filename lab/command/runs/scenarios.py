"""The commands `mrclab run`, `plan` and `report`: a scenario, its plan, and its results."""

import dataclasses
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated

import typer

from mrclab.lab.command.display import answer
from mrclab.lab.command.display import progress as progressbar
from mrclab.lab.command.options import Force, Open, Results, Sets, Slower, Target, Ui, Variant, World
from mrclab.lab.errors import LabError
from mrclab.lab.report import results
from mrclab.lab.run import runner, worlds
from mrclab.lab.run.virtual import VirtualWorld
from mrclab.lab.run.world import World as LiveWorld
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.files import finding
from mrclab.lab.scenario.seeds import MAX_SEED
from mrclab.lab.ui.web.pageprocess import PageProcess
from mrclab.topo.linux import killed
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer()

ScenarioPath = Annotated[
    Path, typer.Argument(metavar="SCENARIO", help="a scenario file, e.g. scenarios/link-failure.yaml")
]
OptionalScenario = Annotated[Path | None, typer.Argument(metavar="SCENARIO", help="take the fabric of this scenario")]


@app.command()
def run(
    context: typer.Context,
    path: ScenarioPath,
    target: Target = None,
    world: World = None,
    seed: Annotated[int | None, typer.Option(min=0, max=MAX_SEED, help="overrides the scenario's")] = None,
    variant: Variant = "",
    sets: Sets = None,
    slower: Slower = 1.0,
    results_dir: Results = Path("results"),
    dry_run: Annotated[bool, typer.Option(help="print the resolved plan and start nothing")] = False,
    ui: Ui = False,
    browser: Open = False,
    place: Annotated[
        Path | None, typer.Option(help="virtual time: keep its history here while it runs, for `mrclab ui PLACE`")
    ] = None,
    force: Force = False,
    within: Annotated[Path | None, typer.Option(hidden=True, help="read only files below this folder")] = None,
    as_json: answer.AsJson = False,
) -> None:
    """Run a scenario, or each of its variants; exit status 0: passed, 1: failed or aborted, 3: machine too slow."""
    loaded = scenario.in_world(scenario.load(finding.find_one(path), within), world)
    values = scenario.parse_settings(sets or [])
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
                planning.show(one.fabric, one.scenario, _console())
        _warn(worlds.check_size(*chosen, force=True))
        return
    _warn(worlds.check_machine(*chosen, force=force))
    if len(chosen) > 1:
        if ui or browser:
            raise LabError("the live page shows one run; choose one with --variant")
        from mrclab.lab.report import suitereport  # noqa: PLC0415 - single runs do without
        from mrclab.lab.run import suite  # noqa: PLC0415

        with progressbar.shown() as progress:
            made = suite.Suite(results_dir, progress, progressbar.notifier(progress), target, context.obj)
            result = suitereport.run(made, chosen, loaded.scenario.name, _console(stderr=True))
        suitereport.show(result, _console(stderr=as_json))
        if as_json:
            answer.give("run", result.status, directory=str(result.directory), **suitereport.as_json(result))
        raise typer.Exit(result.status)
    with (
        progressbar.shown() as progress,
        Watched(context.obj, place, progress.notify, results_dir, ui=ui, browser=browser) as shown,
    ):

        def verdict(outcome: runner.Outcome) -> None:
            progress.stop()
            _verdict(outcome, as_json)
            progress("drawing the report", 0, 0)

        outcome = runner.run_scenario(
            chosen[0],
            results_dir,
            progress,
            progressbar.notifier(progress),
            target,
            context.obj,
            show=shown.show,
            on_verdict=verdict,
        )
        progress.stop()
        status = _report("run", outcome, as_json)
        if outcome.state == "invalid" and not outcome.measures.machine.stopped:
            again = f"--slower {2 * slower:g}"
            _warn([f"if this machine has no other work, {again} asks less of it, with the same results in RTTs"])
        shown.keep_open()
    if status:
        raise typer.Exit(status)


@app.command()
def plan(
    path: OptionalScenario = None,
    world: World = None,
    variant: Variant = "",
    sets: Sets = None,
    entries: Annotated[bool, typer.Option("--entries", help="list every table entry too")] = False,
    as_json: answer.AsJson = False,
) -> None:
    """Print the resolved plan: nodes, addresses, uSIDs, cables, time line. Needs no root and starts nothing."""
    from mrclab.lab.command.runs import plan as planning  # noqa: PLC0415 - runs do without

    if path is None and (variant or sets):
        raise LabError("--variant and --set change a scenario, but none is named; give a scenario too")
    loaded = scenario.in_world(scenario.load(finding.find_one(path)), world) if path else None
    if loaded is not None:
        if variant:
            loaded = loaded.pick(variant)
        if sets:  # of the scenario itself, where no variant is named
            loaded = scenario.with_values(loaded._replace(variants=()), scenario.parse_settings(sets))
        worlds.check(*loaded.runs)
    fabric, spec = (loaded.fabric, loaded.scenario) if loaded else (Fabric(FabricSpec()), None)
    if as_json:
        answer.give("plan", 0, **planning.as_json(fabric, spec, entries))
    else:
        planning.show(fabric, spec, _console(), entries)


@app.command()
def report(
    directory: Annotated[Path, typer.Argument(help="a result directory, or that of a suite")],
    more: Annotated[list[Path] | None, typer.Argument(help="further suites, for one page of all")] = None,
    as_json: answer.AsJson = False,
) -> None:
    """Rebuild and print the report of a result directory; for suites, the page that compares them with the paper."""
    if more or (directory / "suite.json").is_file():
        from mrclab.experiments.paper import page as paper  # noqa: PLC0415 - runs do without

        page = paper.write(directory, *(more or []))[0]
        if as_json:
            answer.give("report", 0, page=str(page))
        else:
            _console().print(f"The paper's figures: {page}", soft_wrap=True)
        return
    with results.foreign(directory):
        outcome = runner.finish(directory, lambda judged: _verdict(judged, as_json))
    status = _report("report", outcome, as_json)
    if status:
        raise typer.Exit(status)


def _warn(warnings: list[str]) -> None:
    for text in warnings:
        if text:
            progressbar.line(f"mrclab: {text}")


def _console(stderr: bool = False) -> "Console":
    """Return the console of standard error or output. rich takes long to load, and tables come after the run."""
    from mrclab.lab import console  # noqa: PLC0415

    return console.console(stderr=True) if stderr else console.standard()


def _verdict(outcome: runner.Outcome, as_json: bool) -> None:
    """Print tables and verdict as soon as they are known."""
    if outcome.facts:
        from mrclab.lab.command.display import terminal  # noqa: PLC0415 - it loads rich

        terminal.show(outcome.facts, _console(stderr=as_json))


def _report(command: str, outcome: runner.Outcome, as_json: bool) -> int:
    """Print where the report is; return the exit status."""
    status = 0 if outcome.ok else 3 if outcome.state == "invalid" else 1
    if outcome.facts:
        from mrclab.lab.command.display import terminal  # noqa: PLC0415 - it loads rich

        terminal.show_place(outcome.directory, _console(stderr=as_json))
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
        self._with_page = ui or browser
        self._stack = ExitStack()
        self._page = PageProcess(run_dir, notify, browser=browser, results=results)

    def show(self, world: LiveWorld) -> None:
        """The lab is up."""
        place = self._run_dir
        if isinstance(world, VirtualWorld):
            if self._place is None and not self._with_page:
                return
            place = self._place or Path(
                self._stack.enter_context(tempfile.TemporaryDirectory(prefix=killed.folder_prefix()))
            )
            world.mirror(place, keep=self._place is not None)
        if self._with_page:
            self._page.show(place)

    def keep_open(self) -> None:
        """The run is over and reported."""
        self._page.keep_open("the live page stays until Ctrl-C")

    def __enter__(self) -> "Watched":
        self._stack.enter_context(self._page)
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _tb: TracebackType | None
    ) -> None:
        self._stack.close()
