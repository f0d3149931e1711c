"""Commands that the page carries out for a browser: none that reads or writes a file, or runs a program."""

import shlex
from collections.abc import Mapping
from typing import Any

from mrclab.lab.scenario.units import parse_size

_TERMINAL = "say it at the prompt, or in a terminal"
_OPERATIONS = frozenset({"command", "inject", "clear", "traffic", "controller", "pace", "slow"})
_WRITING = frozenset({"capture", "report"})
_OF_FILES = frozenset({"program", "matrix", "trace"})  # kinds of traffic


def refusal(operation: str, arguments: Mapping[str, Any]) -> str:
    """Return why an operation is not carried out for a browser; empty where it is."""
    if operation not in _OPERATIONS:
        return f"the page has no operation {operation[:60]!r}"
    if operation == "traffic":
        traffic = arguments.get("traffic")
        return _traffic(traffic.get("kind") if isinstance(traffic, Mapping) else None)
    return _line(str(arguments.get("line", ""))) if operation == "command" else ""


def _line(line: str) -> str:
    try:
        name, *words = shlex.split(line) or [""]
    except ValueError:
        return ""  # the prompt says what is wrong with it
    if name in _WRITING:
        return f"{name} writes files, which the page does not; {_TERMINAL}"
    if name == "send" and len(words) > 2 and not _is_size(words[2]):
        return f"send reads a file, which the page does not; {_TERMINAL}, or give a size such as 16MiB"
    return _traffic(words[0] if words else None) if name == "traffic" else ""


def _traffic(kind: object) -> str:
    if kind in _OF_FILES:
        return f"traffic of kind {kind} reads files or runs programs, which the page does not; {_TERMINAL}"
    return ""


def _is_size(word: str) -> bool:
    try:
        return isinstance(parse_size(word), int) or word[:1].isdigit()
    except ValueError:
        return False
