"""Check of the project's language: docstrings, unused parameters, line lengths of docs, and retired words.

`python setup/words.py` prints one line per finding and exits with status 1 where there is any. `make lint` runs it.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

QUESTION_WORDS = frozenset(
    {"What", "Whatever", "Whether", "Who", "Whoever", "Whose", "How", "Where", "Which", "That", "When"}
)
RETIRED = {
    r"\bHELD\b": "PASS",
    r"\bBROKEN OFF\b": "ABORTED",
    r"\bslandered\b": "false positive",
    r"\b[Vv]igil\b": "watchdog",
    r"\bclockwork\b": "time order",
    r"\bbefalls?\b": "hit, fault",
    r"\bhopeless\b": "deadlocked",
    r"\blast_words\b": "last output",
    r"\bMisbehaviour\b": "fault mode",
    r"\b(Desk|desk)\b": "session",
    r"\b(PageBeside|SoFar)\b": "PageProcess, PartialMeasures",
    r"\b_?([A-Z0-9]+_)*(MOST|LEAST)(_[A-Z0-9]+)*\b": "MAX, MIN",
    r"\b(let_go|heed|strain|soon)\(": "release, check_interrupt, load, call_soon",
    r"\bstands? still\b": "is stopped, is paused",
    r"\bno such word\b": "no such command",
    r"\bseeds held\b": "seeds passed",
    r"\btraffics\b": "workloads",
}
IN_CODE = {
    r"(?<!\bagent\.)\b[Tt]old\b(?!_)": "report, notify, send, list",
    r"\b(fates?|befall|deeds?|spoilt|how-manieth)\b": "outcome, hit, fault, damaged, n-th",
    r"\breckon": "estimate",
    r"\b(untold|unheard|punctual|be_punctual)\b": "not notified, pending, real-time",
    r"\b(PATIENCE|patience)(_S)?\b": "timeout",
    r"\b_?(teller|strangers|people|hears|heard)\b": "notifier, others, display, receive, subscribe",
    r"(?<![\"`])\bwanted\b(?![\"`])": "expected, requested",
    r"\b_?(said|held|asked|news|apart|beside) = ": "output, passed, requested, new, difference",
    r"\b(wish|_?strike|healing)\(": "expected outcome, apply, clear",
    r"\b([Mm]ischief|[Rr]ig|[Bb]lows?)\b": "disturbance, test harness, fault",
    r"\b(seams?|relieved|lacking|[Ii]njur(y|ies|ed)|hindrance|unwell|grew)\b": "interface, without, fault, cause",
    r"\b(prove|standings|linger_|hoard\w*|entitle|way_through|both_ways)\(": "self_test, verdicts, wait, set_title",
}
"""Words that no module outside tests may use, and better ones."""

RETIRED_IN = {
    ("controller", "hosts", "rpc", "sim", "softswitch"): {
        r"\b[Aa]new\b": "again",
        r"\b[Tt]old\b": "report, notify, send",
        r"\b[Tt]ells\b": "report, return",
        r"\b[Hh]ear[ds]\b": "receive, subscribe",
        r"\b[Ff]ates?\b": "verdict, outcome",
        r"\bstrangers?\b": "packets without a QP",
        r"\b(?<!\")siblings\b": "QPs of the same peer",
        r"\borphaned\b": "owner died",
        r"\b(rouse|intake|outbox|befall|deed)\b": "wake, receive limits, control queue",
        r"\b([Nn]obody|[Ss]omebody|[Aa]nybody) (?:asks?|asked|knows?|looks?|wants?|waits?)\b": "the actor",
        r"\bso many (?:bytes|seconds|packets|slots|events)\b": "a number of …",
        r"\blast words\b": "last output",
    },
    ("controller", "events", "mrclab", "rpc", "setup", "sim", "softswitch", "topo"): {
        r"(?<!it is )\bwanted\b": "expected, requested, intended",
        r"\btroubles?\b": "error, problem, reason",
        r"\b(said|held) \+?= ": "output; stored, passed",
    },
    ("sim",): {
        r"\bways?(?=[.\[,)]|: HalfLink)": "half_link, half_links",
        r"\b(happen|plug_in|squeeze_in|waken|let_pass)\(": "fire, connect, insert, start_host, advance",
        r"(?<!lost )\b(bins?)\b(?! of series)": "bucket",
    },
}
"""Words that modules in these folders may not use, and those of the field."""

COLUMNS = 120
GENERATED = frozenset({"commands.md", "history-reference.md", "scenario-reference.md", "metrics.md", "wire.md"})
HERE = Path(__file__).resolve().parent.parent


def tracked(*patterns: str) -> Iterator[Path]:
    """Yield the files of the repository that match git's patterns."""
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=HERE, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        path = HERE / name
        if path.is_file() and not path.is_symlink():
            yield path


