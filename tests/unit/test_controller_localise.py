"""Clustermapper's verdicts on simulated faults: the right element is named, and no healthy one."""

import random
from collections.abc import Iterator, Mapping

import pytest

from mrclab.controller.health.elements import Element, element
from mrclab.controller.health.healthmap import HealthMap, ReportError
from mrclab.controller.health.localise import CycleWindow, LocalisedFault, Localiser, ProbePath, Tally
from mrclab.controller.health.policy import POLICIES, Policy, PolicyEngine
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

FABRIC = Fabric(FabricSpec())  # the demo's: 4 planes of 2 T0 and 2 T1, 2 hosts per T0 group
PATHS = [ProbePath(h.name, plane, uplink) for h in FABRIC.hosts for plane in range(1, 5) for uplink in range(3)]
CROSSED = Localiser(FABRIC).crossed
OVER = {path: frozenset(CROSSED(path)) for path in PATHS}
QUIET = 12  # cycles before a fault begins, so that a healthy past is there to mislead

Faults = Mapping[Element, float]


class Lab:
    """Hosts that probe in cycles, each at a phase of its own, over a fabric whose faults begin at one moment."""

    def __init__(self, rng: random.Random, background: float = 0.0) -> None:
        self.health = HealthMap(FABRIC)
        self._rng = rng
        self._background = background
        self._phase = {host.name: rng.random() for host in FABRIC.hosts}
        self._now = 0

    def cycle(self, faults: Faults, begin: float = 0.0) -> tuple[LocalisedFault, ...]:
        """One cycle of all hosts, then a look at the verdicts. Faults hold from the moment `begin` (in cycles)."""
        for host in FABRIC.hosts:
            mine = [path for path in PATHS if path.host == host.name]
            probes = []
            for place, path in enumerate(mine):
                at = self._now + self._phase[host.name] + place / len(mine)
                lost = self._is_lost(path, faults if at >= begin else {})
                rtt = None if lost else 0.008
                probes.append({"plane": path.plane, "uplink": path.uplink, "sent": 1, "lost": int(lost), "rtt": rtt})
            self.health.report(host.name, probes)
        self._now += 1
        return self.health.judge()

    def _is_lost(self, path: ProbePath, faults: Faults) -> bool:
        rates = [self._background, *(rate for what, rate in faults.items() if what in OVER[path])]
        return any(self._rng.random() < rate for rate in rates)


def diagnose(rng: random.Random, faults: Faults, most: int = 250) -> tuple[int | None, set[Element]]:
    """Cycles from the fault until every faulty element is named (None: never), and all healthy ones called down."""
    lab = Lab(rng)
    begin = QUIET + rng.random()
    false_positives: set[Element] = set()
    for number in range(1, QUIET + most):
        verdicts = lab.cycle(faults, begin)
        false_positives |= {v.element for v in verdicts if v.state == "down" and v.element not in faults}
        if {v.element for v in verdicts} >= set(faults):
            return number - QUIET, false_positives
    return None, false_positives


def random_fault(rng: random.Random, kind: str) -> tuple[Element, float]:
    """An element of a kind that fails: 5 % loss on a NIC–T0 cable, all else silent."""
    if kind == "t1":
        return Element("t1", rng.choice([s.name for s in FABRIC.switches if s.tier == "t1"])), 1.0
    wanted = "nic" if kind == "nic-link" else "fabric"
    link = rng.choice([link.name for link in FABRIC.links if link.kind == wanted])
    return element(FABRIC, link), 0.05 if kind == "nic-link" else 1.0


def hidden(faults: Faults) -> bool:
    """Return True if no probe can tell these faults from others: a cable of a dead T1, or all cables of one T1."""
    t1s = [what.name if what.kind == "t1" else what.name.split("/")[1] for what in faults if what.kind != "nic-link"]
    return len(t1s) > len(set(t1s))


@pytest.mark.parametrize(("kind", "most_cycles"), [("nic-link", 160), ("fabric-link", 5), ("t1", 5)])
def test_of_twenty_single_faults_of_a_kind_all_are_named(kind: str, most_cycles: int) -> None:
    rng = random.Random(f"single {kind}")
    for _ in range(20):
        what, rate = random_fault(rng, kind)
        cycles, false_positives = diagnose(rng, {what: rate})
        assert cycles is not None, what
        assert cycles <= most_cycles, (what, cycles)
        assert not false_positives


def test_of_twenty_double_faults_nearly_all_are_named_and_no_healthy_element_is_called_down() -> None:
    named = 0
    for number in range(20):
        rng = random.Random(f"double {number}")
        faults = dict(random_fault(rng, rng.choice(["nic-link", "fabric-link", "t1"])) for _ in range(2))
        if hidden(faults):
            faults.popitem()
        cycles, false_positives = diagnose(rng, faults)
        named += cycles is not None
        assert not false_positives, faults
    assert named >= 19


