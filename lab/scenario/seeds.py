"""Seeds on a command line."""

import re
from collections.abc import Sequence

from mrclab.lab.errors import LabError

_RANGE = re.compile(r"(\d{1,20})(?:\.\.(\d{1,20}))?")
MAX_SEED = 2**63 - 1  # as in a scenario
_MAX_SEEDS = 10_000_000  # seeds; rows of more runs would not fit into memory


def parse(text: str, option: str = "--seeds") -> list[int]:
    """Parse `1..1000`, `1,2,7`, or both mixed; LabError for anything else."""
    example = f"write, for example, {option} 1..1000 or {option} 1,2,7"
    if not text:
        raise LabError(f"{option} '': no seed; {example}")
    seeds: list[int] = []
    for word in text.split(","):
        match = _RANGE.fullmatch(word.strip())
        if match is None:
            raise LabError(f"{option} {text}: {word!r} is not a seed; {example}")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise LabError(f"{option} {text}: {word.strip()} ends before it begins; write the smaller number first")
        if last > MAX_SEED:
            raise LabError(f"{option} {text}: {last} is not a seed; the largest is {MAX_SEED}")
        if last - first >= _MAX_SEEDS - len(seeds):
            raise LabError(
                f"{option} {text}: more than {_MAX_SEEDS:,} seeds; run them in parts, each in a directory of its own"
            )
        seeds += range(first, last + 1)
    return list(dict.fromkeys(seeds))


def shown(seeds: Sequence[int]) -> str:
    """Return seeds as `parse` reads them, runs of successive ones as ranges."""
    spans: list[list[int]] = []
    for seed in seeds:
        if spans and seed == spans[-1][1] + 1:
            spans[-1][1] = seed
        else:
            spans.append([seed, seed])
    return ",".join(str(first) if first == last else f"{first}..{last}" for first, last in spans)
