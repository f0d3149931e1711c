"""Errors of pydantic as sentences, and the name that was probably meant."""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pydantic import ValidationError

_SHOWN_VALUE = 60  # characters of a value that a message repeats
_SHOWN_NAMES = 12
_LONGEST_FIELD = 500  # characters of a time, a size, a rate, a window, a name
_MANY_BITS = 4096  # of a number: Python refuses to write out one of some 14,000
_UNIT = re.compile(r"[\d.]\s*([kMGT]?(?:b/s|bit/s|bps)|ns|us|µs|ms|s|%)\s*$")  # behind a number
_PREFIXES = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))
_UNITS: Final = (  # of one quantity, the largest first
    (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("ns", 1e-9)),
    tuple((f"{prefix}{name}", size) for name in ("b/s", "bit/s", "bps") for prefix, size in _PREFIXES),
    (("%", 0.01),),
)

_EXPECTED = {  # pydantic's name of an error → our text
    "missing": "this field is missing",
    "union_tag_not_found": "the field kind is missing; it says what this entry is",
    "model_type": "a mapping of fields is expected here",
    "model_attributes_type": "a mapping of fields is expected here",
    "dict_type": "a mapping of fields is expected here",
    "list_type": "a list is expected here",
    "tuple_type": "a list is expected here",
    "string_type": "text is expected here",
    "string_unicode": "text is expected here; this contains characters that are not text",
    "int_type": "a whole number is expected here",
    "int_from_float": "a whole number is expected here",
    "int_parsing": "a whole number is expected here",
    "int_parsing_size": "this number is too large; write a smaller one",
    "float_type": "a number is expected here",
    "float_parsing": "a number is expected here",
    "bool_type": "true or false is expected here",
    "bool_parsing": "true or false is expected here",
    "finite_number": "a finite number is expected here",
    "string_pattern_mismatch": "this is not a name; write lower-case letters, digits and dashes",
    "too_short": "this list is too short; name at least {min_length}",
    "too_long": "this list is too long; name at most {max_length}",
    "string_too_long": "this is too long; write at most {max_length} characters",
    "greater_than": "this must be greater than {gt}",
    "greater_than_equal": "this must be at least {ge}",
    "less_than": "this must be less than {lt}",
    "less_than_equal": "this must be at most {le}",
}


def mistake(item: Any) -> str:
    """Return one of pydantic's mistakes in the words of every message here."""
    text = _EXPECTED.get(item["type"])
    if text is None:
        return str(item["msg"]).removeprefix("Value error, ")
    if item["type"] in {"int_parsing", "float_parsing"} and str(item.get("input")).startswith('"'):
        text += ", without quotes"
    given = _UNIT.search(str(item.get("input")))
    unit = given[1] if given else ""
    return text.format(**{name: _limit(value, unit) for name, value in item.get("ctx", {}).items()})


def _limit(value: Any, unit: str) -> Any:
    """Return a limit in units like that of the value given; whole numbers with all of their digits."""
    if isinstance(value, (int, float)):
        for name, size in next((units for units in _UNITS if unit in dict(units)), ()):
            if abs(value) >= size:
                return f"{value / size:g}{name}"
    return f"{value:.15g}" if isinstance(value, float) else value


def first(error: ValidationError) -> str:
    """Return `field: mistake` for the first mistake; without the field where the whole value is wrong."""
    item: Any = error.errors(include_url=False)[0]
    return f"{field(item)}: {mistake(item)}" if item["loc"] else mistake(item)


def field(item: Any) -> str:
    """Return the place of one of pydantic's mistakes, with dots; empty where it is the whole value."""
    return ".".join(str(part) for part in item["loc"])


def brief(value: object) -> str:
    """Return a field's value as text to be matched; ValueError where it is longer than any such field.

    Patterns with several runs of spaces take quadratic time on a text that does not match.
    """
    if isinstance(value, int) and value.bit_length() > _MANY_BITS:
        raise ValueError(f"{shown(value)} is too large; write a smaller one")
    text = str(value)
    if len(text) > _LONGEST_FIELD:
        raise ValueError(f"{shown(text)} has {len(text)} characters; write at most {_LONGEST_FIELD}")
    return text


def shown(value: object) -> str:
    """Return a value as a message repeats it: of a long text its beginning, of a huge number its size."""
    if isinstance(value, int) and value.bit_length() > _MANY_BITS:
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= _SHOWN_VALUE else f"{text[:_SHOWN_VALUE]}…"


def near(word: str, known: Sequence[str], cutoff: float = 0.6) -> str | None:
    """Return the name that is most like a word; None where none is."""
    found = difflib.get_close_matches(word, known, 1, cutoff)
    return found[0] if found else None


def nearest(word: str, known: Sequence[str]) -> str:
    """Return `did you mean 'x'?`, or the known names where none is near: of many the dozen that are most like it."""
    if not known:
        return "there is none"
    if (found := near(word, known)) is not None:
        return f"did you mean {found!r}?"
    more = len(known) - _SHOWN_NAMES
    if more > 0:
        likeness = difflib.SequenceMatcher(b=word)

        def unlike(name: str) -> float:
            likeness.set_seq1(name)
            return -likeness.ratio()

        known = [*sorted(known, key=unlike)[:_SHOWN_NAMES], f"{more} more"]
    return "known here: " + ", ".join(known)


def listed(words: Sequence[str]) -> str:
    """Words as a sentence has them: `a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def quantity(count: float, noun: str) -> str:
    """Return a number with its noun in the right form: `1 host`, `2 hosts`."""
    return f"{count:.12g} {noun}{'' if count == 1 else 's'}"


def several(words: Iterable[str], most: int = 3) -> str:
    """The first of some words, and the number of the others: `a, b, c and 5 more`."""
    found = list(words)
    more = len(found) - most
    return ", ".join(found[:most]) + (f" and {more} more" if more > 0 else "")
