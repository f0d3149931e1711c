"""Topology files of uet-htsim, which end in `.topo`.

    Nodes 128
    Tiers 3
    Podsize 16

    Tier 0
    Downlink_speed_Gbps 100
    Radix_Down 4
    Radix_Up 4
    Downlink_Latency_ns 1000

Words and meaning are those of its loader (`FatTreeTopologyCfg::read_cfg`): a tier's speed and latency are those of the
links below its switches. `Oversubscribed` repeats the radixes, and is ignored.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from mrclab.lab.scenario.files.inputfile import FromFile, InputFile
from mrclab.lab.topology import TOPOLOGIES, TopologyBase
from mrclab.topo.input import sentences
from mrclab.topo.input.sentences import nearest

_WHOLE: Final = {"Nodes": 16, "Tiers": 2, "Podsize": 16}
"""Fields of the whole fabric, each with an example."""

_OF_TIER: Final = (
    "Downlink_speed_Gbps", "Radix_Down", "Radix_Up", "Downlink_Latency_ns", "Switch_Latency_ns", "Oversubscribed",
    "Bundle", "Queue_Up", "Queue_Down",
)  # fmt: skip
_SPELLED: Final = {word.lower(): word for word in ("Tier", *_WHOLE, *_OF_TIER)}  # a file may have any case
_TIERS: Final = (2, 3)


def read(text: str, name: str) -> dict[str, Any]:
    """Fields of `fabric` of a file's text; ValueError names line, word and remedy."""
    whole: dict[str, int] = {}
    tiers: list[dict[str, int]] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        where = f"{name}:{number}"
        key = _SPELLED.get(words[0].lower(), words[0])
        value = _number(words, where)
        if key == "Tier":
            if value != len(tiers):
                raise ValueError(f"{where}: tier {value} is not the next one; tiers stand in order from 0")
            tiers.append({})
            continue
        known, fields = (_OF_TIER, tiers[-1]) if tiers else ((*_WHOLE, "Tier"), whole)
        if key not in known:
            raise ValueError(f"{where}: {sentences.shown(words[0])} is not a keyword here; {nearest(key, list(known))}")
        if key in fields:
            raise ValueError(f"{where}: {words[0]} stands twice; keep one of the two")
        fields[key] = value
    return _fabric(whole, tiers, name)


def _number(words: list[str], where: str) -> int:
    if len(words) != 2 or not words[1].isdecimal() or len(words[1]) > 9:
        found = sentences.shown(" ".join(words))
        raise ValueError(f"{where}: a word and a whole number are expected here, for example Radix_Up 4 (got {found})")
    return int(words[1])


def _fabric(whole: Mapping[str, int], tiers: list[dict[str, int]], name: str) -> dict[str, Any]:
    for key, example in _WHOLE.items():
        if not whole.get(key):
            raise ValueError(f"{name}: {key} is missing or 0; add, for example, {key} {example}")
    if whole["Tiers"] not in _TIERS or len(tiers) != whole["Tiers"]:
        raise ValueError(
            f"{name}: Tiers {whole['Tiers']} with {len(tiers)} sections; there are topologies of 2 and 3 tiers"
        )
    for number, tier in enumerate(tiers):
        _check_tier(tier, number, len(tiers), name)
    hosts, up = tiers[0]["Radix_Down"], tiers[0]["Radix_Up"]
    t0s = _share(whole["Nodes"], hosts, f"{name}: Nodes", "Radix_Down of tier 0")
    made = {"planes": 1, "t0s": t0s, "t1s": up, "hosts_per_t0": hosts}
    pods = 1
    if len(tiers) == max(_TIERS):
        pods = _share(whole["Nodes"], whole["Podsize"], f"{name}: Nodes", "Podsize")
        made |= {"pods": pods, "t2s": up * tiers[1]["Radix_Up"]}
        _same(tiers[2]["Radix_Down"], pods, f"{name}: Radix_Down of tier 2", "pods")
    _same(tiers[1]["Radix_Down"], t0s // pods, f"{name}: Radix_Down of tier 1", "T0s of a pod")
    return {**made, **_links(tiers, name)}


def _check_tier(tier: Mapping[str, int], number: int, count: int, name: str) -> None:
    needed = {"Downlink_speed_Gbps": 100, "Radix_Down": 4, "Downlink_Latency_ns": 1000}
    if number < count - 1:
        needed["Radix_Up"] = 4
    for key, example in needed.items():
        if key not in tier:
            raise ValueError(f"{name}: tier {number} has no {key}; add it")
        if not tier[key] and key != "Downlink_Latency_ns":
            raise ValueError(f"{name}: {key} of tier {number} is 0; give, for example, {example}")
    if tier.get("Bundle", 1) != 1:
        raise ValueError(
            f"{name}: tier {number} has bundles of {tier['Bundle']} cables, and two switches have one here"
        )
    if "Queue_Up" in tier or "Queue_Down" in tier:
        raise ValueError(f"{name}: tier {number} sets queues; leave them out, and set fabric.queue in the scenario")


def _share(whole: int, part: int, what: str, of: str) -> int:
    if not part or whole % part:
        raise ValueError(f"{what} {whole} is not a multiple of {of}, {part}")
    return whole // part


def _same(found: int, expected: int, what: str, of: str) -> None:
    if found != expected:
        raise ValueError(f"{what} is {found}, and there are {expected} {of}")


def _links(tiers: list[dict[str, int]], name: str) -> dict[str, Any]:
    """Links, those above T0s where they differ, and the latency of a switch."""
    latencies = {tier.get("Switch_Latency_ns", 0) for tier in tiers}
    if len(latencies) > 1:
        raise ValueError(f"{name}: Switch_Latency_ns differs between tiers; make it the same in all of them")
    all_links = [_link(tier) for tier in tiers]
    rules = [
        {"tier": kind, **link}
        for kind, link in zip(("t0-t1", "t1-t2"), all_links[1:], strict=False)
        if link != all_links[0]
    ]
    made: dict[str, Any] = {"link": all_links[0], "switch_latency": f"{latencies.pop()}ns"}
    return {**made, "links": rules} if rules else made


def _link(tier: Mapping[str, int]) -> dict[str, str]:
    return {"rate": f"{tier['Downlink_speed_Gbps']} Gb/s", "delay": f"{tier['Downlink_Latency_ns']}ns"}


TopoField = Annotated[InputFile[dict[str, Any]], FromFile("a topology such as leaf_spine.topo", ".topo", read)]


@TOPOLOGIES.register
class HtsimTopology(TopologyBase):
    """A `.topo` file of uet-htsim; one plane, unless `fabric.planes` says otherwise."""

    kind: Literal["htsim"]
    file: TopoField = Field(description="path of the file, from the scenario's folder, e.g. leaf_spine.topo")

    def fabric(self) -> dict[str, Any]:
        """Return the fabric of the file."""
        return dict(self.file.content)
