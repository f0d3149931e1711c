"""The runs that a directory holds: the result directories themselves are the record of finished runs."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mrclab.lab.errors import LabError
from mrclab.lab.kinds import WorldName
from mrclab.lab.report import results
from mrclab.lab.report.differences import values_of
from mrclab.lab.report.summary import VALID, state_of
from mrclab.lab.scenario.scenario import Loaded, loads
from mrclab.topo.input import files

_NOT_COMPARED = {"title", "description", "seed", "world", "variants"}


@dataclass(frozen=True)
class StoredRun:
    """One finished run, as its directory has it."""

    label: str  # the scenario's name, with that of its variant
    world: WorldName
    seed: int
    state: str  # passed, failed, invalid, aborted
    facts: dict[str, Any]  # of `mrclab.lab.report.summary.Facts`
    info: dict[str, Any]  # of run.json
    values: dict[str, Any]  # of the scenario, without its seed and world


class Store:
    """All runs below a directory, those of suites there too."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._kept: list[StoredRun] = []
        self._seen: set[Path] = set()
        self.poll()

    def poll(self) -> None:
        """Read the runs that are new; a run whose results are incomplete is skipped."""
        for path in sorted(self.directory.rglob("result.json")):
            if path not in self._seen and (kept := _read(path.parent)):
                self._kept.append(kept)
                self._seen.add(path)

    def of(self, loaded: Loaded, world: WorldName, seeds: Iterable[int]) -> list[StoredRun]:
        """The valid runs of a scenario in a world, the newest of each seed; where one has none, an invalid one."""
        return [kept for seed in seeds if (kept := self._best(loaded, world, seed))]

    def tries(self, loaded: Loaded, world: WorldName, seed: int) -> list[StoredRun]:
        """Every run of a scenario in a world with a seed, oldest first."""
        fields = values(loaded)
        mine = [kept for kept in self._kept if (kept.label, kept.world, kept.seed) == (label(loaded), world, seed)]
        return sorted((k for k in mine if k.values == fields), key=lambda kept: str(kept.info.get("finished", "")))

    def _best(self, loaded: Loaded, world: WorldName, seed: int) -> StoredRun | None:
        tries = self.tries(loaded, world, seed)
        valid = [kept for kept in tries if kept.state in VALID]
        return next(reversed(valid or tries), None)


def label(loaded: Loaded) -> str:
    """Return the name of a run, the same in both worlds."""
    return f"{loaded.base_name} [{loaded.variant}]" if loaded.variant else loaded.base_name


def values(loaded: Loaded) -> dict[str, Any]:
    """Return the fields in which two runs of the same scenario agree."""
    return values_of(loaded.scenario, _NOT_COMPARED)


def _read(directory: Path) -> StoredRun | None:
    try:
        result, info = results.read_file(directory, "result.json"), results.read_file(directory, "run.json")
        text = files.read_text(directory / "scenario.yaml", follow=False)
        loaded = loads(text, str(directory / "scenario.yaml"), within=directory)
    except (OSError, ValueError, LabError):
        return None
    if loaded.scenario.history == "none" or not {"base", "seed"} <= info.keys():
        return None
    if "totals" not in result.get("facts", {}):
        raise LabError(f"{directory} has a report of an older kind; make it again with `mrclab report {directory}`")
    variant = str(info.get("variant", ""))
    name = f"{info['base']} [{variant}]" if variant else str(info["base"])
    world: WorldName = "sim" if info.get("world") == "sim" else "wire"
    return StoredRun(name, world, int(info["seed"]), state_of(result["state"]), result["facts"], info, values(loaded))
