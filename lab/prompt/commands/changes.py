"""Commands that change the lab: denials, drains, cables, faults, traffic, time; and the report."""

import contextlib
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.markup import escape

from mrclab.lab.capture.where import cables
from mrclab.lab.command.display import terminal, views
from mrclab.lab.errors import LabError
from mrclab.lab.prompt import operations
from mrclab.lab.prompt.registry import Answer, command, fields
from mrclab.lab.prompt.session import ClientGone, LabSession
from mrclab.lab.scenario.units import parse_size, show_bytes, show_rate, show_seconds
from mrclab.lab.traffic.running.flows import Running
from mrclab.topo.input.quantities import parse_duration
from mrclab.topo.model import Link

_DRAIN = 30.0  # seconds until traffic must have left, or returned
_PRECHECK = 10.0
_LONGEST_SEND = 3600.0
_LONGEST_WAIT = 3600.0  # seconds of virtual time
_TRAFFIC = "from=h1 to=h3 size=1GiB"  # example of fields, for usage messages


@command("deny WHAT", "keep all QPs off a switch, cable, plane or path, e.g. deny t1-p1-2, or deny h1 to h3 p2 u1")
def deny(session: LabSession, what: str, *more: str) -> Answer:
    """Deny an element."""
    return _asked(session, views.denied, "deny", what=" ".join((what, *more)))


@command("undeny WHAT", "lift a denial")
def undeny(session: LabSession, what: str, *more: str) -> Answer:
    """Lift a denial."""
    return _asked(session, views.undenied, "undeny", what=" ".join((what, *more)))


@command("drain SWITCH", "take a switch out of service without losing a packet")
def drain(session: LabSession, switch: str) -> Answer:
    """Drain a switch."""
    return _asked(session, views.drained, "drain", _DRAIN, switch=switch, timeout=_DRAIN)


@command("undrain SWITCH", "return a drained switch to service")
def undrain(session: LabSession, switch: str) -> Answer:
    """Undrain a switch."""
    return _asked(session, views.undrained, "undrain", _DRAIN, switch=switch, timeout=_DRAIN)


@command("precheck", "check whether a job may start")
def precheck(session: LabSession) -> Answer:
    """All checks before a job."""
    return _asked(session, views.precheck, "precheck", _PRECHECK, timeout=_PRECHECK)


def _asked(
    session: LabSession,
    view: Callable[[Mapping[str, Any]], RenderableType],
    op: str,
    seconds: float = 0.0,
    /,
    **arguments: Any,
) -> Answer:
    """Return the controller's response to a request, with its view."""
    response = session.ask(op, seconds, **arguments)
    return Answer(view(response), response)


@command("down CABLE", "cut a cable, e.g. down t0-p1-1/t1-p1-2, or down h1-p2")
def down(session: LabSession, end: str, *other_end: str) -> Answer:
    """Cut a cable."""
    link = session.world.fabric.link(" ".join((end, *other_end)))
    session.inject("link_down", {"link": link.name, "name": _cut_name(link)})
    return Answer(f"{link.name} is down", {"link": link.name, "up": False})


@command("up CABLE", "bring a cut cable back")
def up(session: LabSession, end: str, *other_end: str) -> Answer:
    """Bring a cable back."""
    link = session.world.fabric.link(" ".join((end, *other_end)))
    if _cut_name(link) in session.faults:
        session.clear(_cut_name(link))
    if owners := session.down().get(link.name):
        raise LabError(f"{link.name} is still held by {', '.join(owners)}; `clear NAME` ends a fault")
    return Answer(f"{link.name} is up", {"link": link.name, "up": True})


@command(
    "fault KIND FIELD=…",
    "inject a fault, e.g. fault loss link=h1-p2 rate=5%, fault switch_crash switch=t1-p1-1",
    "name=NAME names it. docs/faults.md has every kind with its fields.",
)
def fault(session: LabSession, kind: str, *words: str) -> Answer:
    """Inject a fault."""
    text = session.inject(kind, fields(words))
    return Answer(escape(text), {"message": text})


@command("clear [FAULT]", "clear a fault, or all of them, the last first")
def clear(session: LabSession, name: str | None = None) -> Answer:
    """Clear faults."""
    lines = session.clear(name)
    return Answer(escape("\n".join(lines) or "nothing to clear"), {"cleared": lines})


@command(
    "traffic KIND FIELD=…",
    "start a scenario's kind of traffic in the background, e.g. traffic stream from=h1 to=h3 size=1GiB",
    "name=NAME names it; `flows` shows it, `stop NAME` ends it. docs/scenarios.md has every kind with its fields.",
)
def traffic(session: LabSession, kind: str, *words: str) -> Answer:
    """Start traffic."""
    with session.lock:
        name = session.lab.start_traffic({**fields(words, _TRAFFIC), "kind": kind}).name
    return Answer(f"{name} runs", {"name": name})


@command("stop FLOW", "end a workload before its time")
def stop(session: LabSession, name: str) -> Answer:
    """Stop traffic."""
    with session.lock:
        if name not in session.lab.workloads:
            raise ValueError(f"no traffic is named {name!r}; `flows` lists all")
        session.lab.stop(name)
    return Answer(f"{name} is stopped", {"name": name})


