"""Connection matrices of uet-htsim (`.cm`): senders, receivers, bytes, and start times or triggers of connections.

Words and meaning are those of its loader (`ConnectionMatrix::load`); docs/scenarios.md#connection-matrices explains
them. `id` is a number of the connection's own; `msg` and `prio` are read and change nothing.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mrclab.topo.input.sentences import nearest

_MAX_TEXT = 1 << 26  # characters
_MAX_SIZE = 1 << 40  # bytes of a connection
_MAX_NUMBER = (1 << 53) - 1  # exact in a float, too
_SHOWN = 20  # mistakes listed of one file
_COUNTS: Final = ("Nodes", "Connections", "Triggers", "Failures")
_MIN: Final = {  # keyword of a connection, except its start → the least number
    "size": 1, "id": 1, "msg": 0, "trigger": 1, "send_done_trigger": 1, "recv_done_trigger": 1, "prio": 0,
}  # fmt: skip
_KEYWORDS: Final = ("start", *_MIN)
_USES: Final = {"trigger": "trigger", "send_done_trigger": "send_done", "recv_done_trigger": "recv_done"}
"""Keywords of a connection that name a trigger, with the field of each."""
_KINDS: Final = ("oneshot", "multishot", "barrier")


class MatrixError(ValueError):
    """Text that is no connection matrix; `sentences` are the mistakes, each with its line and the remedy."""

    def __init__(self, sentences: list[str]) -> None:
        super().__init__("\n".join(sentences))
        self.sentences = sentences


@dataclass(frozen=True)
class Connection:
    """`size` bytes from one node to another. `start` is None where a trigger lets it begin; 0: no trigger."""

    source: int
    destination: int
    size: int
    start: float | None = 0.0  # in the file's unit
    number: int = 0  # its `id`; 0: it has none
    trigger: int = 0
    send_done: int = 0
    recv_done: int = 0
    line: int = 0  # of the file, from 1


@dataclass(frozen=True)
class TriggerLine:
    """A trigger that the file declares; `count` is a barrier's."""

    number: int
    kind: str
    count: int = 0
    line: int = 0


@dataclass(frozen=True)
class Matrix:
    """A whole file. Equal matrices have equal texts."""

    nodes: int
    connections: tuple[Connection, ...]
    triggers: tuple[TriggerLine, ...] = ()

    def text(self) -> str:
        """Return the file, as uet-htsim reads it."""
        lines = [f"Nodes {self.nodes}", f"Connections {len(self.connections)}"]
        lines += [f"Triggers {len(self.triggers)}"] if self.triggers else []
        lines += [_written(number, one) for number, one in enumerate(self.connections, 1)]
        for one in self.triggers:
            lines.append(f"trigger id {one.number} {one.kind}" + (f" count {one.count}" if one.count else ""))
        return "\n".join(lines) + "\n"


def _written(number: int, one: Connection) -> str:
    words = f"{one.source}->{one.destination} id {one.number or number}"
    words += f" trigger {one.trigger}" if one.start is None else f" start {one.start:.15g}"
    words += f" size {one.size}"
    words += f" send_done_trigger {one.send_done}" if one.send_done else ""
    return words + (f" recv_done_trigger {one.recv_done}" if one.recv_done else "")


class Triggers:
    """Triggers of a matrix while its connections run."""

    def __init__(self, matrix: Matrix) -> None:
        self._lines = {one.number: one for one in matrix.triggers}
        self._waiting: dict[int, list[int]] = {}  # trigger → indices of connections, in the order of the file
        self._fired: dict[int, int] = {}
        for index, one in enumerate(matrix.connections):
            if one.start is None:
                self._waiting.setdefault(one.trigger, []).append(index)

    def fire(self, number: int) -> list[int]:
        """Fire a trigger (0: none); return the indices of the connections that begin now."""
        if not number:
            return []
        self._fired[number] = fired = self._fired.get(number, 0) + 1
        line, waiting = self._lines[number], self._waiting.get(number, [])
        if line.kind == "multishot":
            return waiting[fired - 1 : fired]
        return waiting if fired == max(1, line.count) else []

    def fired(self, number: int) -> int:
        """Return the number of times that a trigger was fired."""
        return self._fired.get(number, 0)


