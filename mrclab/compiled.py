"""The compiled form of transport and simulator: extension modules that pip or `make setup` made of these very sources.

A build is for one kind of Python and machine, TAG: an installation by pip has it in mrclab/compiled_form/TAG, a
checkout in build/compiled/TAG. Its manifest names the digest of every source that it was made of. Where one of them has
changed since, or the library does not load, all of the build is left alone and the sources run as they are. So a
process has either all modules of the list compiled or none. MRCLAB_COMPILED=0 leaves a build alone; MRCLAB_COMPILED=1
refuses to run without.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from functools import cached_property
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

VARIABLE = "MRCLAB_COMPILED"
LIBRARY = "mrclab_compiled__mypyc"
"""Module that holds the code of all others."""

MANIFEST = "manifest.json"

TAG = EXTENSION_SUFFIXES[0].strip(".").split(".")[0]
"""One kind of Python and machine."""

INSTALLED = "compiled_form"
"""Folder of the package in which a wheel has its build."""

SETUPTOOLS = 77
"""The oldest setuptools that reads pyproject.toml."""

TREE = Path(__file__).resolve().parents[1]
"""Folder in which the package lies; in a checkout its root."""


class State(NamedTuple):
    """Form in which the modules run, compiled or plain, with a phrase for display."""

    runs: bool
    text: str


class Manifest(NamedTuple):
    """Contents of a build: its sources (file below the tree, SHA-256) and its modules (module, file below `folder`).

    `size` is the library's in bytes; `reason` says why there are no modules of these sources.
    """

    sources: dict[str, str]
    modules: dict[str, str]
    size: int
    reason: str = ""


def folder(tree: Path = TREE) -> Path:
    """Return the folder with the builds for this Python and the manifest that names the one in use."""
    installed = tree / "mrclab" / INSTALLED / TAG
    return installed if installed.is_dir() else tree / "build" / "compiled" / TAG


def _source(tree: str, name: str) -> str:
    """Return a file by its name in a wheel, such as `mrclab/sim/clock.py`: in a checkout `sim/clock.py`.

    As text, since each process looks at some hundred files.
    """
    inside = f"{tree}/{name}"
    return inside if os.path.exists(inside) else f"{tree}/{name.removeprefix('mrclab/')}"  # noqa: PTH110


def digest(source: Path | str) -> str:
    """The SHA-256 of a file."""
    with open(source, "rb") as file:  # noqa: PTH123 - as text
        return hashlib.sha256(file.read()).hexdigest()


def read(file: Path) -> Manifest | None:
    """Return the manifest in a file; None if it is none."""
    try:
        return Manifest(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def missing_requirement() -> str:
    """Return why nothing can be compiled here; empty where it can."""
    return missing_compiler() or _missing_package()


def missing_compiler() -> str:
    """Return the part that is missing here for compiling C; empty where nothing is."""
    import shutil  # noqa: PLC0415 - every process imports this module, and few ask this
    import sysconfig  # noqa: PLC0415

    compiler = str(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if not shutil.which(compiler):
        return f"there is no C compiler ({compiler}; package gcc)"
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        return "the headers of Python are not installed (package python3-dev)"
    return ""


def _missing_package() -> str:
    if importlib.util.find_spec("mypyc") is None or importlib.util.find_spec("setuptools") is None:
        return "mypyc and setuptools are not installed (pip install '.[dev]')"
    from importlib.metadata import version  # noqa: PLC0415 - it takes a moment

    if int((found := version("setuptools")).split(".")[0]) < SETUPTOOLS:
        return f"setuptools {found} is too old (pip install 'setuptools>={SETUPTOOLS}')"
    return ""


FOLDERS = ("hosts/mrc", "hosts/rdma", "hosts/roce", "hosts/workloads", "sim")
"""Folders whose modules are compiled: with `MRCLAB_COMPILED=1` they are refused where no build lists them."""

_PREFIXES = tuple(f"mrclab.{folder.replace('/', '.')}." for folder in FOLDERS)


class Finder:
    """Finds the modules of a build, if it is of these sources: that is checked once, at the first import of one."""

    def __init__(self, tree: Path = TREE) -> None:
        self._tree = tree
        self._home = folder(tree)
        self.manifest = self._home / MANIFEST

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the extension module of this name, if there is one and the build runs."""
        if not name.startswith("mrclab"):
            return None
        known = self._known
        if known is None or name not in known.modules:
            if name.startswith(_PREFIXES) and os.environ.get(VARIABLE) == "1":
                self.state  # noqa: B018 - refuses
            return None
        if not self.state.runs:
            return None
        module = known.modules[name]
        of_package = module.rpartition("/")[2].startswith("__init__.")
        inside = [_source(str(self._tree), name.replace(".", "/"))] if of_package else None
        return importlib.util.spec_from_file_location(name, f"{self._home}/{module}", submodule_search_locations=inside)

    @cached_property
    def state(self) -> State:
        """The form that runs in this process; RuntimeError, each time, if it must be compiled and is not."""
        found = self._check()
        if not found.runs and os.environ.get(VARIABLE) == "1":
            raise RuntimeError(f"{VARIABLE} is 1, but what runs is {found.text}; unset it, or: {remedy()}")
        return found

    @cached_property
    def _known(self) -> Manifest | None:
        """The manifest as it was at first use: another may have replaced it."""
        return read(self.manifest)

    def _check(self) -> State:
        if os.environ.get(VARIABLE) == "0":
            return State(False, f"plain Python, as {VARIABLE} is 0")
        known = self._known
        if known is None:
            return State(False, "plain Python, as nothing is compiled")
        tree = str(self._tree)
        changed = [name for name, digest_then in known.sources.items() if not _is_unchanged(tree, name, digest_then)]
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            first = changed[0].removeprefix("mrclab/")
            return State(False, f"plain Python, as {first}{more} changed since it was compiled")
        if known.reason:
            return State(False, f"plain Python, as {known.reason}")
        try:
            _load(self._home / known.modules.get(LIBRARY, "no library"), known.size)
        except (ImportError, OSError) as error:
            return State(False, f"plain Python, as the compiled modules do not load ({error})")
        return State(True, "compiled")


