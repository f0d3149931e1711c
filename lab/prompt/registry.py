"""Commands of the prompt: each one function of a session and arguments, with a response as text and data."""

import difflib
import functools
import inspect
import shlex
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
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
from mrclab.topo.errors import TopoError
from mrclab.topo.model import Fabric, Host, Switch

Action = Callable[..., "Answer"]
"""Called with the session and the words behind the command's name, each an argument."""

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
    """A command: its usage (placeholders in capitals), its meaning, its function, more of its help.

    One that needs the prompt's own terminal has no function; `elsewhere` is what to type in another one.
    """

    usage: str
    meaning: str
    action: Action | None = None
    more: str = ""
    elsewhere: str = ""

    @property
    def name(self) -> str:
        """Name of the command."""
        return self.usage.split(maxsplit=1)[0]

    def __call__(self, session: LabSession, arguments: Sequence[str]) -> Answer:
        """Execute it; ValueError with its usage where it takes fewer or more words, LabError for a bug of it."""
        if self.action is None:
            raise ValueError(f"{self.name} needs a terminal of its own; type there: {self.elsewhere}")
        try:
            inspect.signature(self.action).bind(session, *arguments)
        except TypeError:
            raise ValueError(f"usage: {self.usage}") from None
        try:
            return self.action(session, *arguments)
        except OSError as error:  # of one file; the lab goes on
            raise LabError(f"{plain(error)}; {remedy(error)}") from None
        except (LabError, TopoError, ValueError):
            raise
        except Exception as error:
            traceback.print_exc()
            raise LabError(f"{self.name} has a bug, {type(error).__name__}: {error}; the lab stays up") from error


COMMANDS: dict[str, Command] = {}


def command(usage: str, meaning: str, more: str = "") -> Callable[[Action], Action]:
    """Register a function as a command; its parameters are the words that the command takes."""

    def register(action: Action) -> Action:
        made = Command(usage, meaning, action, more)
        COMMANDS[made.name] = made
        return action

    return register


LOCAL = {
    each.name: each
    for each in (
        Command("NODE COMMAND", "run a program inside a node, e.g. h1 ip -br link show h1-p1",
                elsewhere="sudo mrclab exec NODE"),
        Command("p4sh SWITCH", "p4runtime-shell on a switch, as a backup controller: it may read everything and write"
                " nothing", elsewhere="sudo mrclab p4sh SWITCH"),
        Command("mininet", "Mininet's own prompt", elsewhere="mininet at the prompt"),
        Command("watch", "summary of the lab, until q or Ctrl-C", elsewhere="mrclab watch"),
        Command("grade N [FILE]", "grade a lesson (docs/lessons), and list what is missing",
                elsewhere="mrclab grade N"),
        Command("quit", "take the lab down", elsewhere="quit at the prompt"),
    )
}  # fmt: skip
"""Commands that need the prompt's own terminal."""

_SYNONYMS = {  # names in other tools → command here
    "ping": "pingall", "pingpair": "trace", "pingallfull": "pingall", "ls": "nodes", "dump": "net", "intfs": "net",
    "ports": "net", "route": "paths", "routes": "paths", "traceroute": "trace", "cut": "down", "link": "down",
    "break": "fault", "fix": "clear", "undo": "clear", "flow": "flows", "iperf": "traffic", "iperfudp": "traffic",
    "dpctl": "tables", "tcpdump": "capture", "top": "watch", "summary": "report",
}  # fmt: skip
RENAMED = {"heal": "clear", "pace": "speed"}
"""Commands that have another name since this release, with that name."""

_HELP = frozenset({"--help", "-h", "?"})


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
        answer = COMMANDS[new](session, arguments)
        return Answer(Group(f"{name} is called {new} now; the next release has only {new}", answer.shown), answer.data)
    if found := COMMANDS.get(name) or LOCAL.get(name):
        return found(session, arguments)
    nodes = [node.name for node in all_nodes(session.world.fabric)]
    if name in nodes:
        raise ValueError(f"{name} is a node; the prompt itself runs programs there, and so does: sudo mrclab exec NODE")
    raise ValueError(unknown(name, nodes))


def unknown(name: str, nodes: Sequence[str] = ()) -> str:
    """Return the error for an unknown command, with the nearest one."""
    word = name.lower()
    near = difflib.get_close_matches(_SYNONYMS.get(word, word), [*COMMANDS, *LOCAL, *nodes], 1, 0.6)
    return f"{name}: no such command; " + (f"did you mean {near[0]}?" if near else "help lists all")


def all_nodes(fabric: Fabric) -> list[Host | Switch]:
    """Hosts, then switches."""
    return [*fabric.hosts, *fabric.switches]


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


def rows(entries: Sequence[Mapping[str, Any]], *columns: str, right: Collection[str] = ()) -> Table:
    """Return a table of the given fields, a row for each dict."""
    made = grid(*columns, right=right, fold=True)
    for entry in entries:
        made.add_row(*(escape(str(entry[column])) for column in columns))
    return made


def typed_fields(model: Any) -> list[str]:
    """Return the names of a kind's fields as a user types them, sorted."""
    named = (field.alias or name for name, field in model.model_fields.items())
    return sorted(each for each in named if each not in UNTYPED)