def read(text: str, name: str) -> Matrix:
    """The matrix of a file called `name`; MatrixError has a sentence for each bad line."""
    if len(text) > _MAX_TEXT:
        raise MatrixError([f"{name}: a matrix has at most {_MAX_TEXT} characters; this file has more"])
    reader = _Reader(name)
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words and not words[0].startswith("#"):
            reader.take(number, words)
    matrix = reader.matrix()
    if not reader.sentences:
        reader.sentences += _unfinished(matrix, name)
    if reader.sentences:
        more = len(reader.sentences) - _SHOWN
        rest = [f"{name}: {more} more lines are wrong; fix these first"] if more > 0 else []
        raise MatrixError(reader.sentences[:_SHOWN] + rest)
    return matrix


@dataclass
class _Reader:
    """Records read so far, and their mistakes."""

    name: str
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)  # word → number, line
    connections: list[Connection] = field(default_factory=list)
    triggers: dict[int, TriggerLine] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)
    _numbers: dict[int, int] = field(default_factory=dict)  # id → line

    def take(self, line: int, words: list[str]) -> None:
        """One line that is neither empty nor a comment."""
        first = words[0]
        try:
            if "->" in first:
                self._take_connection(line, first, _keywords(words[1:]))
            elif first == "trigger":
                self._take_trigger(line, words)
            elif first == "failure":
                raise ValueError("failure: broken links are not traffic; leave the line out and add a fault")
            elif first in _COUNTS:
                self._take_count(line, words)
            else:
                raise ValueError(
                    f"{first!r} does not begin a line of a matrix; " + nearest(first, [*_COUNTS, "trigger"])
                )
        except ValueError as error:
            self._mistake(line, str(error))

    def _mistake(self, line: int, text: str) -> None:
        self.sentences.append(f"{self.name}:{line}: {text}")

    def _take_count(self, line: int, words: list[str]) -> None:
        word = words[0]
        if len(words) != 2:
            raise ValueError(f"{word} takes one number; write, for example, {word} 16")
        if word in self.counts:
            raise ValueError(f"{word} is in line {self.counts[word][1]} already; leave one of them out")
        number = _number(word, words[1])
        if word == "Failures" and number:
            raise ValueError("Failures: broken links are not traffic; write Failures 0 and add faults")
        self.counts[word] = number, line

    def _take_connection(self, line: int, nodes: str, given: Mapping[str, Any]) -> None:
        ends = nodes.split("->")
        if len(ends) != 2 or not all(ends):
            raise ValueError(f"{nodes!r} does not name two nodes; write, for example, 0->13, without spaces")
        source, destination = (_number("node", end) for end in ends)
        if source == destination:
            raise ValueError(f"{nodes} goes from node {source} to itself; name two nodes")
        if "size" not in given:
            raise ValueError(f"{nodes} has no size; add, for example, size 2000000")
        if "start" in given and "trigger" in given:
            raise ValueError(f"{nodes} has a start and a trigger; leave one of them out")
        if "start" not in given and "trigger" not in given:
            raise ValueError(f"{nodes} has no start; add start 0")
        number, start = given.get("id", 0), given.get("start")
        if number and "msg" not in given and (other := self._numbers.setdefault(number, line)) != line:
            raise ValueError(f"id {number} is that of line {other} already; give every connection another")
        triggers = {use: given.get(word, 0) for word, use in _USES.items()}
        self.connections.append(Connection(source, destination, given["size"], start, number, line=line, **triggers))

    def _take_trigger(self, line: int, words: list[str]) -> None:
        rest = iter(words[1:])
        number = count = 0
        kind = ""
        for word in rest:
            if word in _KINDS and not kind:
                kind = word
            elif word == "id":
                number = _number("id", next(rest, ""), 1)
            elif word == "count":
                count = _number("count", next(rest, ""), 1)
            else:
                raise ValueError(f"{word!r} is not a keyword of a trigger; " + nearest(word, ["id", "count", *_KINDS]))
        if not number or not kind:
            raise ValueError("a trigger needs an id and a kind; write, for example, trigger id 1 oneshot")
        if number in self.triggers:
            first = self.triggers[number].line
            raise ValueError(f"trigger id {number} is declared already in line {first}; leave one out")
        if kind == "barrier" and not count:
            raise ValueError("a barrier needs a count, after which its connections begin; add, for example, count 2")
        self.triggers[number] = TriggerLine(number, kind, count if kind == "barrier" else 0, line)

    def matrix(self) -> Matrix:
        """The whole matrix, checked against its header."""
        nodes = self.counts.get("Nodes", (0, 1))[0]
        if "Nodes" not in self.counts:
            self._mistake(1, "Nodes is missing; begin the file with, for example, Nodes 16")
        for word, found in (("Connections", self.connections), ("Triggers", self.triggers)):
            declared, line = self.counts.get(word, (0, 1))
            if declared != len(found) and not self.sentences:
                text = f"{word} {declared} is declared and {len(found)} follow; write {word} {len(found)}"
                self._mistake(line, text)
        if not self.connections and not self.sentences:
            self._mistake(1, "there is no connection; add, for example, 0->1 start 0 size 2000000")
        whole = not self.sentences  # else what is missing may stand in a line that could not be read
        for one in self.connections:
            for node in (one.source, one.destination):
                if node >= nodes > 0:
                    text = f"node {node} is not one of {nodes}, counted from 0; write 0 to {nodes - 1}, or raise Nodes"
                    self._mistake(one.line, text)
            for word, use in _USES.items():
                number = getattr(one, use)
                if whole and number and number not in self.triggers:
                    text = f"{word} {number} is declared nowhere; add a line trigger id {number} oneshot"
                    self._mistake(one.line, text)
        return Matrix(nodes, tuple(self.connections), tuple(self.triggers.values()))


