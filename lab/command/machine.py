"""The commands `mrclab doctor`, `clean` and `bench`: checks, clean-up and benchmarks of this machine."""

import json
import signal
import subprocess
import sys
from typing import Annotated

import typer
from rich.markup import escape

from mrclab.lab import console
from mrclab.lab.command.display import answer
from mrclab.lab.command.options import AsJson
from mrclab.lab.errors import Interrupted, LabError

app = typer.Typer()
out = console.standard()

_BENCHMARKS = ("host", "lab", "switch", "verbs", "sim")


@app.command()
def doctor(
    context: typer.Context,
    as_json: AsJson = False,
    faults: Annotated[
        bool, typer.Option("--faults", help="try every kind of fault on this kernel; needs root")
    ] = False,
) -> None:
    """Check this machine: missing requirements with their remedies, and the resulting back-ends."""
    from mrclab.lab.command import doctor as health  # noqa: PLC0415 - it looks at Linux
    from mrclab.lab.run import worlds  # noqa: PLC0415 - `clean` does without

    checks = health.examine(context.obj)
    if faults:
        worlds.check_machine_for("wire")
        checks += health.try_faults()
    if as_json:
        sys.stdout.write(json.dumps(health.as_json(checks), indent=1) + "\n")
    else:
        for check in checks:
            mark = "[green]ok[/]     " if check.ok else "[red]missing[/]" if check.needed else "[yellow]without[/]"
            remedy = f" – {check.remedy}" if not check.ok and check.remedy else ""
            out.print(f"{mark}  {check.name}: {escape(check.found)}{escape(remedy)}", soft_wrap=True)
        for what, backend in health.backends(checks).items():
            out.print(f"{what}: [bold]{escape(backend)}[/]", soft_wrap=True)
    if not health.ready(checks):
        raise typer.Exit(1)


@app.command(context_settings={"ignore_unknown_options": True})
def bench(
    part: Annotated[str, typer.Argument(help="host, lab, switch, verbs or sim; default: all")] = "",
    options: Annotated[list[str] | None, typer.Argument(help="options of that benchmark; -- --help lists them")] = None,
) -> None:
    """Measure how fast the parts of the lab are on this machine."""
    if part and part not in _BENCHMARKS:
        raise LabError(f"there is no benchmark {part!r}; choose {', '.join(_BENCHMARKS)}")
    status = 0
    for name in [part] if part else _BENCHMARKS:
        if not part:
            out.rule(name, align="left")
        ended = _run([sys.executable, "-m", f"mrclab.bench.{name}", *(options or [])])
        if ended == Interrupted.status:
            raise typer.Exit(ended)
        status |= ended
    raise typer.Exit(status)


def _run(words: list[str]) -> int:
    """Run a program and return its exit status; Ctrl-C, which reaches both, is the program's, which cleans up."""
    with subprocess.Popen(words) as process:
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return process.wait()
        finally:
            signal.signal(signal.SIGINT, handler)


@app.command()
def clean(context: typer.Context, as_json: AsJson = False) -> None:
    """Remove the processes, namespaces, cables and files of a killed lab; its history is kept, and its place is
    printed. Removes nothing else.
    """
    from mrclab.topo.linux import killed, state  # noqa: PLC0415 - Linux alone has what it removes

    removed = [*state.clean(context.obj.parent), *killed.remove_benches(), *killed.remove_folders()]
    if as_json:
        answer.give("clean", 0, removed=list(removed))
        return
    for phrase in removed:
        out.print(f"removed {escape(phrase)}", soft_wrap=True)
    if not removed:
        out.print("nothing to clean")
