"""The command `mrclab send`: a file from host to host, through the lab that is up or one of its own."""

import contextlib
import os
import shlex
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from mrclab.lab import console
from mrclab.lab.command.display import answer
from mrclab.lab.command.display import progress as progressbar
from mrclab.lab.command.live import rundir
from mrclab.lab.command.options import Target, World
from mrclab.lab.errors import LabError, RunError
from mrclab.lab.kinds import WorldName
from mrclab.lab.prompt.remote import client
from mrclab.lab.run import worlds
from mrclab.lab.run.interrupts import guarded
from mrclab.lab.run.transfer import Transfer
from mrclab.lab.run.wire.attach import LabClients, attach
from mrclab.lab.run.wire.watchdog import Stops
from mrclab.lab.run.world import NodeAccess, Progress
from mrclab.lab.run.world import World as LiveWorld
from mrclab.lab.scenario.units import show_bytes, show_rate, show_seconds
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
    world: World = None,
    timeout: Annotated[float, typer.Option(min=1, help="seconds the transfer may take")] = 600.0,
    as_json: answer.AsJson = False,
) -> None:
    """Send a file from host to host, through the lab that is up, or one started for this transfer."""
    if not file.is_file():
        raise LabError(f"there is no file {file}")
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
    where: WorldName = "sim" if world == "sim" else "wire"
    worlds.check_machine_for(where)
    running = attach(context.obj) if where == "wire" else None
    fabric = running.fabric if running else Fabric(FabricSpec())
    names = fabric.host(source).name, fabric.host(destination).name
    if names[0] == names[1]:
        raise LabError(f"{source} cannot send to itself; name two hosts")
    with progressbar.shown(err) as progress:
        if running:
            with guarded():
                done = _send(running, names, file, output, progress, timeout)
        else:
            with worlds.world_up(
                where, fabric, progress, target=target, run_dir=context.obj, on_failure=keep_logs
            ) as lab:
                done = _send(lab, names, file, output, progress, timeout)
    if as_json:
        answer.give("send", 0, **done)
        return
    rate = f" ({show_rate(done['bytes'] / done['seconds'])})" if done["seconds"] and done["bytes"] else ""
    size, seconds = show_bytes(done["bytes"]), show_seconds(done["seconds"])
    out.print(f"{size} in {seconds}{rate}, intact: {done['sha256']}", soft_wrap=True)


def _send(
    lab: NodeAccess, names: tuple[str, str], file: Path, output: Path | None, progress: Progress, timeout: float
) -> dict[str, Any]:
    """Send, and report the arrival. RunError if the bytes differ."""
    transfer = Transfer(lab, f"send-{file.name}", *names, file)
    notices = _Notices(lab)

    def poll(share: float) -> None:
        progress(f"{names[0]} → {names[1]}", int(1000 * share), 1000)
        notices.poll()

    outcome = transfer.run(poll, timeout)
    try:
        if output is not None:
            output.write_bytes(transfer.target.read_bytes())
    except OSError as error:
        raise RunError(f"{file} arrived, but {output} could not be written: {error.strerror}; see --output") from None
    finally:
        transfer.target.unlink()
    if not outcome.intact:
        raise RunError(f"{file} arrived damaged: {outcome.sent_sha256} was sent, {outcome.received_sha256} arrived")
    return {"bytes": transfer.size, "seconds": outcome.seconds, "sha256": outcome.sent_sha256}


class _Notices:
    """Says, while a transfer goes on, which processes of its lab a signal has stopped."""

    def __init__(self, lab: NodeAccess) -> None:
        self._lab = lab if isinstance(lab, LabClients) else None
        self._stops = Stops(self._lab.fabric, lambda *_, **__: None, self._print) if self._lab else None
        self._due = 0.0

    def poll(self) -> None:
        """Look now and then."""
        now = time.monotonic()
        if self._lab is not None and self._stops is not None and now >= self._due:
            self._due = now + _LOOK_S
            self._stops.poll(now, self._lab.stopped())

    @staticmethod
    def _print(text: str) -> None:
        console.plain(err, f"mrclab: {text}")


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
