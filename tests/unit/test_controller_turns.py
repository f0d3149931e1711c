"""Clustermapper where a few hosts of each T0 probe a few T1s in turn: what is seen of a cable is old by then.

A switch that comes back was silent until a moment ago on cables that nobody has probed since: it explains them, and
none of them is accused. A cable that is bad by itself is.
"""

import random
from collections.abc import Collection

import pytest

from mrclab.controller import nodefiles
from mrclab.controller.health.elements import Element, element
from mrclab.controller.health.healthmap import HealthMap
from mrclab.controller.health.localise import Localiser, ProbePath
from mrclab.hosts.mapper import ProbePaths
from mrclab.topo.config.transport import DEFAULT_TRANSPORT
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

FABRIC = Fabric(FabricSpec(planes=1, t0s=16, t1s=16, hosts_per_t0=4))
CROSSED = Localiser(FABRIC).crossed
AT_ONCE = 4  # T1s in a cycle
CONFIGS = nodefiles.node_configs(FABRIC, mapper=nodefiles.mapper(FABRIC, 1.0, AT_ONCE))
PATHS = {host: ProbePaths(config) for host, config in CONFIGS.items()}
T1, T0 = element(FABRIC, "t1-p1-6"), element(FABRIC, "t0-p1-12")


class Turns:
    """Hosts that probe in turn; reports of cycles in which a probe was lost come one look later than the others."""

    def __init__(self) -> None:
        self.health = HealthMap(FABRIC)
        self._phase = {host: random.Random(host).random() for host in FABRIC.host_names}
        self._late: list[tuple[str, list[dict[str, object]]]] = []
        self._cycle = 0

    def poll(self, bad: Collection[Element], since: float = 0.0, before: Collection[Element] = ()) -> set[str]:
        """One cycle; `bad` lose everything `since` a part of it, and until then those `before`. Who is named."""
        self._cycle += 1
        late, self._late = self._late, []
        for host, probes in late:
            self.health.report(host, probes)
        for host in FABRIC.host_names:
            told: list[dict[str, object]] = []
            uplinks = [uplink for _, uplink in PATHS[host].of_cycle(self._cycle)]
            for place, uplink in enumerate(uplinks):
                began = bad if (self._phase[host] + place / len(uplinks)) % 1 >= since else before
                lost = not set(began).isdisjoint(CROSSED(ProbePath(host, 1, uplink)))
                told.append({"plane": 1, "uplink": uplink, "sent": 1, "lost": int(lost), "rtt": None})
            if any(probe["lost"] for probe in told):
                self._late.append((host, told))
            else:
                self.health.report(host, told)
        return {verdict.element.name for verdict in self.health.judge()}


def between(turns: Turns, bad: Collection[Element], cycles: int) -> set[str]:
    return set().union(*(turns.poll(bad) for _ in range(cycles)))


@pytest.mark.parametrize(
    ("t0s", "t1s", "down", "agents", "cycles"), [(32, 16, 32, 4, 1), (128, 64, 64, 4, 4), (12, 20, 8, 3, 3)]
)
def test_few_hosts_of_each_t0_soon_cover_its_t1s_and_every_t1_is_probed_in_every_cycle(
    t0s: int, t1s: int, down: int, agents: int, cycles: int
) -> None:
    fabric = Fabric(FabricSpec(planes=2, t0s=t0s, t1s=t1s, hosts_per_t0=down))
    section = nodefiles.mapper(fabric, 1.0, AT_ONCE)
    configs = nodefiles.Configs(fabric, 1, {}, section, DEFAULT_TRANSPORT, agents)
    groups = [[f"h{group * down + place + 1}" for place in range(agents)] for group in range(t0s)]
    probing = [[ProbePaths(configs[name]) for name in names] for names in groups]
    every = {(plane, uplink) for plane in (1, 2) for uplink in range(t1s + 1)}
    for cycle in (1, 2, 7):
        assert {path for hosts in probing for host in hosts for path in host.of_cycle(cycle)} == every
    for hosts in probing[:3]:
        assert {path for host in hosts for cycle in range(1, cycles + 1) for path in host.of_cycle(cycle)} == every


@pytest.mark.parametrize("moment", [0.0, 0.25, 0.5, 0.75])
def test_switches_that_come_back_leave_no_blame_on_their_cables(moment: float) -> None:
    turns = Turns()
    between(turns, (), 6)
    assert between(turns, (T1, T0), 10) == {T1.name, T0.name}
    last = turns.poll((), moment, (T1, T0))
    assert last | between(turns, (), 20) <= {T1.name, T0.name}
    assert not turns.poll(())


def test_switches_that_were_silent_from_the_start_are_named_and_nothing_else() -> None:
    turns = Turns()
    assert between(turns, (T1, T0), 40) == {T1.name, T0.name}
    assert turns.poll((T1, T0)) == {T1.name, T0.name}


def test_a_cable_that_is_bad_beside_a_silent_switch_is_named_too() -> None:
    turns, cable = Turns(), element(FABRIC, "t0-p1-3/t1-p1-9")
    between(turns, (), 6)
    assert between(turns, (T1, T0, cable), 30) == {T1.name, T0.name, cable.name}
    assert turns.poll((T1, T0, cable)) == {T1.name, T0.name, cable.name}


def test_a_cable_that_stays_bad_as_its_switch_comes_back_is_named_then_and_the_switch_no_longer() -> None:
    turns, cable = Turns(), element(FABRIC, "t0-p1-3/t1-p1-6")
    between(turns, (), 6)
    assert between(turns, (T1, cable), 10) == {T1.name}
    turns.poll((cable,), 0.5, (T1, cable))
    assert between(turns, (cable,), 30) <= {T1.name, cable.name}
    assert turns.poll((cable,)) == {cable.name}
