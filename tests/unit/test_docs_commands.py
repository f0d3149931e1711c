"""Every `mrclab …` that README and docs name exists with its options, and so does every word typed at the prompt."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from mrclab.lab.command import reference
from mrclab.lab.command.cli import PANELS, app
from mrclab.lab.prompt.commands import views
from mrclab.lab.prompt.registry import COMMANDS, LOCAL

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
CLI_COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
EVERYWHERE = {"--run-dir", "--help"}

_INLINE = re.compile(r"`((?:sudo )?(?:\.venv/bin/)?mrclab [^`]+)`")
_LINE = re.compile(r"^(?:    |\$ |    \$ )((?:sudo )?(?:\.venv/bin/)?mrclab .+)$", re.MULTILINE)
_TYPED = re.compile(r"^ *mrclab> (\S+)", re.MULTILINE)
_PLACEHOLDER = re.compile(r"^(WORD|…|\.\.\.|[A-Z]+)$")


def commands(text: str) -> Iterator[list[str]]:
    """Return the words behind `mrclab` in each command of a page."""
    for found in (*_INLINE.findall(text), *_LINE.findall(text)):
        line = re.split(r"\s#|[|;>]| && |`", found.partition("mrclab ")[2])[0]
        line = line.replace("[", " ").replace("]", " ").replace("'", "").replace('"', "").rstrip(",.… ")
        if words := shlex.split(line):
            yield words


def split(words: list[str]) -> tuple[str, list[str]]:
    """The command, and all options, those before it included."""
    if words[0] == "--run-dir":
        words = [*words[2:], *words[:2]]
    end = words.index("--") if "--" in words else len(words)
    if words[0] == "train":  # what follows the script is the script's
        end = next((n for n, word in enumerate(words[:end]) if word.endswith(".py")), end)
    return words[0], [word.partition("=")[0] for word in words[1:end] if word.startswith("-") and word != "-"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_on_a_page_exist_with_their_options(page):
    wrong = []
    for words in commands(page.read_text(encoding="utf-8")):
        name, options = split(words)
        if _PLACEHOLDER.match(name):
            continue
        if name not in CLI_COMMANDS and name not in EVERYWHERE:
            wrong.append(f"mrclab {' '.join(words)}: no such command")
        elif name in CLI_COMMANDS and name != "bench":  # which hands its options on
            known = {opt for param in CLI_COMMANDS[name].params for opt in (*param.opts, *param.secondary_opts)}
            wrong += [f"mrclab {' '.join(words)}: no option {opt}" for opt in options if opt not in known | EVERYWHERE]
    assert not wrong, "\n".join(wrong)


def test_no_command_hides_another_of_its_name():
    names = [name for panel in PANELS.values() for name in panel]
    assert len(names) > 30
    assert {name for name in names if names.count(name) > 1} == set()


def test_the_reference_of_commands_is_that_of_the_command_line():
    assert reference.FILE.read_text(encoding="utf-8") == reference.build(), (
        "docs/commands.md is not current; run python -m mrclab.lab.command.reference"
    )


def test_every_page_stands_in_the_sites_navigation():
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    missing = [
        page for page in sorted((ROOT / "docs").rglob("*.md")) if str(page.relative_to(ROOT / "docs")) not in site
    ]
    assert missing == []


def test_words_typed_at_the_prompt_exist():
    assert views  # it and its like fill COMMANDS
    known = {*COMMANDS, *(usage.split()[0] for usage in LOCAL), "run"}
    typed = {word for page in PAGES for word in _TYPED.findall(page.read_text(encoding="utf-8"))}
    assert {word for word in typed if word not in known and not re.fullmatch(r"[ht]\d.*", word)} == set()


def test_the_search_finds_commands_wherever_they_stand():
    text = "Use `mrclab map [--forget]`.\n\n    sudo mrclab up --mapper   # why\n    $ mrclab status | head\n"
    assert list(commands(text)) == [["map", "--forget"], ["up", "--mapper"], ["status"]]
    assert split(["--run-dir", "/x", "run", "a.yaml", "--seed=7"]) == ("run", ["--seed", "--run-dir"])
