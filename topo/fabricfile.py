"""The file `fabric.yaml`: the resolved description of a lab's fabric, written by the lab, read by other processes."""

import warnings
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import ReusedAnchorWarning, YAMLError

from mrclab.topo import spec
from mrclab.topo.input import files
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec, SpecError

warnings.filterwarnings("ignore", category=ReusedAnchorWarning)  # YAML allows it; users see no Python warnings

_MAX_BYTES = 1 << 20
UNREADABLE = (YAMLError, ValueError, TypeError, ArithmeticError, AttributeError, KeyError, RecursionError)
"""Exceptions that ruamel.yaml's constructors raise on text that is not YAML, or has an invalid number or date."""


def store(described: FabricSpec, path: Path) -> None:
    """Write a description in one step: others wait for the file. OSError where it cannot be written."""
    with files.replacing(path) as file:
        YAML(typ="safe", pure=True).dump(described.model_dump(mode="json"), file)


def load(path: Path, *, follow: bool = True) -> Fabric:
    """Read a description; SpecError has its mistake in one sentence, OSError the reason why it cannot be read."""
    try:
        data: Any = YAML(typ="safe", pure=True).load(files.read_text(path, _MAX_BYTES, follow=follow))
    except UNREADABLE as error:
        raise SpecError(f"{path} is not YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(data, dict):
        raise SpecError(f"{path} holds no mapping; it should give planes, t0s, t1s, hosts_per_t0")
    return Fabric(spec.load(data))
