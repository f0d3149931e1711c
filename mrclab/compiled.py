"""The compiled form of transport and simulator: extension modules that `make compiled` made of these very sources.

A build lies beside the sources, in build/compiled/TAG for one kind of Python; its manifest names the digest of every
source that it was made of. Where one of them has changed since, or the extension modules do not load, all of the build
is left alone and the sources run as they are. So a process has either all modules of the list compiled or none.
MRCLAB_COMPILED=0 leaves a build alone; MRCLAB_COMPILED=1 refuses to run without.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

VARIABLE = "MRCLAB_COMPILED"
LIBRARY = "mrclab_compiled__mypyc"
"""Module that holds the code of all others."""

_HOME = Path(__file__).parent
TREE = _HOME.parent
"""Where the folders lie; in a wheel there is nothing beside them."""


class State(NamedTuple):
    """Whether the compiled modules run, and in words what does."""

    runs: bool
    text: str


class Manifest(NamedTuple):
    """What a build was made of (file below the tree, SHA-256) and what it made (module, file below the build)."""

    sources: dict[str, str]
    modules: dict[str, str]


def folder(tree: Path = TREE) -> Path:
    """Where the build for this Python lies."""
    return tree / "build" / "compiled" / EXTENSION_SUFFIXES[0].strip(".").split(".")[0]


def digest(source: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(source.read_bytes()).hexdigest()


class Finder:
    """Finds the modules of a build. Whether it may is looked up once, when the first of them is wanted."""

    def __init__(self, tree: Path = TREE) -> None:
        self._tree = tree
        self._build = folder(tree)
        self._state: State | None = None
        self._modules: dict[str, str] | None = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The extension module of this name, if there is one and the build counts."""
        del path, target
        if not name.startswith("mrclab") or name not in (listed := self._listed()) or not self.state().runs:
            return None
        file = self._build / listed[name]
        inside = [str(self._tree.joinpath(*name.split(".")))] if file.stem.startswith("__init__.") else None
        return importlib.util.spec_from_file_location(name, file, submodule_search_locations=inside)

    def state(self) -> State:
        """Whether the build counts in this process; RuntimeError where it must and does not."""
        if self._state is None:
            self._state = self._look()
            if not self._state.runs and os.environ.get(VARIABLE) == "1":
                raise RuntimeError(f"{VARIABLE} is 1, but what runs is {self._state.text}")
        return self._state

    def _listed(self) -> dict[str, str]:
        if self._modules is None:
            manifest = _read(self._build)
            self._modules = {} if manifest is None else manifest.modules
        return self._modules

    def _look(self) -> State:
        if os.environ.get(VARIABLE) == "0":
            return State(False, f"plain Python, as {VARIABLE} is 0")
        manifest = _read(self._build)
        if manifest is None:
            return State(False, "plain Python; `make compiled` makes it faster where a C compiler is")
        changed = [name for name, known in manifest.sources.items() if not _is(self._tree / name, known)]
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            return State(False, f"plain Python, as {changed[0]}{more} changed since `make compiled`")
        try:
            _load(self._build / manifest.modules.get(LIBRARY, "no library"))
        except ImportError as error:
            return State(False, f"plain Python, as the compiled modules do not load ({error}); run `make compiled`")
        return State(True, "compiled")


def _read(build: Path) -> Manifest | None:
    try:
        return Manifest(**json.loads((build / "manifest.json").read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _load(library: Path) -> None:
    """Load what the extension modules refer to by its name."""
    spec = importlib.util.spec_from_file_location(LIBRARY, library)
    if spec is None or spec.loader is None:
        raise ImportError("there is no library")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[LIBRARY] = module


def _is(source: Path, known: str) -> bool:
    try:
        return digest(source) == known
    except OSError:
        return False


_finder = Finder()


def state() -> State:
    """What runs in this process."""
    return _finder.state()


def offer() -> None:
    """Have the modules of a build found before their sources."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
