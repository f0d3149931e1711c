"""The reference of commands and of the prompt's commands, from the command line itself.

`python -m mrclab.lab.command.reference` writes it into docs/.
"""

from collections.abc import Iterator
from typing import Any

import typer

from mrclab import HOME
from mrclab.lab.command.cli import app
from mrclab.lab.command.live.shortcut import NAMES
from mrclab.lab.prompt.registry import COMMANDS, LOCAL
from mrclab.lab.report.grid import markdown

FILE = HOME / "docs" / "commands.md"


def build() -> str:
    """The page."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    group: Any = typer.main.get_command(app)
    yield "# Commands"
    yield ""
    yield "Made from the command line by `python -m mrclab.lab.command.reference`. Every command takes `--run-dir DIR`"
    yield "(where the running lab keeps its sockets and files) and `--help`."
    for name in sorted(set(group.commands) - set(NAMES)):
        command = group.commands[name]
        yield from ("", f"## mrclab {name}", "", _cell(command.help or ""), "")
        yield "    " + " ".join(["mrclab", name, *filter(None, map(_usage, command.params))])
        rows = [row for row in map(_row, command.params) if row]
        if rows:
            yield from ("", markdown(("", ""), rows))
    yield from ("", "## Words of the prompt", "")
    yield "Typed at `mrclab up`, in a script (`--script FILE`), or in a second terminal as `mrclab WORD`"
    yield "(as `mrclab do COMMAND` where a command above has that name). [The prompt](prompt.md) says more."
    commands = sorted(COMMANDS.values(), key=lambda each: each.name)
    typed = [(f"`{each.usage}`", f"{each.meaning}." + (f" {each.more}" if each.more else "")) for each in commands]
    typed += [(f"`{usage}`", f"{meaning} (only at the prompt itself)") for usage, meaning in LOCAL.items()]
    yield from ("", markdown(("Command", "Does"), [tuple(map(_bar, cells)) for cells in typed]))


def _usage(param: Any) -> str:
    """Return an argument as the first line shows it; empty for an option."""
    return _argument(param) if param.param_type_name == "argument" else ""


def _argument(param: Any) -> str:
    name = (param.metavar or param.name.upper()).strip("[].")
    name += "..." if param.nargs == -1 else ""
    return name if param.required else f"[{name}]"


def _row(param: Any) -> tuple[str, str] | None:
    if param.name == "help" or getattr(param, "hidden", False):
        return None
    text = _cell(getattr(param, "help", None) or "")
    if param.param_type_name == "argument":
        return (f"`{_bar(_argument(param))}`", text) if text else None
    names = ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))
    kind = "" if param.is_flag else f" {(param.metavar or param.name).upper()}"
    default = "" if param.is_flag or param.default in {None, "", False} else f" (default: `{param.default}`)"
    return f"{names}{kind}", f"{text}{default}"


def _cell(text: str) -> str:
    return _bar(" ".join(text.split()))


def _bar(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    FILE.write_text(build(), encoding="utf-8")
