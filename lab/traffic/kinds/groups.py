"""Traffic of kinds `permutation` and `incast`: many senders at once."""

import random
from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from mrclab.lab.scenario.names import HostName
from mrclab.lab.traffic.base import TRAFFIC, Flow
from mrclab.lab.traffic.families import BoundedTraffic, HostList
from mrclab.topo.model import Fabric

_DRAWS = 1000  # permutations drawn in search of one without pairs inside a T0 group
_MAX_DRAWN = 4096  # receivers, at most, for which drawing alone is enough


@TRAFFIC.register
class Permutation(BoundedTraffic):
    """Every host sends to one other, and receives from one."""

    kind: Literal["permutation"]
    hosts: HostList = Field(default=["all"], validate_default=True, description="senders; all, or a list")
    to: HostList | None = Field(default=None, description="receivers, as many; default: the senders themselves")
    shift: int | None = Field(default=None, description="host i sends to host i + shift; default: drawn from the seed")
    cross_group: bool = Field(default=True, description="drawn pairs never share a T0 group, where that is possible")

    @model_validator(mode="after")
    def _valid_pairs(self) -> "Permutation":
        if self.to is not None and len(self.to) != len(self.hosts):
            raise ValueError(f"{self.name} has {len(self.hosts)} senders and {len(self.to)} receivers; name as many")
        if self.hosts == ["all"]:
            return self  # without a fabric their number is unknown
        count, targets = len(self.hosts), self.to or self.hosts
        if count < (1 if self.to else 2):
            raise ValueError(f"{self.name} needs at least two hosts")
        shift = 0 if count == 1 else self.shift
        for place, source in enumerate(self.hosts):
            if shift is not None and targets[(place + shift) % count] == source:
                raise ValueError(f"{source} would send to itself; name another shift, or other hosts")
        return self

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """One flow per sender."""
        pairs = zip(self.hosts, self._receivers(fabric, seed), strict=True)
        return [Flow(self.name, source, destination, self.size) for source, destination in pairs]

    def _receivers(self, fabric: Fabric, seed: int) -> list[str]:
        targets = list(self.to or self.hosts)
        if self.shift is not None:
            return [targets[(place + self.shift) % len(targets)] for place in range(len(targets))]
        draw = random.Random(f"{seed}/{self.name}/permutation")
        group = {name: fabric.group(name) for name in {*self.hosts, *targets}}
        best, fewest = targets, len(targets) + 1
        for _ in range(_DRAWS if len(targets) <= _MAX_DRAWN else 1):
            draw.shuffle(targets)
            pairs = list(zip(self.hosts, targets, strict=True))
            if any(source == destination for source, destination in pairs) and len(targets) <= _MAX_DRAWN:
                continue
            inside = sum(group[a] == group[b] for a, b in pairs) if self.cross_group else 0
            if inside < fewest:
                best, fewest = list(targets), inside
            if not inside:
                break
        return best if not fewest and len(targets) <= _MAX_DRAWN else self._repaired(best, group, draw)

    def _repaired(self, targets: list[str], group: Mapping[str, int], draw: random.Random) -> list[str]:
        """Return a permutation without forbidden pairs, where drawing finds none: forbidden pairs are swapped.

        While no group has more than half of the hosts, there is always a partner to swap with.
        """

        def forbidden(source: str, destination: str) -> bool:
            return source == destination or (self.cross_group and group[source] == group[destination])

        for place, source in enumerate(self.hosts):
            for tried in range(_DRAWS + len(targets)):
                if not forbidden(source, targets[place]):
                    break
                other = draw.randrange(len(targets)) if tried < _DRAWS else tried - _DRAWS
                if not forbidden(source, targets[other]) and not forbidden(self.hosts[other], targets[place]):
                    targets[place], targets[other] = targets[other], targets[place]
        return targets


@TRAFFIC.register
class Incast(BoundedTraffic):
    """Many hosts send to one."""

    kind: Literal["incast"]
    sources: HostList = Field(alias="from", description="senders; all (but the receiver), or a list")
    destination: HostName = Field(alias="to")

    @model_validator(mode="after")
    def _has_senders(self) -> "Incast":
        if not set(self.sources) - {self.destination}:
            raise ValueError(f"{self.name} has no sender but {self.destination} itself; name others")
        return self

    def flows(self, fabric: Fabric, seed: int) -> list[Flow]:
        """One flow per sender."""
        senders = [name for name in self.sources if name != self.destination]
        return [Flow(self.name, source, self.destination, self.size) for source in senders]