DOCSTRING = re.compile(rf"[\"'][\s\\]*(?:{'|'.join(sorted(QUESTION_WORDS))})\b")
DELETION = re.compile(r"^\s+del\b", re.MULTILINE)
"""Patterns that every file with such a finding has: the others need not be parsed."""


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield findings on docstrings, those of attributes included: a noun or a verb comes first."""
    for node in ast.walk(tree):
        body = getattr(node, "body", ())
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text))) if text.split():
                    first = text.split(maxsplit=1)[0].rstrip(",:")
                    if first in QUESTION_WORDS:
                        yield f"{statement.lineno}: docstring begins with {first}; begin with a noun or a verb"


def deletions(tree: ast.Module) -> Iterator[str]:
    """Yield findings on `del parameter` in methods, which need none."""
    for owner in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for method in owner.body:
            if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            names = {argument.arg for argument in (*method.args.args, *method.args.kwonlyargs)}
            for line in method.body[:2]:
                if isinstance(line, ast.Delete) and {ast.unparse(target) for target in line.targets} <= names:
                    yield f"{line.lineno}: unused parameters of methods need no del"


def retired(text: str, patterns: Mapping[str, str] = RETIRED) -> Iterator[str]:
    """Yield findings on words that have a better one."""
    if not re.search("|".join(f"(?:{pattern})" for pattern in patterns), text):
        return  # as for most files: one search costs a sixth of one per pattern
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, better in patterns.items():
            if re.search(pattern, line):
                word = pattern.removeprefix(r"\b").removesuffix(r"\b")
                yield f"{number}: retired word {word}; say {better}"


def long_lines(text: str) -> Iterator[str]:
    """Yield lines of prose beyond COLUMNS; tables, code and links stay as they are."""
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        code ^= line.lstrip().startswith("```")
        stays = code or line.startswith(("    ", "|", "![", "<", "`")) or re.match(r"\s*(- )?\S+$", line)
        if len(line) > COLUMNS and not stays:
            yield f"{number}: {len(line)} columns; wrap at {COLUMNS}"


def findings() -> Iterator[str]:
    """Yield one line per finding."""
    me = Path(__file__).resolve()
    for path in tracked("*.py"):
        name, text = path.relative_to(HERE), path.read_text(encoding="utf-8")
        if path.resolve() == me:
            continue
        in_docstrings, in_methods = DOCSTRING.search(text), name.parts[0] != "tests" and DELETION.search(text)
        tree = ast.parse(text if in_docstrings or in_methods else "")
        found = [*retired(text)]
        for folders, patterns in RETIRED_IN.items():
            found += retired(text, patterns) if name.parts[0] in folders else ()
        found += docstrings(tree)
        if name.parts[0] != "tests":
            found += [*deletions(tree), *retired(text, IN_CODE)]
        yield from (f"{name}:{finding}" for finding in found)
    for path in tracked("*.md"):
        name = path.relative_to(HERE)
        text = path.read_text(encoding="utf-8")
        if "results" in name.parts or path.name in GENERATED:
            continue
        yield from (f"{name}:{finding}" for finding in (*long_lines(text), *retired(text)))


def main() -> int:
    """Print all findings; return the exit status."""
    found = list(findings())
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