@pytest.mark.parametrize("t1s", [2, 4])
def test_two_dead_cables_of_one_t0_are_named_and_the_t0_is_not(t1s: int) -> None:
    wide = Fabric(FabricSpec(t1s=t1s))
    health = HealthMap(wide)
    dead = {"t0-p1-1/t1-p1-1", "t0-p1-1/t1-p1-2"}
    said = set()
    for _ in range(12):
        for host in wide.hosts:
            paths = [ProbePath(host.name, plane, uplink) for plane in range(1, 5) for uplink in range(t1s + 1)]
            over = {path: {element.name for element in Localiser(wide).crossed(path)} for path in paths}
            health.report(
                host.name,
                [{"plane": p.plane, "uplink": p.uplink, "sent": 1, "lost": int(bool(over[p] & dead))} for p in paths],
            )
        said |= {(verdict.element.name, verdict.state) for verdict in health.judge()}
    assert said == {(name, "down") for name in dead}


def test_a_t0_that_loses_half_of_everything_is_named_and_no_cable_of_it() -> None:
    lab = Lab(random.Random("half"))
    said = set()
    for _ in range(60):
        said |= {verdict.element.name for verdict in lab.cycle({Element("t0", "t0-p2-1"): 0.5})}
    assert said == {"t0-p2-1"}


def test_a_healthy_network_with_stray_losses_is_not_blamed() -> None:
    lab = Lab(random.Random("stray"), background=0.0005)
    assert not any(lab.cycle({}) for _ in range(400))


@pytest.mark.parametrize("name", ["t0-p1-1/t1-p1-2", "t1-p2-1", "h1-p3", "t0-p4-2"])
def test_what_is_healed_is_cleared_within_a_few_cycles_and_leaves_no_blame(name: str) -> None:
    lab = Lab(random.Random(name))
    what = element(FABRIC, name)
    for _ in range(QUIET):
        lab.cycle({})
    for _ in range(20):
        verdicts = lab.cycle({what: 1.0})
    assert [(v.element, v.state) for v in verdicts] == [(what, "down")]
    after = [lab.cycle({}) for _ in range(60)]
    assert not any(after[3:])


def test_a_lossy_cable_that_is_replaced_is_cleared() -> None:
    lab = Lab(random.Random("replaced"))
    what = element(FABRIC, "h2-p4")
    for _ in range(160):
        verdicts = lab.cycle({what: 0.05})
    assert [(v.element, v.state) for v in verdicts] == [(what, "lossy")]
    assert 0.02 <= verdicts[0].rate <= 0.1
    assert not [lab.cycle({}) for _ in range(80)][-1]


def seen(tallies: Mapping[ProbePath, Tally], fabric: Fabric = FABRIC) -> CycleWindow:
    """A window over tallies as they stand here."""
    crossed = Localiser(fabric).crossed
    return CycleWindow(
        {path: tally for path, tally in tallies.items() if tally.lost},
        lambda what: ((path, tally) for path, tally in tallies.items() if what in crossed(path)),
    )


def tallies(lost: Mapping[ProbePath, int], sent: int = 20) -> list[CycleWindow]:
    return [seen({path: Tally(sent, lost.get(path, 0), (1 << lost.get(path, 0)) - 1) for path in PATHS})]


def by_element(name: str) -> dict[ProbePath, int]:
    what = element(FABRIC, name)
    return {path: 20 for path in PATHS if what in OVER[path]}


@pytest.mark.parametrize("name", ["t0-p1-1", "t1-p1-2", "t0-p3-2/t1-p3-1", "h4-p2/t0-p2-2"])
def test_what_every_lost_probe_crossed_is_the_verdict(name: str) -> None:
    (verdict,) = Localiser(FABRIC).verdicts(tallies(by_element(name)))
    assert verdict.element.name == name
    assert verdict.state == "down"
    assert verdict.alternatives == ()


def test_where_two_elements_carry_the_same_probes_both_are_said() -> None:
    lonely = Fabric(FabricSpec(planes=1, t0s=2, t1s=1, hosts_per_t0=1))
    paths = [ProbePath(h.name, 1, uplink) for h in lonely.hosts for uplink in (0, 1)]
    lost = {path: Tally(20, 20 if path.host == "h1" else 0) for path in paths}
    (verdict,) = Localiser(lonely).verdicts([seen(lost, lonely)])
    assert verdict.element.name == "h1-p1/t0-p1-1"
    assert [each.name for each in verdict.alternatives] == ["t0-p1-1"]


