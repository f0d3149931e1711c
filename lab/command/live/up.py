"""The command `mrclab up`: a lab with a prompt."""

import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from mrclab.lab import console
from mrclab.lab.command.display import progress as progressbar
from mrclab.lab.command.live import operations
from mrclab.lab.command.live.rundir import virtual_run_dir
from mrclab.lab.command.live.secondterminal import watch_lab
from mrclab.lab.command.options import Force, Open, Target, Ui, World
from mrclab.lab.command.runs.send import keep_logs
from mrclab.lab.errors import Interrupted, LabError
from mrclab.lab.prompt import registry
from mrclab.lab.prompt.prompt import Prompt
from mrclab.lab.prompt.remote import client, service
from mrclab.lab.prompt.session import LabSession
from mrclab.lab.run import size, worlds
from mrclab.lab.run.mirror import Mirror
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.files import finding
from mrclab.lab.scenario.scenario import LabSetting
from mrclab.lab.scenario.sections.mapper import MapperSpec
from mrclab.lab.ui.web.pageprocess import PageProcess
from mrclab.rpc.paths import is_served
from mrclab.topo.model import Fabric

app = typer.Typer()
out = console.standard()
err = console.console(stderr=True)

OptionalScenario = Annotated[
    Path | None, typer.Argument(metavar="[SCENARIO]", help="take fabric, transport and seed of this scenario")
]
Mapper = Annotated[bool, typer.Option("--mapper", help="hosts probe every link: see `mrclab map`")]
Script = Annotated[
    Path | None, typer.Option(help="run the commands of a file instead of a prompt; - for standard input")
]
Speed = Annotated[float, typer.Option("--speed", "--pace", min=1e-9, help="virtual seconds per real second")]


@app.command()
def up(
    context: typer.Context,
    path: OptionalScenario = None,
    target: Target = None,
    world: World = None,
    mapper: Mapper = False,
    script: Script = None,
    speed: Speed = 1.0,
    ui: Ui = False,
    browser: Open = False,
    force: Force = False,
) -> None:
    """Bring a lab up and open a prompt; the lab is taken down when the prompt ends."""
    registry.all_kinds()  # one that cannot be loaded is reported before the lab is up
    loaded = scenario.load(finding.find_one(path)) if path else None
    setting: LabSetting = loaded.scenario if loaded else LabSetting()
    fabric = loaded.fabric if loaded else Fabric(setting.fabric)
    probing = {"mapper": MapperSpec()} if mapper and setting.mapper is None else {}
    setting = setting.model_copy(update={"world": world or setting.world, **probing})
    virtual, run_dir = setting.world == "sim", context.obj
    lines = _lines(script) if script else None
    worlds.check_target(target, setting.world)
    worlds.check_setting(setting, fabric)
    worlds.check_machine_for(setting.world)
    if not virtual and (warning := size.check(fabric.spec, force=force)):
        console.plain(err, f"mrclab: {warning}")
    with ExitStack() as stack:
        page = stack.enter_context(PageProcess(run_dir, _print_plain, browser=browser))
        with progressbar.shown(err) as progress:
            lab: Any = stack.enter_context(
                worlds.world_up(
                    setting.world, fabric, progress, target=target, seed=setting.seed, run_dir=run_dir,
                    mapper=setting.mapper, transport=setting.transport, on_failure=keep_logs,
                )
            )  # fmt: skip
        lab.on_notice(_print_plain)
        out.print(lab.greeting)
        controller, mirror = None, lambda: None
        if virtual:
            run_dir = virtual_run_dir(run_dir)
            mirror = stack.enter_context(closing(_mirror(lab, run_dir))).write
        else:
            lab.forgiving = True
            controller = partial(operations.ask, run_dir)
        given = setting.model_dump(mode="json", include={"world", "transport", "mapper"}, exclude_unset=True)
        session = stack.enter_context(LabSession(lab, speed if virtual else None, [mirror], controller, given).open())
        stack.enter_context(service.served(session, run_dir))
        if ui or browser:
            page.show(run_dir)
        tools = _tools(lab, run_dir, virtual) | {"grade": partial(_grade, session, mirror, run_dir)}
        prompt = Prompt(session, out, tools)
        if lines is not None:
            prompt.script(lines)
        else:
            prompt.interact()
        if session.interrupted:
            raise Interrupted("interrupted; the lab is down")


def _print_plain(text: str) -> None:
    console.plain(out, text)


def _lines(script: Path) -> list[str]:
    try:
        text = sys.stdin.read() if str(script) == "-" else script.read_text(encoding="utf-8")
    except OSError as error:
        raise LabError(f"cannot read the script {script}: {error.strerror}") from None
    return text.splitlines()


# --- virtual time: a place for its socket and history, which needs no root --------------------------------------------


def _mirror(lab: Any, place: Path) -> Mirror:
    if (place / client.SOCKET).exists() and is_served(place / client.SOCKET):
        raise LabError("a lab in virtual time has its prompt in another terminal; end that one first")
    return Mirror(lab, place)


# --- commands that need this terminal ------------------------------------------------------------------------


def _tools(lab: Any, run_dir: Path, virtual: bool) -> dict[str, Callable[[Sequence[str]], None]]:
    def watch(arguments: Sequence[str]) -> None:
        if set(arguments) - {"--json"}:
            raise ValueError("usage: watch")
        watch_lab(run_dir, lambda: True, bool(arguments))

    def none(_arguments: Sequence[str]) -> None:
        raise LabError("virtual time has no processes to open; start this lab with --world wire")

    if virtual:
        return {"watch": watch, "p4sh": none, "mininet": none, "run": none}

    def p4sh(arguments: Sequence[str]) -> None:
        from mrclab.lab.command.live import p4sh as tool  # noqa: PLC0415 - the wire's

        if len(arguments) != 1:
            raise ValueError("usage: p4sh SWITCH")
        tool.attach(lab, arguments[0])

    def mininet(_arguments: Sequence[str]) -> None:
        from mininet.cli import CLI  # noqa: PLC0415 - only this command needs it

        CLI(lab.emulation.network)

    def run(arguments: Sequence[str]) -> None:
        from mrclab.lab.run.wire import programs  # noqa: PLC0415 - the wire's

        if len(arguments) < 2:
            raise ValueError("write a node and a command: h1 ip -br link show h1-p1")
        node = lab.fabric.node(arguments[0]).name
        if lab.fabric.has_host(node) and programs.LIBRARY.exists():
            programs.run(lab, node, arguments[1:])
        else:
            programs.foreground(["mnexec", "-a", str(lab.emulation.pid(node)), *arguments[1:]])

    return {"watch": watch, "p4sh": p4sh, "mininet": mininet, "run": run}


def _grade(session: LabSession, mirror: Callable[[], None], run_dir: Path, arguments: Sequence[str]) -> None:
    from mrclab.lab.lessons.grading import graded  # noqa: PLC0415 - only learners pay for it

    if not arguments or not arguments[0].isdigit() or len(arguments) > 2:
        raise ValueError("usage: grade N [FILE]")
    with session.lock:
        mirror()
    lines, done = graded(int(arguments[0]), Path(arguments[1]) if len(arguments) > 1 else None, run_dir)
    if not done:
        raise LabError("\n".join(lines))
    out.print("\n".join(lines), highlight=False, markup=False)
