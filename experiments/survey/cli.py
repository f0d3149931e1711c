"""The command `mrclab survey`."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from mrclab.experiments.runs.store import RunStore
from mrclab.experiments.survey import cases, denial, page, record
from mrclab.experiments.survey.cases import SurveyCase
from mrclab.experiments.survey.localise import CaseRunner
from mrclab.lab import console
from mrclab.lab.command.display import answer
from mrclab.lab.command.options import AsJson, Target, WorldOfLab
from mrclab.lab.errors import LabError, naming
from mrclab.lab.kinds import WorldName
from mrclab.lab.run import worlds
from mrclab.lab.run.world import World as LiveWorld
from mrclab.lab.run.world import WorldOptions
from mrclab.lab.run.worlds import world_up
from mrclab.lab.scenario.sections.mapper import MapperSpec
from mrclab.lab.scenario.seeds import MAX_SEED
from mrclab.lab.session.lab import Lab
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec, load

app = typer.Typer()
err = console.console(stderr=True, highlight=False)

SINGLES, DOUBLES = 60, 20
CYCLE = 0.2  # seconds in which a host probes all its paths
STARTUP_CYCLE = 0.5
REPEATS = 3  # of the goodput experiment

_STARTUP = {
    "planes": 4,
    "t0s": 2,
    "t1s": 4,
    "hosts_per_t0": 2,
    "path_mtu": 1024,
    "link": {"rate_pps": 100, "delay": "20ms"},  # so that each QP has some packets in flight
}
_DENIAL = {"planes": 4, "t0s": 2, "t1s": 2, "hosts_per_t0": 1, "link": {"rate_pps": 300, "delay": "6ms"}}

Notify = Callable[[str], None]
Experiment = tuple[str, str, dict[str, Any], MapperSpec | None, Callable[[Lab], dict[str, Any]]]
"""An experiment with one record: its key, words, fabric, Clustermapper, and what is done in its lab."""


@app.command()
def survey(
    context: typer.Context,
    target: Target = None,
    world: WorldOfLab = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="of the faults")] = 1,
    singles: Annotated[int, typer.Option(min=0, help="cases with one fault")] = SINGLES,
    doubles: Annotated[int, typer.Option(min=0, help="cases with two faults at once")] = DOUBLES,
    seconds: Annotated[float, typer.Option(min=1, help="end after about this time; the same command resumes")] = 7200.0,
    output: Annotated[
        Path, typer.Option("--output", "--out", help="where the records go, in one folder per target")
    ] = Path("results/survey"),
    page_file: Annotated[
        Path | None, typer.Option("--page", "--write", help="only write the page of all records so far to this file")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Try Clustermapper on many seeded faults and print its verdicts; exit status 3 while a part is left to do."""
    if page_file is not None:
        folders = sorted(path for path in output.glob("*") if path.is_dir())
        surveys = [list(record.store(folder).read()) for folder in folders]
        if not any(surveys):
            raise LabError(f"{output} holds no records of a survey; run one first, or name another with --output")
        with naming(page_file):
            page_file.write_text(page.render(surveys, str(page_file)), encoding="utf-8")
        if as_json:
            answer.give("survey", 0, page=str(page_file), records=sum(map(len, surveys)))
        return
    where: WorldName = "sim" if world == "sim" else "wire"
    worlds.check_target(target, where)
    worlds.check_machine_for(where)
    folder = output / _name(where, target)
    drawn = cases.draw(Fabric(FabricSpec()), seed, singles, doubles)
    made = Survey(record.store(folder), drawn, seed, where, target, context.obj)
    done = made.work(seconds, lambda text: console.plain(err, text))
    status = 0 if done else 3
    if as_json:
        records = list(record.store(folder).read())
        answer.give("survey", status, done=done, directory=str(folder), **page.as_json(records))
    if not done:
        err.print("cases are left; the same command resumes")
        raise typer.Exit(status)


def _name(world: WorldName, target: str | None) -> str:
    """Return the name of the folder with the records of a world, or of a target on the wire."""
    if world == "sim":
        return world
    from mrclab.topo.linux.switches import targets  # noqa: PLC0415 - Linux alone has what the wire needs

    return targets.choose(target).name


