"""Every lesson's grade passes on its solution and fails on its skeleton; pages show what their commands print."""

import re
import runpy
import shutil
from pathlib import Path

import pytest
import transcripts

from mrclab.lab.command import p4build
from mrclab.lab.command.live import p4sh, up
from mrclab.lab.errors import LabError, Refused
from mrclab.lab.lessons import fabric
from mrclab.lab.lessons.base import LESSONS
from mrclab.lab.lessons.grading import graded, progress
from mrclab.lab.lessons.p4 import p4runtime, shift
from mrclab.lab.lessons.parts import CablePart, SwitchPart
from mrclab.lab.ui.browser import learning

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("form_of_users")]

DOCS = Path(__file__).parents[2] / "docs" / "lessons"
SOLUTIONS = DOCS / "answers"
FOLDERS = {int(folder.name[:2]): folder for folder in sorted(DOCS.glob("0*"))}
PAGES = [folder / "README.md" for folder in FOLDERS.values()]

AT_THE_PROMPT = {number: (DOCS / "answers" / f"{number:02}-prompt.txt").read_text() for number in (5, 7)}

needs_p4c = pytest.mark.skipif(not shutil.which("p4c"), reason="no p4c")


def test_every_lesson_has_a_page_and_a_skeleton_and_every_page_a_lesson():
    assert list(FOLDERS) == list(LESSONS)
    for number, lesson in LESSONS.items():
        text = (FOLDERS[number] / "README.md").read_text()
        assert text.startswith(f"# Lesson {number}: ")
        assert f"\n**Goal** ({lesson.minutes} minutes): " in text
        before = next(line for line in text.splitlines() if line.startswith("**Before it**: "))
        assert tuple(map(int, re.findall(r"\[lesson (\d)\]", before))) == lesson.needs
        assert "](picture.svg)" in text
        assert not lesson.file or (FOLDERS[number] / lesson.file).is_file()
        assert len(list(SOLUTIONS.glob(f"{number:02}-*"))) == 1


def test_pictures_with_figures_are_those_that_their_script_makes_and_all_have_one_style():
    made = runpy.run_path(str(DOCS / "pictures.py"))["PICTURES"]
    kept = {number: (folder / "picture.svg").read_text() for number, folder in FOLDERS.items()}
    for number, make in made.items():
        assert kept[number] == make()
    assert len({re.search("<style>.*</style>", picture, re.DOTALL)[0] for picture in kept.values()}) == 1


def test_the_answer_of_lesson_3_makes_a_switch_forward_in_a_page_too():
    assert all(check.ok for check in learning.programmed((SOLUTIONS / "03-controller.py").read_text()))


@pytest.mark.parametrize("number", [number for number, lesson in LESSONS.items() if lesson.file])
def test_no_skeleton_passes(number):
    if number == 3 and not p4sh.PYTHON.exists():
        pytest.skip("no .venv-p4sh: `make setup` makes it")
    _lines, done = graded(number, FOLDERS[number] / LESSONS[number].file, Path("nowhere"))
    assert not done


def test_lesson_1_passes_with_the_models_answers(tmp_path):
    file = tmp_path / "answers.yaml"
    skeleton = (FOLDERS[1] / "answers.yaml").read_text()
    for name, right in fabric.answers().items():
        skeleton = re.sub(rf"^{name}:", f"{name}: '{right}'", skeleton, flags=re.MULTILINE)
    file.write_text(skeleton)
    assert graded(1, file, tmp_path) == (graded(1, file, tmp_path)[0], True)
    file.write_text(skeleton.replace("t0-p3-2", "t0-p2-3"))
    assert [line for line in graded(1, file, tmp_path)[0] if line.startswith("✗")] == [
        "✗ the switch whose uSID is 2302: switch: t0-p2-3 is not right"
    ]


@pytest.mark.parametrize(
    ("number", "solution"),
    [
        (1, "01-answers.yaml"),
        (2, "02-shift.p4"),
        (4, "04-spray.yaml"),
        (6, "06-incast.yaml"),
        (8, "08-my_lab.py"),
        (9, "09-ecn.yaml"),
    ],
)
def test_a_solution_passes(number, solution):
    lines, done = graded(number, SOLUTIONS / solution, Path("nowhere"))
    assert done, "\n".join(lines)


