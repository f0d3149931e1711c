"""Does missing runs, none twice; an interruption loses only the current run."""

from collections.abc import Callable, Sequence
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
