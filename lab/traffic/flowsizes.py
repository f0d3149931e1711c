"""Flow sizes by cumulative distribution: those of publications by name, or a file.

A file has a line for each point, `bytes share`, the share in percent; `#` begins a comment. Between two points sizes
are distributed uniformly.
"""

import bisect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from mrclab.lab.scenario.files.inputfile import FromFile, InputFile

_MAX_POINTS: Final = 100_000
_MAX_SIZE: Final = 1 << 40
_PACKET: Final = 1460  # bytes: the unit of the data-mining trace

PUBLISHED: Final[Mapping[str, Sequence[tuple[float, float]]]] = {
    # Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, as HPCC's simulator has it
    "web_search": (
        (0, 0), (10_000, 15), (20_000, 20), (30_000, 30), (50_000, 40), (80_000, 53), (200_000, 60),
        (1_000_000, 70), (2_000_000, 80), (5_000_000, 90), (10_000_000, 97), (30_000_000, 100),
    ),
    # Greenberg et al., "VL2", SIGCOMM 2009, as pFabric's simulator has it
    "data_mining": tuple(
        (packets * _PACKET, share)
        for packets, share in (
            (0, 0), (1, 50), (2, 60), (3, 70), (7, 80), (267, 90), (2107, 95), (66_667, 99), (666_667, 100),
        )
    ),
    # Roy et al., "Inside the Social Network's (Datacenter) Network", SIGCOMM 2015: Hadoop, as HPCC's simulator has it
    "hadoop": (
        (0, 0), (100, 1), (200, 2), (300, 5), (350, 15), (400, 20), (500, 30), (600, 40), (700, 50), (1_000, 60),
        (2_000, 67), (7_000, 70), (30_000, 72), (50_000, 82), (80_000, 87), (120_000, 90), (300_000, 95),
        (1_000_000, 97.5), (2_000_000, 99), (10_000_000, 100),
    ),
    # not published: messages of this lab's training jobs, from a shard of a tensor to a bucket of an all-reduce
    "ai": (
        (0, 0), (4_096, 5), (65_536, 10), (1_048_576, 30), (4_194_304, 70), (16_777_216, 95), (67_108_864, 100),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class FlowSizes:
    """A distribution: points (bytes, share 0…1), rising."""

    name: str
    points: tuple[tuple[float, float], ...]

    def __str__(self) -> str:
        return self.name

    @property
    def mean(self) -> float:
        """Mean size in bytes."""
        pairs = zip(self.points, self.points[1:], strict=False)
        return sum((b + a) / 2 * (q - p) for (a, p), (b, q) in pairs)

    def at(self, share: float) -> int:
        """Return the quantile: the size that this share of flows, 0…1, does not exceed, at least one byte."""
        place = max(1, min(bisect.bisect_left(self.points, share, key=lambda point: point[1]), len(self.points) - 1))
        (a, p), (b, q) = self.points[place - 1 : place + 1]
        return max(1, round(a + (b - a) * (share - p) / (q - p)))


def parse(text: str, name: str) -> FlowSizes:
    """Read a distribution; ValueError names the line."""
    points: list[tuple[float, float]] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        try:
            size, share = map(float, words)
        except ValueError:
            raise ValueError(f"{name}:{number}: write bytes and a share in percent, such as 10000 15") from None
        last = points[-1] if points else (-1.0, 0.0)
        if not (math.isfinite(size) and last[0] < size <= _MAX_SIZE and last[1] <= share <= 100):
            raise ValueError(f"{name}:{number}: sizes and shares must rise, up to 100 percent")
        if points and share == last[1]:
            points[-1] = (size, share)
        else:
            points.append((size, share))
    if not points or points[-1][1] != 100 or len(points) > _MAX_POINTS:
        raise ValueError(f"{name}: the last line must have 100 percent")
    if points[-1][0] < 1:
        raise ValueError(f"{name}: the largest flow has less than a byte; give sizes of at least 1")
    if points[0][1] > 0:
        points.insert(0, (0.0, 0.0) if points[0][0] > 0 else (points[0][0], 0.0))
    return FlowSizes(name, tuple((size, share / 100) for size, share in points))


def published(name: str) -> FlowSizes:
    """A published distribution."""
    return FlowSizes(name, tuple((size, share / 100) for size, share in PUBLISHED[name]))


SizesField = Annotated[
    InputFile[FlowSizes], FromFile("a file of lines such as 10000 15, one for each point", ".cdf", parse)
]
