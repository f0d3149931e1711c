"""Sizes of the job, the runs of each, and where they are kept.

A size changes the fabric and the degrees of parallelism. In the larger jobs a rank sends less in a step, and there are
fewer steps.
Runs are kept under a digest of the sources that affect results, so that a page is never made of two programs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from mrclab.experiments.campaign import plan, work
from mrclab.experiments.campaign.journal import ROWS, Journal
from mrclab.experiments.campaign.plan import CampaignPlan, Job
from mrclab.experiments.runs import batch, processes
from mrclab.experiments.runs.store import Row, grouped, sources
from mrclab.experiments.training import branches
from mrclab.lab.scenario import scenario

SCENARIO = Path(__file__).with_name("jobs.yaml")
NAMED = "experiments/training/jobs.yaml"
STEPS = 4

FEW_EVS = {"active_per_plane": 24, "backup_per_plane": 8}
"""EVs of a QP in the largest jobs, half the default, as they use most of the memory."""

_LARGE = 8192
_LAYERS = 4  # of a stage
_PARAMETERS = 262_144  # of a layer of the job in the file
_FEW_PARAMETERS = 32_768  # of a layer of the larger jobs, an eighth of what the file's has


@dataclass(frozen=True)
class JobSize:
    """A fabric at true speed and a job on all its NICs; `seeds` is the default number of seeds."""

    nics: int
    t0s: int
    t1s: int
    hosts_per_t0: int
    pipeline: int
    seeds: int
    transports: tuple[str, ...]
    faults: tuple[str, ...]
    steps: int

    @property
    def values(self) -> dict[str, Any]:
        """Fields of the scenario that differ from those of its file."""
        if self.nics == SIZES[0].nics:
            return {}
        layers = _LAYERS * self.pipeline
        return {
            "fabric.t0s": self.t0s,
            "fabric.t1s": self.t1s,
            "fabric.hosts_per_t0": self.hosts_per_t0,
            "traffic.job.pipeline": self.pipeline,
            "traffic.job.layers": layers,
            "traffic.job.parameters": layers * _FEW_PARAMETERS,
            "traffic.job.bucket": "16KiB",
            "traffic.job.activations": "8KiB",
            "traffic.job.steps": self.steps,
        }

    @property
    def few_evs(self) -> bool:
        """True if MRC's QPs have half the usual EVs."""
        return self.nics >= _LARGE

    def values_of(self, variant: str) -> dict[str, Any]:
        """Return the fields of one variant that differ from those of the size."""
        return {"transport.ev_profile": FEW_EVS} if self.few_evs and variant.startswith("mrc") else {}

    @property
    def data(self) -> int:
        """The degree of data parallelism."""
        return self.nics // (8 * self.pipeline)

    @property
    def gradients(self) -> int:
        """Bytes of a rank's gradients in a step: two for each parameter, which eight ranks share."""
        return _LAYERS * (_PARAMETERS if self.nics == SIZES[0].nics else _FEW_PARAMETERS) * 2 // 8

    @property
    def variants(self) -> list[str]:
        """Names of the runs of one seed, transport by transport."""
        return [f"{transport}-{fault}" for transport in self.transports for fault in self.faults]

    def plan(self, seeds: Sequence[int], only: Collection[str] = ()) -> CampaignPlan:
        """Return the campaign of all variants, or of `only` these; its fields and digest are the same."""
        swept = {path: [value] for path, value in self.values.items()}
        all_own = {name: {path: [value] for path, value in self.values_of(name).items()} for name in self.variants}
        fields = dict.fromkeys([*swept, *(path for own in all_own.values() for path in own)])
        chosen = {name: own for name, own in all_own.items() if name in only or not only}
        made = plan.make(scenario.load(SCENARIO), seeds, swept, of_variants=chosen)
        digest = hashlib.sha256(SCENARIO.read_bytes()).hexdigest()
        return CampaignPlan(made.settings, seeds, tuple(fields), NAMED, digest, made.files)

    def command(self, variant: str, seed: int) -> str:
        """Return the command that makes a run again, with its report."""
        words = [f"mrclab run {NAMED} --variant {variant} --seed {seed}"]
        for path, value in {**self.values, **self.values_of(variant)}.items():
            words.append(f"--set {shlex.quote(f'{path}={json.dumps(value)}')}")
        return " ".join(words)