def _load(library: Path, size: int) -> None:
    """Load the library, in which the extension modules find their code by name."""
    if library.stat().st_size != size:  # the loader would map what is not there, which ends the process
        raise ImportError(f"{library.name} is not whole")
    spec = importlib.util.spec_from_file_location(LIBRARY, library)
    if spec is None or spec.loader is None:
        raise ImportError("there is no library")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[LIBRARY] = module


def _is_unchanged(tree: str, name: str, known: str) -> bool:
    """Return True if a source is as it was."""
    try:
        return digest(_source(tree, name)) == known
    except OSError:
        return False


_finder = Finder()


def state() -> State:
    """Return the form that runs in this process."""
    return _finder.state


def remedy() -> str:
    """Describe how to make the compiled form run where it does not."""
    if os.environ.get(VARIABLE) == "0":
        return f"unset {VARIABLE}"
    if (TREE / "setup" / "compiled.py").is_file():
        missing = missing_requirement()
        return f"{missing}; `make setup` then compiles it" if missing else "`make setup` compiles it"
    again = "`pip install --force-reinstall --no-deps .` in the source compiles it"
    return f"{missing}; then {again}" if (missing := missing_compiler()) else again


def runs(sources: dict[str, str]) -> bool:
    """Return True if there is a build of these sources that would run here."""
    known = read(folder() / MANIFEST)
    if known is None or known.sources != sources or known.reason or LIBRARY not in known.modules:
        return False
    library = folder() / known.modules[LIBRARY]
    return library.is_file() and library.stat().st_size == known.size


def take(manifest: Path) -> None:
    """Use the build of another manifest; call it before the first import of a compiled module."""
    _finder.manifest = manifest


def offer() -> None:
    """Make imports find the modules of a build before their sources."""
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
