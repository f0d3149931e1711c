"""Shell blocks of README and docs: what they say, and where it can be run.

A block is a run of indented lines that begins with a program. An HTML comment right above it says what is special:

    <!-- wire -->               needs a lab of namespaces and processes: tests/lab/test_docs_wire.py
    <!-- by hand: WHY -->       is not run
    <!-- with A for B; C for D -->   is run with other words, which take less time or are there
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_PROGRAMS = ("mrclab", "make", "pip", "pytest", "python", "softswitch", "tshark", "wireshark", "p4c", "vagrant", "for")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>[^\n]*) -->\n+)?(?P<text>(?:^    [^\n]*\n)(?:^(?:    [^\n]*)?\n)*)", re.MULTILINE
)
_PREFIX = re.compile(r"^(?:\$ )?(?:sudo )?(?:\.venv/bin/)?")
_COMMENT = re.compile(r"\s+#\s.*$")
_MADE = ("docs/results/", "docs/commands.md")  # what long experiments wrote, with how; what the command line made


@dataclass
class Line:
    """One command line: what is typed, and what stands below it: words of the prompt, or output."""

    text: str
    typed: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Block:
    """A block's command lines and its mark."""

    page: str
    mark: str
    lines: tuple[Line, ...]

    @property
    def by_hand(self) -> bool:
        """True if nobody runs it here."""
        return self.mark.startswith("by hand: ") or self.page.startswith(_MADE)

    @property
    def wire(self) -> bool:
        """True if it needs namespaces and processes."""
        return self.mark == "wire"


def blocks(path: Path) -> Iterator[Block]:
    """The shell blocks of a page, outside of fences."""
    page = str(path.relative_to(ROOT))
    text = _FENCE.sub("", path.read_text(encoding="utf-8")) + "\n"
    for found in _BLOCK.finditer(text):
        lines = tuple(_lines([line[4:] for line in found["text"].splitlines()], found["mark"] or ""))
        if lines:
            yield Block(page, found["mark"] or "", lines)


def _lines(text: list[str], mark: str) -> Iterator[Line]:
    line: Line | None = None
    for row in text:
        command = _COMMENT.sub("", _PREFIX.sub("", row)).strip()
        if command.split(" ", 1)[0] in _PROGRAMS and not row.startswith(" "):
            if line is not None:
                yield line
            line = Line(_instead(command, mark))
        elif row.startswith("mrclab> "):
            line = line or Line("mrclab up")
            line.typed.append(row.removeprefix("mrclab> "))
        elif line is not None and row.strip() and not row.strip().startswith("#"):
            line.output.append(row)
    if line is not None:
        yield line


def _instead(command: str, mark: str) -> str:
    if mark.startswith("with "):
        for pair in mark.removeprefix("with ").split("; "):
            new, _, old = pair.partition(" for ")
            command = command.replace(old, new)
    return command
