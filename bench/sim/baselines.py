"""Each baseline beside uet-htsim's of the same name, on the same matrices.

`python -m mrclab.bench.sim.baselines --seeds 5 --page docs/results/baselines.md` writes the page's tables; it needs
`htsim_uec`, `htsim_roce` and `htsim_hpcc` on the path. Every run is kept in the folder of `--runs`, and not repeated.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from mrclab.bench.sim import htsim, table
from mrclab.bench.sim.common import DCQCN_MARK, SimLoad
from mrclab.bench.sim.turns import Turns
from mrclab.lab.command import ending
from mrclab.lab.errors import Refused
from mrclab.lab.report import template
from mrclab.lab.report.grid import markdown

PERMUTATION = SimLoad(64, "permutation", 1_000_000)
INCAST = SimLoad(64, "incast", 250_000)
LARGE = SimLoad(128, "whole-incast", 64_000)
_ONE_PATH = ("-ar_granularity", "packet", "-ar_method", "queue")
_WORDS = ("-tiers", "2", "-hop_latency", "1.331")
_ROCE = {"kind": "roce", "control": "none", "htsim_program": "htsim_roce"}
_OF_ROCE = (replace(PERMUTATION, hosts=128), replace(INCAST, hosts=128))
_SMALL = replace(INCAST, hosts=128, size=125_000)
_HPCC = {"kind": "roce", "control": "hpcc", "htsim_program": "htsim_hpcc", "settings": {"ai": 4096}}


_DCQCN = {
    "kind": "roce", "control": "dcqcn", "htsim_program": "htsim_roce",
    "settings": {
        "cnp_interval_rtts": 50 / 12, "alpha_period_rtts": 55 / 12, "increase_period_rtts": 55 / 12,
        "byte_counter_bdps": 66.7, "g": 1 / 256, "additive_share": 0.05, "hyper_share": 0.1,
    },
}  # fmt: skip
"""uet-htsim's constants, 50 µs, 55 µs, 10 MB and shares of the link, in base RTTs of 12 µs."""
_SHORT = ("-end", "230")  # µs: with DCQCN its events multiply as time passes
_ECMP = ("-strat", "ecmp_host")


@dataclass(frozen=True)
class Case:
    """One baseline: its changes of a load, the loads it is compared with, and its reference, if any."""

    name: str
    changes: Mapping[str, Any]
    loads: tuple[SimLoad, ...] = (PERMUTATION, INCAST, LARGE)
    reference: bool = True


def _selection(name: str, here: str, there: str) -> Case:
    return Case(name, {"selection": here, "htsim_balancing": there})


CASES = (
    _selection("rotation; `mixed` there", "rotation", "mixed"),
    _selection("oblivious", "oblivious", "oblivious"),
    _selection("round_robin; `oblivious` there", "round_robin", "oblivious"),
    _selection("bitmap", "bitmap", "bitmap"),
    _selection("reps", "reps", "reps"),
    Case("dctcp", {"control": "dctcp", "htsim_control": "dctcp", "htsim_balancing": "mixed"}),
    Case("swift", {"control": "swift"}, reference=False),
    Case("rccc", {"control": "rccc", "htsim_balancing": "mixed", "htsim_options": ("-receiver_cc_only",)}),
    Case("spraying by T0s", {"balancing": "spray", "htsim_options": ("-strat", "ecmp_rr")}),
    Case("adaptive routing by T0s", {"balancing": "adaptive", "htsim_options": ("-strat", "ecmp_ar", *_ONE_PATH)}),
    Case("RoCEv2, ECMP", {**_ROCE, "htsim_options": (*_WORDS, "-strat", "ecmp_host")}, _OF_ROCE),
    Case(
        "RoCEv2, spraying by T0s",
        {**_ROCE, "balancing": "spray", "recovery": "selective_repeat",
         "htsim_options": (*_WORDS, "-out_of_order", "-strat", "ecmp_rr")},
        _OF_ROCE,
    ),
    Case(
        "RoCEv2, adaptive routing by T0s",
        {**_ROCE, "balancing": "adaptive", "recovery": "selective_repeat",
         "htsim_options": (*_WORDS, "-out_of_order", "-ar_method", "queue", "-strat", "ecmp_ar")},
        _OF_ROCE,
    ),
    Case(
        "RoCEv2, flowlets by T0s",
        {**_ROCE, "balancing": "flowlet", "recovery": "selective_repeat",
         "htsim_options": (*_WORDS, "-ar_sticky_delta", "6", "-ar_method", "queue", "-strat", "ecmp_ar")},
        _OF_ROCE,
    ),
    Case("RoCEv2, DCQCN", {**_DCQCN, "htsim_options": (*_WORDS, "-dcqcn", str(DCQCN_MARK), *_SHORT, *_ECMP)},
         (_SMALL,)),
    Case("RoCEv2, HPCC", {**_HPCC, "htsim_options": ("-hop_latency", "0.83", "-strat", "ecmp_host")},
         _OF_ROCE[1:]),
)  # fmt: skip
"""All comparisons. uet-htsim's HPCC has only a fat tree of three tiers, of 128 hosts: an incast, with its
links that much shorter."""