RIGHT = "hdr.ipv6.dst = hdr.ipv6.dst[127:96] ++ hdr.ipv6.dst[79:0] ++ 16w0;"
SHIFTS = {
    RIGHT: "ok ok ok",
    "hdr.ipv6.dst[95:0] = hdr.ipv6.dst[79:0] ++ 16w0;": "ok ok ok",
    "hdr.ipv6.dst[95:0] = hdr.ipv6.dst[95:0] << 16; /* the same */": "ok ok ok",
    "hdr.ipv6.dst = hdr.ipv6.dst[127:96] ++ (bit<96>)(hdr.ipv6.dst << 16);": "ok ok ok",
    "hdr.ipv6.dst = hdr.ipv6.dst << 16;": "no no no",
    "hdr.ipv6.dst = hdr.ipv6.dst[127:96] ++ 16w0 ++ hdr.ipv6.dst[95:16];": "no no no",
    "hdr.ipv6.dst = hdr.ipv6.dst[127:96] ++ hdr.ipv6.dst[79:0] ++ hdr.ipv6.dst[15:0];": "ok ok no",
    "hdr.ipv6.dst = hdr.ipv6.dst[127:96] ++ hdr.ipv6.dst[79:64] ++ 80w0;": "no ok no",
    "hdr.ipv6.dst = hdr.ipv6.dst;": "no no no",
}


@pytest.mark.parametrize("p4c", [False, pytest.param(True, marks=[pytest.mark.p4c, needs_p4c])])
def test_a_statement_passes_where_it_moves_the_list_up(p4c, tmp_path, monkeypatch):
    if not p4c:
        monkeypatch.setenv("PATH", str(tmp_path))
    file = tmp_path / "shift.p4"
    for statement, wanted in SHIFTS.items():
        file.write_text(f"action shift_usid() {{\n    {statement}\n}}\n")
        checks = [{"✓": "ok", "✗": "no"}[line[0]] for line in graded(2, file, tmp_path)[0][1:4]]
        assert " ".join(checks) == wanted, statement


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("hdr.ipv6.dst = hdr.ipv6.dst[127:96] ++ 0;", "joins bits of a known width; write 16w0, not 0"),
        ("hdr.ipv6.dst = hdr.ipv6.dst[127:96];", "has 128 bits, and what you write for it has 32"),
        ("hdr.ipv6.dst = hdr.ipv6.dst[96:127];", "[96:127] is not a slice of 128 bits"),
        ("hdr.ipv6.dst = hdr.ipv6.dst & 16w1;", "has 128 bits, and what you write for it has 16"),
        ("hdr.ipv6.dst = 8w256;", "8w256 does not fit 8 bits"),
        ("hdr.ipv6.dst = nonsense;", "`nonsense` is not known here"),
        ("hdr.ipv6.src = hdr.ipv6.dst;", "`hdr.ipv6.src` cannot be assigned here"),
        ("hdr.ipv6.dst = hdr.ipv6.dst", "expected `;`, found the end"),
        ("hdr.ipv6.dst = __import__('os');", "is not allowed in an expression here"),
        ("hdr.ipv6.dst = " + "(" * 2000 + "1;", "the expression is nested too deeply"),
        ("hdr.ipv6.dst = hdr.ipv6.dst" + " + 1" * 900 + ";", "more than 100 operators"),
        ("hdr.ipv6.dst = 999999999w1;", "1 to 4096 are possible"),
        ("hdr.ipv6.dst = hdr.ipv6.dst << 99999999999;", "a shift by 99999999999 is too far"),
        ("", "the action is empty"),
    ],
)
def test_what_is_no_p4_is_named(body, why, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))  # no p4c
    file = tmp_path / "shift.p4"
    file.write_text(f"action shift_usid() {{\n    {body}\n}}\n")
    lines, done = graded(2, file, tmp_path)
    assert not done
    assert why in lines[1]


