"""Hostile P4 programs: BMv2 JSON in which names, values and keys are replaced by code that leaves a mark.

    python tests/switch/json_injection.py                 every scalar and every key of every program, then pairs
    python tests/switch/json_injection.py --pairs 100000 --seed 7 mrc

Each is loaded, compiled, started and given frames. It must be refused by a PipelineError, or run without a mark; and
nothing of it may be in the source of its code.
"""

import argparse
import copy
import json
import logging
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrclab.softswitch.compiler.generate import Generator
from mrclab.softswitch.objects.runtime_api import PipelineError
from mrclab.softswitch.p4 import bmv2json
from mrclab.softswitch.pipeline import compile_source, compiling
from mrclab.softswitch.switch import SoftSwitch

HERE = Path(__file__).parent
PROGRAMS = {path.stem: path for path in sorted((HERE / "programs").glob("*.json"))}
PROGRAMS["mrc"] = HERE.parents[1] / "p4src" / "build" / "mrc.json"

MARK = "P4_MARK"
CODE = f"__import__('os').environ.__setitem__('{MARK}','1')"
PAYLOADS = (
    CODE,
    f"0) or {CODE} or (0",
    f"' + str({CODE}) + '",
    f'" + str({CODE}) + "',
    f"x\n    {CODE}\n    ",
    f"{CODE}#",
    f"0]); {CODE}; ([0",
    f"\\\n{CODE}",
    f"{{{CODE}}}",
    f"_: {CODE}",
    "__class__",
    "\x1b[2J",
)
NUMBERS = (-1, 1 << 31, 8 * 10**9, 1 << 70, 1.5, True, None, [], {})
FRAMES = (b"", bytes(14), bytes(120), bytes.fromhex("02" * 12 + "86dd" + "6" + "0" * 7 + "00500640") + bytes(120))

Json = Any
Path_ = tuple[str | int, ...]


@dataclass(frozen=True)
class Change:
    """One replacement: of the value at a place, of the key there, or of a word wherever it stands."""

    kind: str
    place: Path_
    payload: Any

    def apply(self, root: Json) -> Json:
        """Return the program changed; pairs may have taken the place away, which is no change then."""
        if self.kind == "word":
            return _renamed(root, self.place[0], self.payload)
        try:
            holder = root
            for step in self.place[:-1]:
                holder = holder[step]
            if self.kind == "value":
                holder[self.place[-1]] = self.payload
            else:
                holder[self.payload] = holder.pop(self.place[-1])
        except (KeyError, IndexError, TypeError, AttributeError):
            pass
        return root


def _renamed(node: Json, old: Any, new: str) -> Json:
    if isinstance(node, dict):
        return {new if key == old else key: _renamed(value, old, new) for key, value in node.items()}
    if isinstance(node, list):
        return [_renamed(value, old, new) for value in node]
    return new if node == old and isinstance(node, str) else node


def places(node: Json, above: Path_ = ()) -> Iterator[tuple[str, Path_]]:
    """Return each scalar ("value") and each key ("key") of a JSON value with its place."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield "key", (*above, key)
            yield from places(value, (*above, key))
    elif isinstance(node, list):
        for number, value in enumerate(node):
            yield from places(value, (*above, number))
    else:
        yield "value", above


def words(node: Json) -> set[str]:
    """Return all texts of a JSON value."""
    if isinstance(node, dict):
        return {word for value in node.values() for word in words(value)}
    if isinstance(node, list):
        return {word for value in node for word in words(value)}
    return {node} if isinstance(node, str) else set()


def every_change(root: Json) -> Iterator[Change]:
    """Return all single changes: each place with a payload in turn and a bad number, each word renamed everywhere."""
    for number, (kind, place) in enumerate(places(root)):
        yield Change(kind, place, PAYLOADS[number % len(PAYLOADS)])
        if kind == "value":
            yield Change(kind, place, NUMBERS[number % len(NUMBERS)])
    for number, word in enumerate(sorted(words(root))):
        yield Change("word", (word,), PAYLOADS[number % len(PAYLOADS)])


class Injection:
    """Programs tried one after the other in one switch; `ends` counts how they ended."""

    def __init__(self) -> None:
        self.switch = SoftSwitch(cpu_port=510)
        self.ends: Counter[str] = Counter()
        self.failures: list[str] = []

    def attempt(self, name: str, changes: tuple[Change, ...]) -> None:
        """Load, compile, start and feed a program with these changes, and look for the mark."""
        root = originals(name)
        for change in changes:
            root = change.apply(root)
        what = f"{name}: {' and '.join(map(str, changes))}"
        try:
            end = self._run(json.dumps(root))
        except PipelineError as error:
            end = "broke the compiler" if str(error).startswith("the program cannot be compiled") else "refused"
            if not str(error).isprintable():
                self.failures.append(f"unprintable refusal {str(error)!r} of {what}")
            if end != "refused":
                self.failures.append(f"{error} of {what}")
        except Exception as error:
            end = "raised"
            self.failures.append(f"{type(error).__name__}: {error} of {what}")
        if os.environ.pop(MARK, None) is not None:
            end = "marked"
        if end in {"marked", "has a word of it"}:
            self.failures.append(f"{end}: {what}")
        self.ends[end] += 1

    def _run(self, text: str) -> str:
        program = bmv2json.load(text)
        with compiling():
            generated = Generator(program, self.switch.drop_port).generate()
            compiled = compile_source(program, generated, text)
        self.switch.commit(compiled)
        for port in (1, 510):
            for frame in FRAMES:
                self.switch._guarded(lambda port=port, frame=frame: self.switch.inject(port, frame))
                self.switch.traffic.run()
                self.switch._again.clear()
        return "has a word of it" if MARK in generated.source or "import" in generated.source else "harmless"

    def close(self) -> None:
        """Give back the switch's descriptors."""
        self.switch.close()


_read: dict[str, Json] = {}


def originals(name: str) -> Json:
    """Return a program of its own to change."""
    if name not in _read:
        _read[name] = json.loads(PROGRAMS[name].read_text())
    return copy.deepcopy(_read[name])


def sample(rng: random.Random, names: list[str], singles: int, pairs: int) -> Iterator[tuple[str, tuple[Change, ...]]]:
    """Return changes drawn from all programs: single ones, and pairs."""
    changes = {name: list(every_change(originals(name))) for name in names}
    for _ in range(singles):
        name = rng.choice(names)
        yield name, (rng.choice(changes[name]),)
    for _ in range(pairs):
        name = rng.choice(names)
        yield name, tuple(rng.sample(changes[name], 2))


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Try all single changes and a number of pairs; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", nargs="*", default=sorted(PROGRAMS), metavar="PROGRAM")
    parser.add_argument("--pairs", type=int, default=2000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    args = parser.parse_args()
    logging.disable(logging.CRITICAL)
    injection = Injection()
    for name in args.programs:
        before = injection.ends.copy()
        for change in every_change(originals(name)):
            injection.attempt(name, (change,))
        say(f"{name}: {dict(injection.ends - before)}")
    for name, changes in sample(random.Random(args.seed), args.programs, 0, args.pairs):
        injection.attempt(name, changes)
    injection.close()
    say(f"all, with {args.pairs} pairs (seed {args.seed}): {dict(injection.ends)}")
    say("\n".join(injection.failures))
    return bool(injection.failures)


if __name__ == "__main__":
    sys.exit(main())
