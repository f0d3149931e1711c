"""The command `mrclab send`: a file from host to host, through the lab that is up or one of its own."""

import contextlib
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from mrclab.lab import console
from mrclab.lab.command.display import answer
from mrclab.lab.command.display import progress as progressbar
from mrclab.lab.command.live import rundir
from mrclab.lab.command.options import AsJson, Target, WorldOfLab
from mrclab.lab.errors import LabError, RunError
from mrclab.lab.kinds import WorldName
from mrclab.lab.prompt.remote import client
from mrclab.lab.run import worlds
from mrclab.lab.run.interrupts import guarded
from mrclab.lab.run.wire.attach import LabClients, attach
from mrclab.lab.run.wire.watchdog import Stops
from mrclab.lab.run.world import Progress
from mrclab.lab.run.world import World as LiveWorld
from mrclab.lab.scenario.units import show_bytes, show_rate, show_seconds
from mrclab.lab.session.lab import Lab
from mrclab.lab.traffic.running.flows import Running
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

_LOOK_S = 0.5  # seconds between two looks whether a process of the lab is stopped

app = typer.Typer()
out = console.standard()
err = console.console(stderr=True)


@app.command()
def send(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="a host, e.g. h1")],
    destination: Annotated[str, typer.Argument(help="another host, e.g. h3")],
    file: Annotated[Path, typer.Argument(help="the file to send")],
    output: Annotated[Path | None, typer.Option(help="copy the received bytes to this file")] = None,
    target: Target = None,
    world: WorldOfLab = None,
    timeout: Annotated[float, typer.Option(min=1, help="seconds the transfer may take")] = 600.0,
    as_json: AsJson = False,
) -> None:
    """Send a file from host to host, through the lab that is up, or one started for this transfer."""
    if not file.is_file():
        there = file.exists()
        raise LabError(f"{file} is not a regular file; name one to send" if there else f"there is no file {file}")
    _check_output(output)
    if world is None and target is None and (place := rundir.virtual(context.obj)) is not None:
        if output is not None:
            raise LabError(
                "what arrives in virtual time stays there; leave --output out, or bring a lab up on the wire"
            )
        response = client.ask(place, "command", line=shlex.join(("send", source, destination, str(file.absolute()))))
        if as_json:
            answer.give("send", 0, **response["data"])
        else:
            sys.stdout.write(response["text"])
        return
    where: WorldName = world or "wire"
    worlds.check_target(target, where)
    worlds.check_machine_for(where)
    running = attach(context.obj) if where == "wire" else None
    fabric = running.fabric if running else Fabric(FabricSpec())
    names = fabric.host(source).name, fabric.host(destination).name
    if names[0] == names[1]:
        raise LabError(f"{source} cannot send to itself; name two hosts")
    with ExitStack() as stack:
        progress = stack.enter_context(progressbar.shown(err))
        if running:
            stack.enter_context(guarded())
            lab: Any = running
        else:
            lab = stack.enter_context(
                worlds.world_up(where, fabric, progress, target=target, run_dir=context.obj, on_failure=keep_logs)
            )
        done = _send(stack.enter_context(Lab(lab)), names, file, output, progress, timeout)
    if as_json:
        answer.give("send", 0, **done)
        return
    rate = f" ({show_rate(done['bytes'] / done['seconds'])})" if done["seconds"] and done["bytes"] else ""
    size, seconds = show_bytes(done["bytes"]), show_seconds(done["seconds"])
    out.print(f"{size} in {seconds}{rate}, intact: {done['sha256']}", soft_wrap=True)


def _send(
    lab: Lab, names: tuple[str, str], file: Path, output: Path | None, progress: Progress, timeout: float
) -> dict[str, Any]:
    """Send, and report the arrival. RunError if it takes too long, fails, or the bytes differ."""
    source, destination = names
    name, before = f"send-{os.getpid()}", file.stat()
    sent, received = lab.world.files / source / name, lab.world.files / destination / f"{name}-from-{source}"
    sent.parent.mkdir(parents=True, exist_ok=True)
    sent.symlink_to(file.resolve())
    try:
        fields = {"kind": "write", "name": name, "from": source, "to": destination, "size": before.st_size}
        running = lab.start_traffic(fields)
        try:
            _wait(lab, running, file, progress, timeout)
        finally:
            lab.cut_short(running, "it was given up")
        if output is not None and running.intact:
            _keep(received, output, file)
    finally:
        for path in (sent, received):
            path.unlink(missing_ok=True)
    end = running.outcome
    if why := end.get("error"):
        raise RunError(f"{file} did not arrive: {why}")
    after = file.stat()
    if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise RunError(f"{file} changed while it was sent; send a copy of it")
    if not running.intact:
        raise RunError(f"{file} arrived damaged: {end['sent_sha256']} was sent, {end['received_sha256']} arrived")
    seconds = (running.ended or 0.0) - (running.began or 0.0)
    return {"bytes": before.st_size, "seconds": seconds, "sha256": end["sent_sha256"]}


def _keep(received: Path, output: Path, file: Path) -> None:
    try:
        output.write_bytes(received.read_bytes())
    except OSError as error:
        raise RunError(f"{file} arrived, but {output} could not be written: {error.strerror}; see --output") from None


def _wait(lab: Lab, running: Running, file: Path, progress: Progress, timeout: float) -> None:
    """Let time pass until a transfer has ended. RunError if it takes too long."""
    deadline, look = lab.now + timeout, _notices(lab.world)
    while running.ended is None:
        share = running.share(lab.now)
        progress(" → ".join(running.hosts), int(1000 * share), 1000)
        look()
        if lab.now > deadline:
            raise RunError(f"{file} did not arrive within {timeout:g} s; {share * 100:.0f}% is acknowledged")
        lab.go_on(deadline)


def _notices(lab: object) -> Callable[[], None]:
    """Return a function that reports, now and then, which processes of a lab on the wire a signal has stopped."""
    if not isinstance(lab, LabClients):
        return lambda: None
    stops = Stops(lab.fabric, lambda *_, **__: None, lambda text: console.plain(err, f"mrclab: {text}"))
    due = 0.0

    def look() -> None:
        nonlocal due
        now = time.monotonic()
        if now >= due:
            due = now + _LOOK_S
            stops.poll(now, lab.stopped())

    return look


def _check_output(output: Path | None) -> None:
    """LabError where a file could not be written, found out before anything is sent."""
    if output is None:
        return
    place = output if output.exists() else output.absolute().parent
    if output.is_dir() or not place.exists() or not os.access(place, os.W_OK):
        why = "is a directory" if output.is_dir() else "cannot be written"
        raise LabError(f"the output {output} {why}; name a file in a directory that is there and can be written")


def keep_logs(failed: LiveWorld, _error: Exception) -> None:
    """Keep the logs of a lab that did not come up; a run keeps them with its results."""
    with contextlib.suppress(OSError):
        directory = Path(tempfile.mkdtemp(prefix="mrclab-logs-"))
        failed.collect(directory)
        console.plain(err, f"the lab did not come up; all logs are in {directory / 'log'}")
