"""`mrclab explore`: every run of small worlds, to the end."""

import os
import sys
from typing import Annotated, Any

import typer
from rich.console import Console

from mrclab import compiled
from mrclab.experiments.explore.search import Counterexample, Result, Search, replayed, shortened
from mrclab.experiments.explore.system import Action
from mrclab.experiments.explore.worlds import Space, known_worlds
from mrclab.lab import console
from mrclab.lab.command.display import answer
from mrclab.lab.command.options import AsJson
from mrclab.lab.errors import Refused

app = typer.Typer()
out = console.standard()
err = console.console(stderr=True)


@app.command()
def explore(
    worlds: Annotated[
        list[str] | None, typer.Argument(metavar="WORLD", help="worlds to explore; default: all small ones")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="the large ones, too: hours")] = False,
    seconds: Annotated[float, typer.Option(min=0.0, help="stop exploring a world after this time; 0: never")] = 0.0,
    check_merging: Annotated[
        int, typer.Option(min=0, help="explore one in N states seen before once more, and compare")
    ] = 0,
    replay: Annotated[str, typer.Option(metavar="ACTIONS", help="show what happens in one run of the world")] = "",
    names: Annotated[bool, typer.Option("--list", help="list the worlds and their contents")] = False,
    as_json: AsJson = False,
) -> None:
    """Explore small worlds exhaustively: every order of packets, timers and a few faults, on the transport's code.

    In a final state nothing more can happen; a cycle is a run that returns to a state, such as probes of a dead path.
    A violated invariant is shown with the run that leads to it and the command that replays that run. Exit status 1: an
    invariant is violated, 2: a world was not explored to its end.
    """
    terminal = err if as_json else out
    if names:
        _list(terminal)
        if as_json:
            found = known_worlds().values()
            answer.give("explore", 0, worlds=[{"world": w.name, "about": w.about, "small": w.small} for w in found])
        return
    known = known_worlds().values()
    chosen = [_world(name) for name in worlds or ()] or [world for world in known if world.small or every]
    if compiled.state().runs:
        _again_in_plain_python()
    if replay:
        if len(chosen) != 1:
            raise Refused("--replay needs one world; name it")
        for line in replayed(chosen[0], parsed(replay)):
            console.plain(terminal, line)
        return
    results = [_explore(world, seconds, check_merging, terminal) for world in chosen]
    status = 1 if any(one.found for one in results) else 0 if all(one.whole for one in results) else 2
    if as_json:
        answer.give("explore", status, worlds=[_facts(one) for one in results])
    raise typer.Exit(status)


def _world(name: str) -> Space:
    if name not in known_worlds():
        raise Refused(f'there is no world "{name}" to explore; there are {", ".join(known_worlds())}')
    return known_worlds()[name]


def _again_in_plain_python() -> None:
    """Start this command again with plain sources: compiled objects hide their attributes."""
    os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, compiled.VARIABLE: "0"})


def _list(terminal: Console) -> None:
    for world in known_worlds().values():
        size = "" if world.small else " (large)"
        console.plain(terminal, f"{world.name:12} {world.about}{size}")


def _explore(world: Space, seconds: float, merging: int, terminal: Console) -> Result:
    result = Search(world, max_seconds=seconds, merging=merging).run()
    if result.found is not None:
        result.found = shortened(world, result.found)
    whole = "all" if result.whole else "not all"
    ends = f"{result.final_states} final states, {result.cycles} cycles"
    seen = f"{result.states} states, {whole} seen, {result.steps} steps, {ends}"
    console.plain(terminal, f"{world.name}: {seen}; {result.seconds:.1f} s")
    if result.found is not None:
        _show(world, result.found, terminal)
    return result


def _show(world: Space, found: Counterexample, terminal: Console) -> None:
    console.plain(terminal, f"  {found.what}")
    for line in replayed(world, found.trace):
        console.plain(terminal, f"    {line}")
    if found.cycle:
        terminal.print("  then, again and again:", highlight=False)
        for line in replayed(world, [*found.trace, *found.cycle])[len(found.trace) :]:
            console.plain(terminal, f"    {line}")
    console.plain(terminal, f"  show it again: {again(world, found)}")


def again(world: Space, found: Counterexample) -> str:
    """Return the command that shows a run."""
    return f"mrclab explore {world.name} --replay {written([*found.trace, *found.cycle])}"


def written(trace: list[Action]) -> str:
    """Return a trace as text without spaces, for the command line."""
    return ",".join(f"{kind}:{which}" for kind, which in trace)


def parsed(text: str) -> list[Action]:
    """Return the trace of such a text; Refused where it is none."""
    found: list[Action] = []
    for word in text.split(","):
        kind, _, which = word.partition(":")
        if not which.isdecimal():
            raise Refused(f'--replay: "{word}" is not an action; write, for example, deliver:3')
        found.append((kind, int(which)))
    return found


def _facts(result: Result) -> dict[str, Any]:
    """Return a result as JSON."""
    found = result.found
    return {
        "world": result.world.name, "states": result.states, "steps": result.steps,
        "final_states": result.final_states, "cycles": result.cycles, "whole": result.whole,
        "seconds": round(result.seconds, 1),
        "found": None if found is None else {"what": found.what, "replay": again(result.world, found)},
    }  # fmt: skip
