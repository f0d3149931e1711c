"""The command `mrclab`. Known errors become one sentence on stderr and an exit status; nothing here does any work."""

import dataclasses
import errno
import json
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from mrclab.experiments.campaign import cli as campaign
from mrclab.experiments.explore import cli as explore
from mrclab.experiments.paper import page as paper
from mrclab.experiments.soak import cli as soak
from mrclab.experiments.survey import cli as survey
from mrclab.experiments.worlds import cli as bothworlds
from mrclab.lab import console
from mrclab.lab.command import capture, execute, grade, operations, send, suitecli, train, ui, up, watched
from mrclab.lab.command import plan as planning
from mrclab.lab.command.display import answer, sink, terminal
from mrclab.lab.command.display import progress as progressbar
from mrclab.lab.command.worldoption import World
from mrclab.lab.errors import Interrupted, LabError, ScenarioError, exhausted
from mrclab.lab.report import results, suitereport
from mrclab.lab.run import runner, suite, worlds
from mrclab.lab.run.interrupts import guarded, unsubscribe
from mrclab.lab.run.wire.attach import RUN_DIR
from mrclab.lab.scenario import scenario
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
app.add_typer(explore.app)
app.add_typer(campaign.app)
app.add_typer(bothworlds.app)
app.add_typer(suitecli.app)
app.add_typer(capture.app)
app.add_typer(ui.app)
app.add_typer(execute.app)
app.add_typer(up.app)
app.add_typer(grade.app)
app.add_typer(send.app)
app.add_typer(train.app)
out = console.standard()
err = console.console(stderr=True)

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
_REMEDIES = (
    ({errno.ENOSPC, errno.EDQUOT}, "free some space there, and do it again"),
    ({errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP}, "name another file or folder"),
    ({errno.EROFS}, "name a place that can be written"),
    ({errno.ENOENT}, "name another place; `mrclab doctor` says which programs this machine lacks"),
)
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
    within: Annotated[Path | None, typer.Option(hidden=True, help="read no other files than those below it")] = None,
    as_json: answer.AsJson = False,
) -> None:
    """Run a scenario, or each of its variants; exit status 0: passed, 1: failed or aborted, 3: machine too slow."""
    loaded = scenario.in_world(scenario.load(suite.find_one(path), within), world)
    values = scenario.parse_settings(sets or [])
    chosen = tuple(scenario.with_values(one, values) for one in ((loaded.pick(variant),) if variant else loaded.runs))
    if seed is not None:
        chosen = tuple(scenario.with_seed(one, seed) for one in chosen)
    worlds.check(*chosen)
    if dry_run:
        if as_json:
            answer.give("run", 0, dry_run=True, runs=[planning.as_json(one.fabric, one.scenario) for one in chosen])
        else:
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
        suitereport.show(result, err if as_json else out)
        if as_json:
            answer.give("run", result.status, directory=str(result.directory), **suitereport.as_json(result))
        raise typer.Exit(result.status)
    watching = watched.Watched(context.obj, place, err, results_dir, ui=ui, browser=browser)
    with progressbar.shown(err) as progress, watching as shown:
        outcome = runner.run_scenario(
            chosen[0], results_dir, progress, progressbar.teller(progress), target, context.obj, show=shown.show
        )
        progress.bar.stop()
        status = _report("run", outcome, as_json)
        shown.linger()
    if status:
        raise typer.Exit(status)


@app.command()
def plan(
    path: OptionalScenario = None,
    world: World = None,
    entries: Annotated[bool, typer.Option("--entries", help="list every table entry too")] = False,
    as_json: answer.AsJson = False,
) -> None:
    """Print what would be built: nodes, addresses, uSIDs, cables, time line. Needs no root and starts nothing."""
    loaded = scenario.in_world(scenario.load(suite.find_one(path)), world) if path else None
    if loaded is not None:
        worlds.check(*loaded.runs)
    fabric, asked = (loaded.fabric, loaded.scenario) if loaded else (Fabric(FabricSpec()), None)
    if as_json:
        answer.give("plan", 0, **planning.as_json(fabric, asked, entries))
    else:
        planning.show(fabric, asked, out, entries)


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
    options: Annotated[list[str] | None, typer.Argument(help="options of that benchmark; -- --help lists them")] = None,
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
def clean(context: typer.Context, as_json: answer.AsJson = False) -> None:
    """Remove what a killed lab left behind: processes, namespaces, cables, files; its history is kept, and said where.
    Nothing that is not the lab's.
    """
    from mrclab.topo.linux import killed, state  # noqa: PLC0415 - Linux alone has what it removes

    removed = [*state.clean(context.obj.parent), *killed.remove_folders()]
    if as_json:
        answer.give("clean", 0, removed=list(removed))
        return
    for phrase in removed:
        out.print(f"removed {escape(phrase)}", soft_wrap=True)
    if not removed:
        out.print("nothing to clean")


