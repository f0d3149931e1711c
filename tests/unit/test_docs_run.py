"""Every command of README and docs is run: here in virtual time, in tests/lab/test_docs_wire.py on the wire.

Commands that ask a lab that is up find one in virtual time, with Clustermapper; the others are given --world sim.
"""

import re
import shlex
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import typer
from docs_blocks import PAGES, ROOT, Block, Line, blocks
from typer.testing import CliRunner

from mrclab.lab.command import cli
from mrclab.lab.command.live import shortcut, up
from mrclab.lab.command.live.rundir import virtual_run_dir
from mrclab.lab.errors import LabError, Refused
from mrclab.lab.prompt import registry
from mrclab.lab.prompt.registry import COMMANDS
from mrclab.lab.prompt.remote import service
from mrclab.lab.prompt.session import LabSession
from mrclab.lab.run.virtual import virtual_world
from mrclab.lab.scenario.sections.mapper import MapperSpec
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

pytestmark = [
    pytest.mark.once,
    pytest.mark.usefixtures("form_of_users"),
    pytest.mark.timeout(1800),  # a page takes seconds, however long a busy machine makes of them
]
BLOCKS = {path: list(blocks(path)) for path in PAGES}
ASKS = {*shortcut.NAMES, "status", "map", "deny", "undeny", "drain", "undrain", "precheck", "do", "watch", "send"}
WORLDLY = {"run", "suite", "survey", "plan"}
BY_OTHERS = {  # programs whose running is another test's matter
    "pip": "tests/unit/test_wheel.py installs the wheel",
    "wireshark": "a window; tests/lab/test_tshark.py reads with the same dissector",
}
PLACES = {"FILE": "README.md", "SCENARIO": "link-failure"}
PYTEST = ["-m", "pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:anyio"]
MAIN = [sys.executable, "-c", "from mrclab.lab.command.entry import main; main()"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """One folder for all pages, as a reader has: the sources are seen in it, results stay."""
    made = tmp_path_factory.mktemp("reader")
    for name in ("docs", "scenarios", "p4src", "README.md", "Makefile", "tests"):
        (made / name).symlink_to(ROOT / name)
    return made


class Reader:
    """Carries out command lines in a folder; a lab in virtual time is up while one asks for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._done: set[str] = set()
        self._held: ExitStack | None = None
        self.session: LabSession | None = None

    def hold(self) -> LabSession:
        if self.session is None:
            self._held = ExitStack()
            world = self._held.enter_context(virtual_world(Fabric(FabricSpec()), mapper=MapperSpec()))
            mirror = self._held.enter_context(closing(up._mirror(world, virtual_run_dir())))
            self.session = self._held.enter_context(LabSession(world, 1e-6, [mirror.write]).open())
            self._held.enter_context(service.served(self.session, mirror.place))
            registry.run(self.session, "wait 5s")
        return self.session

    def release(self) -> None:
        if self._held is not None:
            self._held.close()
        self._held = self.session = None

    def carry_out(self, line: Line) -> str:
        """Return the mistake of a line; empty if it does what its page says."""
        for text in [line.text] if line.text.startswith("for ") else line.text.split(" && "):
            program, *rest = [PLACES.get(word, word) for word in shlex.split(self._there(text))]
            if program in BY_OTHERS:
                continue
            if program == "mrclab":
                said = self._mrclab(line, rest)
            elif program == "make":
                said = self._program(["make", "-n", *(word for word in rest if "=" not in word)])
            elif program in {"pytest", "python"}:
                module = PYTEST if program == "pytest" else []
                said = self._program([sys.executable, *module, *rest])
            elif program == "for":
                said = self._program(["bash", "-nc", line.text])
            else:
                said = f"nobody runs {program} in virtual time; mark the block"
            if said:
                return f"{text}: {said}"
        return ""

    def _there(self, text: str) -> str:
        """Names that a page leaves open are those of what is there."""
        head, dots, tail = text.partition("…")
        if not dots:
            return text
        name = head.rpartition(" ")[2]
        found = sorted(self.folder.glob(f"{name}*"))
        if not found:
            self._invoke(["run", "link-failure", "--world", "sim"])
            found = sorted(self.folder.glob(f"{name}*"))
        return f"{head.removesuffix(name)}{found[-1].relative_to(self.folder)}{tail}"

    def _mrclab(self, line: Line, rest: list[str]) -> str:
        name = rest[0]
        if name == "up":
            return self._up(line, rest[1:])
        if name == "ui" or "--ui" in rest:
            self.hold()
            own = ["--run-dir", str(virtual_run_dir())]
            return self._until_it_speaks([*own, *rest, *(["--world", "sim"] if name == "run" else [])])
        if name in ASKS and "--world" not in rest:
            self.hold()
        else:
            self.release()
            rest = [*rest, "--world", "sim"] if name in WORLDLY and not {"--world", "--help"} & set(rest) else rest
        if " ".join(rest) in self._done and name in WORLDLY:
            return ""
        self._done.add(" ".join(rest))
        lab = self.folder / "none" / "lab" if name in {"doctor", "clean"} else virtual_run_dir()
        apart = (
            ["--run-dir", str(lab)] if self.session is not None or name in {"doctor", "clean"} else []
        )  # never the user's
        status, said = self._invoke([*apart, *rest])
        if any(row.startswith("mrclab: ") for row in line.output):
            wanted = next(row for row in line.output if row.startswith("mrclab: ")).removeprefix("mrclab: ")
            return "" if wanted in said else f"said {said!r}, not {wanted!r}"
        well = {"doctor": {0, 1}, "precheck": {0, 1}, "grade": {0, 1}, "survey": {0, 3}}.get(name, {0})
        return "" if status in well else f"exit status {status}: {said[-500:]}"

    def _invoke(self, rest: list[str]) -> tuple[int, str]:
        done = CliRunner().invoke(cli.app, rest, catch_exceptions=True)
        if isinstance(done.exception, LabError):
            return done.exception.status, str(done.exception)
        return done.exit_code, done.output + (repr(done.exception) if done.exception else "")

    def _up(self, line: Line, options: list[str]) -> str:
        command = typer.main.get_command(cli.app).commands["up"]  # type: ignore[attr-defined]
        command.make_context("up", list(options))  # ValueError and its like where it could not be read
        for text in line.typed:
            said = self.command(text)
            if said:
                return said
        return ""

    def command(self, text: str) -> str:
        """A word at the prompt; what was wrong with it."""
        try:
            registry.run(self.hold(), text)
        except (LabError, ValueError) as error:
            return f"mrclab> {text}: {error}"
        return ""

    def _program(self, argv: list[str]) -> str:
        done = subprocess.run(argv, cwd=self.folder, capture_output=True, text=True, check=False, timeout=900)
        return (
            "" if done.returncode in {0, 1} else f"exit status {done.returncode}: {(done.stdout + done.stderr)[-500:]}"
        )

    def _until_it_speaks(self, rest: list[str]) -> str:
        process = subprocess.Popen(
            [*MAIN, *rest], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        said = []
        try:
            assert process.stdout is not None
            for row in process.stdout:
                said.append(row)
                if "http://127.0.0.1:" in row:
                    return ""
            return f"said {''.join(said)!r}"
        finally:
            process.terminate()
            process.wait(timeout=60)


def _not_here(*_arguments, **_options):
    raise Refused("this command needs the wire; mark its block")


@pytest.fixture
def reader(place, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place / "run"))  # beside the folder, mrclab/ in it would be the package
    assert virtual_run_dir() == place / "run" / "mrclab"
    for name in ("check_machine", "wire_world"):
        monkeypatch.setattr(f"mrclab.lab.run.wire.wireworld.{name}", _not_here)
    made = Reader(place)
    yield made
    made.release()


@pytest.mark.parametrize("page", [path for path, found in BLOCKS.items() if found], ids=lambda path: path.stem)
def test_the_commands_of_a_page_do_what_it_says(page, reader):
    wrong = [
        said
        for block in BLOCKS[page]
        if not (block.by_hand or block.wire)
        for line in block.lines
        if (said := reader.carry_out(line))
    ]
    assert not wrong, "\n".join(wrong)


def test_the_words_of_the_prompts_page_do_what_it_says(reader):
    rows = re.findall(r"^\| .* \| (.*) \|$", (ROOT / "docs" / "prompt.md").read_text(), re.MULTILINE)
    typed = [text for row in rows for text in re.findall(r"`([^`]+)`", row) if text.split()[0] in COMMANDS]
    assert len(typed) > 25
    wrong = []
    for text in typed:
        if text in {"stop", "deny", "undeny", "drain", "undrain"} or text == "wait":  # named there, not used
            continue
        if said := reader.command(text):
            wrong.append(said)
    assert not wrong, "\n".join(wrong)


def test_what_is_not_run_says_why():
    every: list[Block] = [block for found in BLOCKS.values() for block in found]
    marks = [block.mark for block in every if block.mark]
    assert all(re.fullmatch(r"wire|by hand: .{10,}|with .+ for .+", mark) for mark in marks), marks
    assert len(every) > 40
    assert (
        sum(block.by_hand and not block.page.startswith(("docs/results/", "docs/commands.md")) for block in every) <= 12
    )


def test_the_search_finds_blocks_marks_words_and_output(tmp_path, monkeypatch):
    monkeypatch.setattr("docs_blocks.ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "Text\n\n    sudo .venv/bin/mrclab up   # a lab\n    mrclab> nodes\n\n    $ mrclab deny x\n    mrclab: no\n\n"
        "<!-- with 2 for 1000 -->\n\n    mrclab soak --seeds 1..1000\n\n```console\n    mrclab no\n```\n    a picture\n"
    )
    first, second = blocks(page)
    assert [(line.text, line.typed, line.output) for line in first.lines] == [
        ("mrclab up", ["nodes"], []),
        ("mrclab deny x", [], ["mrclab: no"]),
    ]
    assert (second.mark, [line.text for line in second.lines]) == ("with 2 for 1000", ["mrclab soak --seeds 1..2"])


def test_the_tutorials_scenario_is_the_file_beside_it():
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    assert f"```yaml\n{(ROOT / 'docs' / 'tutorial' / 'mine.yaml').read_text(encoding='utf-8')}```" in page
