"""MRC Lab as one package: the Python API, and the packages of this project (imports read `mrclab.hosts…`).

A wheel has the packages in this folder, a checkout beside it.

Names of the API are loaded when they are first used: `import mrclab` alone costs next to nothing.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrclab import compiled

if TYPE_CHECKING:
    from mrclab.experiments.campaign.calls import campaign, campaign_figure, campaign_table
    from mrclab.lab.api import Run, Scenario, read, run, scenario, up
    from mrclab.lab.errors import LabError, Refused, RunError, ScenarioError
    from mrclab.lab.session.lab import Lab
    from mrclab.lab.tables import Table

    __version__: str

__all__ = [
    "Lab",
    "LabError",
    "Refused",
    "Run",
    "RunError",
    "Scenario",
    "ScenarioError",
    "Table",
    "__version__",
    "campaign",
    "campaign_figure",
    "campaign_table",
    "read",
    "run",
    "scenario",
    "up",
]

PACKAGES = ("bench", "controller", "events", "experiments", "hosts", "lab", "rpc", "sim", "softswitch", "topo")
"""Folders that are packages of this one."""

_HERE = Path(__file__).resolve().parent
HOME = _HERE.parent if not (_HERE / "topo").is_dir() and (_HERE.parent / "topo").is_dir() else _HERE
"""Folder with the packages, with `p4src` and `scenarios`; in a checkout its root, with `docs` and all else."""

if HOME != _HERE:
    __path__.append(str(HOME))

_ELSEWHERE = {
    **dict.fromkeys(("campaign", "campaign_figure", "campaign_table"), "experiments.campaign.calls"),
    "Lab": "lab.session.lab",
    "Table": "lab.tables",
} | dict.fromkeys(("LabError", "Refused", "RunError", "ScenarioError"), "lab.errors")

compiled.offer()


def __getattr__(name: str) -> Any:
    """A name of the API, loaded at its first use."""
    if name not in __all__:
        raise AttributeError(f"module 'mrclab' has no attribute {name!r}")
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - slow, and rarely used

        found: Any = version("mrclab")
    else:
        found = getattr(import_module(f"mrclab.{_ELSEWHERE.get(name, 'lab.api')}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
