"""The command `mrclab campaign`."""

import contextlib
import time
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mrclab.experiments.campaign import journal, page, plan, work
from mrclab.experiments.campaign.plan import CampaignPlan
from mrclab.experiments.runs.store import sources
from mrclab.lab import console
from mrclab.lab.command.display import answer, progress
from mrclab.lab.command.options import AsJson, Variant
from mrclab.lab.errors import Interrupted, Refused, ScenarioError, naming
from mrclab.lab.run import worlds
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.files import finding, yamlfile
from mrclab.lab.scenario.seeds import parse as parse_seeds
from mrclab.topo.input.sentences import quantity

app = typer.Typer()
out = console.console()
err = console.console(stderr=True)

ASK_FROM = 100_000  # runs
_LISTED = 20  # failing runs on the terminal; the page has all
Sweep = dict[str, list[Any]]


@app.command()
def campaign(
    path: Annotated[
        Path, typer.Argument(metavar="SCENARIO", help="a scenario file, a name below scenarios/, or a campaign file")
    ],
    seeds: Annotated[
        str | None, typer.Option(help="e.g. 1..1000, or 1,2,7; default: the campaign file's, or 1..10")
    ] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="sweep a field, e.g. fabric.t1s=2,4,8; may be given several times")
    ] = None,
    variant: Variant = "",
    flows: Annotated[bool, typer.Option("--flows", help="keep a table of all flows: flows.parquet")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="worker processes; default: one per core")] = None,
    ray: Annotated[
        str, typer.Option(metavar="ADDRESS", help="run on this Ray cluster (host:port, or auto), on all of its CPUs")
    ] = "",
    output: Annotated[Path, typer.Option("--output", "--out", help="where the table and the page go")] = Path(
        "results/campaign"
    ),
    yes: Annotated[bool, typer.Option("--yes", help="do not ask, however many runs")] = False,
    as_json: AsJson = False,
) -> None:
    """Run every seed with every combination of values in virtual time; the same command resumes it.

    Exit status 0: all passed, 1: some did not.
    """
    given = read(path) or CampaignFile(scenario=finding.find_one(path))
    given = with_sets(given, plan.parse_sweeps(sets or []))
    planned = plan.make(
        scenario.load(given.scenario),
        parse_seeds(given.seeds if seeds is None else seeds),
        given.sweep,
        variant,
        of_variants=given.variants or None,
        flows=flows or given.flows,
    )
    worlds.check(*(setting.loaded() for setting in planned.settings))
    if len(planned) >= ASK_FROM and not yes:
        _ask(len(planned))
    table = journal.Journal(output)
    try:
        with table.owned():
            table.begin(planned, sources())
            _work(planned, table, workers, ray)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; {len(table.rows)} runs are kept; the same command resumes") from None
    raise typer.Exit(_report(planned, table, as_json))


def _ask(runs: int) -> None:
    if not err.is_terminal:
        raise Refused(f"this campaign has {runs:,} runs; pass --yes if that is meant")
    typer.confirm(f"This campaign has {runs:,} runs. Begin?", abort=True, err=True)


def _work(planned: CampaignPlan, table: journal.Journal, workers: int | None, ray: str) -> None:
    """Do the runs without a row, on this machine or on a cluster."""
    total = len(planned)
    begun, done_before, failed = time.monotonic(), len(table.of(planned)), 0
    if done_before:
        err.print(f"{done_before} of {total} runs are done already", highlight=False)
    if done_before == total:
        return
    with progress.shown(err) as bar, contextlib.closing(work.done(table, planned, workers, ray)) as kept:
        notify = progress.notifier(bar)
        for number, (job, row) in enumerate(kept, 1):
            if row["state"] != "passed":
                failed += 1
                if failed <= _LISTED:
                    notify(f"{row['state']}: {job.replay}")
            done = done_before + number
            more = (time.monotonic() - begun) / number * (total - done)
            bar(f"{done} of {total}, {failed} not passed, {progress.left(more)}", done, total)


def _report(planned: CampaignPlan, table: journal.Journal, as_json: bool) -> int:
    """Write page and Parquet file, print a summary; return the exit status."""
    terminal = err if as_json else out
    rows = [(table.rows[job.key], job.replay) for job in planned]
    failing = [(row, replay) for row, replay in rows if row["state"] != "passed"]
    written = table.directory / "index.html"
    title = f"{planned.source}: {len(planned)} runs"
    html = page.render(title, [row for row, _ in rows], planned.fields, failing, len(planned))
    with naming(written):
        written.write_text(html, encoding="utf-8")
    states = Counter(row["state"] for row, _ in rows)
    runs = quantity(len(rows), "run")
    terminal.print(f"{runs}: {', '.join(f'{n} {state}' for state, n in states.items())}", highlight=False)
    summaries = page.summaries([row for row, _ in rows], planned.fields)
    for one in summaries:
        moved = [_moved(field) for field in one.fields if field.explained is not None]
        because = f"; variance explained by {', '.join(moved)}" if moved else ""
        console.plain(terminal, f"{one.name}: {'; '.join(page.words(one))}{because}")
    parquet = journal.write_parquet(table.directory, [row for row, _ in rows])
    rows_at = table.directory / journal.ROWS
    table_at = parquet or f"{rows_at} (Parquet: pip install '.[campaign]')"
    console.plain(terminal, f"Page: {written}\nTable: {table_at}")
    status = 1 if failing else 0
    if as_json:
        again = [
            {key: row[key] for key in ("variant", "values", "seed", "state", "error")} | {"replay": replay}
            for row, replay in failing[: page.SHOWN]
        ]
        answer.give(
            "campaign", status, directory=str(table.directory), page=str(written), rows=str(rows_at),
            parquet=str(parquet) if parquet else None, runs=len(rows), states=dict(states),
            expectations=[page.as_json(one) for one in summaries], not_passed=again,
        )  # fmt: skip
    return status


def _moved(field: page.Sensitivity) -> str:
    """Describe how much a field explains."""
    assert field.explained is not None
    return f"{field.field} {100 * field.explained:.0f} %" + (" (chance)" if field.chance else "")


class CampaignFile(BaseModel):
    """Fields of a campaign file; `scenario` is relative to its folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scenario: Path
    seeds: str = "1..10"
    sweep: Sweep = {}  # dotted path → values, of every variant
    variants: dict[str, Sweep] = Field(default={}, description="those that run, each with what is swept of it alone")
    flows: bool = False  # keep a table of flows


def read(path: Path) -> CampaignFile | None:
    """Read a campaign file; None if it is another file; ScenarioError if it is invalid."""
    if path.suffix not in {".yaml", ".yml"} or not path.is_file():
        return None
    document = yamlfile.read(path)
    if "scenario" not in document.data:
        return None
    try:
        made = CampaignFile.model_validate(document.data)
    except ValidationError as error:
        items: list[Any] = error.errors(include_url=False)
        mistakes = [document.at(item["loc"], yamlfile.message(item, CampaignFile)) for item in items]
        raise ScenarioError(mistakes) from None
    return made.model_copy(update={"scenario": path.parent / made.scenario})


def with_sets(given: CampaignFile, sets: Sweep) -> CampaignFile:
    """Return the campaign with other values of swept fields, in the variants that sweep them or else in all."""
    own = {path for sweep in given.variants.values() for path in sweep}
    variants = {
        name: {path: sets.get(path, values) for path, values in sweep.items()} for name, sweep in given.variants.items()
    }
    common = {**given.sweep, **{path: values for path, values in sets.items() if path not in own}}
    return given.model_copy(update={"sweep": common, "variants": variants})
