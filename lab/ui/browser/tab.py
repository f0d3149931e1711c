"""The live page's other end where page and lab share one browser: virtual time in this interpreter, no threads.

It answers the requests of `lab.ui.web.server`, and pushes frames instead of being asked for them: `publish` gets one
JSON object at a time, {"kind": "source", "layout", "first", "frames"}, {"kind": "frames", "changes"}, {"kind":
"packets", "rival", "now", "speed", "slow", "seen"} while time is slow, {"kind": "rival", "changes"} of the lab beside
it, or {"kind": "outcome", "outcome"}. A scenario runs to its end within one `step`, so that requests wait meanwhile.
"""

import json
import math
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from typing_extensions import override

from mrclab.lab import history
from mrclab.lab.errors import LabError
from mrclab.lab.prompt.operations import OPERATIONS
from mrclab.lab.prompt.session import LabSession
from mrclab.lab.prompt.watching.packetwatch import PacketWatch
from mrclab.lab.report import results, summary
from mrclab.lab.run import runner, worlds
from mrclab.lab.run.virtual import VirtualWorld, virtual_world
from mrclab.lab.run.world import World
from mrclab.lab.scenario import scenario
from mrclab.lab.ui.browser import learning
from mrclab.lab.ui.checking import checked
from mrclab.lab.ui.editor import EXAMPLE
from mrclab.lab.ui.sources import Growing, RunIndex, Source
from mrclab.topo.config.transport import TransportSpec
from mrclab.topo.errors import TopoError
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

Publish = Callable[[str], None]

TITLE = "the lab in this tab"
_OFTEN = 0.1  # seconds between two looks at the history of a run
_SLOW = 0.2  # seconds of virtual time per second, at most: there are frames between two samples
_MOMENT = 1e-6  # seconds of virtual time within which more may be recorded


class Followed(Growing):
    """Frames of a world in virtual time, and a `Follower` of the world."""

    def __init__(self, fabric: Fabric, title: str, publish: Callable[["Followed", list[str]], None]) -> None:
        super().__init__(title, fabric)
        self.world: VirtualWorld | None = None
        self._publish = publish
        self._seen = self._sent = 0  # records, frames
        self._due = 0.0

    @override
    def stop(self) -> None:
        self.world = None  # whose history is read

    def write_now_and_then(self) -> None:
        """Read new records, unless that was done just before."""
        if time.monotonic() >= self._due:
            self.take_in()
            self._due = time.monotonic() + _OFTEN

    def close(self) -> None:
        """Take in the rest."""
        self.take_in()

    def take_in(self, speed: float = 1.0) -> None:
        """Make frames of new records, and publish them; more often than the history's interval where time is slow."""
        if self.world is None:
            return
        lines = self.world.history_since(self._seen)
        self._seen += len(lines)
        for record in history.parse(lines):
            self._take(record)
        self._model.expectations = self._judge.poll() or self._model.expectations
        self._add(self._stream.until(self.world.now - _MOMENT))
        if speed < _SLOW and time.monotonic() >= self._due and self.world.now > self.frame_log.last.get("t", -math.inf):
            self._add([self._model.frame(self.world.now)])
            self._due = time.monotonic() + _OFTEN
        self._push()

    def decide(self, digest: str, error: str = "") -> None:
        """Report the outcome; `digest` is the SHA-256 of the history, `error` the reason of an aborted run."""
        self._judge.error = self._judge.error or error
        state, verdicts = self._judge.outcome()
        self._model.expectations = verdicts
        self._add([self._model.frame(self.frame_log.last.get("t", 0.0))])
        self._push()
        self.outcome = {"state": state, "expectations": verdicts, "history_sha256": digest}

    def _push(self) -> None:
        first, changes = self.frame_log.changes_since(self._sent)
        self._sent = first + len(changes)
        if changes:
            self._publish(self, changes)


class LabSide:
    """A lab in virtual time with one transport: its session, its frames, its packets."""

    def __init__(self, publish: Callable[[Followed, list[str]], None], transport: TransportSpec | None = None) -> None:
        self._stack = ExitStack()
        fabric = Fabric(FabricSpec())
        world = self._stack.enter_context(virtual_world(fabric, seed=1, transport=transport))
        self.session = self._stack.enter_context(LabSession(world, speed=1.0, threaded=False).open())
        self.frames = Followed(fabric, TITLE, publish)
        self.frames.world = world
        self._packets, self._drawn = PacketWatch(self.session), 0  # packets sent to the page so far
        self._was_slow = False

    def step(self) -> None:
        """Let time pass."""
        self.session.step()
        self.frames.take_in(self.session.speed or 1.0)

    def follow(self, other: "LabSide") -> None:
        """Let time pass as far as in another lab, at its speed."""
        if self.session.speed != other.session.speed and other.session.speed is not None:
            self.session.speed = other.session.speed
        with self.session.lock:
            self.session.lab.advance_to(max(other.session.world.now, self.session.world.now))
        self.frames.take_in(self.session.speed or 1.0)

    def packets(self) -> dict[str, Any] | None:
        """Return frames that crossed cables since the last time; None without any change."""
        message = self._packets.poll(self._drawn)
        changed = message["slow"] or message["next"] > self._drawn or self._was_slow
        self._drawn, self._was_slow = message["next"], message["slow"]
        return message if changed else None

    def close(self) -> None:
        """Take the lab down."""
        self._stack.close()


