"""The runs of the page's table: each once, with its history; a run is done when its line is there.

`entries.jsonl` has a line per finished run, under a digest of its scenario: a scenario that was changed is run again.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from mrclab.experiments.runs.store import Row, RunStore
from mrclab.lab.errors import LabError
from mrclab.lab.report import suitereport
from mrclab.lab.report.differences import values_of
from mrclab.lab.run import suite
from mrclab.lab.run.suite import Suite, SuiteEntry, SuiteResult
from mrclab.lab.scenario.files import finding, yamlfile
from mrclab.lab.scenario.scenario import Loaded

SCENARIOS = finding.SCENARIOS / "paper-scale"
_ENTRIES, _RUNS = "entries.jsonl", "runs"
_NOT_COMPARED = {"title", "description", "variants"}

SEEDS = (1, 2, 3, 4, 5)
"""With which each experiment runs."""


def planned(names: Sequence[str] = (), seeds: Sequence[int] = SEEDS) -> list[Loaded]:
    """Every run of the table, or those of the experiments whose names begin so; all of a seed before the next one's.

    LabError for a name with which none begins.
    """
    loaded = suite.load_all(sorted(SCENARIOS.glob("*.yaml")))
    for name in names:
        if not any(one.base_name.startswith(name) for one in loaded):
            known = ", ".join(one.base_name.partition("-")[0] for one in loaded)
            raise LabError(f"no experiment is called {name!r}; there are {known}")
    chosen = [one for one in loaded if not names or one.base_name.startswith(tuple(names))]
    return [job for seed in seeds for job in suite.runs(chosen, (seed,))]


def run(runs: Sequence[Loaded], directory: Path, notify: Callable[[str], None]) -> list[SuiteEntry]:
    """Do the runs that have no line; return all that ended."""
    known = store(directory)
    made = Suite(directory, lambda *_: None, notify, report=False)
    with known.owned():
        known.open()
        for number, loaded in enumerate(runs, 1):
            if digest(loaded) in known:
                continue
            notify(f"{number} of {len(runs)}: {loaded.scenario.name}")
            entry = made.run_one(loaded, directory / _RUNS)
            notify(f"{loaded.scenario.name}: {entry.outcome}")
            if entry.directory is not None and entry.is_valid:
                place = entry.directory.absolute().relative_to(directory.absolute())
                known.append({"digest": digest(loaded), "entry": {**asdict(entry), "directory": str(place)}})
    return _entries(known.rows, directory, runs)


def write(directory: Path) -> None:
    """Write suite.json of all runs of the table that have a line."""
    rows = {str(row["digest"]): row for row in store(directory).read()}
    suitereport.write_json(SuiteResult(directory, _entries(rows, directory, planned())))


def digest(loaded: Loaded) -> str:
    """Return the digest that names a run: of everything in its scenario that affects history or figures."""
    fields = {**values_of(loaded.scenario, _NOT_COMPARED), "name": loaded.scenario.name}
    return hashlib.sha256(json.dumps(fields, sort_keys=True, default=str).encode()).hexdigest()


def store(directory: Path) -> RunStore:
    """Return the store of a directory's entries, by digest."""
    return RunStore(directory / _ENTRIES, lambda row: str(row["digest"]), "a table of runs", "--results")


def _entries(rows: Mapping[str, Row], directory: Path, runs: Sequence[Loaded]) -> list[SuiteEntry]:
    """Return the entries of these runs, without those that are not done."""
    found = (rows.get(digest(loaded)) for loaded in runs)
    return [suite.entry_of(row["entry"], directory) for row in found if row is not None]


def texts_of(name: str) -> tuple[str, str]:
    """Return title and text of the appendix whose picture has this name."""
    fields = yamlfile.read(Path(__file__).with_name("texts.yaml")).data[name]
    return str(fields["title"]), str(fields["text"])
