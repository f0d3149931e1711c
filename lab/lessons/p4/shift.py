"""Lesson 2: the learner's uN shift in P4, compiled by p4c where it is.

Elsewhere its statements take the place of the action's one assignment in the committed build (`p4statement`).
"""

import json
import re
import shutil
import tempfile
from pathlib import Path

from mrclab.controller.provisioning.intent import EntryAction, IntendedEntry
from mrclab.lab.command import p4build
from mrclab.lab.errors import LabError
from mrclab.lab.lessons.base import Check, read
from mrclab.lab.lessons.p4 import p4statement
from mrclab.lab.lessons.p4.routes import address, destination, frame
from mrclab.lab.p4.inside import MrcSwitch
from mrclab.topo import srv6

ACTION = "shift_usid"
_FIELD, _WIDTH = "hdr.ipv6.dst", 128
_ACTION = re.compile(r"^action shift_usid\(\) \{.*?^\}", re.MULTILINE | re.DOTALL)
_ITS_OWN = re.compile(r"^ *action shift_usid\(\) \{.*?^    \}", re.MULTILINE | re.DOTALL)
_OWN, _NEXT, _PORT = 0x2101, 0x1102, 4
_LISTS = {
    "a list of four": (_OWN, _NEXT, 0x2102, 0x3101),
    "a list of two": (_OWN, _NEXT),
    "a full list of six": (_OWN, _NEXT, 0x2102, 0x3101, 0x1203, 0x3104),
}


def grade(path: Path) -> list[Check]:
    """Compile, and send uSID lists through the program."""
    text = read(path)
    try:
        config = _compiled(text) if shutil.which("p4c") else with_action(text)
    except p4build.BuildError as error:
        return [Check(False, "p4c compiles it", str(error))]
    except LabError as error:
        return [Check(False, "it is P4", str(error))]
    return [_shifts(config, name, usids) for name, usids in _LISTS.items()]


def with_action(text: str) -> str:
    """Return the committed build with the learner's statements as its action; LabError where they are not P4."""
    program = json.loads(p4build.P4_JSON.read_text(encoding="utf-8"))
    (action,) = [action for action in program["actions"] if action["name"].endswith(f".{ACTION}")]
    (assignment,) = action["primitives"]
    field = assignment["parameters"][0]
    body = _body(text)[0].partition("{")[2].rpartition("}")[0]
    action["primitives"] = [
        {**assignment, "parameters": [field, {"type": "expression", "value": tree}]}
        for tree in p4statement.assignments(body, _FIELD, _WIDTH, field["value"])
    ]
    return json.dumps(program)


def _body(text: str) -> re.Match[str]:
    found = _ACTION.search(text)
    if found is None:
        raise LabError(f"the file must hold `action {ACTION}() {{` and its closing brace, each at a line's beginning")
    return found


def spliced(text: str, ingress: str) -> str:
    """Return the lab's ingress with the learner's action in it; LabError if there is none in `text`."""
    body = _body(text)
    return _ITS_OWN.sub(lambda _old: body[0], ingress, count=1)


def _compiled(text: str) -> str:
    """Compile the lab's program with the learner's action in it; BuildError where p4c refuses it."""
    from mrclab.topo.linux import paths  # noqa: PLC0415 - where there is p4c, there is Linux

    with tempfile.TemporaryDirectory(prefix=paths.folder_prefix()) as place:
        sources, build = Path(place) / "p4src", Path(place) / "build"
        shutil.copytree(p4build.SOURCE_DIR, sources, ignore=shutil.ignore_patterns("build"))
        ingress = sources / "ingress.p4"
        ingress.write_text(spliced(text, ingress.read_text(encoding="utf-8")), encoding="utf-8")
        p4build.build(build, sources)
        return (build / p4build.P4_JSON.name).read_text(encoding="utf-8")


def _shifts(config: str, name: str, usids: tuple[int, ...]) -> Check:
    sent = address(*usids)
    right = srv6.shift_usid(sent)
    expected = f"{name}: {srv6.text(sent)} becomes {srv6.text(right)}"
    switch = MrcSwitch(config)
    _insert(switch, "my_usid", srv6.LOCATOR << 16 | _OWN, ACTION)
    for following in {srv6.LOCATOR << 16 | _NEXT, *_reachable(sent)}:
        _insert(switch, "usid_fib", following, "forward", _PORT, 1, 2)
    out = switch.answer(1, frame(sent))
    if not out:
        return Check(False, expected, "the switch dropped it: no route for what the shift left in front")
    return Check(destination(out[0][1]) == right, expected, f"it became {srv6.text(destination(out[0][1]))}")


def _reachable(sent: int) -> set[int]:
    """Return the first 48 bits that wrong shifts leave: routes for them let such packets out, to be examined."""
    shifted = (sent << 16) & ((1 << 128) - 1)
    locator = srv6.LOCATOR << 96
    return {sent >> 80, shifted >> 80, (locator | (sent & ((1 << 96) - 1)) >> 16) >> 80}


def _insert(switch: MrcSwitch, table: str, key: int, action: str, *arguments: int) -> None:
    params = tuple(("", value) for value in arguments)
    switch.insert(IntendedEntry(table, (("", key),), (EntryAction(action, params),)))