_ALL = ("mrc", "roce-16", "mrc-mapper", "mrc-mute", "roce-1")
_FAULTS = ("calm", "flap", "flapping", "port", "t0", "t1", "lossy")
SIZES = (
    JobSize(64, 4, 16, 16, 2, 5, _ALL, _FAULTS, STEPS),
    JobSize(1024, 32, 32, 32, 4, 5, _ALL, _FAULTS, 1),
    JobSize(8192, 128, 64, 64, 8, 5, _ALL, _FAULTS, 1),
    JobSize(32768, 512, 64, 64, 32, 5, ("mrc",), ("calm", "flap", "t0"), 1),
)


class TrainingRun(NamedTuple):
    """Figures of a run; `completed`: its job did all its steps. `sources`: the digest of its program."""

    variant: str
    sources: str
    steps: int
    seed: int
    completed: bool
    average: float | None  # seconds of a step
    usual: float | None
    cpu: float  # seconds
    mib: int

    @property
    def seconds(self) -> float:
        """Time of all steps."""
        assert self.average is not None
        return self.average * self.steps

    @property
    def transport(self) -> str:
        """The transport of its variant."""
        return transport_of(self.variant)


def transport_of(variant: str) -> str:
    """Return the transport of a variant; variants that share it are one run up to their fault."""
    return variant.rpartition("-")[0]


def digest() -> str:
    """Digest of the scenario and the sources that affect a run."""
    return hashlib.sha256(SCENARIO.read_bytes() + sources().encode()).hexdigest()[:12]


def kept(size: JobSize, directory: Path) -> list[TrainingRun]:
    """Return the runs of a size, of today's sources or else the newest kept."""
    there = [path for path in directory.glob(f"{size.nics}-*") if (path / ROWS).is_file()]
    current = directory / f"{size.nics}-{digest()}"
    if not there:
        return []
    chosen = current if current in there else max(there, key=lambda path: (path / ROWS).stat().st_mtime)
    sources = chosen.name.partition("-")[2]
    return [_of_row(row, sources) for row in Journal(chosen, "--results").read() if row["variant"] in size.variants]


def _of_row(row: Row, sources: str) -> TrainingRun:
    verdicts, steps = row["verdicts"], int(row["values"].get("traffic.job.steps", STEPS))
    completed = not row["error"] and bool(verdicts.get("integrity", {}).get("ok"))
    average, usual = (verdicts.get(f"step_time ({name})", {}).get("value") for name in ("average", "usual"))
    used = row.get("cpu", 0.0), row.get("mib", 0)
    return TrainingRun(row["variant"], sources, steps, row["seed"], completed, average, usual, *used)


def run(
    size: JobSize,
    seeds: Sequence[int],
    directory: Path,
    workers: int,
    notify: Callable[[str], None],
    only: Collection[str] = (),
) -> None:
    """Do the runs that are missing, of `only` these variants where any are named; LabError while another process is."""
    planned = size.plan(seeds, only)
    table = Journal(directory / f"{size.nics}-{digest()}", "--results")
    with table.owned():
        left = list(batch.missing(table.begin(planned), planned))
        groups = grouped(left, lambda job: (transport_of(job.variant), job.seed))
        # all transports with one seed, then with another
        order = sorted(groups, key=lambda group: (group[1], size.variants.index(groups[group][0].variant)))
        requested = [groups[group] for group in order]
        found = processes.rows(requested, workers, branches.run, lambda jobs: [work.killed(job) for job in jobs])
        with contextlib.closing(batch.keep(table, _by_job(found))) as rows:
            for done, (job, row) in enumerate(rows, 1):
                number = f"{size.nics} NICs, {done} of {len(left)}"
                notify(f"{number}: {job.variant}, seed {job.seed}: {row.get('cpu', 0):.0f} s of CPU")


def _by_job(found: Generator[tuple[list[Job], list[Row]], None, None]) -> Generator[tuple[Job, Row], None, None]:
    """Yield each job with its row, given those of groups; a job without a row has lost its process."""
    with contextlib.closing(found):
        for jobs, rows in found:
            by_variant = {row["variant"]: row for row in rows}
            for job in jobs:
                yield job, by_variant.get(job.variant) or work.killed(job)
