"""Count of whole paths between hosts while cables are broken: by classes of hosts and groups, not by pairs."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations_with_replacement

from mrclab.topo.model import Fabric

Planes = frozenset[int]  # in which a host's NIC cable is broken
Uplinks = tuple[tuple[int, int], ...]  # (plane, uplink) that are broken at a T0 group, sorted


class WholePaths:
    """Counts paths of one fabric. Hosts that lack the same planes, behind T0s that lack the same uplinks, are alike."""

    def __init__(self, fabric: Fabric) -> None:
        self._planes = range(1, fabric.planes + 1)
        self._uplinks = fabric.uplinks
        self._sizes = dict.fromkeys(range(1, fabric.spec.t0s + 1), 0)
        self._nic: dict[str, tuple[str, int, int]] = {}  # cable → host, group, plane
        for host in fabric.hosts:
            self._sizes[host.group] += 1
            for port in host.ports:
                self._nic[port.link] = host.name, host.group, port.plane
        self._up: dict[str, tuple[int, int, int]] = {}  # cable → group, plane, uplink
        for switch in fabric.switches:
            for up in switch.ports if switch.tier == "t0" else ():
                if not up.to_host:
                    uplink = up.number - fabric.spec.hosts_per_t0
                    self._up[up.link] = switch.number, switch.plane, uplink

    def least(self, broken: Iterable[str]) -> int:
        """Count whole paths of the pair of hosts with the fewest while these cables are broken; 0 without a pair."""
        lacking, lost = self._sorted_out(broken)
        inside: list[int] = []
        places: dict[tuple[Uplinks, Planes], set[int]] = defaultdict(set)  # class of hosts → groups that have some
        for group, size in self._sizes.items():
            hosts = list(lacking[group].values())
            kinds = {planes: hosts.count(planes) for planes in hosts}
            if len(hosts) < size:
                kinds[frozenset()] = kinds.get(frozenset(), 0) + size - len(hosts)
            uplinks = tuple(sorted(lost[group]))
            for planes in kinds:
                places[uplinks, planes].add(group)
            for one, other in combinations_with_replacement(kinds, 2):
                if one != other or kinds[one] > 1:
                    inside.append(len(self._planes) - len(one | other))
        across = [
            self._between(one, other)
            for one, other in combinations_with_replacement(places, 2)
            if len(places[one] | places[other]) > 1
        ]
        return min([*inside, *across], default=0)

    def _sorted_out(
        self, broken: Iterable[str]
    ) -> tuple[dict[int, dict[str, Planes]], dict[int, set[tuple[int, int]]]]:
        lacking: dict[int, dict[str, Planes]] = defaultdict(dict)
        lost: dict[int, set[tuple[int, int]]] = defaultdict(set)
        for link in broken:
            if link in self._nic:
                host, group, plane = self._nic[link]
                lacking[group][host] = lacking[group].get(host, frozenset()) | {plane}
            elif link in self._up:
                group, plane, uplink = self._up[link]
                lost[group].add((plane, uplink))
        return lacking, lost

    def _between(self, one: tuple[Uplinks, Planes], other: tuple[Uplinks, Planes]) -> int:
        """Count the whole paths between two hosts of different groups."""
        planes = [plane for plane in self._planes if plane not in one[1] | other[1]]
        gone = {entry for entry in (*one[0], *other[0]) if entry[0] in planes}
        return len(planes) * self._uplinks - len(gone)
