"""Traffic at a prompt: any kind that a scenario may have, in the background, as many at once as wanted.

The QPs of a host's last traffic stay until it sends again, so that the EVs of what is over can still be looked at.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from mrclab.lab.errors import RunError
from mrclab.lab.run.world import KINDS, PROGRESS_KINDS, World
from mrclab.lab.traffic.models import TRAFFIC, TrafficBase
from mrclab.lab.traffic.running.started import StartedTraffic
from mrclab.topo.sentences import nearest
from mrclab.topo.spec import explain


class RunningTraffics:
    """All traffics since the lab is up, by name; `advance` takes in what their hosts tell."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.all: dict[str, StartedTraffic] = {}

    def start(self, fields: Mapping[str, Any]) -> StartedTraffic:
        """Start a traffic given as in a scenario; its name may be left out. ValueError says what is wrong."""
        entry = self._entry(fields)
        self._release(entry)
        running = entry.running(self._world, entry.qps or 1, self._world.seed)
        background = StartedTraffic(self._world, running, (*KINDS, *PROGRESS_KINDS))
        self.all[entry.name] = background
        return background

    def stop(self, name: str) -> StartedTraffic:
        """End a traffic before its time. KeyError where none has this name, ValueError where it is over."""
        background = self.all[name]
        if background.ended:
            raise ValueError(f"{name} is over already")
        self._finish(background, "it was stopped")
        return background

    def advance(self) -> None:
        """Take in what has come; end what is over."""
        for background in self.active:
            background.listen(self._world.now)
            if background.running.over:
                self._finish(background)

    @property
    def active(self) -> list[StartedTraffic]:
        """Those that run."""
        return [background for background in self.all.values() if not background.ended]

    def close(self) -> None:
        """End what runs."""
        for background in self.active:
            self._finish(background, "the lab was taken down")

    def _entry(self, fields: Mapping[str, Any]) -> TrafficBase:
        free = (f"flow-{n}" for n in range(1, len(self.all) + 2) if f"flow-{n}" not in self.all)
        name = fields.get("name") or next(free)
        if name in self.all and not self.all[name].ended:
            raise ValueError(f"{name} runs already; give another name=")
        kind = str(fields.get("kind", ""))
        if kind not in TRAFFIC:
            raise ValueError(f"no kind of traffic is called {kind!r}; {nearest(str(kind), TRAFFIC.names)}")
        try:
            return TRAFFIC[kind].model_validate({**fields, "name": name}, context={"fabric": self._world.fabric})
        except ValidationError as error:
            raise ValueError("; ".join(explain(error, TRAFFIC[kind], kind))) from None

    def _release(self, entry: TrafficBase) -> None:
        """Let go of what is over and shares a host with what comes."""
        hosts = set(entry.hosts_in(self._world.fabric, self._world.seed))
        for name, background in list(self.all.items()):
            if background.ended and hosts & set(background.running.hosts):
                for host in background.running.hosts:
                    self._world.call(host, "release_workload", name=name)

    def _finish(self, background: StartedTraffic, error: str = "") -> None:
        try:
            background.finish(error)
        except RunError as trouble:
            background.running.outcome = {"error": str(trouble)}
            background.running.ended = self._world.now
