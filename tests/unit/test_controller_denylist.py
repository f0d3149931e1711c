"""Elements by name, the paths they concern, and what hosts are told."""

import itertools
import random
from pathlib import Path

import pytest

from mrclab.controller.errors import ControllerError
from mrclab.controller.health.denylist import DenyError, Denylist
from mrclab.controller.health.elements import Element, cut_off, element, rules
from mrclab.topo.config.nodeconfig import DenyRule
from mrclab.topo.model import Fabric, UnknownName
from mrclab.topo.spec import FabricSpec

FABRIC = Fabric(FabricSpec(planes=3, t0s=3, t1s=2, hosts_per_t0=2))


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("t1-p1-2", "t1", "t1-p1-2"),
        ("T0-p3-1", "t0", "t0-p3-1"),
        ("t1-p1-2/t0-p1-1", "fabric-link", "t0-p1-1/t1-p1-2"),
        ("h3 2", "nic-link", "h3-p2/t0-p2-2"),
        ("plane 3", "plane", "plane 3"),
        ("p3", "plane", "plane 3"),
        ("h1>h3 p2 u1", "path", "h1>h3 p2 u1"),
        ("h1 to h2 plane 2", "path", "h1>h2 p2"),
    ],
)
def test_names_mean_elements(text: str, kind: str, name: str) -> None:
    assert element(FABRIC, text) == Element(kind, name)  # type: ignore[arg-type]
    assert element(FABRIC, name) == Element(kind, name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("t1-p1-3", "there are 't1-p1-1' to 't1"),
        ("plane 4", "there are 'plane 1' to 'plane 3'"),
        ("h1>h3 p2", "no path is called 'h1>h3 p2'; did you mean 'h1>h3 p"),
        ("h1>h9 p2 u1", "no host is called 'h9'"),
        ("t0-p1-1/t1-p2-2", "no cable is called"),
    ],
)
def test_an_unknown_name_gets_the_nearest_one(text: str, hint: str) -> None:
    with pytest.raises(UnknownName, match=hint):
        element(FABRIC, text)


def crossing(what: Element) -> set[tuple[str, str, int, int]]:
    """All (source, destination, plane, uplink) whose path goes over an element, by walking the cables."""
    found = set()
    for source in FABRIC.hosts:
        for destination in FABRIC.hosts:
            if source == destination:
                continue
            for plane, uplink in FABRIC.paths(source.name, destination.name):
                links = FABRIC.path_links(source.name, destination.name, plane, uplink)
                names = {name for link in links for name in (link.name, link.a.node, link.b.node, f"plane {plane}")}
                if what.name in names:
                    found.add((source.name, destination.name, plane, uplink))
    return found


def denied_paths(told: dict[str, tuple[object, ...]]) -> set[tuple[str, str, int, int]]:
    return {
        (source.name, destination.name, plane, uplink)
        for source in FABRIC.hosts
        for destination in FABRIC.hosts
        if source != destination
        for plane, uplink in FABRIC.paths(source.name, destination.name)
        if any(
            rule.covers(plane, uplink, destination.group, destination.downlink)  # type: ignore[attr-defined]
            for rule in told.get(source.name, ())
        )
    }


@pytest.mark.parametrize(
    "what", [*(s.name for s in FABRIC.switches if s.plane == 2), *(c.name for c in FABRIC.links if c.plane == 2), "p2"]
)
def test_rules_deny_exactly_the_paths_that_cross_the_element(what: str) -> None:
    it = element(FABRIC, what)
    assert denied_paths(rules(FABRIC, it, "test")) == crossing(it)  # type: ignore[arg-type]


def test_one_path_is_denied_for_its_source_only() -> None:
    told = rules(FABRIC, element(FABRIC, "h1>h3 p2 u1"), "")
    assert denied_paths(told) == {("h1", "h3", 2, 1)}  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(12))
