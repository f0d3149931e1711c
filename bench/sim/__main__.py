"""`python -m mrclab.bench.sim`: the same work in virtual time and in uet-htsim, alternating: time, memory, FCTs."""

from __future__ import annotations

import argparse
import json
import math
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from mrclab.bench.sim import htsim, table
from mrclab.bench.sim.children import SimCost
from mrclab.bench.sim.common import FLOWS, PAYLOAD, TRAFFIC, SimLoad, hosts_per_t0
from mrclab.bench.sim.table import SimRow
from mrclab.bench.sim.turns import OutOfTimeError, Turns
from mrclab.lab.command import ending
from mrclab.lab.errors import RunError
from mrclab.lab.report import template
from mrclab.lab.scenario.units import parse_size

_SIZES = {
    "permutation": 2_000_000,
    "incast": 500_000,
    "all-to-all": 32_768,
    "poisson": 32_768,
}  # bytes of a transfer; the default loads
_OTHER_SIZES = {"whole-incast": 64_000, "short-flows": PAYLOAD}
_FLOWS = {"short-flows": 391}  # of each host: 100,096 on 256 hosts
_LARGE_HOSTS, _LARGE_SIZE = 4096, 250_000  # above this many hosts; bytes of a permutation
_LARGE_TRAFFIC = ("permutation", "incast")  # for uet-htsim: the others have a hundred thousand connections
_MIN_HOSTS, _MAX_HOSTS = 16, 32_768  # hosts


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; return exit status 0, 1 if a simulator failed, 2 for invalid arguments."""
    parser = argparse.ArgumentParser(prog="mrclab bench sim", description=__doc__)
    parser.add_argument("--hosts", help="16 to 32768, e.g. 16,128,1024,256:short-flows (default: 128)")
    parser.add_argument("--traffic", default="", help=f"of {', '.join(TRAFFIC)} (default: all but the last two)")
    parser.add_argument("--size", type=parse_size, help="of each transfer, e.g. 2MiB (default: it depends)")
    parser.add_argument(
        "--flows", type=int, metavar="N",
        help=f"of each host of a Poisson load (default: {FLOWS}; of short-flows: {_FLOWS['short-flows']})",
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="runs of each, with seeds 1 to N")
    parser.add_argument("--alone", action="store_true", help="leave uet-htsim out")
    parser.add_argument("--json", action="store_true", help="one object per line")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="keep runs here, and repeat none that is there")
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="N", help="begin no run after N minutes")
    parser.add_argument("--page", type=Path, metavar="MD", help="write docs/results/htsim.md, and its picture beside")
    options = parser.parse_args(arguments)
    if options.seeds < 1:
        parser.error(f"--seeds {options.seeds}: at least one run is needed; give, for example, 3")
    if options.flows is not None and options.flows < 1:
        parser.error(f"--flows {options.flows}: each host sends at least one; give, for example, {FLOWS}")
    if options.size == 0:
        parser.error("--size 0: a transfer has at least a byte; give, for example, 64KiB")
    if not options.minutes > 0:
        parser.error(f"--minutes {options.minutes:g}: give more than 0")
    loads = list(_loads(parser, options))
    if options.page is not None:
        template.check_page(options.page)
    with_htsim = not options.alone and htsim.program() is not None
    if not options.alone and not with_htsim:
        sys.stderr.write("uet-htsim is left out: htsim_uec is not on the path\n")
    turns = Turns(options.runs, options.minutes)
    found, failed = run(loads, options.seeds, turns, with_htsim=with_htsim)
    if options.json:
        _as_json(found)
    else:
        console = Console(width=None if sys.stdout.isatty() else 160)
        console.print(table.terminal(found))
    if options.page and found:
        table.picture(found, options.page.with_suffix(".png"))
        options.page.write_text(
            table.page_text(found, _words(options), whole=_whole(found, loads, options.seeds)), encoding="utf-8"
        )
    return 1 if failed else 0


def _loads(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Iterator[SimLoad]:
    for word in (options.hosts or "128").split(","):
        number, _, own = word.partition(":")
        hosts = _hosts(parser, number)
        usual = _LARGE_TRAFFIC if hosts > _LARGE_HOSTS else tuple(_SIZES)
        named = own or options.traffic
        for traffic in named.split(",") if named else usual:
            if traffic not in TRAFFIC:
                where = f"--hosts {word!r}: traffic" if own else "--traffic"
                parser.error(f"{where} {traffic!r} is unknown; there are {', '.join(TRAFFIC)}")
            flows = options.flows or _FLOWS.get(traffic, FLOWS)
            yield SimLoad(hosts, traffic, options.size or _size(traffic, hosts), flows=flows)


def _words(options: argparse.Namespace) -> str:
    """Return the command's arguments, without the time limit."""
    given = {name: value for name, value in vars(options).items() if name != "minutes" and value}
    return shlex.join(f"--{name}" if value is True else f"--{name}={value}" for name, value in given.items())


