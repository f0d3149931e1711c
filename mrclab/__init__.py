"""MRC Lab as one package: the Python API, and links to the folders beside this one (imports read `mrclab.hosts…`).

Names of the API are loaded when they are first used: `import mrclab` alone costs next to nothing.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrclab import compiled

if TYPE_CHECKING:
    from mrclab.experiments.campaign.calls import campaign
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
    "read",
    "run",
    "scenario",
    "up",
]

HOME = Path(__file__).parent  # what comes with the packages stands here too: p4src, scenarios

_ELSEWHERE = {
    "campaign": "experiments.campaign.calls",
    "Lab": "lab.session.lab",
    "Table": "lab.tables",
} | dict.fromkeys(("LabError", "Refused", "RunError", "ScenarioError"), "lab.errors")

compiled.offer()


def __getattr__(name: str) -> Any:
    """A name of the API, loaded at its first use."""
    if name not in __all__:
        raise AttributeError(f"module 'mrclab' has no attribute {name!r}")
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - only who asks pays for it

        found: Any = version("mrclab")
    else:
        found = getattr(import_module(f"mrclab.{_ELSEWHERE.get(name, 'lab.api')}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
