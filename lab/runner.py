"""Runs one scenario: brings the lab up, drives traffic and faults, collects, judges, writes the report."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab import results
from lab.attach import RUN_DIR
from lab.errors import RunError
from lab.expectations import Verdict
from lab.faults import TimeLine
from lab.measure import Measures
from lab.scenario import Loaded
from lab.session import Progress, Session, lab_session
from lab.traffic import Transfer, random_file

_POLL = 0.02  # seconds between two looks at the transfers
_QUIET = 0.3  # seconds after the last event: every process writes its last sample, one that dies is seen dead


@dataclass(frozen=True)
class Outcome:
    """A run that went to its end, well or not."""

    measures: Measures
    verdicts: list[Verdict]
    directory: Path
    trouble: str = ""  # why the run broke off

    @property
    def ok(self) -> bool:
        """Whether every expectation held and nothing broke off."""
        return not self.trouble and all(verdict.ok for verdict in self.verdicts)


class Run:
    """The part of a run during which the lab is up."""

    def __init__(self, session: Session, loaded: Loaded, say: Callable[[str], None], progress: Progress) -> None:
        self._session = session
        self._scenario = loaded.scenario
        self._say = say
        self._progress = progress
        self._transfers = [self._transfer(index) for index in range(len(loaded.scenario.traffic))]
        self._time_line = TimeLine(session, loaded.scenario.faults)

    def _transfer(self, index: int) -> Transfer:
        entry = self._scenario.traffic[index]
        source = self._session.files / entry.source / entry.name
        random_file(source, entry.size, f"{self._session.seed}/{entry.name}")
        return Transfer(self._session, entry.name, entry.source, entry.destination, source)

    def go(self) -> None:
        """Traffic and faults to the end; every fault is healed whatever happens."""
        try:
            for transfer in self._transfers:
                transfer.prepare()
            self._session.record_counters()
            self._drive()
            self._linger()
        finally:
            for phrase in self._time_line.heal_all():
                self._say(phrase)
        time.sleep(_QUIET)
        self._session.record_counters()

    def _drive(self) -> None:
        began = time.monotonic()
        started: set[str] = set()
        shares = dict.fromkeys((transfer.name for transfer in self._transfers), 0.0)
        while min(shares.values()) < 1 or self._time_line.pending:
            seconds = time.monotonic() - began
            if seconds > self._scenario.timeout:
                raise RunError(
                    f"the traffic took more than {self._scenario.timeout:g} s; raise timeout or see the report"
                )
            for transfer, entry in zip(self._transfers, self._scenario.traffic, strict=True):
                if transfer.name not in started and seconds >= entry.start:
                    started.add(transfer.name)
                    self._start(transfer)
                if transfer.name in started and shares[transfer.name] < 1:
                    shares[transfer.name] = transfer.poll()
                    if transfer.ended:
                        self._end(transfer)
            for phrase in self._time_line.advance(seconds, shares):
                self._say(phrase)
            self._progress("transfer", int(1000 * sum(shares.values()) / len(shares)), 1000)
            time.sleep(_POLL)

    def _start(self, transfer: Transfer) -> None:
        at = transfer.start()
        self._session.record(
            "traffic.start",
            at,
            traffic=transfer.name,
            source=transfer.source,
            destination=transfer.destination,
            size=transfer.size,
            qps={host: transfer.qp(host) for host in (transfer.source, transfer.destination)},
        )

    def _end(self, transfer: Transfer) -> None:
        outcome = transfer.finish()
        self._session.record(
            "traffic.end",
            transfer.ended,
            traffic=transfer.name,
            sent_sha256=outcome.sent_sha256,
            received_sha256=outcome.received_sha256,
        )

    def _linger(self) -> None:
        """Wait until every EV is back, at most as long as the scenario says."""
        deadline = time.monotonic() + self._scenario.linger
        while time.monotonic() < deadline:
            waiting = [row for transfer in self._transfers for row in transfer.bad_paths()]
            if not waiting:
                return
            self._progress(f"waiting for {len(waiting)} EVs to return", 0, 0)
            time.sleep(0.1)


def run_scenario(
    loaded: Loaded,
    parent: Path,
    progress: Progress,
    say: Callable[[str], None],
    target: str | None = None,
    run_dir: Path = RUN_DIR,
) -> Outcome:
    """Run a scenario and write its result directory below `parent`. Raises what kept the lab from coming up."""
    results.check_parent(parent)
    trouble = ""
    seed = loaded.scenario.seed
    with lab_session(loaded.fabric, progress, target=target, seed=seed, run_dir=run_dir) as session:
        say(f"lab verified in {session.bring_up_seconds:.1f} s (target {session.emulation.target.name})")
        try:
            Run(session, loaded, say, progress).go()
        except RunError as error:
            trouble = str(error)
            time.sleep(_QUIET)
            say(trouble)
        target_name = session.emulation.target.name
        real_time = session.emulation.real_time
        began = time.monotonic()
        session.stop()
        say(f"lab down in {time.monotonic() - began:.1f} s")
        directory = results.collect(session, loaded, parent, target_name, trouble, real_time)
    return finish(directory)


def finish(directory: Path) -> Outcome:
    """Judge a collected run and write its report; can be repeated on the same directory."""
    run = results.load(directory)
    outcome = Outcome(run.measures, run.judge(), directory, run.trouble)
    results.write(run, outcome.verdicts)
    return outcome