def _whole(found: Sequence[SimRow], loads: Sequence[SimLoad], seeds: int) -> bool:
    return {row.load for row in found if len(row.cpus) == seeds} == set(loads)


def _size(traffic: str, hosts: int) -> int:
    large = traffic == "permutation" and hosts > _LARGE_HOSTS
    return _LARGE_SIZE if large else (_SIZES | _OTHER_SIZES)[traffic]


def _hosts(parser: argparse.ArgumentParser, word: str) -> int:
    """Return a number of hosts that fills its fabric."""
    hosts = int(word) if word.strip().isdecimal() else 0
    if not _MIN_HOSTS <= hosts <= _MAX_HOSTS:
        parser.error(f"invalid --hosts {word!r}: expected {_MIN_HOSTS} to {_MAX_HOSTS} hosts, for example 128,1024")
    if hosts % hosts_per_t0(hosts):
        parser.error(
            f"{hosts} hosts do not fill T0s of {hosts_per_t0(hosts)}; give a multiple of it, for example"
            f" {hosts - hosts % hosts_per_t0(hosts)}"
        )
    return hosts


def run(loads: Sequence[SimLoad], seeds: int, turns: Turns, *, with_htsim: bool) -> tuple[list[SimRow], bool]:
    """All loads with one seed after another, in both simulators alternating; the rows, and whether one of them failed.

    Where the time of `turns` is up, rows have fewer seeds, or are left out.
    """
    rounds: dict[SimLoad, list[list[SimCost]]] = {one: [] for one in loads}
    failed: set[SimLoad] = set()
    fits = [one.hosts <= htsim.MAX_HOSTS for one in loads]
    for hosts in dict.fromkeys(one.hosts for one, fit in zip(loads, fits, strict=True) if with_htsim and not fit):
        sys.stderr.write(f"{hosts} hosts: uet-htsim is left out, as it simulates at most {htsim.MAX_HOSTS}\n")
    for seed in range(1, seeds + 1):
        for one, fit in zip(loads, fits, strict=True):
            if one in failed:
                continue
            try:
                rounds[one].append(turns.once(one, seed, with_htsim=with_htsim and fit))
            except OutOfTimeError:
                continue
            except RunError as error:
                sys.stderr.write(f"{one.hosts} hosts, {one.traffic}: {error}\n")
                failed.add(one)
    done = [(one, rounds[one]) for one in loads if one not in failed]
    return [SimRow.of(one, costs) for one, found in done for costs in zip(*found, strict=True)], bool(failed)


def _as_json(found: Sequence[SimRow]) -> None:
    for row in found:
        one, cost = row.load, row.cost
        fields = {"hosts": one.hosts, "traffic": one.traffic, "size": one.size, "simulator": cost.simulator}
        fields |= {"seeds": len(row.cpus), "packets": cost.packets, "retransmitted": cost.retransmitted}
        fields |= {"again": cost.retransmitted}  # as earlier versions call it
        fields |= {"wall": cost.wall, "cpu": cost.cpu, "memory": cost.memory, "completions": row.times()}
        sys.stdout.write(json.dumps(fields) + "\n")


if __name__ == "__main__":
    ending.run(lambda: sys.exit(main()))
