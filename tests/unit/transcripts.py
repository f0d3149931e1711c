"""Console blocks of Markdown pages: their commands run again, their output compared or written again.

    .venv/bin/python tests/unit/transcripts.py docs/lessons/*/README.md     # write what they print now

A line `$ mrclab …` is a command; `mrclab> …` below it are the words typed at its prompt. All else is output.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TIME = re.compile(r"-20\d{6}-\d{6}(?:-\d+)?")
_DIGEST = re.compile(r"^History: .*\n", re.MULTILINE)  # changes with every field that a record gets
_PROMPT = "mrclab> "
_MAIN = "from mrclab.lab.command.entry import main; main()"
_SEEN = ("docs", "scenarios", "p4src", "README.md")


def blocks(page: Path) -> list[str]:
    """The console blocks of a page."""
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Each command with its output as it stands there."""
    for part in re.split(r"^(?=\$ )", block, flags=re.MULTILINE):
        if part.strip():
            command, _, output = part.partition("\n")
            yield command.removeprefix("$ "), output


def run(block: str, place: Path) -> str:
    """The block as it comes out now, run in a folder where the sources are seen and results may be left."""
    for name in _SEEN:
        if not (place / name).exists():
            (place / name).symlink_to(ROOT / name)
    made = []
    for command, output in commands(block):
        typed = [line.removeprefix(_PROMPT) for line in output.splitlines() if line.startswith(_PROMPT)]
        program, *words = command.split()
        assert program == "mrclab", f"{command!r}: only mrclab is run here"
        if typed:
            words += ["--script", "-"]
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(place), "COLUMNS": "120", "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", _MAIN, *words], cwd=place, env=environment, check=False,
            input="\n".join(typed), capture_output=True, text=True, timeout=900,
        )  # fmt: skip
        assert done.returncode in {0, 1, 2}, f"{command}: {done.stderr}"
        lines = [line.rstrip() for line in (done.stdout + (done.stderr if typed else "")).splitlines()]
        text = re.sub(r"\n{2,}", "\n", "\n".join(lines)).strip("\n")
        made.append(f"$ {command}\n{_DIGEST.sub('', _TIME.sub('-TIME', text))}\n")
    return "".join(made)


def shape(text: str) -> str:
    """Output without its figures, which a change of the transport may move, and without what aligns them."""
    return re.sub(r"[ \t]+", " ", re.sub(r"\d+(\.\d+)?", "0", re.sub(r"─+", "─", text)))


def main(pages: list[str]) -> None:
    """Write the blocks of pages again."""
    for page in map(Path, pages):
        with tempfile.TemporaryDirectory() as place:
            text = page.read_text(encoding="utf-8")
            page.write_text(_BLOCK.sub(lambda found: f"```console\n{run(found[1], Path(place))}```", text))


if __name__ == "__main__":
    main(sys.argv[1:])
