"""Finds the modules of transport and simulator that are compiled into one library, in the page's Python.

Imported before the first of them. Each has a capsule in the library, named after it.
"""

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from pathlib import Path
from types import ModuleType

FILE = Path(__file__).with_name("mrclab_compiled__mypyc.so")


def _of_library(name: str) -> ModuleType:
    loader = ExtensionFileLoader(name, str(FILE))
    spec = importlib.util.spec_from_file_location(name, FILE, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    sys.modules[name] = module
    return module


class Finder:
    """Finds and loads compiled modules."""

    def __init__(self) -> None:
        self._library = _of_library(FILE.stem)
        self._load = _of_library("mrclab_loader").load
        names = [name for name in dir(self._library) if name.startswith("init_")]
        self._capsules = {name.removeprefix("init_").replace("___", "."): name for name in names}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of this name, if it is compiled."""
        if name not in self._capsules:
            return None
        folder = FILE.parent.joinpath(*name.split("."))
        spec = ModuleSpec(name, self, is_package=folder.is_dir())  # type: ignore[arg-type]
        if folder.is_dir():
            spec.submodule_search_locations = [str(folder)]
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Run the module: the compiled code makes it."""
        module: ModuleType = self._load(getattr(self._library, self._capsules[spec.name]))
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module has run."""


sys.meta_path.insert(0, Finder())  # type: ignore[arg-type]
