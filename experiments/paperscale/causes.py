"""Why collectives differ from the paper's: E9 and E10 with one thing varied at a time, beside the paper's figures.

A variant's name is that of a series, with `-loss01` or `-loss1` behind it where packets are lost.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mrclab.experiments.paper.book import number
from mrclab.experiments.paper.page import Appendix
from mrclab.experiments.paperscale import table
from mrclab.lab.run.suite import SuiteEntry
from mrclab.lab.scenario import scenario

LOSSES = {"": 0.0, "-loss01": 0.1, "-loss1": 1.0}
"""Ends of variants' names, and the per cent of packets that every NIC loses."""

_TIMES = ("completion (time)", "completion (s2-time)")
_RING, _EXCHANGE = "e09-ring-all-reduce-at-speed", "e10-all-to-all-at-speed"
_MIB = 1 << 20


_FOLDER = table.SCENARIOS / "causes"


@dataclass(frozen=True)
class Causes:
    """Variations of one collective, with their text."""

    name: str  # of the picture
    title: str
    said: str
    moved: int  # bytes that a NIC sends in an iteration
    paper: Sequence[float]  # Gb/s without loss, with 0.1 % and with 1 %
    series: Mapping[str, str]  # what is run → scenario and variant


_IN_THE_RING = 2 * 63 * 2 * _MIB // 64
_IN_THE_EXCHANGE = 63 * 2 * _MIB // 64
CAUSES = (
    Causes(
        "ring-mrc",
        "MRC's ring of 64 NICs, 2 MB, with one thing varied",
        "With loss the paper's reduction grows by as much as it does here where a lost packet waits for an ACK "
        "timeout, of 262 µs at 0.1 % and of something between 131 and 262 µs at 1 %, the two of OCP's examples, and "
        "not where SACKs and a probe of the tail show it within two round trips. Without loss, what NICs and hosts "
        "take makes a step of the ring 8.4 µs in place of 5.8; the paper's is 10.9.",
        _IN_THE_RING,
        (24, 8, 4),
        {
            "NICs without time": "ring/mrc-cables",
            "as in E9": f"{_RING}/mrc-64",
            "timeout of 131 µs": "ring/mrc-131",
            "timeout of 262 µs": "ring/mrc-262",
        },
    ),
    Causes(
        "ring-roce",
        "RoCEv2's ring of 64 NICs, 2 MB, with one thing varied",
        "A step that follows without waiting for the ACK of the one before shows its gap by a NAK, and the timeout of "
        "4.2 ms is seldom met. Where each step waits, a last packet that is lost costs the "
        "ring a timeout: so the paper's 1 Gb/s at 0.1 % loss comes out, and its 23 without loss.",
        _IN_THE_RING,
        (23, 1, 0),
        {
            "E9, 1 QP": f"{_RING}/roce-1-64",
            "E9, 16 QPs": f"{_RING}/roce-16-64",
            "1 QP, waits for ACKs": "ring/roce-ack",
        },
    ),
    Causes(
        "all-to-all-mrc",
        "MRC's exchange among 64 NICs, 2 MB, with one thing varied",
        "The timer that the ring speaks for takes the figures under loss more than half of the way to the paper's. "
        "Without loss it changes nothing: there the paper's iteration is 44 µs longer, whatever the transport, which "
        "is what a call of the collective costs on its GPUs.",
        _IN_THE_EXCHANGE,
        (150, 51, 34),
        {
            "as in E10": f"{_EXCHANGE}/mrc-64",
            "timeout of 131 µs": "all-to-all/mrc-131",
        },
    ),
    Causes(
        "all-to-all-roce",
        "RoCEv2's exchange among 64 NICs, 2 MB, with one thing varied",
        "An exchange waits for its last pair, and some pair of 4,032 nearly always loses its last packet: under loss "
        "the figure is the ACK timeout's, with DCQCN and without.",
        _IN_THE_EXCHANGE,
        (149, 5, 1),
        {"as in E10": f"{_EXCHANGE}/roce-1-64", "without DCQCN": "all-to-all/roce-line"},
    ),
)


def run(directory: Path, say: Callable[[str], None]) -> dict[str, SuiteEntry]:
    """Do what is missing; all runs, those of E9 and E10 too, by scenario and variant."""
    runs = [job for name in ("ring", "all-to-all") for job in scenario.load(_FOLDER / f"{name}.yaml").runs]
    entries = table.run([*table.planned(["e09", "e10"]), *runs], directory, say)
    return {f"{entry.name}/{entry.variant}": entry for entry in entries}


def appendix(causes: Causes, entries: Mapping[str, SuiteEntry], place: Path) -> Appendix:
    """Draw rate over loss for every series and the paper, and tell the figures."""
    from mrclab.lab.report.plots import compare  # noqa: PLC0415 - Matplotlib takes a second to load

    rates: dict[str, list[float | None]] = {"the paper": list(causes.paper)}
    for label, runs in causes.series.items():
        rates[label] = [_rate(causes, entries.get(f"{runs}{end}")) for end in LOSSES]
    lost, path = list(LOSSES.values()), place / f"{causes.name}.png"
    curves = []
    for label, found in rates.items():
        points = [(x, y) for x, y in zip(lost, found, strict=True) if y is not None]
        curves.append(compare.Curve(label, [x for x, _ in points], [y for _, y in points]))
    compare.lines(curves, path, "packets lost at every NIC, %", "Gb/s", logarithmic=False)
    columns = ["Gb/s", *("no loss" if not rate else f"{number(rate)} % loss" for rate in lost)]
    return Appendix(causes.title, causes.said, path, columns, [[k, *map(number, v)] for k, v in rates.items()])


def _rate(causes: Causes, entry: SuiteEntry | None) -> float | None:
    """Gb/s of a run; None where there is none."""
    times = [] if entry is None else [verdict.value for verdict in entry.verdicts if verdict.kind in _TIMES]
    return 8e-9 * causes.moved / times[0] if times and times[0] else None