def test_a_burst_within_two_cycles_is_no_loss_rate() -> None:
    burst = {path: Tally(40, 3, 0b11) for path in PATHS if path.host == "h1" and path.plane == 1}
    quiet = {path: Tally(40, 0) for path in PATHS if path not in burst}
    assert Localiser(FABRIC).verdicts([seen(burst | quiet)]) == ()
    spread = {path: Tally(40, 3, 0b10101) for path in burst}
    (verdict,) = Localiser(FABRIC).verdicts([seen(spread | quiet)])
    assert (verdict.element.name, verdict.state) == ("h1-p1/t0-p1-1", "lossy")


def test_two_losses_are_not_enough() -> None:
    assert Localiser(FABRIC).verdicts(tallies({PATHS[0]: 2})) == ()


@pytest.mark.parametrize(
    ("host", "probes", "complaint"),
    [
        ("h9", [], "unknown host 'h9'"),
        ("h1", {"plane": 1}, "probes must be a list"),
        ("h1", ["x"], "a probe must be an object"),
        ("h1", [{"plane": 1, "uplink": 0, "sent": 1}], "lost is None and not a whole number"),
        ("h1", [{"plane": 5, "uplink": 0, "sent": 1, "lost": 0}], "no plane 5, uplink 0"),
        ("h1", [{"plane": 1, "uplink": 0, "sent": 1, "lost": 2}], "2 lost of 1 sent"),
        ("h1", [{"plane": 1, "uplink": 0, "sent": 1, "lost": 0, "rtt": -1}], "RTT -1 is impossible"),
        ("h1", [{"plane": 1, "uplink": 0, "sent": 10**400, "lost": 1}], "is impossible"),
    ],
)
def test_a_report_that_cannot_be_right_is_refused_whole(host: str, probes: object, complaint: str) -> None:
    health = HealthMap(FABRIC)
    good = {"plane": 1, "uplink": 0, "sent": 1, "lost": 1, "rtt": None}
    with pytest.raises(ReportError, match=complaint):
        health.report(host, [good, *probes] if isinstance(probes, list) and host == "h1" else probes)
    assert {link["state"] for link in health.links().values()} == {"unknown"}


def test_the_map_tells_state_loss_and_rtt_of_each_link() -> None:
    lab = Lab(random.Random("map"))
    dead = element(FABRIC, "t0-p1-1/t1-p1-2")
    for _ in range(8):
        lab.cycle({dead: 1.0})
    links = lab.health.links()
    assert list(links) == [link.name for link in FABRIC.links]
    assert links.pop(dead.name) == {"state": "down", "probes": 16, "loss": 1.0, "rtt": None}
    assert {(link["state"], link["loss"], link["rtt"]) for link in links.values()} == {("up", 0.0, 0.008)}


def verdicts_of(name: str, state: str, rate: float) -> Iterator[LocalisedFault]:
    yield LocalisedFault(element(FABRIC, name), state, rate, 20.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "state", "rate", "denied"),
    [
        ("h1-p2", "lossy", 0.05, True),
        ("h1-p2", "lossy", 0.005, False),
        ("h1-p2", "down", 1.0, False),
        ("t0-p1-1/t1-p1-2", "lossy", 0.5, False),
        ("t1-p1-1", "down", 1.0, False),
    ],
)
def test_only_what_mrc_cannot_heal_is_denied(name: str, state: str, rate: float, denied: bool) -> None:
    decision = PolicyEngine().decide(verdicts_of(name, state, rate), [], now=0.0)
    assert [v.element for v in decision.deny] == ([element(FABRIC, name)] if denied else [])


@pytest.mark.parametrize(
    ("policy", "denied"),
    [("observe", set()), ("default", {"h1-p2/t0-p2-1"}), ("all", {"h1-p2/t0-p2-1", "t0-p1-1/t1-p1-2", "t1-p3-1"})],
)
def test_a_policy_says_which_kinds_are_denied_and_whether_the_dead_are(policy: str, denied: set[str]) -> None:
    verdicts = [
        *verdicts_of("h1-p2", "lossy", 0.05),
        *verdicts_of("t0-p1-1/t1-p1-2", "down", 1.0),
        *verdicts_of("t1-p3-1", "down", 1.0),
    ]
    decision = PolicyEngine(POLICIES[policy]).decide(verdicts, [], now=0.0)
    assert {verdict.element.name for verdict in decision.deny} == denied


def test_a_denial_is_lifted_after_the_hold_down_and_not_while_it_flaps() -> None:
    decider = PolicyEngine(Policy(hold_down=30.0))
    what = element(FABRIC, "h1-p2")
    bad = list(verdicts_of("h1-p2", "lossy", 0.05))
    assert decider.decide(bad, [what], now=0.0).undeny == ()
    assert decider.decide([], [what], now=1.0).undeny == ()
    assert decider.decide(bad, [what], now=20.0).undeny == ()
    assert decider.decide([], [what], now=21.0).undeny == ()
    assert decider.decide([], [what], now=50.9).undeny == ()
    assert decider.decide([], [what], now=51.0).undeny == (what,)
