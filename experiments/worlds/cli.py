"""The command `mrclab worlds`."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mrclab.experiments.worlds import page
from mrclab.experiments.worlds.runs import Store, comparable, label, matches, missing, plan, with_jitter, work
from mrclab.lab import console
from mrclab.lab.command.display import answer, progress
from mrclab.lab.command.options import AsJson, Slower, Target, world_option
from mrclab.lab.errors import ScenarioError, naming
from mrclab.lab.kinds import WorldName
from mrclab.lab.report import template
from mrclab.lab.run import suite, worlds
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.files import finding
from mrclab.lab.scenario.scenario import Loaded
from mrclab.lab.scenario.seeds import parse as parse_seeds
from mrclab.topo.input import files
from mrclab.topo.input.sentences import several

app = typer.Typer()
out = console.console()
err = console.console(stderr=True)


@app.command(name="worlds")
def compare_worlds(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SCENARIO]...", help="files, directories, or names below scenarios/; default: all"),
    ] = None,
    seeds: Annotated[str, typer.Option(help="run each with all of these seeds: 1..10, 1,2,7")] = "1,2,3",
    sim_seeds: Annotated[
        str | None,
        typer.Option("--sim-seeds", help="further seeds in virtual time, which show the spread of seeds"),
    ] = None,
    jitter: Annotated[
        str,
        typer.Option(
            help="run virtual time again with hosts that take up to this much longer for each arriving packet, e.g. 8ms"
        ),
    ] = "",
    slower: Slower = 1.0,
    only: Annotated[str, typer.Option("--only", help="only runs with names like this, e.g. '*[roce-*-loss*'")] = "*",
    target: Target = None,
    world: Annotated[WorldName | None, world_option("run in this one only; default: in both")] = None,
    results_dir: Annotated[Path, typer.Option("--results", help="where runs are kept")] = Path("results/worlds"),
    written: Annotated[
        Path | None, typer.Option("--page", help="write the page of all these runs to this file")
    ] = None,
    only_page: Annotated[bool, typer.Option("--only-page", help="run nothing, write the page")] = False,
    figures: Annotated[
        Path | None,
        typer.Option("--from", help="judge the figures in this file, which --page wrote; run only the scenarios named"),
    ] = None,
    note: Annotated[str, typer.Option(help="a sentence for the page, such as what else the machine did")] = "",
    as_json: AsJson = False,
) -> None:
    """Run scenarios on the wire and in virtual time, and write one page that holds both side by side.

    Existing runs are not repeated; `--world` limits runs to one world. `--page` also writes all figures beside the
    page, as a page of details and as JSON. With `--from`, figures of the scenarios named replace those in that file.
    Exit status 1: a figure differs between the worlds, and nothing explains it.
    """
    worlds.check_target(target, world or "wire")
    if written:
        template.check_page(written)
    terminal = err if as_json else out
    earlier, about = page.load_figures(figures) if figures else ([], None)
    made = earlier
    if about is not None:
        if jitter and about.jitter not in {"", jitter}:
            raise ScenarioError([f"--jitter {jitter}: the runs of {figures} had {about.jitter}; leave it out"])
        jitter = jitter or about.jitter
        about = replace(about, note=note or about.note, jitter=jitter)
    if about is None or words:
        found = comparable(suite.load_all(finding.find(words or [])))
        if not found:
            raise ScenarioError(["none of these scenarios can happen in both worlds; leave `world` out of one"])
        runs = [scenario.slower(run, slower) for run in found if matches(run, only)]
        if not runs:
            known = several([label(run) for run in found])
            raise ScenarioError([f"--only {only}: no run has a name like this; there are {known}"])
        numbers = parse_seeds(seeds)
        further = [] if sim_seeds is None else parse_seeds(sim_seeds, "--sim-seeds")
        more = [seed for seed in further if seed not in numbers]
        late = [with_jitter(run, jitter) for run in runs] if jitter else []
        store = Store(results_dir)
        if not only_page:
            _work(plan(runs, numbers, world), store, target, context.obj)
            if world != "wire":
                _work(plan(runs, more, "sim"), store, target, context.obj)
                _work(plan(late, numbers, "sim"), store, target, context.obj)
        given = {"--sim-seeds": sim_seeds, "--jitter": jitter, "--slower": slower != 1 and f"{slower:g}"}
        given |= {"--only": only != "*" and only}
        chosen = [word for option, value in given.items() if value for word in (option, value)]
        command = shlex.join(["mrclab", "worlds", *(words or []), "--seeds", seeds, *chosen])
        made = page.chapters(runs, store, numbers, more, earlier, jitter, slower)
        about = about or page.About(command, note, page.machines(runs, store, numbers), template.today(), jitter)
    if written:
        details = written.with_name(f"{written.stem}-details{written.suffix}")
        with naming(written):
            written.write_text(page.render(made, about, details.name), encoding="utf-8")
            details.write_text(page.render(made, about), encoding="utf-8")
            files.replace_file(written.with_suffix(".json"), page.dumped(made, about))
        console.plain(terminal, f"Page: {written}")
    status = _print_verdicts(made, terminal)
    if as_json:
        text = [page.as_json(chapter) for chapter in made]
        answer.give("worlds", status, directory=str(results_dir), page=str(written) if written else None, runs=text)
    raise typer.Exit(status)


def _work(planned: list[Loaded], store: Store, target: str | None, run_dir: Path) -> None:
    left = [run for run in planned if missing(store, run)]
    for warning in worlds.check_machine(*left):
        console.plain(err, f"mrclab: {warning}")
    with progress.shown(err) as bar, worlds.owned_run_dir(left, run_dir):
        notify = progress.notifier(bar)
        one_by_one = suite.Suite(store.directory, bar, notify, target, run_dir)
        work(planned, store, lambda loaded: one_by_one.run_one(loaded, store.directory), notify)


def _print_verdicts(made: list[page.BothWorlds], terminal: Console) -> int:
    """Print the differences; return the exit status."""
    for chapter in made:
        counts = ", ".join(f"{count} {state}" for state, count in sorted(chapter.counts.items()))
        verdict = f"wire {page.verdicts(chapter.wire)}, sim {page.verdicts(chapter.sim)}"
        label = f"{chapter.label}{page.slowness(chapter.slower)}"
        console.plain(terminal, f"{label}: {verdict}: {counts or 'nothing to compare'}")
        for row in chapter.rows:
            if row.state == "beyond":
                text = f"wire {page.side(row.wire, row)}, sim {page.side(row.sim, row)}"
                console.plain(terminal, f"  {row.name}: {text}")
    return 1 if any(chapter.counts["beyond"] for chapter in made) else 0
