"""Benchmark of bring-up until verified, by parts, from 4 to 128 switches: ``sudo mrclab bench lab``.

Namespaces of all nodes; cables; switch processes until each answers; the controller until hosts can be started; agents
until each answers; what is left until all switches hold their tables; and until every cable is verified. Parts overlap
in the machine: imports of the processes to come take CPU while namespaces are made.
"""

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict

from mrclab.bench.lab.bringup import PARTS, BringUp, bring_up, sizes
from mrclab.lab.errors import LabError
from mrclab.topo.errors import TopoError

_MODULE = "mrclab.bench.lab"
log = logging.getLogger(_MODULE)


def table(results: Sequence[BringUp]) -> str:
    """The results as text."""
    lines = ["switches (target)    " + "".join(f"{f'{r.switches} ({r.target})':>15}" for r in results)]
    lines.append("hosts, cables        " + "".join(f"{f'{r.hosts}, {r.cables}':>15}" for r in results))
    lines.append("seconds, of CPU      " + f"{'':>15}" * len(results))
    rows = {part: [r.parts[part] for r in results] for part in PARTS.values()} | {
        "together": [r.total for r in results]
    }
    lines += [f"  {name:19s}" + "".join(f"{p.wall:8.2f} {p.cpu:6.2f}" for p in row) for name, row in rows.items()]
    lines.append("MB of each process   private, Pss; receive rings, which are private too")
    for kind in ("switch", "agent", "controller"):
        weights = [r.memory[kind] for r in results]
        shown = "".join(f"{f'{w.private:.1f}, {w.pss:.1f}; {w.rings:.1f}':>17}" for w in weights)
        lines.append(f"  {kind:17s}{shown}")
    return "\n".join(line.rstrip() for line in lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and print the table, or JSON; return the exit status."""
    parser = argparse.ArgumentParser(prog=_MODULE, description="how long a lab takes to come up, and what it weighs")
    parser.add_argument(
        "--switches", type=int, action="append", choices=sizes(), help="only this size; may be given again"
    )
    parser.add_argument("--target", choices=["soft", "bmv2"], help="the P4 switch (default: as a lab chooses it)")
    parser.add_argument("--rounds", type=int, default=1, help="bring-ups of each size, of which the quickest counts")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING)
    if options.rounds < 1:
        log.error("--rounds %d: give 1 or more", options.rounds)
        return 1
    if os.geteuid() != 0:
        log.error("the lab benchmark needs root for network namespaces")
        return 1
    try:
        results = [
            min((bring_up(size, options.target) for _ in range(options.rounds)), key=lambda one: one.total.wall)
            for size in options.switches or sizes()
        ]
    except (LabError, TopoError) as error:
        log.error("%s", error)
        return 1
    text = json.dumps([asdict(result) for result in results]) if options.json else table(results)
    sys.stdout.write(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
