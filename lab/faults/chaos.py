"""Chaos: many faults of cables and switches, drawn from the seed, that together leave every pair of hosts a whole path.

The plan is made before anything runs, from the fabric and the seed alone: `mrclab run --dry-run` prints it.
"""

import random
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, TypeAdapter, model_validator

from mrclab.lab.faults.base import FaultBase, at_least_one
from mrclab.lab.faults.cablemodels import CABLE_KINDS
from mrclab.lab.faults.groupmodels import NicPortDown, PlaneDown, Transceiver
from mrclab.lab.faults.processmodels import SwitchCrash, SwitchFreeze, SwitchReboot, WrongEntry
from mrclab.lab.faults.wholepaths import WholePaths
from mrclab.lab.scenario.moments import Trigger
from mrclab.lab.scenario.units import Duration, show_seconds
from mrclab.topo.model import Fabric, Link, Switch

_MODELS: tuple[type[FaultBase], ...] = (
    *CABLE_KINDS,
    Transceiver,
    NicPortDown,
    PlaneDown,
    SwitchCrash,
    SwitchFreeze,
    SwitchReboot,
    WrongEntry,
)
_TRIES = 30  # draws of a kind and a place for one fault, until one leaves enough paths
_MOST = 10_000  # faults of one chaos, on average
_NAME_LENGTH = 32  # of the chaos's own name in those of its faults

Kind = Literal[
    "link_down",
    "flap",
    "loss",
    "ev_loss",
    "silent_drop",
    "corrupt",
    "rate_limit",
    "delay",
    "jitter",
    "reorder",
    "lose_packets",
    "swap_cables",
    "transceiver",
    "nic_port_down",
    "plane_down",
    "switch_crash",
    "switch_freeze",
    "switch_reboot",
    "wrong_entry",
]
ALL_KINDS: tuple[Kind, ...] = Kind.__args__  # type: ignore[attr-defined]


class Chaos(FaultBase):
    """Random faults for a while, each healed in its time; over by itself."""

    kind: Literal["chaos"]
    duration: Duration = Field(gt=0, le=86_400, description="seconds until the last of its faults is healed")
    every: Duration = Field(default=3.0, gt=0, description="mean seconds between two faults")
    shortest: Duration = Field(default=0.5, gt=0, description="least seconds that a fault lasts")
    longest: Duration = Field(default=5.0, gt=0, description="most seconds that a fault lasts")
    settle: Duration = Field(default=2.0, ge=0, description="seconds after a fault in which its paths count as broken")
    at_once: int = Field(default=3, ge=1, le=50, description="most faults at the same time")
    keep_paths: int = Field(default=1, ge=1, description="whole paths that every pair of hosts keeps")
    kinds: Annotated[tuple[Kind, ...], AfterValidator(at_least_one)] = ALL_KINDS

    @model_validator(mode="after")
    def _in_order(self) -> "Chaos":
        if self.duration / self.every > _MOST:
            count = self.duration / self.every
            raise ValueError(f"this plans some {count:.0f} faults, of {_MOST} at most; raise every")
        if self.shortest > self.longest:
            raise ValueError(f"shortest {self.shortest:g} s exceeds longest {self.longest:g} s; lower it")
        if self.shortest > self.duration:
            raise ValueError(f"no fault of {self.shortest:g} s fits into {self.duration:g} s; lower shortest")
        return self

    def text(self, fabric: Fabric) -> str:
        """What happens."""
        del fabric
        kinds = "every kind" if self.kinds == ALL_KINDS else ", ".join(self.kinds)
        return f"chaos of {kinds} for {show_seconds(self.duration)}, a fault about every {show_seconds(self.every)}"

    @property
    def prefix(self) -> str:
        """What the names of its faults begin with, before a dash and a number."""
        return self.name[:_NAME_LENGTH]

    def parts(self, fabric: Fabric, seed: int) -> list[FaultBase]:
        """All of its plan."""
        return self.plan(fabric, seed)

    def plan(self, fabric: Fabric, seed: int) -> list[FaultBase]:
        """All faults in the order in which they strike; their times count from when chaos itself does."""
        return list(self._draw(fabric, random.Random(f"{seed}/{self.name}")))

    def _draw(self, fabric: Fabric, draw: random.Random) -> Iterator[FaultBase]:
        paths = WholePaths(fabric)
        active: list[tuple[float, frozenset[str]]] = []  # until when, and which cables
        now, number = 0.0, 0
        while (now := now + draw.expovariate(1 / self.every)) + self.shortest <= self.duration:
            lasts = min(draw.uniform(self.shortest, self.longest), self.duration - now)
            active = [entry for entry in active if entry[0] > now]
            if sum(until - self.settle > now for until, _ in active) >= self.at_once:
                continue
            broken = frozenset().union(*(links for _, links in active))
            for _ in range(_TRIES):
                fault = self._one(fabric, draw, number + 1, round(now, 3), round(lasts, 3))
                links = frozenset(fault.links(fabric))
                if links.isdisjoint(broken) and paths.least(broken | links) >= self.keep_paths:
                    number += 1
                    active.append((now + lasts + self.settle, links))
                    yield fault
                    break

    def _one(self, fabric: Fabric, draw: random.Random, number: int, at: float, lasts: float) -> FaultBase:
        kind = draw.choice(self.kinds)
        fields = {**_FIELDS[kind](draw, fabric), "kind": kind, "at": Trigger(seconds=at)}
        if kind == "switch_reboot":
            fields["takes"] = lasts
        else:
            fields["until"] = Trigger(seconds=round(at + lasts, 3))
        fields["name"] = f"{self.prefix}-{number}"
        return _ADAPTERS[kind].validate_python(fields, context={"fabric": fabric})


