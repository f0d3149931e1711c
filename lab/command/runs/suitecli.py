"""The command `mrclab suite`, and the JSON schema for editors. They only read words and call others."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from mrclab.lab import console
from mrclab.lab.command.display import answer, progress
from mrclab.lab.command.options import AsJson, FolderName, Force, Results, Target, Variant, World
from mrclab.lab.errors import LabError
from mrclab.lab.report import compare, results, suitereport
from mrclab.lab.run import suite, worlds
from mrclab.lab.scenario import scenario, schema
from mrclab.lab.scenario.files import finding
from mrclab.lab.scenario.seeds import parse as parse_seeds

app = typer.Typer()
out = console.standard()
err = console.console(stderr=True)


@app.command(name="suite")
def run_suite(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PATH|NAME]...",
            help=f"files, directories, or names below scenarios/; default: all but {', '.join(finding.EXCLUDED)}",
        ),
    ] = None,
    target: Target = None,
    world: World = None,
    variant: Variant = "",
    repeat: Annotated[int, typer.Option(min=1, help="runs of each, with seeds from the scenario's on")] = 1,
    seeds: Annotated[str | None, typer.Option(help="run each with all of these seeds: 1..10, or 1,2,7")] = None,
    again: Annotated[int, typer.Option(min=0, help="repeat an invalid run at most this many times")] = 0,
    results_dir: Results = Path("results"),
    name: FolderName = "suite",
    dry_run: Annotated[bool, typer.Option(help="list the runs and start nothing")] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Run many scenarios in order, with one report; continues after a failure. Exit status 0, 1 or 3 as for `run`."""
    if seeds is not None and repeat > 1:
        raise LabError("--repeat takes seeds from the scenario's on, and --seeds names them; give one of the two")
    loaded = [scenario.in_world(one, world) for one in suite.load_all(finding.find(words or []))]
    planned = suite.runs(loaded, () if seeds is None else parse_seeds(seeds), repeat, variant)
    worlds.check_target(target, *(one.scenario.world for one in planned))
    worlds.check(*planned)
    if dry_run and as_json:
        runs = [{"name": one.scenario.name, "seed": one.scenario.seed, "source": str(one.source)} for one in planned]
        answer.give("suite", 0, dry_run=True, runs=runs)
        return
    if dry_run:
        for one in planned:
            console.plain(out, f"{one.scenario.name}, seed {one.scenario.seed}: {one.source}")
        return
    for warning in worlds.check_machine(*planned, force=force):
        console.plain(err, f"mrclab: {warning}")
    with progress.shown(err) as bar:
        made = suite.Suite(results_dir, bar, progress.notifier(bar), target, context.obj, again)
        result = suitereport.run(made, planned, name, err)
    terminal = err if as_json else out
    suitereport.show(result, terminal)
    from mrclab.experiments.paper import page as paper  # noqa: PLC0415 - it takes a moment, and help needs none

    if paper.page_of(entry.name for entry in result.entries):
        terminal.print(f"The paper's figures: {paper.write(result.directory)[0]}", soft_wrap=True)
    if as_json:
        answer.give("suite", result.status, directory=str(result.directory), **suitereport.as_json(result))
    if result.status:
        raise typer.Exit(result.status)


@app.command(name="compare")
def compare_runs(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="result directories, as run or suite made")
    ],
    output: Annotated[Path, typer.Option(help="where the page and its pictures go")] = Path("results/compare"),
    title: Annotated[str, typer.Option(help="of the page")] = "Runs side by side",
    as_json: AsJson = False,
) -> None:
    """Compare several runs on one page: expectations' figures, goodput and completion times."""
    members = compare.read_all(directories)
    with results.foreign(output):
        page = compare.compare(members, output, title)
    for field in compare.unnamed(members):
        console.plain(err, f"the runs also differ in {field}")
    if as_json:
        answer.give("compare", 0, page=str(page))
    else:
        console.plain(out, f"Page: {page}")


@app.command(name="schema")
def print_schema() -> None:
    """Print the JSON schema of scenario files, for editors that complete and check YAML."""
    sys.stdout.write(json.dumps(schema.build(), indent=2) + "\n")
