"""Runs one scenario: brings the lab up, drives traffic and faults, collects, judges, writes the report."""

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mrclab.events.run import MachineSlow, RunBroken, ScenarioText
from mrclab.events.traffic import TrainingReference
from mrclab.lab import history
from mrclab.lab.errors import Interrupted, LabError, NoResult, RunError, by_machine, exhausted, plain
from mrclab.lab.report import results
from mrclab.lab.report.results import CollectedRun
from mrclab.lab.run.interrupts import guarded
from mrclab.lab.run.world import KINDS, Progress, World, record_counters
from mrclab.lab.run.worlds import check, world_up
from mrclab.lab.scenario.scenario import Loaded, files_of
from mrclab.lab.scenario.units import show_seconds
from mrclab.lab.session.lab import Lab
from mrclab.topo.economy import CompressedLog
from mrclab.topo.errors import TopoError
from mrclab.topo.input.sentences import several
from mrclab.topo.linux.paths import RUN_DIR

if TYPE_CHECKING:
    from mrclab.lab.capture.tracing import RunTrace

T = TypeVar("T")

# In times between two samples of a host:
_LONGEST_STEP = 1  # between two checks of faults that end by themselves, and updates of the progress display
_LINGER_POLL = 2  # between two checks of the EVs

_INTERRUPTED = "it was interrupted"
_MAX_TEXT = 1_000_000  # characters of files in the record of the scenario


