"""Short runs for figures: a scenario in virtual time as frames, with every packet on every cable."""

import json
import tempfile
from pathlib import Path
from typing import Any

from mrclab.lab import history
from mrclab.lab.errors import LabError
from mrclab.lab.prompt.watching.packetwatch import crossing_row
from mrclab.lab.run import runner
from mrclab.lab.run.virtual import VirtualWorld
from mrclab.lab.run.world import World
from mrclab.lab.scenario import scenario
from mrclab.lab.ui.framestream import FrameStream, patch
from mrclab.lab.ui.model import PageModel
from mrclab.sim.links.crossings import Crossings
from mrclab.topo.errors import TopoError

_MAX_CROSSINGS = 20_000  # packets on cables that one figure shows


class ShortRun:
    """A `Follower` that keeps frames on cables between two times, in seconds of virtual time."""

    def __init__(self, begin: float, end: float) -> None:
        self._begin, self._end = begin, end
        self._watch: Crossings | None = None
        self.seen: list[list[float]] = []

    def show(self, world: World) -> None:
        """Watch a world that is up."""
        assert isinstance(world, VirtualWorld)
        self._watch = world.watch()
        world.follow(self)

    def write_now_and_then(self) -> None:
        """Add frames that crossed."""
        for each in self._watch.taken() if self._watch is not None else ():
            if self._begin <= each.left and each.entered <= self._end and len(self.seen) < _MAX_CROSSINGS:
                self.seen.append(crossing_row(each))

    def close(self) -> None:
        """Take in the rest."""
        self.write_now_and_then()


def frames_of(text: str, begin: float, end: float, step: float) -> dict[str, Any]:
    """Run a scenario; return its layout, frames every `step` from `begin` to `end`, and packets of that time.

    Each frame is a JSON merge patch of the one before. Raises LabError where the text has mistakes.
    """
    if not 0 <= begin < end or step <= 0:
        raise LabError(
            f"{begin:g} s to {end:g} s every {step:g} s is not a span of time; end after the begin, with a step above 0"
        )
    loaded = scenario.in_world(scenario.loads(text, "figure.yaml"), "sim")
    seen = ShortRun(begin, end)
    with tempfile.TemporaryDirectory(prefix="mrclab-figure-") as folder:
        outcome = runner.run_scenario(loaded, Path(folder), report=False, show=seen.show)
        records = history.load(outcome.directory / "history.jsonl").records
    model, frames = PageModel(loaded.fabric), []
    stream = FrameStream(model, step)
    for record in records:
        frames += [frame for frame in stream.take(record) if begin <= frame["t"] <= end]
        if record.t > end:
            break
    changes = [patch(before, after) for before, after in zip([{}, *frames], frames, strict=False)]
    return {"layout": model.layout(), "frames": changes, "packets": seen.seen, "begin": begin, "end": end}


class Figures:
    """Answers requests of a page with figures, as `lab.ui.browser.tab.Tab` answers those of the lab's page."""

    def request(self, path: str, body: str = "") -> str:
        """Answer {"text", "begin", "end", "step"} for `api/figure`, as JSON; `error` has the reason of a refusal."""
        try:
            if path != "api/figure":
                raise LabError(f"figures have no {path}")
            request = json.loads(body)
            return json.dumps(
                frames_of(str(request["text"]), *(float(request[name]) for name in ("begin", "end", "step")))
            )
        except (LabError, TopoError, ValueError, TypeError, KeyError) as error:
            return json.dumps({"error": str(error)})
