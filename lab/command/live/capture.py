"""The command `mrclab capture`: frames of the running lab into pcapng files."""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from mrclab.lab.capture.recorders import AroundFaults, Faults, record_all
from mrclab.lab.capture.taps import Taps
from mrclab.lab.capture.where import cables
from mrclab.lab.command.live.operations import err, out, running_lab
from mrclab.lab.command.live.rundir import on_the_wire
from mrclab.lab.errors import LabError, plain
from mrclab.lab.run.interrupts import Interrupts, guarded
from mrclab.lab.run.wire.attach import LabClients
from mrclab.topo.input.quantities import parse_duration

app = typer.Typer()

_ALIVE = 0.5  # seconds between two checks that the lab still runs


def _duration(text: str) -> float:
    try:
        value = parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    assert isinstance(value, float)
    return value


Where = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[WHERE]...", help="cables, ports, nodes or planes: t0-p1-1/t1-p1-2, h1-p2, h1, p1; default all"
    ),
]
Output = Annotated[Path | None, typer.Option(help="the file; with --around-faults a directory, one file a fault")]
Seconds = Annotated[
    float, typer.Option("--for", parser=_duration, help="how long, e.g. 10s; 0: until Ctrl-C or the lab ends")
]
Before = Annotated[
    float, typer.Option(parser=_duration, help="with --around-faults: time kept before a fault begins, e.g. 500ms")
]
After = Annotated[
    float, typer.Option(parser=_duration, help="with --around-faults: time kept after a fault begins, e.g. 500ms")
]


@app.command()
def capture(
    context: typer.Context,
    where: Where = None,
    output: Output = None,
    length: Seconds = 0.0,
    packets: Annotated[int, typer.Option(min=0, help="stop after this many frames; 0: never")] = 0,
    around_faults: Annotated[
        bool, typer.Option("--around-faults", help="keep frames in memory and write only those around a fault")
    ] = False,
    before: Before = 0.5,
    after: After = 1.0,
) -> None:
    """Capture frames at the running lab's cables, with port names and comments where faults begin."""
    if around_faults and packets:
        raise LabError("--packets ends a single file; leave it out with --around-faults")
    lab = running_lab(context.obj, "in virtual time it is a command of the prompt: mrclab do capture FILE [WHERE...]")
    links = cables(lab.fabric, where or [])
    output = output or Path("captures" if around_faults else "capture.pcapng")
    target = output if around_faults else output.parent
    try:
        target.mkdir(parents=True, exist_ok=True)
        taps = Taps(lab.run_dir, links)
    except OSError as error:
        raise LabError(f"cannot capture: {plain(error)}; it needs root and a place to write") from None
    faults = Faults(lab.run_dir / "history" / "lab.jsonl")
    err.print(f"capturing on {len(links)} cables; Ctrl-C ends it")
    try:
        with guarded() as guard:
            over = _end_of(lab, length, guard)
            if around_faults:
                _around(AroundFaults(taps, faults, target, before, after), over)
            else:
                out.print(f"{output}: {record_all(taps, faults, output, over, packets or math.inf)} frames")
        if lost := taps.lost():
            err.print(f"{lost} frames came faster than they could be read and are not in the file")
    except OSError as error:
        raise LabError(f"cannot write to {target}: {error.strerror}") from None
    finally:
        taps.close()
        faults.close()


def _end_of(lab: LabClients, seconds: float, interrupts: Interrupts) -> Callable[[], bool]:
    """Return a function that returns True at a signal, when time is over, or where the lab is gone."""
    interrupts.shield()  # a signal sets a flag, so that it interrupts no write
    until, look = time.monotonic() + (seconds or math.inf), 0.0

    def over() -> bool:
        nonlocal look
        now = time.monotonic()
        if interrupts.seen or now >= until:
            return True
        if now < look:
            return False
        look = now + _ALIVE
        return not on_the_wire(lab.run_dir)

    return over


def _around(ring: AroundFaults, over: Callable[[], bool]) -> None:
    while not over():
        ring.step()
    ring.finish()
    for path in ring.files:
        out.print(str(path))
    if not ring.files:
        out.print("no fault began; nothing was written")
