"""Does missing runs, none twice; an interruption loses only the current run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import get_args

from mrclab.experiments.worlds.comparison import literal_brackets
from mrclab.experiments.worlds.store import Store, label
from mrclab.lab.kinds import WorldName
from mrclab.lab.report.summary import VALID
from mrclab.lab.run import worlds
from mrclab.lab.run.suite import SuiteEntry
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.scenario import Loaded

TRIES = 3  # of a run for which the machine was too slow


@dataclass(frozen=True)
class WorldsJob:
    """One run: a scenario, or a variant of one, with a seed in a world."""

    loaded: Loaded  # as it is run
    world: WorldName

    @property
    def name(self) -> str:
        """Name for display."""
        jitter = ", with jitter" if self.loaded.fabric.spec.nic_jitter else ""
        return f"{label(self.loaded)}, seed {self.loaded.scenario.seed}, {self.world}{jitter}"


def comparable(loaded: Sequence[Loaded]) -> list[Loaded]:
    """Scenarios, and each of their variants, that can happen in both worlds: those that ask for one are left out."""
    return [run for one in loaded for run in one.runs if run.scenario.world == "wire"]


def matches(run: Loaded, pattern: str) -> bool:
    """Return True if the label of a run matches a shell pattern, in which brackets are literal."""
    return fnmatchcase(label(run), literal_brackets(pattern))


def plan(runs: Sequence[Loaded], seeds: Sequence[int], only: str | None = None) -> list[WorldsJob]:
    """Every run there is to do, all scenarios with one seed before the next; in both worlds, or in only one of them."""
    chosen: list[WorldName] = [world for world in get_args(WorldName) if only in {None, world}]
    found = [
        WorldsJob(scenario.in_world(scenario.with_seed(run, seed), world), world)
        for seed in seeds
        for run in runs
        for world in chosen
    ]
    worlds.check(*(job.loaded for job in found))
    return found


def with_jitter(loaded: Loaded, jitter: str) -> Loaded:
    """Return a run in virtual time whose hosts take up to `jitter`, a duration, longer for a packet that arrives."""
    return scenario.with_values(scenario.in_world(loaded, "sim"), {"fabric.nic_jitter": jitter})


def missing(store: Store, job: WorldsJob) -> int:
    """Return how often a run may still be tried: 0 where it is there, or was invalid as often as is allowed.

    An aborted run does not count.
    """
    states = [kept.state for kept in store.tries(job.loaded, job.world, job.loaded.scenario.seed)]
    return 0 if VALID & {*states} else max(TRIES - states.count("invalid"), 0)


def work(
    jobs: Sequence[WorldsJob], store: Store, run: Callable[[Loaded], SuiteEntry], notify: Callable[[str], None]
) -> None:
    """Do missing runs, which leave their directories in the store's; Interrupted ends it."""
    left = [(job, tries) for job in jobs if (tries := missing(store, job))]
    if len(left) < len(jobs):
        notify(f"{len(jobs) - len(left)} of {len(jobs)} runs are done already")
    for number, (job, tries) in enumerate(left, 1):
        notify(f"{number} of {len(left)}: {job.name}")
        for _ in range(tries):
            entry = run(job.loaded)
            notify(f"{job.name}: {entry.state}" + (f" – {entry.error}" if entry.error else ""))
            store.poll()
            if not missing(store, job):
                break
