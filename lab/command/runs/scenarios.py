"""The commands `mrclab run`, `plan` and `report`: a scenario, its plan, and its results."""

from pathlib import Path
from typing import Annotated

import typer

from mrclab.lab.command.display import answer
from mrclab.lab.command.options import AsJson, Force, Open, Results, Sets, Slower, Target, Ui, Variant, World
from mrclab.lab.errors import LabError
from mrclab.lab.run import worlds
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.files import finding
from mrclab.lab.scenario.seeds import MAX_SEED
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

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
    as_json: AsJson = False,
) -> None:
    """Run a scenario, or each of its variants; exit status 0: PASS, 1: FAIL or aborted, 3: INVALID (slow machine)."""
    options = dict(locals())
    from mrclab.lab.command.runs import running  # noqa: PLC0415 - help and plans do without

    if status := running.run(options.pop("context").obj, **options):
        raise typer.Exit(status)


@app.command()
def plan(
    path: OptionalScenario = None,
    world: World = None,
    variant: Variant = "",
    sets: Sets = None,
    entries: Annotated[bool, typer.Option("--entries", help="list every table entry too")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the resolved plan: nodes, addresses, uSIDs, cables, time line. Needs no root and starts nothing."""
    from mrclab.lab import console  # noqa: PLC0415 - runs load rich later
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
        planning.show(fabric, spec, console.standard(), entries)


@app.command()
def report(
    directory: Annotated[Path, typer.Argument(help="a result directory, or that of a suite")],
    more: Annotated[list[Path] | None, typer.Argument(help="further suites, for one page of all")] = None,
    as_json: AsJson = False,
) -> None:
    """Rebuild and print the report of a result directory; for suites, the page that compares them with the paper."""
    from mrclab.lab.command.runs import running  # noqa: PLC0415 - as above
    from mrclab.lab.report import results  # noqa: PLC0415
    from mrclab.lab.run import runner  # noqa: PLC0415

    if more or (directory / "suite.json").is_file():
        from mrclab.experiments.paper import page as paper  # noqa: PLC0415 - runs do without

        page = paper.write(directory, *(more or []))[0]
        if as_json:
            answer.give("report", 0, page=str(page))
        else:
            running.console_of().print(f"The paper's figures: {page}", soft_wrap=True)
        return
    with results.foreign(directory):
        outcome = runner.finish(directory, lambda judged: running.print_verdict(judged, as_json))
    if status := running.print_place("report", outcome, as_json):
        raise typer.Exit(status)
