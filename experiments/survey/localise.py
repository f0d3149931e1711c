"""Clustermapper against seeded faults on a running fabric, one case after the other: which verdicts, after how long."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from mrclab.experiments.survey.cases import NIC_LOSS, Case, Injury
from mrclab.lab.run.world import GONE, World
from mrclab.topo.cables.cablefaults import EVERY_PACKET, Drop, Loss

SETTLE = 4  # cycles after a fault was healed in which nothing is judged
QUIET = 12  # healthy cycles before a fault, so that a healthy past is there to mislead
MOST = 250  # cycles after which a fault counts as not found
AFTER = 4  # cycles that are still watched once everything is named: a late slander counts


class Surveyor:
    """Works off cases on a lab with Clustermapper on."""

    def __init__(self, world: World, cycle: float) -> None:
        self._world = world
        self._cycle = cycle
        self._events = world.subscribe(["controller"], ["verdict"])

    def work(self, case: Case) -> dict[str, Any]:
        """One case: a healthy time, the fault, the verdicts until all is named or the adaptive ends."""
        self._begin_anew(SETTLE)
        self._begin_anew(QUIET)
        alarms = [_said(event, 0.0, self._cycle) for _node, event in self._events.wait(self._world.now)]
        truth = {injury.element for injury in case.injuries}
        with injured(self._world, case.injuries):
            begun = self._world.now
            verdicts = list(self._until_named(truth, begun))
        named = {verdict["element"]: verdict["cycles"] for verdict in reversed(verdicts) if verdict["element"] in truth}
        return {
            **case.as_json(),
            "alarms": alarms,
            "verdicts": verdicts,
            "named": named,
            "complete": set(named) == truth,
        }

    def close(self) -> None:
        """Let go of the controller."""
        self._events.close()

    def _begin_anew(self, cycles: int) -> None:
        """Have Clustermapper forget, and wait until it has judged so many cycles since."""
        self._world.call("controller", "forget")
        wanted = self._world.call("controller", "map")["looks"] + cycles
        while (lacking := wanted - self._world.call("controller", "map")["looks"]) > 0:
            self._world.pause(lacking * self._cycle)

    def _until_named(self, truth: set[str], begun: float) -> Iterator[dict[str, Any]]:
        """Verdicts as they come, until all of `truth` was named and a little longer."""
        left = set(truth)
        deadline = begun + MOST * self._cycle
        while self._world.now < deadline:
            for _node, event in self._events.wait(deadline):
                if event["kind"] == GONE:
                    return
                yield _said(event, begun, self._cycle)
                if left and not (left := left - {event["element"]}):
                    deadline = self._world.now + AFTER * self._cycle


def _said(event: Mapping[str, Any], begun: float, cycle: float) -> dict[str, Any]:
    told = {name: event[name] for name in ("element", "state", "rate", "rivals")}
    return {**told, "cycles": round((event["t"] - begun) / cycle, 2)}


@contextmanager
def injured(world: World, injuries: tuple[Injury, ...]) -> Iterator[None]:
    """The faults hold inside the block, and are healed in reverse order at its end."""
    with ExitStack() as stack:
        for injury in injuries:
            stack.callback(_injure(world, injury))
        yield


def _injure(world: World, injury: Injury) -> Callable[[], object]:
    """Make an element faulty; returns what heals it."""
    injector = world.injector
    if injury.kind == "t1":
        injector.freeze(injury.element)
        return lambda: injector.thaw(injury.element)
    action = Drop() if injury.kind == "cable" else Loss(NIC_LOSS)
    return injector.inject([(injury.element, action)], match=EVERY_PACKET, direction=injury.direction).heal
