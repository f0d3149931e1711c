"""`make drill`: runs a small scenario again and again, and does something to it at a random moment each time.

Moments are random, while the lab is brought up, while traffic flows, while it is taken down; so is what each kind of
thing is done to. What must hold each time: the exit status is a documented one, no traceback, one clear reason within
five seconds where the run ends by it, one line within as long that names a process that is stopped, every result
directory whole, nothing left on the machine (after `mrclab clean`, where the lab itself was killed), and the next run
holds. Needs root. Seeded.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import disturbances
from disturbances import Disturbance, Scene

from mrclab.topo.linux import processes, state

SCENARIO = """\
name: drill
max_wait: {max_wait}
fabric: {{planes: 2, t0s: 2, t1s: 1, hosts_per_t0: {hosts}, path_mtu: 1024, link: {{rate_pps: 200, delay: 5ms}}}}
traffic:
  - {{name: stream, kind: stream, from: h1, to: h{to}, duration: {seconds}s}}
faults:
  - {{name: slow, kind: delay, link: h1-p1, delay: 2ms, at: 0s}}
  - {{name: noise, kind: background, from: h{to}, to: h1, plane: 2, load: 10%, at: 0s}}
"""
REASON_S = 5.0  # seconds within which the reason must be printed
_END_S = 90.0  # seconds after which a run that has not ended hangs
_STATUSES = {0, 1, 3, 130}
_SECONDS = 3.0  # of traffic
_PHASES = {"bring-up": 0.8, "traffic": 0.8 * _SECONDS, "tear-down": 1.0}  # seconds of which a moment is drawn
_DISK_MIB = 40
_PCAPNG = b"\x0a\x0d\x0d\x0a"  # type of the section header block
_WHOLE = ("run.json", "scenario.yaml", "history.jsonl")  # what no result directory is without
_AGAIN = 3  # attempts of the next run that a busy machine makes invalid


@dataclass
class Round:
    """One run and its outcome; `wrong` lists deviations from the expected one."""

    what: str
    to: str
    moment: float  # seconds after the command began
    during: str
    status: int | None = None
    reason: str = ""
    after: float | None = None  # seconds from the fault to the reason
    lasted: float = 0.0  # seconds from the fault to the end
    stood: float = 0.0  # seconds from the fault to the end of the traffic, or of the run where that has none
    wrong: list[str] = field(default_factory=list)


class Drill:
    """Makes rounds in a place of its own."""

    def __init__(self, home: Path, seed: int) -> None:
        self._home, self._draw = home, random.Random(seed)
        self._run_dir = Path(f"/run/mrclab-drill-{os.getpid()}/lab")
        self._results = home / "results"
        self._temporary = home / "temporary"
        self._temporary.mkdir()
        self._long: threading.Thread | None = None
        self._loose = self._scenario("loose", max_wait="10s", seconds=1)

    def _scenario(self, name: str, hosts: int = 1, **fields: object) -> Path:
        path = self._home / f"{name}.yaml"
        path.write_text(SCENARIO.format(hosts=hosts, to=hosts + 1, **fields))
        return path

    def round(self, one: Disturbance, phase: str) -> Round:
        """Run, disturb it at a random moment of a phase, judge the outcome, and run once more."""
        with (
            disturbances.small_disk(self._run_dir.parent, _DISK_MIB),
            disturbances.small_disk(self._results, _DISK_MIB),
        ):
            made = self._disturbed(one, phase)
            self._tidy(made)
        self._next(made)
        return made

    def _argv(self, *words: object) -> list[str]:
        code = "from mrclab.lab.command.cli import main; main()"
        return [sys.executable, "-u", "-c", code, "--run-dir", str(self._run_dir), *map(str, words)]

    def _disturbed(self, one: Disturbance, phase: str) -> Round:
        shown = self._home / "said"
        with shown.open("wb") as file:
            name, seconds = f"strict-{one.hosts}", one.seconds or _SECONDS
            scenario = self._scenario(name, one.hosts, max_wait="1s", seconds=seconds)
            argv = self._argv("run", scenario, "--results", self._results, *one.options)
            out = subprocess.PIPE if one.name == disturbances.LEAVE else file
            place = {**os.environ, "TMPDIR": str(self._temporary)}
            process = subprocess.Popen(argv, stdout=out, stderr=file, start_new_session=True, env=place)
        began = time.monotonic()
        made = Round(one.name, "", 0.0, "")
        scene = Scene(self._run_dir, process.pid, self._results, process.stdout, self._home)
        try:
            done = self._at_a_moment(one, phase, process, made, scene)
            made.moment = round(done - began, 2)
            made.after = self._wait_reason(one, process, shown, done)
            made.status = process.wait(max(1.0, done + _END_S - time.monotonic()))
            made.lasted = round(time.monotonic() - done, 2)
            made.stood = round(self._traffic_end(time.monotonic()) - done, 2)
        except subprocess.TimeoutExpired:
            made.wrong.append(f"it did not end within {_END_S:.0f} s")
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
            scene.ended.set()
            if self._long is not None:
                self._long.join()
                self._long = None
        self._judge_captures(scene, made)
        self._judge(one, made, shown.read_text(errors="replace"))
        return made

    def _at_a_moment(
        self, one: Disturbance, phase: str, process: "subprocess.Popen[bytes]", made: Round, scene: Scene
    ) -> float:
        """Wait for a random moment of a phase, and do it; returns when it was done."""
        begun: dict[str, Callable[[], bool]] = {
            "bring-up": lambda: one.possible(scene),
            "traffic": lambda: self._recorded("traffic.start") and one.possible(scene),
            "tear-down": lambda: self._recorded("traffic.end"),
        }
        deadline = time.monotonic() + _END_S
        while process.poll() is None and time.monotonic() < deadline and not begun[phase]():
            time.sleep(0.02)
        time.sleep(self._draw.uniform(0.0, _PHASES[phase]))
        begun_at = time.monotonic()
        if process.poll() is None:
            made.during = self._now(phase)
            if one.named:
                self._long = threading.Thread(target=self._do, args=(one, scene, made))
                self._long.start()
            else:
                self._do(one, scene, made)
        return begun_at if one.fatal or one.named else time.monotonic()

    def _do(self, one: Disturbance, scene: Scene, made: Round) -> None:
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # what it was to be done to is gone
            made.to = one.do(scene, self._draw)

    def _recorded(self, kind: str) -> bool:
        """Return True if the lab's history has such a record by now."""
        try:
            return f'"{kind}"' in (self._run_dir / "history" / "lab.jsonl").read_text()
        except OSError:
            return False

    def _traffic_end(self, now: float) -> float:
        """Return when the traffic of the newest result ended; `now` where no record says so."""
        kept = sorted(self._results.glob("drill-*/history.jsonl"), key=lambda path: path.stat().st_mtime)
        ends = [line for line in kept[-1].read_text().splitlines() if '"traffic.end"' in line] if kept else []
        return float(json.loads(ends[-1])["t"]) if ends else now

    def _now(self, phase: str) -> str:
        """The phase that the run is in by now; one whose history is gone is being taken down, unless it is new."""
        if not (self._run_dir / "history").exists():
            return "bring-up" if phase == "bring-up" else "tear-down"
        if self._recorded("traffic.end"):
            return "tear-down"
        return "traffic" if self._recorded("traffic.start") else "bring-up"

    def _wait_reason(
        self, one: Disturbance, process: "subprocess.Popen[bytes]", shown: Path, done: float
    ) -> float | None:
        """Seconds until one of `reason_words` was printed; None where none was, or none is expected."""
        while one.reason_words and time.monotonic() < done + _END_S:
            ended = process.poll() is not None
            if any(word in shown.read_text(errors="replace") for word in one.reason_words):
                return round(time.monotonic() - done, 2)
            if ended:
                break
            time.sleep(0.02)
        return None

    def _judge(self, one: Disturbance, made: Round, shown: str) -> None:
        lines = [line.strip() for line in shown.splitlines() if any(word in line for word in one.reason_words)]
        made.reason = lines[0][:300] if lines else ""
        if not made.to:
            made.reason = "what it was to be done to was gone"
            return
        if "Traceback" in shown or "internal error" in shown:
            made.wrong.append("a traceback: " + shown[-800:])
        ends = one.fatal and made.during != "tear-down"  # what comes then need not be noticed any more
        if one.name == disturbances.KILL_LAB:
            statuses = {-signal.SIGKILL}
        elif ends:
            statuses = {130} if disturbances.INTERRUPT in one.name else {1}
        else:
            statuses = _STATUSES if disturbances.INTERRUPT in one.name else _STATUSES - {130}
        if one.named or one.harmless:
            statuses = {0, 3}
        if one.named and "too slow" in shown:
            made.wrong.append(f"the machine was blamed: {shown[-800:]}")
        if made.status not in statuses:
            made.wrong.append(f"exit status {made.status}: {shown[-800:]}")
        stood = one.named and made.during != "tear-down" and made.stood > REASON_S
        if (ends or stood) and one.reason_words and made.after is None:
            made.wrong.append(f"no reason was given: {shown[-800:]}")
        if made.after is not None and made.after > REASON_S:
            made.wrong.append(f"the reason came after {made.after:.1f} s")
        self._judge_results(one, made)

    def _judge_captures(self, scene: Scene, made: Round) -> None:
        """A capture that was left alone ends with the lab, and its file is whole."""
        for capture in scene.captures:
            try:
                output, _ = capture.communicate(timeout=_END_S)
            except subprocess.TimeoutExpired:
                capture.kill()
                capture.communicate()
                made.wrong.append("the capture did not end with the lab")
                continue
            content = (self._home / "capture.pcapng").read_bytes()
            if capture.returncode or content[:4] != _PCAPNG:
                made.wrong.append(
                    f"the capture ended with {capture.returncode}: {output.decode(errors='replace')[-300:]}"
                )

    def _capture_commands(self) -> list[str]:
        """Command lines of processes that name this drill's run directory: a page, a capture."""
        needle, found = os.fsencode(self._run_dir), []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    if needle in words:
                        found.append(b" ".join(words[-8:]).decode(errors="replace"))
        return found

    def _judge_results(self, one: Disturbance, made: Round) -> None:
        """Every result directory is complete; a run that had begun has one, unless it could not be stored."""
        if one.name in {disturbances.KILL_LAB, disturbances.REMOVE_RESULTS}:
            return
        found = [*self._results.glob("drill-*"), *self._temporary.glob("mrclab-results-*/drill-*")]
        broken = [path.name for path in found for name in _WHOLE if not (path / name).exists()]
        if broken:
            made.wrong.append(f"half a result directory: {', '.join(sorted(set(broken)))}")
        if made.during == "traffic" and not found:
            made.wrong.append("nothing of the run was kept")

    def _tidy(self, made: Round) -> None:
        """Check that nothing is left; `mrclab clean` removes leftovers of a killed lab."""
        if made.what == disturbances.KILL_LAB:
            place = {**os.environ, "TMPDIR": str(self._temporary)}
            done = subprocess.run(self._argv("clean"), capture_output=True, text=True, check=False, env=place)
            if done.returncode or (made.during != "tear-down" and "removed " not in done.stdout):
                made.wrong.append(f"clean ended with {done.returncode}: {done.stderr[-600:]}{done.stdout[-300:]}")
        left = processes.of_labs().get(self._run_dir.parent.resolve(), set())
        if left:
            made.wrong.append(f"{len(left)} processes were left")
        for command in self._capture_commands():
            made.wrong.append(f"a process was left: {command}")
        name = state.namespace(self._run_dir.parent, "cables")
        if Path(f"/run/netns/{name}").exists():
            made.wrong.append(f"the namespace {name} was left")
        files = [path.name for path in self._run_dir.parent.iterdir() if path.name != "filler"]
        if files:
            made.wrong.append(f"files were left: {', '.join(files)}")
        if left or files:
            state.clean(self._run_dir.parent)
        shutil.rmtree(self._temporary)
        self._temporary.mkdir()

    def _next(self, made: Round) -> None:
        for _ in range(_AGAIN):
            argv = self._argv("run", self._loose, "--results", self._home / "next")
            done = subprocess.run(argv, capture_output=True, text=True, check=False)
            if done.returncode != 3:
                break
        if done.returncode == 3:
            made.reason += " (the machine is too busy for the next run)"
        elif done.returncode:
            made.wrong.append(f"the next run ended with {done.returncode}: {done.stderr[-600:]} {done.stdout[-300:]}")


