"""The command `mrclab`. Known errors become one sentence on stderr and an exit status; nothing here does any work."""

import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from mrclab.experiments.campaign import cli as campaign
from mrclab.experiments.paper import page as paper
from mrclab.experiments.soak import cli as soak
from mrclab.experiments.survey import cli as survey
from mrclab.experiments.worlds import cli as bothworlds
from mrclab.lab.command import capture, execute, grade, held, operations, suitecli, ui, up, watched
from mrclab.lab.command import plan as planning
from mrclab.lab.command.display import progress as progressbar
from mrclab.lab.command.display import sink, terminal
from mrclab.lab.command.worldoption import World
from mrclab.lab.errors import Interrupted, LabError, RunError, ScenarioError
from mrclab.lab.prompt import service
from mrclab.lab.report import suitereport
from mrclab.lab.run import runner, suite, worlds
from mrclab.lab.run.interrupts import deafen, guarded
from mrclab.lab.run.transfer import Transfer
from mrclab.lab.run.wire.attach import RUN_DIR, attach
from mrclab.lab.run.world import NodeAccess, Progress
from mrclab.lab.run.world import World as LiveWorld
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.units import show_bytes, show_rate, show_seconds
from mrclab.rpc.errors import RpcError
from mrclab.topo.errors import TopoError
from mrclab.topo.model import Fabric, UnknownName
from mrclab.topo.spec import FabricSpec, SpecError


class _Anywhere(TyperGroup):
    """Takes the option that goes before every command behind it as well."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `--run-dir DIR` first, wherever it stands before a `--`."""
        end = args.index("--") if "--" in args else len(args)
        words, found = args[:end], []
        for at in [at for at, word in enumerate(words) if word.split("=")[0] == "--run-dir"][::-1]:
            size = 1 if "=" in words[at] else 2
            found += words[at : at + size]
            del words[at : at + size]
        return super().parse_args(ctx, [*found, *words, *args[end:]])


app = typer.Typer(
    name="mrclab",
    cls=_Anywhere,
    help="Emulates a multi-plane SRv6/P4 fabric, sprays MRC over it, and breaks it while it runs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(operations.app)
app.add_typer(survey.app)
app.add_typer(soak.app)
app.add_typer(campaign.app)
app.add_typer(bothworlds.app)
app.add_typer(suitecli.app)
app.add_typer(capture.app)
app.add_typer(ui.app)
app.add_typer(execute.app)
app.add_typer(up.app)
app.add_typer(grade.app)
out = Console(width=None if sys.stdout.isatty() else 120)
err = Console(stderr=True)

ScenarioPath = Annotated[
    Path, typer.Argument(metavar="SCENARIO", help="a scenario file, e.g. scenarios/link-failure.yaml")
]
OptionalScenario = Annotated[Path | None, typer.Argument(metavar="SCENARIO", help="take the fabric of this scenario")]
Target = Annotated[str | None, typer.Option(help="the P4 switch: soft or bmv2 (default: bmv2 where it is installed)")]
Force = Annotated[bool, typer.Option("--force", help="start even what is too large for this machine")]
Results = Annotated[Path, typer.Option(help="where result directories go")]

_BENCHMARKS = {
    "host": "mrclab.bench.host",
    "controller": "mrclab.bench.controller",
    "lab": "mrclab.bench.lab",
    "switch": "mrclab.bench.switch",
    "verbs": "mrclab.bench.verbs",
    "sim": "mrclab.bench.sim",
}
_KNOWN = (LabError, TopoError, SpecError, UnknownName, RpcError)


@app.callback()
def place(
    context: typer.Context,
    run_dir: Annotated[Path, typer.Option(help="where the running lab keeps sockets and files")] = RUN_DIR,
) -> None:
    """Options that go before every command."""
    context.obj = run_dir.absolute()


@app.command()
def run(
    context: typer.Context,
    path: ScenarioPath,
    target: Target = None,
    world: World = None,
    seed: Annotated[int | None, typer.Option(min=0, help="instead of the scenario's")] = None,
    variant: Annotated[str, typer.Option(help="only this variant of the scenario")] = "",
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="another value of a field, e.g. fabric.t1s=4; may be repeated")
    ] = None,
    results_dir: Annotated[Path, typer.Option("--results", help="where result directories go")] = Path("results"),
    dry_run: Annotated[bool, typer.Option(help="print the resolved plan and start nothing")] = False,
    ui: up.Ui = False,
    browser: up.Open = False,
    place: Annotated[
        Path | None, typer.Option(help="virtual time: keep its history here while it runs, for `mrclab ui PLACE`")
    ] = None,
    force: Force = False,
) -> None:
    """Run a scenario, or each of its variants; exit status 0: held, 1: failed or broke off, 3: machine too slow."""
    loaded = scenario.in_world(scenario.load(suite.find_one(path)), world)
    values = scenario.parse_settings(sets or [])
    chosen = tuple(scenario.with_values(one, values) for one in ((loaded.pick(variant),) if variant else loaded.runs))
    if seed is not None:
        chosen = tuple(scenario.with_seed(one, seed) for one in chosen)
    worlds.check(*chosen)
    if dry_run:
        for one in chosen:
            planning.show(one.fabric, one.scenario, out)
        _warn(worlds.check_size(*chosen, force=True))
        return
    _warn(worlds.check_machine(*chosen, force=force))
    if len(chosen) > 1:
        if ui or browser:
            raise LabError("the live page shows one run; choose one with --variant")
        with progressbar.shown(err) as progress:
            made = suite.Suite(results_dir, progress, progressbar.teller(progress), target, context.obj)
            result = suitereport.run(made, chosen, loaded.scenario.name, err)
        suitereport.show(result, out)
        raise typer.Exit(result.status)
    watching = watched.Watched(context.obj, place, err, results_dir, ui=ui, browser=browser)
    with progressbar.shown(err) as progress, watching as shown:
        outcome = runner.run_scenario(
            chosen[0], results_dir, progress, progressbar.teller(progress), target, context.obj, show=shown.show
        )
        progress.bar.stop()
        _report(outcome)
        shown.linger()
    if not outcome.ok:
        raise typer.Exit(3 if outcome.state == "invalid" else 1)


