"""Completion at the prompt: words, then what each takes, read from how it is written."""

import re
from collections.abc import Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from mrclab.lab.prompt.desk import Desk
from mrclab.lab.prompt.prompt import kinds_and_fields
from mrclab.lab.prompt.words import WORDS

_WANTED = re.compile(r"[A-Z]{2,}")


class WordCompleter(Completer):
    """Completes the line before the cursor."""

    def __init__(self, desk: Desk, others: Iterable[str]) -> None:
        self._desk = desk
        self._others = list(others)
        self._kinds = kinds_and_fields()

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """What may stand at the cursor."""
        del complete_event
        before = document.text_before_cursor
        typed = before.split()
        current = "" if not before or before.endswith(" ") else typed.pop()
        for candidate in sorted(set(self.candidates(typed, current))):
            if candidate.startswith(current) and candidate != current:
                yield Completion(candidate, start_position=-len(current))

    def candidates(self, typed: list[str], current: str) -> list[str]:
        """What may follow these words; `current` is what of the next one stands there already."""
        if not typed:
            return [*WORDS, *self._others]
        name, done = typed[0], typed[1:]
        if name in self._kinds:
            return self._of_kind(name, done, current)
        if name not in WORDS:
            return self._named("SWITCH") if name == "p4sh" else []
        wanted = _WANTED.findall(WORDS[name].usage)
        at = len(done)
        return (self._named(wanted[at]) if at < len(wanted) else []) + ["--json"]

    def _of_kind(self, name: str, done: list[str], current: str) -> list[str]:
        kinds = self._kinds[name]
        if not done:
            return list(kinds)
        field, equals, _ = current.partition("=")
        if equals:
            return [f"{field}={value}" for value in self._named(_FIELDS.get(field, ""))]
        given = {each.partition("=")[0] for each in done}
        return [f"{each}=" for each in kinds.get(done[0], []) if each not in given]

    def _named(self, what: str) -> list[str]:
        fabric = self._desk.world.fabric
        hosts, switches = [host.name for host in fabric.hosts], [switch.name for switch in fabric.switches]
        cables = [link.name for link in fabric.links]
        known = {
            "HOST": hosts, "SWITCH": switches, "NODE": hosts + switches, "CABLE": cables, "WORD": list(WORDS),
            "FAULT": list(self._desk.faults), "FLOW": list(self._desk.flows.all), "WHAT": switches + cables,
            "PLANE": [str(plane) for plane in range(1, fabric.planes + 1)],
        }  # fmt: skip
        return known.get(what, [])


_FIELDS = {"link": "CABLE", "switch": "SWITCH", "host": "HOST", "from": "HOST", "to": "HOST", "plane": "PLANE"}
