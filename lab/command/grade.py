"""The command `mrclab grade`: progress of a lesson."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from mrclab.lab import console
from mrclab.lab.command.display import answer
from mrclab.lab.command.live.rundir import running_dir
from mrclab.lab.command.options import AsJson
from mrclab.lab.errors import LabError
from mrclab.lab.lessons.base import LESSONS
from mrclab.lab.lessons.grading import examined, graded, progress

app = typer.Typer()
out = console.standard(highlight=False)


@app.command()
def grade(
    context: typer.Context,
    number: Annotated[
        int | None, typer.Argument(metavar="N", help=f"the lesson, {min(LESSONS)} to {max(LESSONS)}")
    ] = None,
    file: Annotated[
        Path | None, typer.Argument(help="your file; for lessons 5 and 7 a result directory, else the running lab")
    ] = None,
    everything: Annotated[
        Path | None, typer.Option("--all", help="a line for each lesson whose file is below this folder")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="your number: hosts, cable or switch of lessons 1, 3, 5 and 7 follow from it")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Grade a lesson on your file or the running lab, and list unmet checks; exit status 1 if incomplete."""
    if number is not None and everything is None:
        done = _one(number, file, running_dir(context.obj), seed, as_json)
    elif number is None and everything is not None:
        done = _all(everything, seed, as_json)
    else:
        raise LabError("write the lesson's number, or --all with the folder of your files")
    if not done:
        raise typer.Exit(1)


def _one(number: int, file: Path | None, run_dir: Path, seed: int | None, as_json: bool) -> bool:
    if as_json:
        lesson, checks = examined(number, file, run_dir, seed)
        done = all(check.ok for check in checks)
        answer.give("grade", 0 if done else 1, lesson=number, title=lesson.title, checks=[*map(vars, checks)])
    else:
        lines, done = graded(number, file, run_dir, seed)
        _print(lines)
    return done


def _all(folder: Path, seed: int | None, as_json: bool) -> bool:
    found = progress(folder, seed)
    done = sum(one.ok for one in found)
    if as_json:
        answer.give("grade", 0 if done == len(found) else 1, lessons=[vars(one) for one in found])
    else:
        lines = [
            f"✓ {one.lesson} {one.title}" if one.ok else f"✗ {one.lesson} {one.title}: {one.missing}" for one in found
        ]
        _print([*lines, f"{done} of {len(found)} lessons are done"])
    return done == len(found)


def _print(lines: list[str]) -> None:
    text, encoding = "\n".join(lines), sys.stdout.encoding or "utf-8"
    try:
        "✓✗".encode(encoding)
    except UnicodeEncodeError:  # a terminal that is not UTF-8
        text = text.replace("✓", "ok").replace("✗", "no").encode(encoding, "replace").decode(encoding)
    out.print(escape(text), soft_wrap=True)
