"""The command `mrclab send`: a file from host to host, through the lab that is up or one of its own."""

import contextlib
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from mrclab.lab import console
from mrclab.lab.command.display import answer
from mrclab.lab.command.display import progress as progressbar
from mrclab.lab.command.live import rundir
from mrclab.lab.command.options import AsJson, Target, World
from mrclab.lab.errors import LabError, RunError
from mrclab.lab.faults.action import NodeAccess
from mrclab.lab.kinds import WorldName
from mrclab.lab.prompt.remote import client
from mrclab.lab.run import worlds
from mrclab.lab.run.interrupts import guarded
from mrclab.lab.run.wire.attach import LabClients, attach
from mrclab.lab.run.wire.watchdog import Stops
from mrclab.lab.run.world import Progress
from mrclab.lab.run.world import World as LiveWorld
from mrclab.lab.scenario.units import show_bytes, show_rate, show_seconds
from mrclab.lab.traffic.running.writes import sha256
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

_POLL_S = 0.02  # seconds between two looks at a transfer
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
    where: WorldName = "sim" if world == "sim" else "wire"
    worlds.check_target(target, where)
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
    target = lab.files / names[1] / f"send-{file.name}-from-{names[0]}"
    notices = _Notices(lab)

    def poll(share: float) -> None:
        progress(f"{names[0]} → {names[1]}", int(1000 * share), 1000)
        notices.poll()

    seconds = _transfer(lab, names, file, target, poll, timeout)
    sent, received = sha256(file), sha256(target)
    try:
        if output is not None:
            output.write_bytes(target.read_bytes())
    except OSError as error:
        raise RunError(f"{file} arrived, but {output} could not be written: {error.strerror}; see --output") from None
    finally:
        target.unlink()
    if sent != received:
        raise RunError(f"{file} arrived damaged: {sent} was sent, {received} arrived")
    return {"bytes": file.stat().st_size, "seconds": seconds, "sha256": sent}


def _transfer(
    lab: NodeAccess,
    names: tuple[str, str],
    path: Path,
    target: Path,
    progress: Callable[[float], None],
    timeout: float,
) -> float:
    """Write a file into another one by the agents' verbs; return the seconds it took. RunError if it fails.

    The source is mapped for reading; the transport writes the target in place.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    source, destination = names
    what, size = f"send-{path.name}", path.stat().st_size
    ends = {one: lab.call(one, "create_qp", peer=other) for one, other in (names, names[::-1])}
    qps = {host: int(end["qp"]) for host, end in ends.items()}
    here = lab.call(source, "reg_mr", path=str(path.resolve()), length=size, access="read")
    there = lab.call(destination, "reg_mr", path=str(target.resolve()), length=size, access="write")
    lab.call(source, "connect_qp", qp=qps[source], remote=ends[destination])
    lab.call(destination, "connect_qp", qp=qps[destination], remote=ends[source])
    lab.call(destination, "post_recv", qp=qps[destination], wr_id=1)
    began, done = lab.now, dict[str, float]()
    lab.call(
        source, "post_send", qp=qps[source], wr_id=1, opcode="RDMA_WRITE_WITH_IMM",
        local={"lkey": here["lkey"], "offset": 0, "length": size},
        remote={"va": there["va"], "rkey": there["rkey"]}, imm=1,
    )  # fmt: skip
    while True:
        for host, qp in qps.items():
            for completion in lab.call(host, "poll_cq", qp=qp)["completions"]:
                if completion["status"] != "SUCCESS":
                    raise RunError(f"{what}: the work request on {host} ended with {completion['status']}")
                done[host] = completion["t"]
        if len(done) == len(qps):
            break
        counters: list[dict[str, Any]] = lab.call(source, "stats")["qps"]
        row = next((row for row in counters if row["qp"] == qps[source]), {})
        if row.get("state") == "ERROR":
            raise RunError(f"{what}: the QP on {source} is in error: {row.get('reason', 'no reason given')}")
        share = min(float(row.get("acked_bytes", 0)) / size, 0.9999) if size else 0.0
        progress(share)
        if lab.now > began + timeout:
            raise RunError(f"{what} did not arrive within {timeout:g} s; {share * 100:.0f}% is acknowledged")
        lab.pause(_POLL_S)
    progress(1.0)
    for host, lkey in ((source, here["lkey"]), (destination, there["lkey"])):
        lab.call(host, "destroy_qp", qp=qps[host])
        lab.call(host, "dereg_mr", lkey=lkey)
    return max(done.values()) - began


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