def main(words: Sequence[str] | None = None) -> int:
    """Make the rounds; exit status 1 where one was not as it must be."""
    parser = argparse.ArgumentParser(prog="drill", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--first", type=int, default=1, help="begin with this round")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no round after this many seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only what has this in its name")
    parser.add_argument("--phase", default="", choices=["", *_PHASES], help="only then; else each in turn")
    parser.add_argument("--long", type=float, default=disturbances.LONG_STOP_S, help="seconds of a stop for long")
    parser.add_argument("--report", type=Path, help="write all rounds as JSON to this file")
    options = parser.parse_args(words)
    disturbances.LONG_STOP_S = options.long
    if os.geteuid() != 0:
        sys.stderr.write("drill: it needs root, as the lab does; run it with sudo\n")
        return 2
    kinds = [one for one in disturbances.ALL if options.only in one.name]
    phases = [phase for phase in _PHASES if options.phase in phase]
    end = time.monotonic() + options.seconds
    made: list[Round] = []
    with tempfile.TemporaryDirectory(prefix="mrclab-drill-") as home:
        drill = Drill(Path(home), options.seed)
        for number in range(options.first - 1, options.first - 1 + options.rounds):
            if time.monotonic() > end:
                break
            turn, which = divmod(number, len(kinds))
            result = drill.round(kinds[which], phases[(which + turn) % len(phases)])
            made.append(result)
            verdict = "; ".join(result.wrong) or "as it must be"
            after = "" if result.after is None else f", reason after {result.after:.2f} s"
            what = f"{number + 1}: {result.what} ({result.to}) in {result.during} at {result.moment:.1f} s"
            sys.stdout.write(f"{what}: status {result.status}{after}: {verdict}\n")
            sys.stdout.flush()
            if options.report:
                options.report.write_text(json.dumps([asdict(one) for one in made], indent=1) + "\n")
    wrong = sum(bool(one.wrong) for one in made)
    sys.stdout.write(f"{len(made)} rounds, {wrong} of them not as they must be\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
