"""The command `mrclab train`: a training job with a rank on every host of a lab that is brought up for it."""

import contextlib
import math
import shlex
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from mrclab.hosts.collectives import steps
from mrclab.lab import console
from mrclab.lab.command.display import progress as progressbar
from mrclab.lab.command.options import Results, Sets, Slower, Target
from mrclab.lab.errors import LabError, Refused
from mrclab.lab.history import Tail
from mrclab.lab.run import runner, worlds
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.files import finding
from mrclab.lab.scenario.scenario import Loaded
from mrclab.lab.traffic.kinds.programs import Programs

app = typer.Typer()
err = console.console(stderr=True)

_LONGEST = "604800s"
_FABRIC = {"planes": 2, "t0s": 2, "t1s": 2, "path_mtu": 4096, "link": {"rate_pps": 300, "delay": "4ms"}}
_POLL_S = 0.2


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def train(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="Python script or program that every rank runs")],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="[ARGS]...", help="its arguments")] = None,
    ranks: Annotated[
        int | None, typer.Option("--ranks", "-n", min=2, help="number of ranks, one per host; default 4")
    ] = None,
    path: Annotated[
        Path | None,
        typer.Option("--scenario", help="take fabric, transport, faults and expectations from this scenario"),
    ] = None,
    variant: Annotated[str, typer.Option(help="variant of the scenario; default: the first")] = "",
    sets: Sets = None,
    slower: Slower = 1.0,
    target: Target = None,
    results_dir: Results = Path("results"),
) -> None:
    """Train: bring a lab up, start a rank on each host as torchrun would, and exit with the ranks' status.

    Shows the output of rank 0; the results have that of all ranks. See docs/torch.md.
    """
    loaded = scenario.with_values(
        _loaded(script, arguments or [], ranks, path, variant), scenario.parse_settings(sets or [])
    )
    loaded = scenario.slower(loaded, slower)
    for warning in worlds.check_machine(loaded):
        console.plain(err, f"mrclab: {warning}")
    _check_library()
    job = _job(loaded)
    log = context.obj / "log" / f"{job.name}-1-{job.program_hosts[0]}.log"
    with progressbar.shown(err) as progress, _shown(log):
        outcome = runner.run_scenario(
            loaded, results_dir, progress, progressbar.notifier(progress), target, context.obj
        )
    status = max((end.get("exit_status") or 0 for end in outcome.measures.history.of("traffic.end")), default=0)
    failed = [f"{verdict.kind}: {verdict.observed}" for verdict in outcome.verdicts if not verdict.ok]
    console.plain(err, f"{outcome.state.upper()}: {outcome.directory}")
    for text in failed if outcome.state == "failed" else ():
        console.plain(err, text)
    raise typer.Exit(int(status) or (1 if outcome.error else 0))


def _loaded(script: Path, arguments: list[str], ranks: int | None, path: Path | None, variant: str) -> Loaded:
    """The scenario of a job; LabError where there is no script."""
    if not script.is_file():
        raise LabError(f"there is no script {script}; name a Python file, or a program by its path")
    command = shlex.join([*(["python"] if script.suffix == ".py" else []), str(script.absolute()), *arguments])
    if path is None:
        count = ranks or 4
        ranked = {"command": command, "hosts": [f"h{number + 1}" for number in range(count)]}
        data = {
            "name": "train", "title": f"{script.name} on {count} ranks", "timeout": _LONGEST, "max_wait": "1s",
            "fabric": {**_FABRIC, "hosts_per_t0": math.ceil(count / 2)},
            "traffic": [{"name": "train", "kind": "program", "ranks": ranked}],
            "expect": [{"kind": "integrity"}, {"kind": "qp_errors"}, {"kind": "health"}],
        }  # fmt: skip
        return scenario.from_data(data, "mrclab train")
    whole = scenario.load(finding.find_one(path))
    loaded = whole.pick(variant) if variant else whole.runs[0]
    values: dict[str, Any] = {f"traffic.{_job(loaded).name}.ranks.command": command}
    if ranks is not None:
        values[f"traffic.{_job(loaded).name}.ranks.hosts"] = [f"h{number + 1}" for number in range(ranks)]
    return scenario.with_values(loaded, values)


def _job(loaded: Loaded) -> Programs:
    """The traffic that has ranks."""
    for entry in loaded.scenario.traffic:
        if isinstance(entry, Programs) and entry.ranks is not None:
            return entry
    raise LabError(f"{loaded.source} has no traffic with ranks; see scenarios/train")


def _check_library() -> None:
    from mrclab.lab.run.wire import programs  # noqa: PLC0415 - Linux alone has what it needs

    if not programs.LIBRARY.exists():
        raise Refused("lib_mrc.so is not built; run make libmrc, or make torch, which puts PyTorch into .venv as well")


@contextlib.contextmanager
def _shown(log: Path) -> Iterator[None]:
    """Print a file as it grows, inside the block."""
    over = threading.Event()
    before = log.stat().st_mtime if log.exists() else 0.0

    def follow() -> None:
        tail: Tail | None = None
        while True:
            last = over.wait(_POLL_S)
            with contextlib.suppress(OSError):
                if tail is None and log.stat().st_mtime != before:  # the clock may have been set back
                    tail = Tail(log)
                for line in "\n".join(tail.lines()).splitlines() if tail else ():
                    sys.stdout.write(console.printable(_as_text(line)) + "\n")
                sys.stdout.flush()
            if last:
                return

    thread = threading.Thread(target=follow, name="rank-0", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _as_text(line: str) -> str:
    """A line of output; a step's as a person reads it."""
    step = steps.parse(line)
    if step is None:
        return line
    loss = f", loss {step['loss']:.4f}" if "loss" in step else ""
    return f"step {step['step']}: {step['ended'] - step['began']:.3f} s{loss}"
