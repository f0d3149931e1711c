"""Lesson 2: the learner's uN shift in P4, compiled where p4c is, else one of the variants that the letter names.

A variant is the committed build with the action's one assignment put in anew, as p4c would have compiled it.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mrclab.lab.command import p4build
from mrclab.lab.errors import LabError
from mrclab.lab.lessons import bench
from mrclab.lab.lessons.base import Check, read
from mrclab.softswitch.objects.runtime_api import ActionCall, TableEntry
from mrclab.topo import srv6
from mrclab.topo.linux import killed

ACTION = "shift_usid"
_PICKED = re.compile(r"^\s*//\s*picked:\s*([A-Za-z?]?)\s*$", re.MULTILINE)
_ACTION = re.compile(r"^action shift_usid\(\) \{.*?^\}", re.MULTILINE | re.DOTALL)
_ITS_OWN = re.compile(r"^ *action shift_usid\(\) \{.*?^    \}", re.MULTILINE | re.DOTALL)
_OWN, _NEXT, _PORT = 0x2101, 0x1102, 4
_LISTS = {
    "a list of four": (_OWN, _NEXT, 0x2102, 0x3101),
    "a list of two": (_OWN, _NEXT),
    "a full list of six": (_OWN, _NEXT, 0x2102, 0x3101, 0x1203, 0x3104),
}

Tree = dict[str, Any]


def _node(op: str, left: Tree | None, right: Tree) -> Tree:
    return {"type": "expression", "value": {"op": op, "left": left, "right": right}}


def _number(value: int) -> Tree:
    return {"type": "hexstr", "value": hex(value)}


def _slice(high: int, low: int, to: int) -> Tree:
    """`hdr.ipv6.dst[high:low]`, put where bit `to` is its lowest."""
    field: Tree = {"type": "field", "value": ["ipv6", "dst"]}
    cut = _node("&", _node(">>", field, _number(low)), _number((1 << (high - low + 1)) - 1))
    return _node("&", _node("<<", cut, _number(to)), _number((1 << 128) - 1))


def _joined(*parts: Tree) -> Tree:
    tree = parts[0]
    for part in parts[1:]:
        tree = _node("|", tree, part)
    return tree


VARIANTS: dict[str, Callable[[], Tree]] = {
    "A": lambda: _slice(127, 0, 16),
    "B": lambda: _joined(_slice(127, 96, 96), _slice(95, 16, 0)),
    "C": lambda: _joined(_slice(127, 96, 96), _slice(79, 0, 16)),
    "D": lambda: _joined(_slice(127, 96, 96), _slice(79, 0, 16), _slice(15, 0, 0)),
    "E": lambda: _joined(_slice(127, 96, 96), _slice(79, 64, 80)),
}
"""What docs/lessons/02-shift lists under these letters."""


def grade(path: Path) -> list[Check]:
    """Compile, and send uSID lists through the program."""
    text = read(path)
    if shutil.which("p4c"):
        try:
            config = _compiled(text)
        except p4build.BuildError as error:
            return [Check(False, "p4c compiles it", str(error))]
    else:
        found = _PICKED.search(text)
        letter = found[1].upper() if found else ""
        if letter not in VARIANTS:
            why = f"p4c is not here to compile yours; write `// picked: ` and one of {', '.join(VARIANTS)}"
            return [Check(False, "a variant is picked", why)]
        config = variant(letter)
    return [_shifts(config, name, usids) for name, usids in _LISTS.items()]


def variant(letter: str) -> str:
    """The committed build with another shift."""
    program = json.loads(p4build.P4_JSON.read_text(encoding="utf-8"))
    (action,) = [action for action in program["actions"] if action["name"].endswith(f".{ACTION}")]
    (assignment,) = action["primitives"]
    assignment["parameters"][1] = {"type": "expression", "value": VARIANTS[letter]()}
    return json.dumps(program)


def spliced(text: str, ingress: str) -> str:
    """The lab's ingress with the learner's action in it. LabError where there is none in `text`."""
    body = _ACTION.search(text)
    if body is None:
        raise LabError(f"the file must hold `action {ACTION}() {{` and its closing brace, each at a line's beginning")
    return _ITS_OWN.sub(lambda _old: body[0], ingress, count=1)


def _compiled(text: str) -> str:
    """The lab's program with the learner's action in it. BuildError: p4c refused it."""
    with tempfile.TemporaryDirectory(prefix=killed.folder_prefix()) as place:
        sources, build = Path(place) / "p4src", Path(place) / "build"
        shutil.copytree(p4build.SOURCE_DIR, sources, ignore=shutil.ignore_patterns("build"))
        ingress = sources / "ingress.p4"
        ingress.write_text(spliced(text, ingress.read_text(encoding="utf-8")), encoding="utf-8")
        p4build.build(build, sources)
        return (build / p4build.P4_JSON.name).read_text(encoding="utf-8")


def _shifts(config: str, name: str, usids: tuple[int, ...]) -> Check:
    sent = bench.address(*usids)
    right = srv6.shift_usid(sent)
    wanted = f"{name}: {srv6.text(sent)} becomes {srv6.text(right)}"
    switch = bench.Bench()
    try:
        switch.commit(switch.compile(config))
        _insert(switch, "my_usid", srv6.LOCATOR << 16 | _OWN, ACTION)
        for following in {srv6.LOCATOR << 16 | _NEXT, *_reachable(sent)}:
            _insert(switch, "usid_fib", following, "forward", _PORT, 1, 2)
        out = switch.answer(1, bench.frame(sent))
    finally:
        switch.close()
    if not out:
        return Check(False, wanted, "the switch dropped it: no route for what the shift left in front")
    return Check(bench.destination(out[0][1]) == right, wanted, f"it became {srv6.text(bench.destination(out[0][1]))}")


def _reachable(sent: int) -> set[int]:
    """First 48 bits that wrong shifts leave, so that their packets come out and can be looked at."""
    shifted = (sent << 16) & ((1 << 128) - 1)
    locator = srv6.LOCATOR << 96
    return {shifted >> 80, (locator | (sent & ((1 << 96) - 1)) >> 16) >> 80}


def _insert(switch: bench.Bench, table: str, key: int, action: str, *arguments: int) -> None:
    info = switch.info
    assert info is not None
    name = next(full for full in info.tables if full.endswith(f".{table}"))
    called = next(full for full in info.tables[name].actions if full.endswith(f".{action}"))
    switch.table(name).insert(TableEntry((key,), ActionCall(called, arguments)))
