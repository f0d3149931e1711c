"""The command `mrclab survey`."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from mrclab.experiments.survey import cases, denial, page, record, startup
from mrclab.experiments.survey.localise import CaseRunner
from mrclab.lab import console
from mrclab.lab.command.display import answer
from mrclab.lab.command.options import AsJson, Target, World
from mrclab.lab.errors import LabError, naming
from mrclab.lab.kinds import WorldName
from mrclab.lab.run import worlds
from mrclab.lab.run.world import World as LiveWorld
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


@app.command()
def survey(
    context: typer.Context,
    target: Target = None,
    world: World = None,
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
        folders = sorted(output.iterdir()) if output.is_dir() else []
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
    work = Survey(folder, seed, singles, doubles, target, context.obj, where)
    done = work.work(seconds, lambda text: console.plain(err, text))
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


class Survey:
    """One survey on one target, with its records in `directory`."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        singles: int,
        doubles: int,
        target: str | None,
        run_dir: Path,
        world: WorldName,
    ) -> None:
        self._world: WorldName = world
        self._store = record.store(directory)
        self._seed = seed
        self._fabric = Fabric(FabricSpec())
        self._cases = cases.draw(self._fabric, seed, singles, doubles)
        self._target = target
        self._run_dir = run_dir

    def work(self, seconds: float, notify: Notify) -> bool:
        """Run experiments for about `seconds`; return True if all are done."""
        deadline = time.monotonic() + seconds
        mapper = MapperSpec(cycle=STARTUP_CYCLE, deny="all")
        jobs: list[tuple[str, str, Callable[[], None]]] = [
            ("case", f"{len(self._cases)} cases", lambda: self._localise(deadline, notify)),
            *(
                (f"healing {number}", f"denial of a lossy NIC–T0 cable, {number} of {REPEATS}", self._denial(number))
                for number in range(1, REPEATS + 1)
            ),
            ("startup", "job on a faulty fabric", self._start_up("startup", None)),
            ("startup-denied", "the same with denials", self._start_up("startup-denied", mapper)),
        ]
        with self._store.owned():
            self._store.open()
            for name, text, job in jobs:
                if not self._is_done(name) and time.monotonic() < deadline:
                    notify(text)
                    job()
        return all(self._is_done(name) for name, _text, _job in jobs)

    def _is_done(self, name: str) -> bool:
        if name == "case":
            return all(f"case {case.number}" in self._store for case in self._cases)
        return name in self._store

    def _localise(self, deadline: float, notify: Notify) -> None:
        with (
            self._lab(self._fabric, MapperSpec(cycle=CYCLE, deny=False)) as lab,
            closing(CaseRunner(lab, CYCLE)) as runner,
        ):
            busy = _controller_cpu(lab.world)
            for case in (case for case in self._cases if f"case {case.number}" not in self._store):
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

    def _denial(self, number: int) -> Callable[[], None]:
        def job() -> None:
            with self._lab(Fabric(load(_DENIAL)), MapperSpec(cycle=CYCLE)) as lab:
                self._write(lab.world, f"healing {number}", denial.run(lab, self._seed + number))

        return job

    def _start_up(self, name: str, mapper: MapperSpec | None) -> Callable[[], None]:
        def job() -> None:
            with self._lab(Fabric(load(_STARTUP)), mapper) as lab:
                self._write(lab.world, name, startup.run(lab, self._seed, mapper is not None))

        return job

    @contextmanager
    def _lab(self, fabric: Fabric, mapper: MapperSpec | None) -> Iterator[Lab]:
        with (
            world_up(
                self._world,
                fabric,
                lambda *_: None,
                target=self._target,
                seed=self._seed,
                run_dir=self._run_dir,
                mapper=mapper,
            ) as world,
            Lab(world) as lab,
        ):
            yield lab

    def _write(self, world: LiveWorld, kind: str, found: dict[str, Any]) -> None:
        known = record.environment(str(world.facts()["target"]))
        self._store.append({"kind": kind, "seed": self._seed, **known, **found})


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