SHARES = {"median": table.SHARES["median"], "99 %": table.SHARES["99 %"]}


@dataclass(frozen=True)
class Compared:
    """One baseline with one traffic: completion times in µs by share, seed by seed; `there` empty without a reference.

    `retransmitted` is the mean share of packets that were retransmitted, here and there.
    """

    traffic: str
    name: str
    here: dict[str, list[float]]
    there: dict[str, list[float]]
    retransmitted: tuple[float, float]


def compare(case: Case, spec: SimLoad, seeds: int, turns: Turns) -> Compared:
    """Run one baseline in both simulators with seeds 1 to `seeds`; RunError if a simulator does not finish."""
    times: tuple[dict[str, list[float]], dict[str, list[float]]] = ({}, {})
    retransmitted: tuple[list[float], list[float]] = ([], [])
    for seed in range(1, seeds + 1):
        one = replace(spec, seed=seed)
        costs = [turns.here(one), *([turns.there(one)] if case.reference else [])]
        for side, cost in enumerate(costs):
            retransmitted[side].append(cost.retransmitted / max(1, cost.packets))
            for what, share in SHARES.items():
                times[side].setdefault(what, []).append(cost.completed(share) * 1e6)
    means = [sum(found) / len(found) if found else 0.0 for found in retransmitted]
    traffic = f"{spec.traffic} of {spec.size // 1000} kB, {spec.hosts} hosts"
    return Compared(traffic, case.name, *times, (means[0], means[1]))


def rows(seeds: int, kept: Path | None = None) -> Iterator[Compared]:
    """Yield all of them; runs are kept in a folder, if one is named."""
    turns = Turns(kept)
    for spec in (PERMUTATION, INCAST, LARGE, *_OF_ROCE, _SMALL):
        for case in CASES:
            if spec in case.loads:
                yield compare(case, replace(spec, **case.changes), seeds, turns)


def text(found: Sequence[Compared]) -> str:
    """Return the page's tables: one for each traffic."""
    parts = []
    for traffic in dict.fromkeys(one.traffic for one in found):
        head = [f"{traffic}, µs"]
        for what in SHARES:
            head += [f"{what} here", "uet-htsim", ""]
        lines = []
        for one in (one for one in found if one.traffic == traffic):
            line = [one.name]
            for what in SHARES:
                line.append(table.figure_text(one.here[what], 1))
                if one.there:
                    difference = fmean(one.here[what]) / fmean(one.there[what]) - 1
                    line += [table.figure_text(one.there[what], 1), f"{difference:+.1%}"]
                else:
                    line += ["–", ""]
            known = one.there and not one.name.startswith("RoCEv2")
            lines.append([*line, f"{one.retransmitted[0]:.1%}", f"{one.retransmitted[1]:.1%}" if known else "–"])
        parts.append(markdown([*head, "retransmitted here", "there"], lines))
    return "\n\n".join(parts) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run; RunError if a simulator fails."""
    parser = argparse.ArgumentParser(prog="python -m mrclab.bench.sim.baselines", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="runs of each, with seeds 1 to N")
    parser.add_argument("--page", type=Path, metavar="MD", help="put the tables into this page")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="keep runs here, and repeat none that is there")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error(f"--seeds {options.seeds}: at least one run is needed; give, for example, 5")
    if options.page:
        template.check_page(options.page)
    for name in ("htsim_uec", "htsim_roce", "htsim_hpcc"):
        if htsim.program(name) is None:
            raise Refused(f"{name} is not on the path, and there is nothing to compare with; build uet-htsim")
    found = []
    for one in rows(options.seeds, options.runs):
        found.append(one)
        sys.stdout.write(json.dumps(vars(one)) + "\n")
        sys.stdout.flush()
    if options.page:
        table.write_section(options.page, "figures", text(found))


if __name__ == "__main__":
    ending.run(main)
