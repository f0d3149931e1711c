"""Words of the glossary in pages of HTML: the first use of each is linked or explained."""

import html
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"
_ROW = re.compile(r"^\| (?!Word|This lab's|---)(.+?) \| (.+) \|$", re.MULTILINE)
_TAG = re.compile(r"(<[^>]+>)")
_SKIPPED_ELEMENTS = {"a", "code", "pre", "h1", "h2", "h3", "summary", "button", "title", "style", "script"}
"""HTML elements in which words are left as they are."""
_AMBIGUOUS = {"line", "world", "target", "drain", "leaf", "spine", "completion", "cable", "agent", "FAIL", "PASS"}
"""Words of the glossary with another meaning in everyday English: they are left as they are."""


@cache
def meanings() -> dict[str, tuple[str, str]]:
    """Return each word's anchor and meaning; words of one row have the same."""
    found = {}
    for words, meaning in _ROW.findall(GLOSSARY.read_text(encoding="utf-8")):
        for word in words.split(", "):
            found[word] = anchor(words), meaning.replace("`", "")
    return found


def anchor(words: str) -> str:
    """The anchor of a row of the glossary."""
    return re.sub(r"[^a-z0-9]+", "-", words.split(", ", maxsplit=1)[0].lower()).strip("-")


@cache
def _pattern() -> re.Pattern[str]:
    longest = sorted(meanings().keys() - _AMBIGUOUS, key=lambda word: (-len(word), word))
    return re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, longest))})(s?)(?![\w-])")


def marked(page: str, make: Callable[[str, str, str], str]) -> str:
    """Replace the first occurrence of each word by the result of `make` for its text, anchor and meaning."""
    seen: set[str] = set()
    depth, parts = 0, []

    def replaced(found: re.Match[str]) -> str:
        where, meaning = meanings()[found[1]]
        if where in seen:
            return found[0]
        seen.add(where)
        return make(found[0], where, meaning)

    for part in _TAG.split(page):
        if part.startswith("<"):
            name = part.strip("</>").split()[0].lower() if part.strip("</>") else ""
            if name in _SKIPPED_ELEMENTS:
                depth += -1 if part.startswith("</") else 1
            parts.append(part)
        else:
            parts.append(part if depth > 0 else _pattern().sub(replaced, part))
    return "".join(parts)


def anchored(page: str) -> str:
    """Give rows of the glossary's page the anchors that words lead to."""

    def row(found: re.Match[str]) -> str:
        words = html.unescape(re.sub(r"<[^>]+>", "", found[1]))
        return f'<tr id="{anchor(words)}">\n<td>{found[1]}</td>' if words in _rows() else found[0]

    return re.sub(r"<tr>\s*<td>(.*?)</td>", row, page)


@cache
def _rows() -> frozenset[str]:
    return frozenset(words for words, _ in _ROW.findall(GLOSSARY.read_text(encoding="utf-8")))
