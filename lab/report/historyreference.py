"""The reference of history records, from their classes in `mrclab.events`.

`python -m mrclab.lab.report.historyreference` writes it into docs/.
"""

import inspect
import sys
from collections.abc import Iterator
from dataclasses import MISSING
from itertools import groupby
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from typing_extensions import NotRequired, is_typeddict

from mrclab import HOME
from mrclab.events import codec, event
from mrclab.lab.report.grid import markdown

FILE = HOME / "docs" / "history-reference.md"

_HEAD = """\
# Reference of history records

Made from the classes in `events/` by `python -m mrclab.lab.report.historyreference`; [history.md](history.md) says how
to read a history. Beside its fields each record has `t`, `node` and `kind`. A field *where it applies* is left out
where it does not.
"""
_PLAIN = {int: "number", float: "number", str: "text", bool: "true or false", type(None): "null"}


def build() -> str:
    """Return the page's text."""
    assert codec  # it has loaded all kinds
    parts = [_HEAD]
    for module, classes in groupby(sorted(event.EVENTS.values(), key=_module), _module):
        title, _, rest = (inspect.getdoc(sys.modules[module]) or "").removeprefix("Records of ").partition(": ")
        parts.append(f"\n## {title[0].upper()}{title[1:]}\n\n{rest[0].upper()}{rest[1:]}")
        for cls in classes:
            parts += ["", f"### `{cls.kind}`\n", inspect.getdoc(cls) or "", *_table(cls)]
    return "\n".join(parts) + "\n"


def _module(cls: type[event.Event]) -> str:
    return cls.__module__


def _table(cls: type[event.Event]) -> Iterator[str]:
    hints = get_type_hints(cls, include_extras=True)
    rows = []
    for name, default in cls.defaults.items():
        text, unit = _described(hints[name])
        if name == cls.more:
            rows.append(("…", "number", "one field per counter"))
        elif default is MISSING:
            rows.append((f"`{name}`", text, unit))
        else:
            meaning = ", ".join(filter(None, (unit, "*where it applies*")))
            rows.append((f"`{name}`", text.removesuffix(" or null"), meaning))
    if rows:
        yield ""
        yield markdown(("Field", "Type", "Unit or meaning"), rows)


def _described(hint: Any) -> tuple[str, str]:
    """Return a type in words, and the units in it, in order."""
    units: list[str] = []
    text = _words(hint, units)
    return text, ", ".join(dict.fromkeys(units))


def _words(hint: Any, units: list[str]) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    units += [each.text for each in inner if isinstance(each, event.Unit)]
    if is_typeddict(hint):
        named = get_type_hints(hint, include_extras=True).items()
        words = f"object of {', '.join(f'`{name}` ({_of(each)})' for name, each in named)}"
    elif origin is Literal:
        words = " or ".join(f"`{value}`" for value in inner)
    elif origin is list:
        words = f"list of {_words(inner[0], units)}"
    elif origin is tuple:
        words = f"({', '.join(_of(each) for each in inner)})"
    elif origin is dict:
        words = "counters by name" if inner[1] is Any else f"by name: {_words(inner[1], units)}"
    elif origin in {Annotated, NotRequired}:
        words = _words(inner[0], units)
    else:
        words = " or ".join(_words(each, units) for each in inner) if inner else _PLAIN[hint]
    return words


def _of(hint: Any) -> str:
    """Return unit, or type, or both, in a few words."""
    text, unit = _described(hint)
    return unit + (" or null" if "null" in text else "") if unit else text


if __name__ == "__main__":
    FILE.write_text(build(), encoding="utf-8")