def _keywords(words: list[str]) -> dict[str, Any]:
    """Return the numbers behind the nodes of a connection, by their keywords."""
    given: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if word not in _KEYWORDS:
            raise ValueError(f"{word!r} is not a keyword of a connection; " + nearest(word, _KEYWORDS))
        if word in given:
            raise ValueError(f"{word} is given twice; leave one of them out")
        value = next(rest, None)
        if value is None or value in _KEYWORDS:
            raise ValueError(f"{word} has no number behind it; add one")
        most = _MAX_SIZE if word == "size" else _MAX_NUMBER
        given[word] = _time(value) if word == "start" else _number(word, value, _MIN[word], most)
    return given


def _number(what: str, text: str, least: int = 0, most: int = _MAX_NUMBER) -> int:
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(_MAX_NUMBER))
    if not digits or not least <= int(text) <= most:
        shown = text[:30] or "without a number"
        raise ValueError(f"{what} {shown} is not a whole number from {least} to {most}; write one")
    return int(text)


def _time(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= _MAX_NUMBER:
        raise ValueError(f"start {text} is not a time of 0 or later; write, for example, start 0")
    return value


def _unfinished(matrix: Matrix, name: str) -> Iterator[str]:
    """Yield connections that never begin, and triggers fired too often, if every connection completes once."""
    triggers = Triggers(matrix)
    begun = [index for index, one in enumerate(matrix.connections) if one.start is not None]
    seen = set(begun)
    for index in begun:  # grows as triggers are fired
        one = matrix.connections[index]
        fresh = [*triggers.fire(one.send_done), *triggers.fire(one.recv_done)]
        begun += fresh
        seen |= set(fresh)
    for index, one in enumerate(matrix.connections):
        if index not in seen:
            fired = _often(triggers.fired(one.trigger))
            yield (
                f"{name}:{one.line}: trigger {one.trigger} is fired {fired}, too few times for this connection ever to"
                f" begin; add send_done_trigger {one.trigger} to another, or write start 0"
            )
    for line in matrix.triggers:
        most = line.count if line.kind == "barrier" else 1 if line.kind == "oneshot" else math.inf
        if triggers.fired(line.number) > most:
            yield (
                f"{name}:{line.line}: trigger {line.number} is fired {_often(triggers.fired(line.number))}, a"
                f" {line.kind} at most {_often(int(most))}; write multishot, or barrier count"
                f" {triggers.fired(line.number)}"
            )


def _often(count: int) -> str:
    return "never" if count == 0 else "once" if count == 1 else f"{count} times"


def of_pairs(nodes: int, pairs: Iterable[tuple[int, int]], size: int) -> Matrix:
    """A matrix in which all begin at 0 with as many bytes."""
    return Matrix(nodes, tuple(Connection(a, b, size, number=n) for n, (a, b) in enumerate(pairs, 1)))
