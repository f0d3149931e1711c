"""docs/architecture.md: each link leads to a file that defines what it names; seven objects, six hops at most."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
TEXT = PAGE.read_text(encoding="utf-8")


def test_every_name_is_defined_in_the_file_that_it_links_to():
    links = re.findall(r"\[`(\w+)`\]\((\.\./[^)#]+)\)", TEXT)
    wrong = []
    for name, target in links:
        file = PAGE.parent / target
        defined = rf"^\s*(?:async )?(?:def|class|control|table|action) {name}\b"
        if not file.is_file() or not re.search(defined, file.read_text(encoding="utf-8"), re.MULTILINE):
            wrong.append((name, target))
    assert wrong == []
    assert len(links) > 30


def test_there_are_seven_objects_and_no_way_has_more_than_six_hops():
    sections = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", TEXT, re.MULTILINE))
    assert len(re.findall(r"^\| (?!Object|---)", sections["Seven objects"].replace("|---", "| ---"), re.MULTILINE)) == 7
    ways = {title: body for title, body in sections.items() if title.startswith("Life of")}
    assert len(ways) == 4
    assert {title: len(re.findall(r"^\d\. ", body, re.MULTILINE)) for title, body in ways.items()} == dict.fromkeys(
        ways, 6
    )
