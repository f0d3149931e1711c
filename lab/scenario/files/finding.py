"""Finds scenario files: by path, by folder, or by name below `scenarios/`."""

import difflib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from mrclab import HOME
from mrclab.lab.errors import ScenarioError

SCENARIOS = HOME / "scenarios"
EXCLUDED = ("scale", "paper-scale", "train")
"""Directories below `scenarios/` whose scenarios run when they are named: they need a whole machine, or PyTorch."""

_SUFFIXES = (".yaml", ".yml")
_RESULT = "run.json"  # in a result directory, whose scenario has run already
_MAX_FOLDERS = 10_000  # that are looked through for scenarios


def find(words: Sequence[str], home: Path = SCENARIOS) -> list[Path]:
    """Return scenario files by path, directory or name below `scenarios/`; all but `EXCLUDED` if none is given.

    Raises ScenarioError for an unknown name. Files of a directory are sorted by name, its own first; those of
    results in it are left out.
    """
    if not words:
        return [path for path in _below(home) if path.relative_to(home).parts[0] not in EXCLUDED]
    paths: list[Path] = []
    for word in words:
        found = list(_files(word, home)) or [path for path in _below(home) if path.stem == word]
        if not found:
            if (place := Path(word)).exists():
                what = "holds no scenario file" if place.is_dir() else "is not a regular file"
                raise ScenarioError([f"{word} {what}; name a scenario or a folder of them"])
            raise ScenarioError([f'no scenario "{word}" (no such file, and not in {home.name}/){_meant(word, home)}'])
        paths += [path for path in found if path not in paths]
    return paths


def _meant(word: str, home: Path) -> str:
    """Suggest the nearest scenario, or list some to begin with."""
    names = sorted({path.stem for path in _below(home)} | {place.name for place in home.iterdir() if place.is_dir()})
    if near := difflib.get_close_matches(Path(word).stem, names, 1):
        return f"; did you mean {near[0]}?"
    first = sorted(path.stem for path in home.iterdir() if path.suffix in _SUFFIXES)
    return f"; choose {', '.join(first)}, or one that `mrclab suite --dry-run` lists"


def find_one(word: Path) -> Path:
    """Return the one scenario file of a path or name; a missing file is left for the reader to report."""
    found = [] if word.suffix in _SUFFIXES and word.exists() else find([str(word)])
    if len(found) > 1:
        raise ScenarioError([f"{word} holds {len(found)} scenarios; name one, or run them with `mrclab suite`"])
    return found[0] if found else word


def _files(word: str, home: Path) -> Iterable[Path]:
    for candidate in (Path(word), home / word, home.parent / word, *(home / f"{word}{suffix}" for suffix in _SUFFIXES)):
        if candidate.is_dir():
            return _below(candidate)
        if candidate.is_file():
            return [candidate]
    return []


def _below(directory: Path) -> list[Path]:
    files = []
    walk = os.walk(directory)  # files that disappear meanwhile or are not readable are skipped
    for count, (place, folders, names) in enumerate(walk):
        if _RESULT in names:
            folders.clear()
            continue
        if count == _MAX_FOLDERS:
            raise ScenarioError([f"{directory} has more than {_MAX_FOLDERS:,} folders; name one that holds scenarios"])
        files += [path for name in names if (path := Path(place, name)).suffix in _SUFFIXES and path.is_file()]
    return sorted(files, key=lambda path: (len(path.parts), str(path)))