# --- what is drawn for each kind ------------------------------------------------------------------------------------

Fields = dict[str, Any]


def _link(draw: random.Random, fabric: Fabric) -> Link:
    return draw.choice(fabric.links)


def _switch(draw: random.Random, fabric: Fabric) -> Switch:
    return draw.choice(fabric.switches)


def _on_link(**fields: Any) -> Callable[[random.Random, Fabric], Fields]:
    return lambda draw, fabric: {"link": _link(draw, fabric).name, **fields}


def _one_way(**ranges: tuple[float, float]) -> Callable[[random.Random, Fabric], Fields]:
    """A cable, a direction, and a number from each range."""

    def fields(draw: random.Random, fabric: Fabric) -> Fields:
        direction = draw.choice(("both", "up", "down"))
        numbers = {name: round(draw.uniform(*ends), 4) for name, ends in ranges.items()}
        return {"link": _link(draw, fabric).name, "direction": direction, **numbers}

    return fields


def _ev_loss(draw: random.Random, fabric: Fabric) -> Fields:
    """The uSID of a T1, on a cable of a T0 below it."""
    switch = draw.choice([switch for switch in fabric.switches if switch.tier == "t1"])
    return {"link": draw.choice(switch.ports).link, "usids": (switch.usid,), "rate": round(draw.uniform(0.05, 1), 4)}


def _rate_limit(draw: random.Random, fabric: Fabric) -> Fields:
    most = fabric.spec.link.rate_pps
    return {"link": _link(draw, fabric).name, "rate_pps": max(1, round(draw.uniform(0.1, 0.8) * most))}


def _wait(draw: random.Random, fabric: Fabric) -> float:
    """A delay of some links' worth, seconds."""
    return round(draw.uniform(1, 6) * max(fabric.spec.link.delay, 0.001), 4)


def _delay(draw: random.Random, fabric: Fabric) -> Fields:
    return {"link": _link(draw, fabric).name, "delay": _wait(draw, fabric)}


def _jitter(draw: random.Random, fabric: Fabric) -> Fields:
    wait = _wait(draw, fabric)
    return {"link": _link(draw, fabric).name, "delay": wait, "jitter": wait, "ordered": draw.random() < 0.5}


def _reorder(draw: random.Random, fabric: Fabric) -> Fields:
    return {
        "link": _link(draw, fabric).name,
        "delay": _wait(draw, fabric),
        "share": round(draw.uniform(0.05, 0.5), 3),
    }


def _lose_packets(draw: random.Random, fabric: Fabric) -> Fields:
    numbers = sorted(draw.sample(range(1, 500), draw.randint(1, 20)))
    return {"link": _link(draw, fabric).name, "packets": tuple(numbers)}


def _swap_cables(draw: random.Random, fabric: Fabric) -> Fields:
    """Two cables of one plane that lead up from the same tier."""
    kind, plane = draw.choice(("nic", "fabric")), draw.randint(1, fabric.planes)
    alike = [link.name for link in fabric.links if link.kind == kind and link.plane == plane]
    return {"links": tuple(draw.sample(alike, 2))}


def _transceiver(draw: random.Random, fabric: Fabric) -> Fields:
    """Up to four neighbouring cables of one switch."""
    ports = _switch(draw, fabric).ports
    first = draw.randrange(len(ports))
    return {"links": tuple(dict.fromkeys(port.link for port in ports[first : first + draw.randint(2, 4)]))}


def _nic_port(draw: random.Random, fabric: Fabric) -> Fields:
    return {"port": draw.choice([port.interface for host in fabric.hosts for port in host.ports])}


def _plane(draw: random.Random, fabric: Fabric) -> Fields:
    return {"plane": draw.randint(1, fabric.planes)}


def _any_switch(draw: random.Random, fabric: Fabric) -> Fields:
    return {"switch": _switch(draw, fabric).name}


def _reboot(draw: random.Random, fabric: Fabric) -> Fields:
    return {"switch": _switch(draw, fabric).name, "keep_state": draw.random() < 0.5}


def _wrong_entry(draw: random.Random, fabric: Fabric) -> Fields:
    switch = draw.choice([switch for switch in fabric.switches if len(switch.ports) > 1])
    port, to = draw.sample(range(1, len(switch.ports) + 1), 2)
    return {"switch": switch.name, "port": port, "to": draw.choice((0, to))}


def _flap(draw: random.Random, fabric: Fabric) -> Fields:
    down = round(draw.uniform(0.05, 0.3), 3)
    return {"link": _link(draw, fabric).name, "rate": round(draw.uniform(0.5, 3), 2), "down": down}


_FIELDS: dict[Kind, Callable[[random.Random, Fabric], Fields]] = {
    "link_down": _on_link(),
    "flap": _flap,
    "loss": _one_way(rate=(0.01, 0.5)),
    "ev_loss": _ev_loss,
    "silent_drop": _one_way(),
    "corrupt": _one_way(rate=(0.01, 0.3)),
    "rate_limit": _rate_limit,
    "delay": _delay,
    "jitter": _jitter,
    "reorder": _reorder,
    "lose_packets": _lose_packets,
    "swap_cables": _swap_cables,
    "transceiver": _transceiver,
    "nic_port_down": _nic_port,
    "plane_down": _plane,
    "switch_crash": _any_switch,
    "switch_freeze": _any_switch,
    "switch_reboot": _reboot,
    "wrong_entry": _wrong_entry,
}
_ADAPTERS: dict[str, TypeAdapter[FaultBase]] = {
    model.model_fields["kind"].annotation.__args__[0]: TypeAdapter(model)  # type: ignore[union-attr]
    for model in _MODELS
}