def test_the_learners_action_takes_the_place_of_the_labs():
    ours = (p4build.SOURCE_DIR / "ingress.p4").read_text()
    theirs = shift.spliced((SOLUTIONS / "02-shift.p4").read_text(), ours)
    assert "".join(theirs.split()) == "".join(ours.split())
    assert theirs.count(RIGHT) == 1
    assert RIGHT not in shift.spliced((FOLDERS[2] / "shift.p4").read_text(), ours)


@pytest.mark.p4c
@needs_p4c
def test_p4c_says_what_is_wrong_with_the_learners_action(tmp_path):
    file = tmp_path / "shift.p4"
    file.write_text("action shift_usid() {\n    hdr.ipv6.dst = nonsense;\n}\n")
    lines, done = graded(2, file, tmp_path)
    assert not done
    assert "nonsense" in lines[1]


@pytest.mark.skipif(not p4sh.PYTHON.exists(), reason="no .venv-p4sh: `make setup` makes it")
def test_a_controller_of_thirty_lines_makes_a_switch_forward(tmp_path):
    lines, done = graded(3, SOLUTIONS / "03-controller.py", tmp_path)
    assert done, "\n".join(lines)
    file = tmp_path / "controller.py"
    file.write_text((SOLUTIONS / "03-controller.py").read_text().replace("port=2", "port=1"))
    assert "✗ what comes in at port 1" in "\n".join(graded(3, file, tmp_path)[0])


def test_an_installed_lab_finds_p4runtime_shell_in_the_clone_or_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(p4runtime, "PYTHON", tmp_path / "nothing")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refused, match=r"venv \.venv-p4sh && .*requirements-p4sh\.txt"):
        graded(3, SOLUTIONS / "03-controller.py", tmp_path)
    shell = tmp_path / ".venv-p4sh" / "bin" / "python"
    shell.parent.mkdir(parents=True)
    shell.write_text("#!/bin/sh\necho of the clone; exit 1\n")
    shell.chmod(0o755)
    assert "of the clone" in graded(3, SOLUTIONS / "03-controller.py", tmp_path)[0][1]


def test_a_pytest_that_notices_nothing_does_not_pass(tmp_path):
    file = tmp_path / "test_blind.py"
    text = (SOLUTIONS / "08-my_lab.py").read_text()
    file.write_text(re.sub(r"^ *assert .*\n", "", text, flags=re.MULTILINE))
    lines, done = graded(8, file, tmp_path)
    assert [line[0] for line in lines[1:-1]] == ["✓", "✗", "✗"]
    assert not done