@app.command()
def plan(
    path: OptionalScenario = None,
    world: World = None,
    entries: Annotated[bool, typer.Option("--entries", help="list every table entry too")] = False,
) -> None:
    """Print what would be built: nodes, addresses, uSIDs, cables, time line. Needs no root and starts nothing."""
    if path is None:
        planning.show(Fabric(FabricSpec()), None, out, entries)
        return
    loaded = scenario.in_world(scenario.load(suite.find_one(path)), world)
    worlds.check(*loaded.runs)
    planning.show(loaded.fabric, loaded.scenario, out, entries)


@app.command()
def send(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="a host, e.g. h1")],
    destination: Annotated[str, typer.Argument(help="another host, e.g. h3")],
    file: Annotated[Path, typer.Argument(help="the file to send")],
    output: Annotated[Path | None, typer.Option(help="copy what arrived to this file")] = None,
    target: Target = None,
    world: World = None,
    timeout: Annotated[float, typer.Option(min=1, help="seconds the transfer may take")] = 600.0,
) -> None:
    """Send a file from host to host, through the lab that is up, or one brought up for this."""
    if not file.is_file():
        raise LabError(f"there is no file {file}")
    _check_output(output)
    if world is None and target is None and (place := held.virtual(context.obj)) is not None:
        if output is not None:
            raise LabError(
                "what arrives in virtual time stays there; leave --output out, or bring a lab up on the wire"
            )
        sys.stdout.write(
            service.ask(place, "word", line=shlex.join(("send", source, destination, str(file.absolute()))))["text"]
        )
        return
    where: worlds.WorldName = "sim" if world == "sim" else "wire"
    worlds.check_machine_for(where)
    running = attach(context.obj) if where == "wire" else None
    fabric = running.fabric if running else Fabric(FabricSpec())
    names = fabric.host(source).name, fabric.host(destination).name
    if names[0] == names[1]:
        raise LabError(f"{source} cannot send to itself; name two hosts")
    with progressbar.shown(err) as progress:
        if running:
            with guarded():
                _send(running, names, file, output, progress, timeout)
        else:
            with worlds.world_up(
                where, fabric, progress, target=target, run_dir=context.obj, on_failure=_keep_logs
            ) as lab:
                _send(lab, names, file, output, progress, timeout)


@app.command()
def doctor(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    faults: Annotated[
        bool, typer.Option("--faults", help="try every kind of fault on this kernel; needs root")
    ] = False,
) -> None:
    """Say what this machine has and lacks, which back-ends follow, and the remedy."""
    from mrclab.lab.command import doctor as health  # noqa: PLC0415 - it looks at Linux

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
    part: Annotated[str, typer.Argument(help="host, controller, lab, switch, verbs or sim; all where left out")] = "",
    options: Annotated[list[str] | None, typer.Argument(help="options of that benchmark, e.g. --help")] = None,
) -> None:
    """Measure how fast the parts of the lab are on this machine."""
    if part and part not in _BENCHMARKS:
        raise LabError(f"there is no benchmark {part!r}; choose {', '.join(_BENCHMARKS)}")
    status = 0
    for name in [part] if part else _BENCHMARKS:
        out.rule(name, align="left")
        status |= subprocess.run([sys.executable, "-m", _BENCHMARKS[name], *(options or [])], check=False).returncode
    raise typer.Exit(status)


@app.command()
def clean(context: typer.Context) -> None:
    """Remove what a killed lab left behind: processes, namespaces, cables, files. Nothing that is not the lab's."""
    from mrclab.topo.linux import state  # noqa: PLC0415 - Linux alone has what it removes

    removed = state.clean(context.obj.parent)
    for phrase in removed:
        out.print(f"removed {escape(phrase)}", soft_wrap=True)
    if not removed:
        out.print("nothing to clean")


