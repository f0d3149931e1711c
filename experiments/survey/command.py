"""A survey, worked off part by part: what its records hold is not done again."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import psutil

from mrclab.experiments.survey import cases, healing, record, startup
from mrclab.experiments.survey.localise import Surveyor
from mrclab.lab.run.session import Session, lab_session
from mrclab.lab.run.world import Progress
from mrclab.lab.scenario.mapper import MapperSpec
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec, load

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
_HEALING = {"planes": 4, "t0s": 2, "t1s": 2, "hosts_per_t0": 1, "link": {"rate_pps": 300, "delay": "6ms"}}

Say = Callable[[str], None]


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
        progress: Progress,
    ) -> None:
        self._directory = directory
        self._seed = seed
        self._fabric = Fabric(FabricSpec())
        self._cases = cases.draw(self._fabric, seed, singles, doubles)
        self._target = target
        self._run_dir = run_dir
        self._progress = progress

    def work(self, seconds: float, say: Say) -> bool:
        """Go on for about so many seconds, the experiment under way included; whether all is done."""
        deadline = time.monotonic() + seconds
        jobs: list[tuple[str, Callable[[], None]]] = [("case", lambda: self._localise(deadline, say))]
        jobs += [(f"healing {number}", self._healing(number)) for number in range(1, REPEATS + 1)]
        jobs += [("startup", self._start_up("startup", None))]
        jobs += [("startup-denied", self._start_up("startup-denied", MapperSpec(cycle=STARTUP_CYCLE, deny="all")))]
        for name, job in jobs:
            if not self._is_done(name) and time.monotonic() < deadline:
                say(name)
                job()
        return all(self._is_done(name) for name, _job in jobs)

    def _is_done(self, name: str) -> bool:
        if name == "case":
            return self._cases_done() >= {case.number for case in self._cases}
        return any(known["kind"] == name for known in record.read(self._directory))

    def _cases_done(self) -> set[int]:
        return {known["case"] for known in record.read(self._directory) if known["kind"] == "case"}

    def _localise(self, deadline: float, say: Say) -> None:
        done = self._cases_done()
        with (
            self._lab(self._fabric, MapperSpec(cycle=CYCLE, deny=False)) as session,
            closing(Surveyor(session, CYCLE)) as surveyor,
        ):
            controller = psutil.Process(session.emulation.processes()["controller"])
            for case in (case for case in self._cases if case.number not in done):
                if time.monotonic() >= deadline:
                    return
                controller.cpu_percent()
                found = surveyor.work(case)
                self._write(session, "case", found | {"cycle": CYCLE, "controller_cpu": controller.cpu_percent()})
                said = ", ".join(f"{v['element']} {v['state']} after {v['cycles']:g}" for v in found["verdicts"])
                say(f"case {case.number}: {' and '.join(i.element for i in case.injuries)}: {said or 'nothing said'}")

    def _healing(self, number: int) -> Callable[[], None]:
        def job() -> None:
            with self._lab(Fabric(load(_HEALING)), MapperSpec(cycle=CYCLE)) as session:
                self._write(session, f"healing {number}", healing.run(session, self._seed + number))

        return job

    def _start_up(self, name: str, mapper: MapperSpec | None) -> Callable[[], None]:
        def job() -> None:
            with self._lab(Fabric(load(_STARTUP)), mapper) as session:
                self._write(session, name, startup.run(session, self._seed))

        return job

    def _lab(self, fabric: Fabric, mapper: MapperSpec | None) -> AbstractContextManager[Session]:
        return lab_session(
            fabric, self._progress, target=self._target, seed=self._seed, run_dir=self._run_dir, mapper=mapper
        )

    def _write(self, session: Session, kind: str, found: dict[str, Any]) -> None:
        known = record.circumstances(session.emulation.target.name)
        record.append(self._directory, {"kind": kind, "seed": self._seed, **known, **found})