class Tab:
    """A lab in virtual time, and runs of scenarios beside it; their results go below `folder`."""

    def __init__(self, publish: Publish, folder: Path = Path("results")) -> None:
        self._publish = publish
        self._run_index = RunIndex(folder)
        self._text = EXAMPLE
        self._waiting: scenario.Loaded | None = None  # the scenario that the next step runs
        self._side = LabSide(self._frames)
        self._comparison: LabSide | None = None  # the same with RoCEv2: each operation is done to both
        self._shown: Source = self._side.frames
        self._ended: Path | None = None  # results of the run that is shown
        self._unwritten: results.CollectedRun | None = None  # the run whose figures are not written yet
        self._runs = 0  # how often another source was shown
        self._open = False  # the source was published: frames may follow
        self._side.frames.take_in()
        self._requests: Mapping[str, Callable[[str], Any]] = {
            "api/operation": self._operation,
            "api/check": checked,
            "api/run": self._run,
            "api/results": lambda _: self._listed(),
            "api/replay": lambda body: self._replay(str(json.loads(body)["name"])),
            "api/grade": self._grade,
            "api/report": lambda _: self._report(),
            "api/back": lambda _: self._show(self._side.frames),
            "api/beside": lambda body: self._compare(bool(json.loads(body)["on"])),
        }

    @property
    def session(self) -> LabSession:
        """The session of the lab, without its rival's."""
        return self._side.session

    def close(self) -> None:
        """Take the lab down."""
        for side in self._sides():
            side.close()

    def _sides(self) -> list[LabSide]:
        return [self._side] if self._comparison is None else [self._side, self._comparison]

    def request(self, path: str, body: str = "") -> str:
        """Answer a request of the page, as JSON; `error` has the reason of a refusal."""
        try:
            return json.dumps(self._requests[path](body))
        except (LabError, TopoError, ValueError, TypeError, KeyError) as error:
            return json.dumps({"error": str(error)})

    def waits(self) -> bool:
        """Return True if the next step runs a scenario."""
        return self._waiting is not None

    def step(self) -> None:
        """Let time pass in the lab, or run the scenario that waits, to its end."""
        loaded, self._waiting = self._waiting, None
        if loaded is not None:
            self._run_now(loaded)
        elif self._unwritten is not None:
            self._write_numbers()
        elif self._shown is self._side.frames:
            self._side.step()
            if self._comparison is not None:
                self._comparison.follow(self._side)
            self._publish_packets()

    def _publish_packets(self) -> None:
        for side in self._sides():
            if message := side.packets():
                self._publish(json.dumps({"kind": "packets", "rival": side is self._comparison, **message}))

    def source(self) -> None:
        """Publish the whole state."""
        self._open = True
        first, changes = self._shown.frame_log.changes_since(0)
        message: dict[str, Any] = {"kind": "source", "layout": self._layout(), "first": first}
        if message["layout"].get("beside") and self._comparison is not None:
            message["rival"] = [json.loads(change) for change in self._comparison.frames.frame_log.changes_since(0)[1]]
        self._publish(f'{json.dumps(message)[:-1]}, "frames": [{",".join(changes)}]}}')

    def _layout(self) -> dict[str, Any]:
        shown, own = self._shown, self._shown is self._side.frames
        message = {"title": shown.title, "live": shown.live, "operable": own, "own": own}
        message |= {"speed": self.session.speed, "rivals": True, "beside": self._comparison is not None} if own else {}
        more = {
            "runs": True,
            "replays": True,
            "reports": True,
            "text": self._text,
            "worlds": ["sim"],
            "run": self._runs,
        }
        return {**shown.layout, **message, **more, "outcome": shown.outcome}

    def _frames(self, source: Followed, changes: list[str]) -> None:
        if self._open and source is self._shown:
            self._publish(f'{{"kind": "frames", "changes": [{",".join(changes)}]}}')

    def _comparison_frames(self, _: Followed, changes: list[str]) -> None:
        if self._open and self._shown is self._side.frames:
            self._publish(f'{{"kind": "rival", "changes": [{",".join(changes)}]}}')

    def _compare(self, on: bool) -> dict[str, str]:
        """Start the lab again; `on`: with a second one of the same fabric, whose transport is RoCEv2."""
        for side in self._sides():
            side.close()
        self._open = False
        self._side = LabSide(self._frames)
        self._shown, self._comparison = self._side.frames, None
        if on:
            self._comparison = LabSide(self._comparison_frames, TransportSpec(kind="roce"))
        for side in self._sides():
            side.frames.take_in()
        return self._show(self._side.frames)

    def _show(self, source: Source) -> dict[str, str]:
        self._shown = source
        self._runs += 1
        self.source()
        return {"message": source.title}

    def _operation(self, body: str) -> dict[str, Any]:
        if self._shown is not self._side.frames:
            raise LabError("this run is over; go back to the lab first")
        request = json.loads(body)
        operation = OPERATIONS[str(request["operation"])]
        message = [operation(side.session, **request.get("arguments", {})) for side in self._sides()]
        for side in self._sides():
            side.frames.take_in()
        if request["operation"] == "slow":
            self._publish_packets()
        return {"message": message[0]}

    def _replay(self, name: str) -> dict[str, str]:
        self._write_numbers()
        source = self._run_index.take(name)
        self._ended = self._run_index.results / name
        return self._show(source)

    def _report(self) -> dict[str, Any]:
        if self._ended is None:
            raise LabError("no run has ended here yet")
        return report(self._ended)

    def _grade(self, body: str) -> dict[str, Any]:
        request = json.loads(body)
        world = self._side.frames.world
        assert world is not None
        return learning.graded(int(request["number"]), str(request.get("text", "")), world.history_since(0))

    def _run(self, body: str) -> dict[str, Any]:
        request = json.loads(body)
        self._text = str(request["text"])
        if (message := checked(self._text))["mistakes"]:
            return {"error": "it has mistakes", **message}
        loaded = scenario.in_world(scenario.loads(self._text, "scenario.yaml"), "sim")
        if "seed" in request:
            loaded = scenario.with_seed(loaded, int(request["seed"]))
        worlds.check(loaded)
        if loaded.variants and "variant" in request:
            loaded = next((run for run in loaded.runs if run.variant == request["variant"]), loaded)
        if loaded.variants:
            names = ", ".join(str(run.variant) for run in loaded.runs)
            raise LabError(f"a page shows one run, and this scenario has the variants {names}; leave all but one out")
        self._waiting, self._ended = loaded, None
        self._show(Followed(loaded.fabric, loaded.scenario.name, self._frames))
        return {"message": f"{message['name']} runs"}

    def _run_now(self, loaded: scenario.Loaded) -> None:
        source, digest, failure = self._shown, "", ""
        self._write_numbers()
        assert isinstance(source, Followed)

        def show(world: World) -> None:
            assert isinstance(world, VirtualWorld)
            source.world = world
            world.follow(source)

        try:
            outcome = runner.run_scenario(loaded, self._run_index.results, report=False, show=show)
            digest = str(outcome.info.get("history_sha256", ""))
            self._unwritten, self._ended = outcome, outcome.directory
        except (LabError, TopoError, OSError, MemoryError) as error:
            failure = str(error) or "the browser gave it no more memory"
        source.decide(digest, failure)
        source.stop()
        self._publish(json.dumps({"kind": "outcome", "outcome": source.outcome}))

    def _write_numbers(self) -> None:
        """Write the figures of the run that ended last, unless they are written: the page has its verdict before."""
        if self._unwritten is not None:
            run, self._unwritten = self._unwritten, None
            with suppress(OSError, MemoryError):  # the list of finished runs lacks it then
                results.write_numbers(run)

    def _listed(self) -> list[dict[str, Any]]:
        self._write_numbers()
        return self._run_index.runs()


def report(directory: Path) -> dict[str, Any]:
    """Return the report of a result directory.

    `headline`, `verdicts` (ok, expected, observed), `series` as in its series.json (seconds after the traffic began,
    bytes/s), and `faults`: name, begin, end on the same clock.
    """
    run = results.load(directory)
    measures = run.measures
    facts = summary.summarize(measures, run.verdicts, run.info)
    spans = {name: span.during(measures.end) for name, span in measures.faults.items()}
    return {
        "title": run.loaded.scenario.title or run.loaded.scenario.name,
        "headline": facts.headline,
        "verdicts": [{"ok": each.ok, "expected": each.expected, "observed": each.observed} for each in run.verdicts],
        "series": summary.series(measures),
        "faults": [
            {"name": name, "begin": measures.since_start(begin), "end": measures.since_start(end)}
            for name, (begin, end) in spans.items()
        ],
    }