def at_the_prompt(monkeypatch, tmp_path, number: int, lines: list[str]) -> str:
    """Carry lines out in virtual time; what the script answers where it ends early."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    script = tmp_path / "script"
    script.write_text("\n".join([*lines, f"grade {number}"]))
    context = type("Context", (), {"obj": tmp_path / "nothing"})()
    try:
        up.up(context, None, None, "sim", number == 7, script, 1e-9)
    except LabError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("number", list(AT_THE_PROMPT))
def test_a_lesson_at_the_prompt_passes_once_everything_was_done(monkeypatch, tmp_path, number):
    lines = AT_THE_PROMPT[number].splitlines()
    assert at_the_prompt(monkeypatch, tmp_path, number, lines) == ""


@pytest.mark.parametrize(("number", "left_out", "missing"), [(5, "up ", 2), (7, "undeny", 1), (7, "deny", 3)])
def test_a_lesson_at_the_prompt_says_what_is_missing(monkeypatch, tmp_path, number, left_out, missing):
    lines = [line for line in AT_THE_PROMPT[number].splitlines() if not line.strip().startswith(left_out)]
    said = at_the_prompt(monkeypatch, tmp_path, number, lines)
    assert len(re.findall(r"^✗ ", said, re.MULTILINE)) == missing, said


@pytest.mark.parametrize(
    ("number", "file", "sentence"),
    [
        (10, None, "there is no lesson 10; they go from 1 to 9"),
        (1, None, "lesson 1 looks at your file: mrclab grade 1 answers.yaml"),
        (5, None, "lesson 5 looks at the running lab, and none is up"),
        (5, "", "holds no history; name a result directory"),
        (5, "runs.jsonl", "line 1 is not a record; name a result directory"),
        (1, "nowhere", "name the file that you work on"),
        (1, "", "Is a directory"),
    ],
)
def test_what_cannot_be_graded_is_one_sentence(tmp_path, number, file, sentence):
    if file == "runs.jsonl":
        (tmp_path / file).write_text("{}\n")
    with pytest.raises(LabError, match=sentence):
        graded(number, None if file is None else tmp_path / file, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_what_a_lesson_prints_is_what_its_page_says(page, tmp_path):
    if page.parent == FOLDERS[3] and not p4sh.PYTHON.exists():
        pytest.skip("no .venv-p4sh: `make setup` makes it")
    for block in transcripts.blocks(page):  # written again by: python tests/unit/transcripts.py PAGE
        assert transcripts.shape(transcripts.run(block, tmp_path)) == transcripts.shape(block)


def test_answers_pass_with_the_learners_own_seed_only(tmp_path):
    for seed, other in ((1, 2), (2, 1)):
        file = tmp_path / "answers.yaml"
        file.write_text("".join(f"{name}: '{right}'\n" for name, right in fabric.answers(seed).items()))
        assert graded(1, file, tmp_path, seed)[1]
        assert not graded(1, file, tmp_path, other)[1]
        assert not graded(1, file, tmp_path)[1]


@pytest.mark.parametrize("number", list(AT_THE_PROMPT))
def test_what_was_done_passes_with_the_learners_own_cable_only(monkeypatch, tmp_path, number):
    part, usual = CablePart.drawn(number, 1), CablePart.drawn(number, None)
    others = [seed for seed in range(2, 9) if CablePart.drawn(number, seed).name != part.name]
    lines = AT_THE_PROMPT[number].replace(usual.name, part.name)
    lines = lines.replace("from=h1 to=h3", f"from={part.source} to={part.target}")
    lines = lines.replace("send h1 h3", f"send {part.source} {part.target}")
    kept = tmp_path / "kept"
    monkeypatch.setattr(up, "_grade", lambda _desk, mirror, run_dir, _words: (
        mirror(), shutil.copytree(run_dir / "history", kept)))  # fmt: skip
    assert at_the_prompt(monkeypatch, tmp_path, number, lines.splitlines()) == ""
    assert graded(number, kept / "lab.jsonl", tmp_path, 1)[1]
    said, done = graded(number, kept / "lab.jsonl", tmp_path, others[0])
    assert not done
    assert CablePart.drawn(number, others[0]).name in said[1]


def test_a_controller_is_graded_on_the_learners_own_switch():
    assert len({SwitchPart.drawn(seed) for seed in range(40)}) == 8
    assert SwitchPart.drawn(None).switch == "t1-p1-2"


def test_a_lesson_that_is_the_same_for_all_takes_no_seed():
    with pytest.raises(LabError, match="leave out --seed"):
        graded(4, FOLDERS[4] / "spray.yaml", Path("nowhere"), 1)


def test_progress_is_told_of_every_lesson(tmp_path):
    (tmp_path / "mine").mkdir()
    shutil.copy(SOLUTIONS / "02-shift.p4", tmp_path / "mine" / "shift.p4")
    shutil.copy(FOLDERS[4] / "spray.yaml", tmp_path)
    (tmp_path / "answers.yaml").write_text("[")
    found = progress(tmp_path, 7)
    assert [one.lesson for one in found if one.ok] == [2]
    missing = {one.lesson: one.missing for one in found}
    assert "answers.yaml is not YAML" in missing[1]
    assert missing[9] == "no ecn.yaml"
    assert re.fullmatch(r"\d of \d missing", missing[4])
    assert missing[5] == "asks the running lab or a result: mrclab grade 5"
    shutil.copy(FOLDERS[4] / "spray.yaml", tmp_path / "mine")
    with pytest.raises(LabError, match="both of lesson 4"):
        progress(tmp_path)
    with pytest.raises(LabError, match="there is no folder"):
        progress(tmp_path / "none")