def test_the_pairs_that_rules_cut_off_are_those_whose_every_path_is_denied(seed: int) -> None:
    rng = random.Random(seed)
    names = [*(s.name for s in FABRIC.switches), *(c.name for c in FABRIC.links), "p1", "p2", "p3", "h1>h3 p2 u1"]
    told: dict[str, tuple[DenyRule, ...]] = {}
    for name in rng.sample(names, 14 + 2 * seed):
        for host, some in rules(FABRIC, element(FABRIC, name), "").items():
            told[host] = told.get(host, ()) + some
    denied = denied_paths(told)  # type: ignore[arg-type]
    pairs = [(one.name, other.name) for one in FABRIC.hosts for other in FABRIC.hosts if one != other]
    every = {pair: {(*pair, *path) for path in FABRIC.paths(*pair)} for pair in pairs}
    assert sorted(cut_off(FABRIC, told)) == sorted(pair for pair in pairs if every[pair] <= denied)


@pytest.mark.once
def test_an_element_of_the_papers_fabric_is_denied_without_going_over_pairs_of_hosts() -> None:
    paper = Fabric(FabricSpec(planes=8, t0s=512, t1s=256, hosts_per_t0=256))
    denylist = Denylist(paper)
    assert denylist.deny(element(paper, "t1-p1-6"), "", "operator")
    assert denylist.deny(element(paper, "h9-p2"), "", "operator")
    told = denylist.by_host()
    assert len(told) == 131_072
    assert [len(told[name]) for name in ("h1", "h9", "h131072")] == [2, 2, 2]


def test_nothing_may_be_denied_that_leaves_a_pair_without_a_path() -> None:
    denylist = Denylist(FABRIC)
    for plane in (1, 2):
        denylist.deny(element(FABRIC, f"plane {plane}"), "", "operator")
    with pytest.raises(DenyError, match="denying plane 3 would leave no path from h1 to h2 and 29 more pairs"):
        denylist.deny(element(FABRIC, "plane 3"), "", "operator")
    with pytest.raises(DenyError, match="denying h1-p3/t0-p3-1 would leave no path from h1 to h2"):
        denylist.deny(element(FABRIC, "h1-p3"), "", "operator")
    assert len(denylist.denials) == 2


def test_a_denial_of_one_source_survives_the_others_change_of_mind() -> None:
    denylist = Denylist(FABRIC)
    t1 = element(FABRIC, "t1-p1-1")
    assert denylist.deny(t1, "reboot", "drain")
    assert denylist.deny(t1, "loss", "clustermapper")
    assert not denylist.deny(t1, "again", "drain")
    assert denylist.undeny(t1, "drain") == 1
    assert [denial.element for denial in denylist.denials] == [t1]
    assert denylist.undeny(t1) == 1
    assert denylist.by_host() == {}


def test_every_change_has_a_higher_version_over_restarts_too(tmp_path: Path) -> None:
    first = Denylist(FABRIC, tmp_path / "deny.json")
    first.deny(element(FABRIC, "h1-p2"), "5 % loss", "operator")
    second = Denylist(FABRIC, tmp_path / "deny.json")
    second.load()
    assert second.denials == first.denials
    assert second.version == first.version > 1
    second.undeny(element(FABRIC, "h1-p2"))
    third = Denylist(FABRIC, tmp_path / "deny.json")
    third.load()
    assert third.denials == ()
    assert third.version == second.version > first.version


@pytest.mark.parametrize(
    "text", ["{", '{"version": 1}', '{"version":1,"denied":[{"element":"x","reason":"","source":""}]}']
)
def test_a_damaged_file_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "deny.json").write_text(text)
    with pytest.raises(ControllerError, match=r"is damaged: .*; remove it to start without denials"):
        Denylist(FABRIC, tmp_path / "deny.json").load()


def test_the_denials_of_the_page_on_operations_come_out_as_it_says():
    page = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    fabric = Fabric(FabricSpec())
    denylist = Denylist(fabric)
    lines = [line.strip() for line in page.splitlines()]
    asked = [(line, said) for line, said in itertools.pairwise(lines) if line.startswith("$ mrclab deny ")]
    assert len(asked) >= 4
    for line, said in asked:
        what = line.removeprefix("$ mrclab deny ").partition(" --")[0]
        if said.startswith("mrclab: "):
            with pytest.raises((DenyError, UnknownName)) as refused:
                denylist.deny(element(fabric, what), "", "operator")
            assert f" mrclab: controller could not deny: {refused.value} " in " ".join(lines)
        else:
            denylist.deny(element(fabric, what), "", "operator")
            assert (
                said
                == f"{element(fabric, what)} is denied; node configs of version {denylist.version} say so to every host"
            )
