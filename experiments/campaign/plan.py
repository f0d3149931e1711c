"""Plan of a campaign: every seed with every combination of swept fields, for every variant of a scenario."""

import hashlib
import itertools
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mrclab.lab.errors import LabError
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.scenario import Loaded

_NOT_SWEPT = {"seed": "use --seeds for this", "world": "a campaign runs in virtual time"}


@dataclass(frozen=True)
class SweptScenario:
    """A scenario with one combination of values: all that its runs need, wherever they are."""

    variant: str
    values: Mapping[str, Any]  # dotted path → value
    text: str  # of the scenario with them, in virtual time
    files: Mapping[str, str]  # name → text of those that it names
    source: str
    flows: bool = False  # rows have a table of flows

    def loaded(self) -> Loaded:
        """Parse the scenario; LabError where it is invalid."""
        return scenario.loads(self.text, self.source, self.files)


@dataclass(frozen=True)
class Job:
    """One run."""

    setting: SweptScenario
    seed: int

    @property
    def variant(self) -> str:
        """Variant of the scenario; empty where it has none."""
        return self.setting.variant

    @property
    def values(self) -> Mapping[str, Any]:
        """Values of the swept fields, by path."""
        return self.setting.values

    @property
    def key(self) -> str:
        """Identity of the run: equal in every process."""
        return key(self.variant, self.values, self.seed)

    @property
    def replay(self) -> str:
        """The command that runs it again, with a report."""
        words = ["mrclab", "run", self.setting.source, "--world", "sim", "--seed", str(self.seed)]
        words += ["--variant", self.variant] if self.variant else []
        for path, value in self.values.items():
            words += ["--set", f"{path}={value if isinstance(value, str) else json.dumps(value)}"]
        return shlex.join(words)


def key(variant: str, values: Mapping[str, Any], seed: int) -> str:
    """Return the key of a run in the table."""
    return json.dumps([variant, values, seed], sort_keys=True)


@dataclass(frozen=True)
class CampaignPlan:
    """A campaign before it runs. Iterating gives its jobs: all variants and values with one seed before the next."""

    settings: tuple[SweptScenario, ...]
    seeds: Sequence[int]
    fields: tuple[str, ...]  # that are swept
    source: str
    digest: str  # of the scenario, seed and swept fields aside
    files: Mapping[str, str]  # name → digest of each file that a setting names

    @property
    def keeps_flows(self) -> bool:
        """True if rows have a table of flows."""
        return any(setting.flows for setting in self.settings)

    def __len__(self) -> int:
        return len(self.settings) * len(self.seeds)

    def __iter__(self) -> Iterator[Job]:
        for seed in self.seeds:
            for setting in self.settings:
                yield Job(setting, seed)


def make(
    loaded: Loaded,
    seeds: Sequence[int],
    swept: Mapping[str, Sequence[Any]],
    variant: str = "",
    *,
    of_variants: Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
    flows: bool = False,
) -> CampaignPlan:
    """Check every combination; ScenarioError names those that the scenario's models refuse.

    `of_variants`: the variants that run, in place of all, each with what is swept of it alone. `flows`: keep a table of
    flows.
    """
    virtual = scenario.in_world(loaded, "sim")
    names = [variant] if variant else of_variants
    chosen = virtual.runs if names is None else tuple(virtual.pick(name) for name in names)
    settings = []
    fields = dict.fromkeys(swept)
    for one in chosen:
        given = {**swept, **(of_variants or {}).get(one.variant, {})}
        own = {path: _distinct(path, values) for path, values in given.items()}
        fields |= dict.fromkeys(own)
        for drawn in itertools.product(*own.values()):
            values = dict(zip(own, drawn, strict=True))
            made = scenario.with_values(one, values)
            files = scenario.files_of(made)
            settings.append(SweptScenario(one.variant, values, made.text, files, loaded.source, flows))
    files = {name: _digest(text) for setting in settings for name, text in setting.files.items()}
    digest = _digest("\n".join(one.text for one in chosen))
    return CampaignPlan(tuple(settings), tuple(dict.fromkeys(seeds)), tuple(fields), loaded.source, digest, files)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def parse_sweeps(words: Sequence[str]) -> dict[str, list[Any]]:
    """`fabric.t1s=2,4,8` each → values by path; LabError for a path that comes twice."""
    swept: dict[str, list[Any]] = {}
    for word in words:
        path, values = scenario.parse_values(word)
        if path in swept:
            raise LabError(f"--set {word}: {path} is swept already; give all its values at once, after one =")
        swept[path] = values
    return swept


def _distinct(path: str, values: Sequence[Any]) -> list[Any]:
    """Return the values of a swept field, each once; LabError for a field that no campaign sweeps."""
    if path in _NOT_SWEPT:
        raise LabError(f"{path} cannot be swept; {_NOT_SWEPT[path]}")
    return list({json.dumps(value, sort_keys=True): value for value in values}.values())