@app.command()
def report(
    directory: Annotated[Path, typer.Argument(help="a result directory, or that of a suite")],
    more: Annotated[list[Path] | None, typer.Argument(help="further suites, for one page of all")] = None,
    as_json: answer.AsJson = False,
) -> None:
    """Make the report of a result directory again and print it; of suites, the page that holds them to the paper."""
    if more or (directory / "suite.json").is_file():
        page = paper.write(directory, *(more or []))[0]
        if as_json:
            answer.give("report", 0, page=str(page))
        else:
            out.print(f"The paper's figures: {page}", soft_wrap=True)
        return
    with results.foreign(directory):
        outcome = runner.finish(directory)
    status = _report("report", outcome, as_json)
    if status:
        raise typer.Exit(status)


def main() -> None:
    """Run `mrclab`; every error is one sentence and its exit status, Ctrl-C is 130."""
    printed = sink.install()
    try:
        with guarded(outermost=True):
            _check_directory()
            app(standalone_mode=True)
        status: int | str | None = 0
    except SystemExit as end:
        status = end.code
    except BaseException as error:
        unsubscribe()
        status = _say(error)
    unsubscribe()
    printed.flush()
    if printed.trouble:
        lost = f"mrclab: what it had to print is lost: {printed.trouble}; what it had to keep is not"
        err.print(lost, soft_wrap=True, highlight=False)
        status = status or sink.LOST
    sys.exit(status)


def _check_directory() -> None:
    """LabError where the current directory is gone, from which all paths are told."""
    try:
        Path.cwd()
    except OSError as error:
        gone = isinstance(error, FileNotFoundError)
        why = "was removed" if gone else f"cannot be entered: {error.strerror}"
        raise LabError(f"the current directory {why}; change to one that is there, as by `cd`") from None


def _say(error: BaseException) -> int:
    """Say on standard error what went wrong; returns the exit status."""
    if isinstance(error, ScenarioError):
        for line in error.mistakes:
            err.print(escape(line), soft_wrap=True, highlight=False)
        return error.status
    if isinstance(error, _KNOWN):
        text, status = str(error), error.status if isinstance(error, LabError) else 2
    elif text := exhausted(error):
        status = 1
    elif isinstance(error, PermissionError):
        text, status = f"{error.filename}: permission denied; run the same command with sudo", 2
    elif isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename else ""
        text, status = f"{place}{error.strerror or error}; {_remedy(error)}", 1
    elif isinstance(error, KeyboardInterrupt):
        text, status = "interrupted", Interrupted.status
    else:
        text, status = f"a mistake of the lab's own: {type(error).__name__}: {error}; {_kept(error)}", 1
    err.print(f"mrclab: {escape(text)}", soft_wrap=True, highlight=False)
    return status


def _remedy(error: OSError) -> str:
    """Return the remedy for an error of the machine's."""
    return next(
        (remedy for numbers, remedy in _REMEDIES if error.errno in numbers), "`mrclab doctor` looks at this machine"
    )


def _kept(error: BaseException) -> str:
    """Return the file that holds the traceback of an unexpected error."""
    text = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile("w", prefix="mrclab-", suffix=".log", delete=False) as file:
            file.write(text)
    except OSError:
        return f"its traceback, for whoever mends it: {text}"
    return f"its traceback is in {file.name}, for whoever mends it"


def _warn(warnings: list[str]) -> None:
    for text in warnings:
        if text:
            err.print(f"mrclab: {escape(text)}", soft_wrap=True, highlight=False)


def _report(command: str, outcome: runner.Outcome, as_json: bool) -> int:
    """Say what came out; returns the exit status."""
    status = 0 if outcome.ok else 3 if outcome.state == "invalid" else 1
    if outcome.facts:
        terminal.show(outcome.facts, outcome.directory, err if as_json else out)
    if as_json:
        verdicts = [dataclasses.asdict(verdict) for verdict in outcome.verdicts]
        directory = str(outcome.directory)
        answer.give(
            command, status, state=outcome.state, directory=directory, trouble=outcome.trouble, expectations=verdicts
        )
    return status
