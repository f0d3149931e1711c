"""Commands of the prompt: each one function of a session and arguments, with a response as text and data."""

import difflib
import functools
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from mrclab.lab.command.ending import remedy
from mrclab.lab.errors import LabError, plain
from mrclab.lab.faults.base import FAULTS
from mrclab.lab.prompt.session import LabSession
from mrclab.lab.report.grid import grid
from mrclab.lab.scenario.files import yamlfile
from mrclab.lab.traffic.base import TRAFFIC
from mrclab.topo.model import Host, Switch

Action = Callable[[LabSession, Sequence[str]], "Answer"]
UNTYPED = frozenset({"kind", "at", "until", "start"})
"""Fields that a scenario has and a prompt does not: a typed command runs at once."""


@functools.cache
def all_kinds() -> Mapping[str, Mapping[str, type[BaseModel]]]:
    """Return all kinds of faults and of traffic; the first call loads them."""
    return {
        "fault": {kind: FAULTS[kind] for kind in FAULTS.names},
        "traffic": {kind: TRAFFIC[kind] for kind in TRAFFIC.names},
    }


@dataclass(frozen=True)
class Answer:
    """Response of a command: as text, and as data for programs."""

    shown: RenderableType
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Command:
    """A command: its usage (placeholders in capitals), its function, its help."""

    usage: str
    meaning: str
    action: Action
    more: str = ""

    @property
    def name(self) -> str:
        """Name of the command."""
        return self.usage.split(maxsplit=1)[0]


COMMANDS: dict[str, Command] = {}

LOCAL = {
    "NODE COMMAND": "run a program inside a node, e.g. h1 ip -br link show h1-p1",
    "p4sh SWITCH": "p4runtime-shell on a switch, as a backup controller: it may read everything and write nothing",
    "mininet": "Mininet's own prompt",
    "watch": "summary of the lab, until q or Ctrl-C",
    "grade N [FILE]": "grade a lesson (docs/lessons), and list what is missing",
    "quit": "take the lab down",
}
"""Commands that need the prompt's own terminal."""

_OTHER_TERMINAL = {  # what to type in another terminal
    "p4sh": "sudo mrclab p4sh SWITCH", "watch": "mrclab watch", "grade": "mrclab grade N", "quit": "quit at the prompt",
    "mininet": "mininet at the prompt",
}  # fmt: skip
_SYNONYMS = {  # names in other tools → command here
    "ping": "pingall", "pingpair": "trace", "pingallfull": "pingall", "ls": "nodes", "dump": "net", "intfs": "net",
    "ports": "net", "route": "paths", "routes": "paths", "traceroute": "trace", "cut": "down", "link": "down",
    "break": "fault", "fix": "clear", "undo": "clear", "flow": "flows", "iperf": "traffic", "iperfudp": "traffic",
    "dpctl": "tables", "tcpdump": "capture", "top": "watch", "summary": "report",
}  # fmt: skip
RENAMED = {"heal": "clear", "pace": "speed"}
"""Commands that have another name since this release, with that name."""

_HELP = frozenset({"--help", "-h", "?"})


def command(
    usage: str, meaning: str, more: str = "", *, least: int = 0, most: float | None = None
) -> Callable[[Action], Action]:
    """Register a function as a command of `least` to `most` words; without `most`, of exactly `least`."""

    def register(action: Action) -> Action:
        def checked(session: LabSession, arguments: Sequence[str]) -> Answer:
            if not least <= len(arguments) <= (least if most is None else most):
                raise ValueError(f"usage: {usage}")
            try:
                return action(session, arguments)
            except OSError as error:  # of one file; the lab goes on
                raise LabError(f"{plain(error)}; {remedy(error)}") from None

        made = Command(usage, meaning, checked, more)
        COMMANDS[made.name] = made
        return checked

    return register


def run(session: LabSession, line: str) -> Answer:
    """Execute one line. Raises ValueError, LabError or TopoError with one sentence."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise ValueError(f"the line cannot be read: {error}") from None
    if not words:
        raise ValueError("the line is empty; help lists all commands")
    name, *arguments = words
    if name in _HELP:
        name = "help"
    elif _HELP & set(arguments):
        name, arguments = "help", [name, *(each for each in arguments if each not in _HELP)]
    if name in RENAMED:
        new = RENAMED[name]
        answer = COMMANDS[new].action(session, arguments)
        return Answer(Group(f"{name} is called {new} now; the next release has only {new}", answer.shown), answer.data)
    if name in COMMANDS:
        return COMMANDS[name].action(session, arguments)
    if name in _OTHER_TERMINAL:
        raise ValueError(f"{name} needs a terminal of its own; type there: {_OTHER_TERMINAL[name]}")
    fabric = session.world.fabric
    every: list[Host | Switch] = [*fabric.hosts, *fabric.switches]
    nodes = [node.name for node in every]
    if name in nodes:
        raise ValueError(f"{name} is a node; the prompt itself runs programs there, and so does: sudo mrclab exec NODE")
    raise ValueError(unknown(name, nodes))


def unknown(name: str, nodes: Sequence[str] = ()) -> str:
    """Return the error for an unknown command, with the nearest one."""
    local = [usage.split()[0] for usage in LOCAL if usage[0].islower()]
    word = name.lower()
    near = (
        [_SYNONYMS[word]] if word in _SYNONYMS else difflib.get_close_matches(word, [*COMMANDS, *local, *nodes], 1, 0.6)
    )
    return f"{name}: no such command; " + (f"did you mean {near[0]}?" if near else "help lists all")


def fields(words: Sequence[str], example: str = "link=h1-p1 rate=1%") -> dict[str, Any]:
    """Parse `link=h1-p1 rate=1%` into a dict; values are YAML. ValueError with an example for anything else."""
    found: dict[str, Any] = {}
    for each in words:
        name, equals, value = each.partition("=")
        if not equals:
            raise ValueError(f"{each!r} is not a field; write, for example, {example}")
        try:
            found[name] = yamlfile.parse_value(value)
        except ValueError:
            raise ValueError(f"{name} cannot be read from {value!r}; write, for example, links=[h1-p1,h1-p2]") from None
    return found


def rows(columns: Sequence[str], entries: Sequence[Mapping[str, Any]], right: tuple[str, ...] = ()) -> Table:
    """Return a table of the given fields, a row for each dict."""
    made = grid(*columns, right=right, fold=True)
    for entry in entries:
        made.add_row(*(escape(str(entry[column])) for column in columns))
    return made


def typed_fields(model: Any) -> list[str]:
    """Return the names of a kind's fields as a user types them, sorted."""
    named = (field.alias or name for name, field in model.model_fields.items())
    return sorted(each for each in named if each not in UNTYPED)