class Run:
    """The part of a run during which the lab is up: each workload and fault of the scenario begins when it is due."""

    def __init__(self, world: World, loaded: Loaded, notify: Callable[[str], None], progress: Progress) -> None:
        self._world = world
        self._unit = world.fabric.spec.sample_interval
        self._scenario = loaded.scenario
        self._notify = notify
        self._progress = progress
        qps, seed = loaded.scenario.transport.qps, loaded.scenario.seed
        self._workloads = [entry.running(world, qps, seed) for entry in loaded.scenario.traffic]
        may_end = {name for fault in loaded.scenario.faults for name in fault.processes(world.fabric)}
        self._lab = Lab(world, qps, faults=loaded.scenario.faults, kinds=KINDS, may_end=may_end)
        self._lab.subscribe_to(sorted({host for workload in self._workloads for host in workload.hosts}))
        self._no_end_since = math.inf  # time since which no known event can end the run

    def go(self) -> None:
        """Run traffic and faults to the end; clear every fault in any case."""
        try:
            for done, workload in enumerate(self._workloads):
                self._progress("queue pairs", done, len(self._workloads))
                self._lab.prepare(workload)
            record_counters(self._world)
            self._drive()
            self._wait_for_evs()
            self._clear()
        except BaseException:  # its error says why the run ends; a failure to clear is then only a consequence
            with contextlib.suppress(LabError, TopoError, OSError):
                for workload in self._lab.active:
                    workload.abandon()
            with contextlib.suppress(LabError, TopoError, OSError):
                self._clear()
            raise
        finally:
            self._lab.leave()
        self._lab.time_line.verify_cleared()
        self._world.pause(self._world.fabric.spec.quiet)
        record_counters(self._world)

    def _clear(self) -> None:
        for phrase in self._lab.time_line.clear_all():
            self._notify(phrase)

    def _drive(self) -> None:
        """Begin due traffic and faults and process the agents' events until all is over."""
        lab = self._lab
        lab.began = self._world.now
        self._apply_due()
        lab.began = self._world.now  # the faults due at second 0 are in force, which took time
        while any(workload.ended is None for workload in self._workloads) or lab.time_line.pending:
            now = self._world.now
            if now - lab.began > self._scenario.timeout:
                longest = show_seconds(self._scenario.timeout)
                self._give_up(f"the run took more than {longest}", "raise timeout or see the report")
            self._begin_due()
            self._check_for_end(now)
            self._progress("traffic", int(1000 * sum(lab.shares().values()) / len(self._workloads)), 1000)
            for workload in lab.step(self._next(now)):
                if "error" in workload.outcome:
                    self._notify(f"{workload.name}: {workload.outcome['error']}")

    def _check_for_end(self, now: float) -> None:
        """Give up when neither a known time nor running traffic can end the run."""
        moments = self._lab.moments()
        triggers = self._lab.time_line.triggers + [each.entry.start for each in self._workloads if each.began is None]
        comes = any(not trigger.name or trigger.moment in moments for trigger in triggers)
        if self._lab.received_events or comes or self._lab.time_line.next_due() < math.inf or self._goes_on():
            self._no_end_since = math.inf
            return
        self._no_end_since = min(self._no_end_since, now)
        if now - self._no_end_since >= self._unit and self._unfinished:
            self._give_up("nothing can end the run any more", "see the report")

    def _goes_on(self) -> bool:
        """Return True if a workload runs that is not deadlocked (every QP is examined)."""
        return bool(self._lab.active) and not self._world.deadlocked()

    @property
    def _unfinished(self) -> list[str]:
        return [workload.name for workload in self._workloads if workload.ended is None] + self._lab.time_line.waiting

    def _give_up(self, why: str, remedy: str) -> None:
        found = self._world.stuck()
        stuck = f"; {several(found)}" if found else ""
        limit = f"{why}: it waits for {several(self._unfinished)}{stuck}"
        for workload in self._lab.active:
            workload.finish(limit)
        raise RunError(f"{limit}; {remedy}")

    def _begin_due(self) -> None:
        """Inject and clear faults, then start workloads, so that no packet is sent before a fault due with it."""
        self._apply_due()
        seconds, shares, moments = self._world.now - self._lab.began, self._lab.shares(), self._lab.moments()
        started = False
        for workload in self._workloads:
            if workload.began is None and workload.entry.start.due(seconds, shares, moments):
                self._lab.start_now(workload)
                started = True
        if started:  # some faults wait for a workload to begin
            self._apply_due()

    def _apply_due(self) -> None:
        for phrase in self._lab.apply_due():
            self._notify(phrase)

    def _next(self, now: float) -> float:
        """Return the time of the next event that is known, or of the next regular look."""
        moments = self._lab.moments()
        starts = [workload.entry.start.time(moments) for workload in self._workloads if workload.began is None]
        known = [self._lab.began + start for start in starts if start is not None]
        return min([now + _LONGEST_STEP * self._unit, self._lab.time_line.next_due(), *known])

    def _wait_for_evs(self) -> None:
        """Wait until every EV is back in use, at most as long as the scenario says."""
        deadline = self._world.now + self._scenario.linger
        senders = sorted(
            {host for workload in self._workloads for host in workload.senders if self._lab.is_subscribed(host)}
        )
        while self._world.now < deadline:
            rows = {host: self._lab.paths(host) for host in senders}
            waiting = sum(workload.bad_paths(rows) for workload in self._workloads)
            if not waiting:
                return
            self._progress(f"waiting for {waiting} EVs to return", 0, 0)
            self._world.pause(_LINGER_POLL * self._unit)


