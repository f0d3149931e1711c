"""The command `mrclab survey`."""

from pathlib import Path
from typing import Annotated

import typer

from mrclab.experiments.survey import page, record
from mrclab.experiments.survey.command import Survey
from mrclab.lab import console
from mrclab.lab.command.display import answer
from mrclab.lab.command.options import Target, World
from mrclab.lab.errors import naming
from mrclab.lab.kinds import WorldName
from mrclab.lab.run import worlds

app = typer.Typer()
err = console.console(stderr=True, highlight=False)

SINGLES, DOUBLES = 60, 20


@app.command()
def survey(
    context: typer.Context,
    target: Target = None,
    world: World = None,
    seed: Annotated[int, typer.Option(min=0, help="of the faults")] = 1,
    singles: Annotated[int, typer.Option(min=0, help="cases with one fault")] = SINGLES,
    doubles: Annotated[int, typer.Option(min=0, help="cases with two faults at once")] = DOUBLES,
    seconds: Annotated[float, typer.Option(min=1, help="end after about this time; the same command goes on")] = 7200.0,
    out: Annotated[Path, typer.Option(help="where the records go, in one folder per target")] = Path("results/survey"),
    write: Annotated[Path | None, typer.Option(help="only write the page of all records so far to this file")] = None,
    as_json: answer.AsJson = False,
) -> None:
    """Try Clustermapper on many seeded faults and print its verdicts; exit status 3 while a part is left to do."""
    if write is not None:
        surveys = [list(record.store(folder).rows.values()) for folder in sorted(out.iterdir())] if out.is_dir() else []
        with naming(write):
            write.write_text(page.render(surveys, str(write)), encoding="utf-8")
        if as_json:
            answer.give("survey", 0, page=str(write), records=sum(map(len, surveys)))
        return
    where: WorldName = "sim" if world == "sim" else "wire"
    worlds.check_machine_for(where)
    folder = out / _name(where, target)
    work = Survey(folder, seed, singles, doubles, target, context.obj, lambda *_: None, where)
    done = work.work(seconds, lambda text: console.plain(err, text))
    status = 0 if done else 3
    if as_json:
        records = list(record.store(folder).rows.values())
        answer.give("survey", status, done=done, directory=str(folder), **page.as_json(records))
    if not done:
        err.print("there is more to do; the same command goes on where this one ended")
        raise typer.Exit(status)


def _name(world: WorldName, target: str | None) -> str:
    """Return the name of the folder with the records of a world, or of a target on the wire."""
    if world == "sim":
        return world
    from mrclab.topo.linux.switches import targets  # noqa: PLC0415 - Linux alone has what the wire needs

    return targets.choose(target).name
