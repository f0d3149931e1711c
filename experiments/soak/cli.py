"""The command `mrclab soak`."""

import time
import traceback
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer
from rich.console import Console

from mrclab.experiments.runs import processes
from mrclab.experiments.soak.plan import NEVER, SoakFlow, draw
from mrclab.experiments.soak.run import run_plan
from mrclab.lab import console
from mrclab.lab.command.display import answer, progress
from mrclab.lab.command.options import AsJson, world_option
from mrclab.lab.errors import LabError, Refused
from mrclab.lab.kinds import WorldName
from mrclab.lab.scenario.seeds import MAX_SEED, parse

app = typer.Typer()
out = console.standard()
err = console.console(stderr=True)


def judged(seed: int) -> tuple[int, list[str]]:
    """Run a seed; return it with a sentence for each violated invariant, or for an exception."""
    try:
        return seed, run_plan(draw(seed))
    except Exception as error:  # whatever it is: the seed replays it
        place = traceback.extract_tb(error.__traceback__)[-1]
        return seed, [f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})"]


def _results(seeds: Iterable[int], workers: int) -> Iterator[tuple[int, list[str]]]:
    if workers == 1:
        yield from map(judged, seeds)
        return
    rows = processes.rows(seeds, workers, judged, lambda seed: (seed, ["its worker process died"]))
    yield from (row for _, row in rows)


def _again(seed: int) -> str:
    return f"mrclab soak --seed {seed}"


def _failed(seed: int, problems: list[str]) -> list[dict[str, Any]]:
    """Return the JSON of a seed that failed, in a list; an empty list for one that passed."""
    return [{"seed": seed, "violated": problems, "replay": _again(seed)}] if problems else []


@app.command()
def soak(
    seeds: Annotated[
        str | None, typer.Option(help="a run with each of these seeds: 1..1000, or 1,2,7; default: 0..99")
    ] = None,
    runs: Annotated[int | None, typer.Option(min=1, hidden=True)] = None,  # with --from, for one release
    first: Annotated[int, typer.Option("--from", min=0, max=MAX_SEED, hidden=True)] = 0,
    seed: Annotated[int | None, typer.Option(min=0, max=MAX_SEED, help="this one alone, with its contents")] = None,
    workers: Annotated[int, typer.Option("--workers", "--jobs", min=1, help="worker processes")] = 1,
    world: Annotated[WorldName | None, world_option("sim alone: the same seed must give the same run")] = None,
    as_json: AsJson = False,
) -> None:
    """Run random fabrics, traffic and faults: nothing may be lost, duplicated, misplaced, stuck or left over.

    A seed defines the whole run: one that fails is printed with the command that replays it. Exit status 1 if
    one failed.
    """
    if world == "wire":
        raise Refused("soak needs virtual time: the same seed must give the same run; leave --world out or say sim")
    if sum(given is not None for given in (seeds, seed, runs)) > 1:
        raise LabError("--seeds and --seed both say which seeds run; give one of them")
    terminal = err if as_json else out
    if seed is not None:
        raise typer.Exit(_replay(seed, terminal, as_json))
    numbers = parse("0..99" if seeds is None else seeds) if runs is None else range(first, first + runs)
    began = time.monotonic()
    failed: list[dict[str, Any]] = []
    done = 0
    try:
        with progress.shown(err) as bar:
            for done, (number, problems) in enumerate(_results(numbers, workers), 1):
                bar("seeds", done, len(numbers))
                if problems:
                    failed += _failed(number, problems)
                    console.plain(terminal, f"seed {number}: {problems[0]}")
                    console.plain(terminal, f"  replay it: {_again(number)}")
    except KeyboardInterrupt:
        console.plain(terminal, f"{done - len(failed)} of {done} seeds passed until then")
        raise
    seconds, status = time.monotonic() - began, 1 if failed else 0
    count, passed = len(numbers), len(numbers) - len(failed)
    console.plain(terminal, f"{passed} of {count} seeds passed, in {seconds:.0f} s")
    if as_json:
        found = {"first": numbers[0], "seeds": count, "passed": passed, "failed": failed}
        answer.give("soak", status, seconds=round(seconds, 1), **found)
    raise typer.Exit(status)


def _flow(flow: SoakFlow) -> str:
    """Return the facts of a flow that differ from the usual ones."""
    facts = {
        "messages": list(flow.messages), "back": list(flow.back), "receives": any(flow.receives) and flow.receives,
        "QPs": flow.qps > 1 and flow.qps, "EVs": list(flow.profile), "remade": flow.ends != NEVER and flow.ends,
        **flow.attributes,
    }  # fmt: skip
    return ", ".join(f"{name} {value}" for name, value in facts.items() if value not in (False, [], ()))


def _replay(seed: int, terminal: Console, as_json: bool) -> int:
    """Print the plan of one seed, and run it; return the exit status."""
    plan = draw(seed)
    spec = plan.fabric.spec
    link = f"{spec.link.rate_pps} packets/s, {spec.link.delay:g} s"
    size = f"{spec.planes} planes, {spec.t0s} T0s, {spec.t1s} T1s, {spec.hosts_per_t0} hosts per T0"
    lines = [f"{plan.transport} over {size}; {link}; MTU {spec.path_mtu}, trimming {spec.trimming}; RTT {plan.rtt:g} s"]
    lines += [f"  {f.start:9.6f} s  {f.source} to {f.destination}: {_flow(f)}" for f in plan.flows]
    lines += [f"  {b.at:9.6f} to {b.until:.6f} s  {b.kind} {b.fields}" for b in plan.faults]
    lines += [f"  {at:9.6f} s  {host} restarts" for at, host in plan.restarts]
    lines += [f"  after each: {f.source} to {f.destination}: {_flow(f)}" for f in plan.after]
    lines += [f"  {link} is {longer:g} s longer" for link, longer in plan.slow]
    lines += [f"  EV profile {plan.ev_profile}"] if plan.ev_profile else []
    lines += [f"  {plan.idle:g} s without work before the last writes"] if plan.idle else []
    _, problems = judged(seed)
    for line in [*lines, *problems]:
        console.plain(terminal, line)
    if not problems:
        terminal.print("passed")
    status = 1 if problems else 0
    if as_json:
        answer.give("soak", status, first=seed, seeds=1, passed=1 - status, plan=lines, failed=_failed(seed, problems))
    return status