@dataclass(frozen=True)
class _Launch:
    """A run to bring up; `parent` gets the logs of a lab that does not come up, `show` the world once it is up."""

    loaded: Loaded
    parent: Path
    progress: Progress
    notify: Callable[[str], None]
    target: str | None = None
    run_dir: Path = RUN_DIR
    show: Callable[[World], None] = lambda _: None

    def references(self) -> list[TrainingReference]:
        """Return the end times of each job's steps in the same run without faults, if an expectation needs them."""
        scenario = self.loaded.scenario
        needs = any(entry.kind_name == "time_lost" for entry in scenario.figures)
        if scenario.world != "sim" or not scenario.faults or not needs:
            return []
        without_faults = scenario.model_copy(update={"faults": [], "expect": [], "measure": []})
        twin = _Launch(self.loaded._replace(scenario=without_faults), self.parent, self.progress, lambda _: None)
        lines, _ = twin.handed_over()
        from mrclab.lab.measure.traffic.training import TrainingSteps  # noqa: PLC0415 - few runs need it

        measured = TrainingSteps(history.of_lines(lines))
        steps = {job: measured.steps(job) for job in measured.jobs}
        return [
            TrainingReference(traffic=job, began=found[0].began, ends=[step.ended for step in found])
            for job, found in steps.items()
            if found
        ]

    def handed_over(self, references: Sequence[TrainingReference] = ()) -> tuple[CompressedLog, str]:
        """Run in virtual time; return the history, and the reason if the run was aborted."""
        found, interrupted = self.in_world(lambda world, reason: (world.hand_over(), reason), references, bare=True)
        if interrupted:
            raise Interrupted("interrupted; nothing is left of the run")
        return found

    def in_world(
        self, take: Callable[[World, str], T], references: Sequence[TrainingReference], *, bare: bool = False
    ) -> tuple[T, bool]:
        """Bring the world up, run, take it down; return the result of `take` and whether a user interrupted.

        `bare`: the run is for its figures alone. Raises OSError and MemoryError where the machine ended such a run.
        """
        spec, interrupted = self.loaded.scenario, False
        taken: T | None = None
        results.freeze_loaded()
        try:
            with world_up(
                spec.world,
                self.loaded.fabric,
                self.progress,
                target=self.target,
                seed=spec.seed,
                run_dir=self.run_dir,
                mapper=spec.mapper,
                transport=spec.transport,
                of_hosts=spec.transports(self.loaded.fabric),
                repeatable=spec.repeatable,
                keeps_history=spec.history == "full",
                on_failure=lambda failed, error: self.notify(self._keep(failed, error)),
            ) as world:
                world.on_notice(self.notify)
                self.notify(world.greeting)
                files = files_of(self.loaded)
                kept = files if files and sum(map(len, files.values())) <= _MAX_TEXT else None
                world.record(ScenarioText(text=self.loaded.text, files=kept))
                for reference in references:
                    world.record(reference)
                self.show(world)
                reason, interrupted = self._drive(world, bare)
                began = time.monotonic()
                world.stop()
                self.notify(f"lab down in {time.monotonic() - began:.1f} s")
                taken = take(world, reason)
        except Interrupted:  # by a signal that was held back until all was collected
            if taken is None:
                raise
            interrupted = True
        assert taken is not None
        return taken, interrupted

    def _drive(self, world: World, bare: bool) -> tuple[str, bool]:
        """Run traffic and faults; return the reason if they did not come to their end, and if a user interrupted."""
        try:
            with world.realtime():
                Run(world, self.loaded, self.notify, self.progress).go()
        except NoResult as error:
            world.record(MachineSlow(why=str(error)))
            self.notify(str(error))
        except (RunError, TopoError, OSError, MemoryError, RuntimeError) as error:
            if bare and by_machine(error):
                raise  # nothing is kept of such a run, and it can be repeated
            reason = exhausted(error) or plain(error)
            if isinstance(error, RuntimeError) and not exhausted(error):
                raise  # a bug of the lab, or of a package that adds kinds to it
            self.notify(reason)
            interrupted = False
            try:
                world.record(RunBroken(why=reason))
                world.pause(self.loaded.fabric.spec.quiet)
            except RunError:
                pass  # later ends are consequences
            except KeyboardInterrupt:
                interrupted = True
            return reason, interrupted
        except KeyboardInterrupt:
            self.notify("interrupted; the lab goes down, and what was measured is kept")
            with contextlib.suppress(RunError):
                world.record(RunBroken(why=_INTERRUPTED))
            return _INTERRUPTED, True
        return "", False

    def _keep(self, world: World, error: Exception) -> str:
        """Keep the logs of a lab that did not come up; return a sentence that says where."""
        try:
            directory = results.collect(world, self.loaded, self.parent, str(error))
        except (OSError, LabError) as failure:
            return f"the logs could not be kept: {failure}"
        return f"the lab did not come up; all logs are in {directory / 'log'}"