@command("send HOST HOST WHAT", "write a file, or random bytes of a size, and wait for it, e.g. send h1 h3 16MiB")
def send(session: LabSession, source: str, destination: str, what: str) -> Answer:
    """Run one transfer to its end."""
    with session.lock:
        running = _sent(session, source, destination, what)
    try:
        session.wait_until(lambda: running.ended, _LONGEST_SEND, running.name, lambda: running.share(session.world.now))
    except ClientGone:
        with session.lock, contextlib.suppress(ValueError):  # it is over already
            session.lab.stop(running.name)
        raise
    if running.ended is None or running.began is None:
        raise LabError(f"{running.name} did not arrive within {_LONGEST_SEND:g} s; it goes on, `flows` shows it")
    seconds, size = running.ended - running.began, running.size or 0
    rate = show_rate(size / seconds) if seconds else "–"
    line = f"{show_bytes(size)} in {show_seconds(seconds)} ({rate}), {running.state}"
    return Answer(escape(line), {"bytes": size, "seconds": seconds, "state": running.state, "name": running.name})


@command("wait [FLOW or TIME]", "wait for one workload, for all, or for a time: wait 2s")
def wait(session: LabSession, name: str = "") -> Answer:
    """Let the lab go on."""
    if name and name not in session.lab.workloads:
        try:
            seconds = parse_duration(name)
        except ValueError as error:
            raise ValueError(f"no traffic is named {name!r}, and {error}") from None
        assert isinstance(seconds, float)
        if session.speed is not None and seconds > _LONGEST_WAIT:
            raise ValueError(f"{name} of virtual time is too long to wait for at once; at most {_LONGEST_WAIT:g} s")
        session.wait_until(lambda: None, seconds, f"wait {name}")
    else:
        workloads = [session.lab.workloads[name]] if name else session.lab.active

        def share() -> float:
            return min((each.share(session.world.now) for each in workloads), default=1.0)

        over = f"wait {', '.join(each.name for each in workloads)}"
        session.wait_until(lambda: all(each.ended is not None for each in workloads) or None, stage=over, share=share)
    states = {each: running.state for each, running in session.lab.workloads.items()}
    return Answer("\n".join(f"{each}: {state}" for each, state in states.items()), {"flows": states})


@command("speed [NUMBER]", "virtual seconds per real second; 0.001 shows milliseconds as seconds")
def speed(session: LabSession, number: str = "") -> Answer:
    """Set the speed of virtual time."""
    if not number:
        return Answer(operations.speed_text(session), {"speed": session.speed})
    try:
        value = float(number)
    except ValueError:
        raise ValueError(f"{number!r} is not a number; write, for example, speed 0.001") from None
    return Answer(operations.set_speed(session, value), {"speed": session.speed})


@command(
    "capture FILE [WHERE...]",
    "record frames until `capture stop`, e.g. capture h1.pcapng h1",
    "WHERE: cables, ports, nodes or planes as p1; left out: all. Wireshark reads the file: docs/captures.md.",
)
def capture(session: LabSession, file: str, *where: str) -> Answer:
    """Start or end a capture."""
    if file == "stop" and not where:
        path, frames = session.capture.stop()
        return Answer(f"{path}: {frames} frames", {"path": str(path), "frames": frames})
    links = cables(session.world.fabric, where)
    session.capture.start(Path(file), links)
    return Answer(f"capturing on {len(links)} cables; `capture stop` writes {file}", {"cables": len(links)})


@command(
    "report [FOLDER]",
    "what has happened since the lab came up, as `mrclab run` reports it: a directory with page, pictures and history",
    "It goes below FOLDER, else below results/. Its scenario.yaml says what was typed and when.",
)
def report(session: LabSession, folder: str = "results") -> Answer:
    """Report, and go on."""
    from mrclab.lab.prompt.commands import reporting  # noqa: PLC0415 - it draws, and most commands do not

    outcome = reporting.write(session, Path(folder))
    assert outcome.facts is not None
    facts, page = outcome.facts, outcome.directory / "report.html"
    lines = [f"INVALID: {reason}" for reason in facts.invalid] + [facts.headline, f"Report: {page}"]
    goes_on = [each.name for each in session.lab.active]
    lines += [f"still running: {', '.join(goes_on)}"] if goes_on else []
    response = {"directory": str(outcome.directory), **asdict(facts)}
    return Answer(Group(*terminal.tables(facts), escape("\n".join(lines))), response)


def _sent(session: LabSession, source: str, destination: str, what: str) -> Running:
    fabric = session.world.fabric
    here, there = fabric.host(source).name, fabric.host(destination).name
    name = session.lab.free_name("send")
    path = Path(what)
    if path.is_file():
        target = session.world.files / here / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        size: object = target.stat().st_size
    elif not what[:1].isdigit():
        raise ValueError(f"there is no file {what}; name one that is there, or a size such as 16MiB")
    else:
        size = parse_size(what)
    return session.lab.start_traffic({"kind": "write", "name": name, "from": here, "to": there, "size": size})


def _cut_name(link: Link) -> str:
    """Name of the fault that `down` injects."""
    return f"cut-{link.name.replace('/', '-')}"
