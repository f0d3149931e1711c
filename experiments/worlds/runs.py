"""Runs of both worlds: those that are planned, and those that a directory holds, none of which is done twice.

Result directories themselves are the record of finished runs; an interruption loses only the current one.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, get_args

from mrclab.experiments.worlds.comparison import literal_brackets
from mrclab.lab.errors import LabError
from mrclab.lab.kinds import WorldName
from mrclab.lab.report import results
from mrclab.lab.report.differences import values_of
from mrclab.lab.report.summary import VALID, state_of
from mrclab.lab.run import worlds
from mrclab.lab.run.suite import SuiteEntry
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.scenario import Loaded
from mrclab.topo.input import files

TRIES = 3  # of a run for which the machine was too slow
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
    """Return the fields in which two runs of the same scenario agree; a file by its digest, as results rename it."""
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in scenario.files_of(loaded).items()}
    found = values_of(loaded.scenario, _NOT_COMPARED)
    return {path: digests.get(value, value) if path.endswith(".file") else value for path, value in found.items()}


def _read(directory: Path) -> StoredRun | None:
    try:
        result, info = results.read_file(directory, "result.json"), results.read_file(directory, "run.json")
        text = files.read_text(directory / "scenario.yaml", follow=False)
        loaded = scenario.loads(text, str(directory / "scenario.yaml"), within=directory)
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


# --- planned and missing runs -----------------------------------------------------------------------------------------


def name_of(run: Loaded) -> str:
    """Return the name of a run with its seed and world, for display."""
    jitter = ", with jitter" if run.fabric.spec.nic_jitter else ""
    return f"{label(run)}, seed {run.scenario.seed}, {run.scenario.world}{jitter}"


def comparable(loaded: Sequence[Loaded]) -> list[Loaded]:
    """Scenarios, and each of their variants, that can happen in both worlds: those that ask for one are left out."""
    return [run for one in loaded for run in one.runs if run.scenario.world == "wire"]


def matches(run: Loaded, pattern: str) -> bool:
    """Return True if the label of a run matches a shell pattern, in which brackets are literal."""
    return fnmatchcase(label(run), literal_brackets(pattern))


def plan(runs: Sequence[Loaded], seeds: Sequence[int], only: str | None = None) -> list[Loaded]:
    """Every run there is to do, all scenarios with one seed before the next; in both worlds, or in only one of them."""
    chosen: list[WorldName] = [world for world in get_args(WorldName) if only in {None, world}]
    found = [
        scenario.in_world(scenario.with_seed(run, seed), world) for seed in seeds for run in runs for world in chosen
    ]
    worlds.check(*found)
    return found


def with_jitter(loaded: Loaded, jitter: str) -> Loaded:
    """Return a run in virtual time whose hosts take up to `jitter`, a duration, longer for a packet that arrives."""
    return scenario.with_values(scenario.in_world(loaded, "sim"), {"fabric.nic_jitter": jitter})


def missing(store: Store, run: Loaded) -> int:
    """Return how often a run may still be tried: 0 where it is there, or was invalid as often as is allowed.

    An aborted run does not count.
    """
    states = [kept.state for kept in store.tries(run, run.scenario.world, run.scenario.seed)]
    return 0 if VALID & {*states} else max(TRIES - states.count("invalid"), 0)


def work(
    planned: Sequence[Loaded], store: Store, do: Callable[[Loaded], SuiteEntry], notify: Callable[[str], None]
) -> None:
    """Do missing runs, which leave their directories in the store's; Interrupted ends it."""
    left = [(run, tries) for run in planned if (tries := missing(store, run))]
    if len(left) < len(planned):
        notify(f"{len(planned) - len(left)} of {len(planned)} runs are done already")
    for number, (run, tries) in enumerate(left, 1):
        notify(f"{number} of {len(left)}: {name_of(run)}")
        for _ in range(tries):
            entry = do(run)
            notify(f"{name_of(run)}: {entry.outcome}")
            store.poll()
            if not missing(store, run):
                break