def run_scenario(
    loaded: Loaded,
    parent: Path,
    progress: Progress = lambda *_: None,
    notify: Callable[[str], None] = lambda _: None,
    target: str | None = None,
    run_dir: Path = RUN_DIR,
    report: bool = True,
    show: Callable[[World], None] = lambda _: None,
    on_verdict: Callable[[CollectedRun], None] = lambda _: None,
) -> CollectedRun:
    """Run a scenario and write its result directory below `parent`.

    Raises ScenarioError where its world does not support it, and the error of a failed bring-up. Without `report` the
    directory holds the history and nothing that was made of it, except figures where the scenario keeps no history.
    `show` is called with the world once it is up, before anything happens; `on_verdict` once with the judged run,
    before the pictures and the page of its report are made.
    """
    check(loaded)
    results.check_parent(parent)
    keeps, trace = loaded.scenario.history == "full", _trace(loaded, notify)

    def begin(world: World) -> None:
        if trace is not None:
            trace.begin(world)
        show(world)

    def take(world: World, reason: str) -> tuple[Path, CompressedLog | None]:
        lines = None if keeps else world.hand_over()
        directory = results.collect(world, loaded, parent, reason)
        if trace is not None:
            try:
                trace.store(directory)
            except OSError as error:
                notify(f"the trace could not be written: {plain(error)}; all else of the run is kept")
        return directory, lines

    launch = _Launch(loaded, parent, progress, notify, target, run_dir, begin)
    (directory, lines), interrupted = launch.in_world(take, launch.references())
    if parent.absolute() not in directory.absolute().parents:
        notify(f"results could not go to {parent}; they are in {directory}")
    report_once = _once(on_verdict)

    def judge() -> CollectedRun:
        run = results.load(directory, loaded) if lines is None else results.measured(lines, loaded, "", directory)
        drawn = report and keeps and loaded.scenario.report
        return _judged(run, numbers=report or not keeps, page=drawn, on_verdict=report_once)

    with guarded() as interrupts:
        try:
            results.free_runs()  # the world: its history is read into the memory that it had
            try:
                outcome = judge()
            except OSError as error:
                why, full = error.strerror or str(error), directory
                directory, report = results.elsewhere(directory, why), True
                notify(f"the report could not be written to {full}: {why}; all of it is in {directory}")
                outcome = judge()
        except KeyboardInterrupt:
            interrupted = True
        interrupts.shield()
    if interrupted:
        notify(f"what was done until then is in {directory}")
        raise Interrupted("interrupted; the lab is down")
    return outcome


def measure(loaded: Loaded, parent: Path, progress: Progress, notify: Callable[[str], None]) -> CollectedRun:
    """Run a scenario in virtual time for its figures alone: no file is written, and the outcome has no directory.

    Raises the errors of `run_scenario`. `parent` gets the logs of a lab that does not come up.
    """
    check(loaded)
    launch = _Launch(loaded, parent, progress, notify)
    lines, reason = launch.handed_over(launch.references())
    results.free_runs()  # the world: its history is read into the memory that it had
    return _judged(results.measured(lines, loaded, reason), numbers=False, page=False)


def _trace(loaded: Loaded, notify: Callable[[str], None]) -> "RunTrace | None":
    """Return the trace of a scenario; None without one."""
    if loaded.scenario.trace is None:
        return None
    from mrclab.lab.capture.tracing import RunTrace  # noqa: PLC0415 - few runs are traced

    return RunTrace(loaded.scenario.trace, loaded.fabric, notify)


def finish(directory: Path, on_verdict: Callable[[CollectedRun], None] = lambda _: None) -> CollectedRun:
    """Judge a collected run and write its report; may be repeated on the same directory."""
    return _judged(results.load(directory), on_verdict=on_verdict)


def _judged(
    run: CollectedRun,
    numbers: bool = True,
    page: bool = True,
    on_verdict: Callable[[CollectedRun], None] = lambda _: None,
) -> CollectedRun:
    """Judge a run, write its `numbers`, print its outcome, draw its `page`."""
    assert run.verdicts is not None  # judged now, while signals are handled
    if numbers:
        results.write_numbers(run)
    on_verdict(run)
    if numbers and page:
        results.write_page(run)
    return run


def _once(call: Callable[[CollectedRun], None]) -> Callable[[CollectedRun], None]:
    """Return a function that makes the call the first time only: a report may be written again elsewhere."""
    calls = [call]
    return lambda outcome: calls.pop()(outcome) if calls else None
