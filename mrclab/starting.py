"""Quick start of a process: garbage is looked for seldom while modules are loaded, and plugins of pydantic never."""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_NEW_OBJECTS = 100_000  # until garbage is looked for: loading makes many objects, and all of them stay
_LOADER = "pydantic.plugin._loader"


class _NoPlugins(ModuleType):
    """Takes the place of pydantic's loader of plugins, which imports importlib.metadata and takes long."""

    get_plugins = tuple

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        sys.modules.pop(_LOADER, None)
        return getattr(import_module(_LOADER), name)


def quickly() -> None:
    """Prepare the process, before modules are imported."""
    gc.set_threshold(_NEW_OBJECTS)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # to look for some goes through all installed packages
    if os.environ["PYDANTIC_DISABLE_PLUGINS"] == "__all__":
        sys.modules.setdefault(_LOADER, _NoPlugins(_LOADER))