@app.command()
def report(
    directory: Annotated[Path, typer.Argument(help="a result directory, or that of a suite")],
    more: Annotated[list[Path] | None, typer.Argument(help="further suites, for one page of all")] = None,
) -> None:
    """Make the report of a result directory again and print it; of suites, the page that holds them to the paper."""
    if more or (directory / "suite.json").is_file():
        out.print(f"The paper's figures: {paper.write(directory, *(more or []))[0]}", soft_wrap=True)
        return
    outcome = runner.finish(directory)
    _report(outcome)
    if not outcome.ok:
        raise typer.Exit(3 if outcome.state == "invalid" else 1)


def main() -> None:
    """Run `mrclab`; every error is one sentence and its exit status, Ctrl-C is 130."""
    printed = sink.install()
    try:
        app(standalone_mode=True)
        status: int | str | None = 0
    except SystemExit as end:
        status = end.code
    except BaseException as error:
        deafen()
        status = _say(error)
    deafen()
    printed.flush()
    if printed.trouble:
        lost = f"mrclab: what it had to print is lost: {printed.trouble}; what it had to keep is not"
        err.print(lost, soft_wrap=True, highlight=False)
        status = status or sink.LOST
    sys.exit(status)


def _say(error: BaseException) -> int:
    """Say on standard error what went wrong; returns the exit status."""
    if isinstance(error, ScenarioError):
        for line in error.mistakes:
            err.print(escape(line), soft_wrap=True, highlight=False)
        return error.status
    if isinstance(error, _KNOWN):
        text, status = str(error), error.status if isinstance(error, LabError) else 2
    elif isinstance(error, PermissionError):
        text, status = f"{error.filename}: permission denied; run the same command with sudo", 2
    elif isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        text, status = f"{place}{error.strerror or error}; `mrclab doctor` looks at this machine", 1
    elif isinstance(error, KeyboardInterrupt):
        text, status = "interrupted", Interrupted.status
    else:
        text, status = f"a mistake of the lab's own: {type(error).__name__}: {error}; {_kept(error)}", 1
    err.print(f"mrclab: {escape(text)}", soft_wrap=True, highlight=False)
    return status


def _kept(error: BaseException) -> str:
    """Where the traceback of an error is that nobody foresaw."""
    text = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile("w", prefix="mrclab-", suffix=".log", delete=False) as file:
            file.write(text)
    except OSError:
        return f"its traceback, for whoever mends it: {text}"
    return f"its traceback is in {file.name}, for whoever mends it"


def _send(
    lab: NodeAccess, names: tuple[str, str], file: Path, output: Path | None, progress: Progress, timeout: float
) -> None:
    transfer = Transfer(lab, f"send-{file.name}", *names, file)
    outcome = transfer.run(lambda share: progress(f"{names[0]} → {names[1]}", int(1000 * share), 1000), timeout)
    try:
        if output is not None:
            output.write_bytes(transfer.target.read_bytes())
    except OSError as error:
        raise RunError(f"{file} arrived, but {output} could not be written: {error.strerror}; see --output") from None
    finally:
        transfer.target.unlink()
    if not outcome.intact:
        raise RunError(f"{file} arrived damaged: {outcome.sent_sha256} was sent, {outcome.received_sha256} arrived")
    rate = f" ({show_rate(transfer.size / outcome.seconds)})" if outcome.seconds and transfer.size else ""
    out.print(
        f"{show_bytes(transfer.size)} in {show_seconds(outcome.seconds)}{rate}, intact: {outcome.sent_sha256}",
        soft_wrap=True,
    )


def _check_output(output: Path | None) -> None:
    """LabError where a file could not be written, found out before anything is sent."""
    if output is None:
        return
    place = output if output.exists() else output.absolute().parent
    if output.is_dir() or not place.exists() or not os.access(place, os.W_OK):
        why = "is a directory" if output.is_dir() else "cannot be written"
        raise LabError(f"the output {output} {why}; name a file in a directory that is there and can be written")


def _keep_logs(failed: LiveWorld, _error: Exception) -> None:
    """Keep what a lab that did not come up wrote; a run keeps it with its results."""
    with contextlib.suppress(OSError):
        directory = Path(tempfile.mkdtemp(prefix="mrclab-logs-"))
        failed.collect(directory)
        err.print(f"the lab did not come up; all logs are in {directory / 'log'}", soft_wrap=True, highlight=False)


def _warn(warnings: list[str]) -> None:
    for text in warnings:
        if text:
            err.print(f"mrclab: {escape(text)}", soft_wrap=True, highlight=False)


def _report(outcome: runner.Outcome) -> None:
    if outcome.facts:
        terminal.show(outcome.facts, outcome.directory, out)