@dataclass(frozen=True)
class Survey:
    """One survey on one target: its records, and what its labs need."""

    store: RunStore
    cases: Sequence[SurveyCase]
    seed: int
    world: WorldName
    target: str | None
    run_dir: Path

    def work(self, seconds: float, notify: Notify) -> bool:
        """Run experiments for about `seconds`; return True if all are done."""
        deadline = time.monotonic() + seconds
        with self.store.owned():
            self._open()
            if self._left():
                notify("1 case" if len(self.cases) == 1 else f"{len(self.cases)} cases")
                self._localise(deadline, notify)
            for name, text, fabric, mapper, run in self._experiments():
                if name not in self.store and time.monotonic() < deadline:
                    notify(text)
                    with self._lab(Fabric(load(fabric)), mapper) as lab:
                        self._write(lab.world, name, run(lab))
        return not self._left() and all(name in self.store for name, *_ in self._experiments())

    def _open(self) -> None:
        """Read existing records; LabError if they are of other faults."""
        drawn = {case.key: case.as_json()["faults"] for case in self.cases}
        for key, row in self.store.open().rows.items():
            if row["seed"] != self.seed or row.get("faults") != drawn.get(key):
                where = self.store.path.parent
                raise self.store.refused(f"{where} holds records of another seed or other numbers of cases")

    def _left(self) -> list[SurveyCase]:
        return [case for case in self.cases if case.key not in self.store]

    def _experiments(self) -> Iterator[Experiment]:
        for number in range(1, REPEATS + 1):
            text = f"denial of a lossy NIC–T0 cable, {number} of {REPEATS}"
            run = partial(denial.lossy_cable, seed=self.seed + number)
            yield f"healing {number}", text, _DENIAL, MapperSpec(cycle=CYCLE), run
        run, mapper = partial(denial.start_up, seed=self.seed), MapperSpec(cycle=STARTUP_CYCLE, deny="all")
        yield "startup", "job on a faulty fabric", _STARTUP, None, partial(run, mapped=False)
        yield "startup-denied", "the same with denials", _STARTUP, mapper, partial(run, mapped=True)

    def _localise(self, deadline: float, notify: Notify) -> None:
        with (
            self._lab(Fabric(FabricSpec()), MapperSpec(cycle=CYCLE, deny=False)) as lab,
            closing(lab.subscribe("controller", "verdict")) as events,
        ):
            runner = CaseRunner(lab, events, CYCLE)
            busy = _controller_cpu(lab.world)
            for case in self._left():
                if time.monotonic() >= deadline:
                    return
                busy()
                found = runner.work(case)
                self._write(lab.world, "case", found | {"cycle": CYCLE, "controller_cpu": busy()})
                faulty = " and ".join(each.element for each in case.faults)
                named = ", ".join(
                    f"{v['element']} {v['state']} after {v['cycles']:g} cycles" for v in found["verdicts"]
                )
                notify(f"case {case.number}: faulty: {faulty}; verdict: {named or 'none'}")

    @contextmanager
    def _lab(self, fabric: Fabric, mapper: MapperSpec | None) -> Iterator[Lab]:
        options = WorldOptions(target=self.target, seed=self.seed, run_dir=self.run_dir, mapper=mapper)
        with world_up(self.world, fabric, lambda *_: None, **options) as world, Lab(world) as lab:
            yield lab

    def _write(self, world: LiveWorld, kind: str, found: dict[str, Any]) -> None:
        known = record.environment(str(world.facts()["target"]))
        self.store.append({"kind": kind, "seed": self.seed, **known, **found})


def _controller_cpu(world: LiveWorld) -> Callable[[], float]:
    """Return the controller's CPU use since the last call, percent of a core; 0 if it is no process."""
    if world.facts()["world"] != "wire":
        return lambda: 0.0
    from mrclab.lab.run.wire.watch import cpu_seconds  # noqa: PLC0415
    from mrclab.lab.run.wire.wireworld import WireWorld  # noqa: PLC0415 - Linux alone has what the wire needs

    assert isinstance(world, WireWorld)
    pid, seen = world.emulation.processes()["controller"], [(time.monotonic(), 0.0)]

    def busy() -> float:
        before, used = seen[-1]
        seen.append((time.monotonic(), cpu_seconds(pid) or used))
        return round(100 * (seen[-1][1] - used) / max(seen[-1][0] - before, 1e-9), 1)

    return busy
