"""The Python API, which `import mrclab` gives: build a scenario, run it, read its tables, step a lab that is up.

Times in tables are seconds after the first workload began, sizes are bytes, rates payload bytes per second. Names that
`mrclab.__all__` lists keep their meaning within a major version; every other module may change at any time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, get_args

from typing_extensions import Self

from mrclab.lab.callers import arguments_named, need_main_thread, path_of, plain, seed_of, text_of
from mrclab.lab.errors import LabError, ScenarioError
from mrclab.lab.figures import Plots
from mrclab.lab.kinds import TargetName, WorldName
from mrclab.lab.report import results as directories
from mrclab.lab.report.results import CollectedRun
from mrclab.lab.run import runner, worlds
from mrclab.lab.scenario import scenario as files
from mrclab.lab.scenario.files import finding
from mrclab.lab.scenario.scenario import Loaded
from mrclab.lab.session.lab import Lab, lab_up
from mrclab.lab.tables import RunTables
from mrclab.topo.linux.paths import RUN_DIR, folder_prefix


class Scenario:
    """A validated scenario, which can be run. Immutable; `with_values` returns a changed copy."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded  # of the modules inside, no part of the API

    @classmethod
    def from_yaml(cls, source: str | Path) -> Self:
        """Read a file, a scenario of the package by its name, or text of several lines.

        Raises ScenarioError, which lists every mistake with its line, field and remedy.
        """
        if isinstance(source, str) and "\n" in source:
            return cls(files.loads(source))
        return cls(files.load(finding.find_one(path_of(source, "source"))))

    @property
    def name(self) -> str:
        """Name of the scenario, with that of the variant where it is one."""
        return self.loaded.scenario.name

    @property
    def yaml(self) -> str:
        """Text of the scenario as a file holds it."""
        return self.loaded.text

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of all hosts of the fabric."""
        return tuple(host.name for host in self.loaded.fabric.hosts)

    @property
    def links(self) -> tuple[str, ...]:
        """Names of all cables of the fabric."""
        return tuple(link.name for link in self.loaded.fabric.links)

    @property
    def variants(self) -> tuple[Scenario, ...]:
        """Variants of the file, each a scenario of its own; empty where it has none."""
        return tuple(Scenario(variant) for variant in self.loaded.variants)

    def variant(self, name: str) -> Scenario:
        """Return the variant of this name; ScenarioError offers the nearest."""
        return Scenario(self.loaded.pick(name))

    def with_values(self, values: Mapping[str, Any]) -> Scenario:
        """Return the scenario with other values at dotted paths, such as `{"fabric.t1s": 4}`.

        Raises ScenarioError for an unknown path and for an invalid value.
        """
        if not isinstance(values, Mapping):
            raise LabError(f"values are a dict of dotted paths, such as {{'fabric.t1s': 4}}, not {values!r:.60}")
        return Scenario(files.with_values(self.loaded, {path: plain(v, str(path)) for path, v in values.items()}))

    def _placed(self, world: WorldName | None, seed: int | None) -> Loaded:
        """One run of it, in a world and with a seed; None: as in the scenario."""
        if self.loaded.variants:
            names = ", ".join(variant.variant for variant in self.loaded.variants)
            raise ScenarioError(
                [f"{self.name} has variants: {names}; run scenario.variant(NAME), or each of .variants"]
            )
        if world is not None:
            files.setting({"world": world})
        placed = files.in_world(self.loaded, world)
        return placed if seed is None else files.with_seed(placed, seed_of(seed, "seed"))

    def __repr__(self) -> str:
        return f"<Scenario {self.name}>"


def scenario(
    *,
    traffic: Sequence[Mapping[str, Any]],
    fabric: Mapping[str, Any] | None = None,
    faults: Sequence[Mapping[str, Any]] = (),
    expect: Sequence[Mapping[str, Any]] = (),
    name: str = "scenario",
    **fields: Any,
) -> Scenario:
    """Build a scenario from dicts with the fields of a scenario file; `fields` are its other sections.

    Raises ScenarioError with the messages that the file would get; its lines count in `Scenario.yaml`.
    """
    given = {
        "name": text_of(name, "name"),
        "fabric": fabric,
        "faults": faults,
        "expect": expect,
        **fields,
        "traffic": traffic,
    }
    sections = {key: plain(value, key) for key, value in given.items()}
    needed = {key: value for key, value in sections.items() if key == "traffic" or value not in (None, [], {})}
    return Scenario(files.from_data(needed, name))


class Run(RunTables):
    """A run that ended: verdicts, tables and pictures. Returned by `run` and `read`."""

    def __init__(self, loaded: Loaded, outcome: CollectedRun, directory: Path | None) -> None:
        super().__init__(outcome.measures, outcome.verdicts)
        self.scenario = Scenario(loaded)
        self.directory = directory
        """Result directory; None where nothing was kept."""
        self.state = outcome.state
        """`passed`, `failed`, `invalid` (the machine could not keep up) or `aborted` (it did not reach its end)."""
        self.error = outcome.error
        """Why the run was aborted; empty where it was not."""

    @property
    def trouble(self) -> str:
        """`error`, by its older name."""
        return self.error

    @property
    def passed(self) -> bool:
        """True if every expectation passed, the run reached its end and the machine kept up."""
        return self.state == "passed"

    @property
    def seconds(self) -> float:
        """Seconds from the beginning of the first traffic to the end of the last one."""
        return self._measures.end - self._measures.start

    @property
    def plot(self) -> Plots:
        """Pictures of the report as matplotlib figures."""
        return Plots(self._measures)

    def __repr__(self) -> str:
        return f"<Run {self.scenario.name}: {self.state}>"


def run(
    scenario: Scenario,
    world: WorldName | None = "sim",
    *,
    seed: int | None = None,
    results: str | Path | None = None,
    target: TargetName | None = None,
) -> Run:
    """Run a scenario to its end.

    `world`: `sim` is virtual time, `wire` real frames (root, Linux), None the scenario's choice. `results`: folder
    below which a result directory with a report is written; None keeps nothing on disk. `target`: P4 switch on the
    wire. Raises ScenarioError for a scenario that the world does not support, Refused where this machine cannot run the
    world. A run that is aborted raises nothing; its `state` says so. Call it in the main thread: it handles Ctrl-C.
    """
    if not isinstance(scenario, Scenario):
        raise LabError(f"run takes a Scenario, not {scenario!r:.60}; make one with mrclab.Scenario.from_yaml(…)")
    _check_target(target)
    need_main_thread("mrclab.run")
    with arguments_named():
        loaded = scenario._placed(world, seed)  # noqa: SLF001 - of this module
        worlds.check_target(target, loaded.scenario.world)
        worlds.check(loaded)
        worlds.check_size(loaded)
        if results is not None:
            outcome = runner.run_scenario(loaded, path_of(results, "results"), target=target)
            return Run(loaded, outcome, outcome.directory)
        with tempfile.TemporaryDirectory(prefix=folder_prefix()) as folder:
            outcome = runner.run_scenario(loaded, Path(folder), target=target, report=False)
            return Run(loaded, outcome, None)


def _check_target(target: object) -> None:
    if target not in (None, *get_args(TargetName)):
        raise LabError(f"target: {target!r} is unknown; known here: {', '.join(get_args(TargetName))}")


def read(directory: str | Path) -> Run:
    """Read a result directory and judge it again; LabError where it is not one."""
    place = path_of(directory, "directory")
    with directories.foreign(place):
        collected = directories.load(place)
        return Run(collected.loaded, collected, place)


def up(
    fabric: Mapping[str, Any] | None = None,
    world: WorldName = "sim",
    *,
    seed: int = 1,
    target: TargetName | None = None,
    **options: Any,
) -> LabBlock:
    """Bring up a lab for the block, to be stepped live; it is gone after the block.

    `fabric` has the fields of a scenario's section, and so have the `options` transport, mapper and repeatable. Raises
    ScenarioError for an invalid field, Refused where this machine cannot run the world.
    """
    _check_target(target)
    need_main_thread("mrclab.up")
    with arguments_named():
        fields = {"world": world, "seed": seed_of(seed, "seed"), "fabric": {} if fabric is None else fabric, **options}
        setting, made = files.setting({name: plain(value, name) for name, value in fields.items()})
        worlds.check_target(target, setting.world)
        worlds.check_setting(setting, made)
        worlds.check_machine_for(setting.world)
    return LabBlock(lab_up(setting, made, lambda *_: None, target, RUN_DIR))


class LabBlock(AbstractContextManager[Lab]):
    """A lab for one block, which `up` returns."""

    def __init__(self, block: AbstractContextManager[Lab]) -> None:
        self._block = block
        self._entered = False

    def __enter__(self) -> Lab:
        if self._entered:
            raise LabError("this lab was up already; call mrclab.up again for another one")
        self._entered = True
        return self._block.__enter__()

    def __exit__(self, *raised: Any) -> bool | None:
        return self._block.__exit__(*raised)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{name} of a lab that is not up; write `with mrclab.up(…) as lab:`, and use lab inside")
