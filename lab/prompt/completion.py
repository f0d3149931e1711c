"""Completion at the prompt: commands, then their arguments, by the command's usage and the kinds' models."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from mrclab.lab.prompt.registry import COMMANDS, LOCAL, all_kinds
from mrclab.lab.prompt.registry import typed_fields as fields
from mrclab.lab.prompt.session import LabSession

_PLACEHOLDER = re.compile(r"[A-Z]{2,}")
_FIELDS = {
    "link": "CABLE", "links": "CABLE", "switch": "SWITCH", "host": "HOST", "hosts": "HOST", "from": "HOST",
    "to": "HOST", "plane": "PLANE",
}  # fmt: skip
_MAX_FILES = 100


class WordCompleter(Completer):
    """Completes the line before the cursor."""

    def __init__(self, session: LabSession, others: Iterable[str]) -> None:
        self._session = session
        self._others = list(others)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Return the completions at the cursor."""
        before = document.text_before_cursor
        typed = before.split()
        current = "" if not before or before.endswith(" ") else typed.pop()
        for candidate in sorted(set(self.candidates(typed, current)), key=lambda each: (each.startswith("-"), each)):
            if candidate.startswith(current) and candidate != current:
                yield Completion(candidate, start_position=-len(current))

    def candidates(self, typed: list[str], current: str) -> list[str]:
        """Return the candidates after these words; `current` is the part of the next one that is typed already."""
        if not typed:
            return [*COMMANDS, *self._others]
        name, done = typed[0], typed[1:]
        if name == "help" and done:
            return list(all_kinds().get(done[0], ()))
        if name in all_kinds():
            return self._of_kind(name, done, current)
        command = COMMANDS.get(name) or LOCAL.get(name)
        usage = command.usage if command else ""
        placeholders, at = _PLACEHOLDER.findall(usage), len(done)
        last = placeholders[-1] if placeholders and "..." in usage else ""  # which may be repeated
        what = placeholders[at] if at < len(placeholders) else last
        return self._named(what, done, current) + (["--json"] if name in COMMANDS else [])

    def _of_kind(self, name: str, done: list[str], current: str) -> list[str]:
        if not done:
            return list(all_kinds()[name])
        model = all_kinds()[name].get(done[0])
        if model is None:
            return []
        field, equals, value = current.partition("=")
        if equals:
            head = value[: max(value.rfind("["), value.rfind(",")) + 1]  # the names of a list that stand there
            return [f"{field}={head}{each}" for each in self._values(model, field)]
        given = {each.partition("=")[0] for each in done}
        return [f"{each}=" for each in fields(model) if each not in given] + ["--json"]

    def _values(self, model: Any, field: str) -> Sequence[str]:
        info = next((info for name, info in model.model_fields.items() if field in {name, info.alias}), None)
        if info is not None and get_origin(info.annotation) is Literal:
            return [str(each) for each in get_args(info.annotation)]
        return self._named(_FIELDS.get(field, ""))

    def _named(self, what: str, done: Sequence[str] = (), current: str = "") -> list[str]:
        fabric = self._session.world.fabric
        hosts, switches = [host.name for host in fabric.hosts], [switch.name for switch in fabric.switches]
        cables = [link.name for link in fabric.links]
        planes = range(1, fabric.planes + 1)
        if what in {"FILE", "FOLDER"} or (what == "WHAT" and len(done) == 2):
            return [*_files(current), *(["stop"] if what == "FILE" and not done else [])]
        if what == "EV" and len(done) == 2 and {*done} <= {*hosts} and done[0] != done[1]:
            return [f"{plane}/{uplink}" for plane, uplink in fabric.paths(done[0], done[1])]
        known = {
            "HOST": hosts, "SWITCH": switches, "NODE": hosts + switches, "CABLE": cables,
            "COMMAND": [*COMMANDS, *LOCAL],
            "FAULT": list(self._session.faults), "FLOW": list(self._session.lab.workloads), "WHAT": switches + cables,
            "WHERE": hosts + switches + cables + [f"p{plane}" for plane in planes],
            "PLANE": [str(plane) for plane in planes],
        }  # fmt: skip
        return known.get(what, [])


def _files(current: str) -> list[str]:
    """Files whose names begin like this; folders end with a slash."""
    head, slash, tail = current.rpartition("/")
    try:
        found = sorted(path for path in Path(f"{head}{slash}" or ".").iterdir() if path.name.startswith(tail))
    except OSError:
        return []
    shown = [path for path in found if tail or not path.name.startswith(".")][:_MAX_FILES]
    return [f"{head}{slash}{path.name}{'/' if path.is_dir() else ''}" for path in shown]
