"""Links between pages: their files and headings exist, as `make docs` also checks."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!\w+:)([^)#\s\"]*)(?:#([^)\s]+))?\)")


def prose(page):
    return re.sub(r"(?ms)^ *```.*?^ *```|`[^`\n]+`(?!\])", "", page.read_text(encoding="utf-8"))


def headings(page):
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
    for heading in re.findall(r"(?m)^#+ +(.+)$", text):
        shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        yield re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", shown).strip().lower())
    yield from re.findall(r'\b(?:id|name)="([^"]+)"', text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    lost = []
    for target, anchor in LINK.findall(prose(page)):
        there = (page.parent / unquote(target)).resolve() if target else page
        made = target.startswith(("try/", "../try/")) or target == "index.md"  # by make docs and make site
        if not made and (not there.exists() or (anchor and anchor not in set(headings(there)))):
            lost.append(f"{target}#{anchor}")
    assert not lost
