"""One set of settings for both transports: Figures 16 and 17 under several physical models, each for MRC and RoCEv2.

A model defines when a lost packet is noticed, whether a step of a collective waits for its ACK, delays of NICs and
hosts, and the number of uplinks; it is the same for both transports, except for settings that only one has.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mrclab.experiments.paper.comparison import cell, number
from mrclab.experiments.paper.page import Appendix
from mrclab.experiments.paperscale import table
from mrclab.lab.measure.intervals import Figure, summary
from mrclab.lab.run.suite import SuiteEntry
from mrclab.lab.scenario import scenario
from mrclab.lab.scenario.files.yamlfile import read
from mrclab.lab.scenario.scenario import Loaded

LOSSES = {"none": "0%", "0.1 %": "0.1%", "1 %": "1%"}
_BLIND = {"sack_loss": False, "same_ev_rule": False, "tail_probe_rtts": 100000.0}
_KIB = 1 << 10
_STEP = 32 * _KIB  # that a step of the ring, or a pair, moves with the paper's 2 MB among 64


@dataclass(frozen=True, eq=False)
class Model:
    """Settings of a model; `mrc` and `roce` are attributes of one transport, `fields` and `traffic` those of both."""

    name: str
    mrc: Mapping[str, Any] = field(default_factory=dict)
    roce: Mapping[str, Any] = field(default_factory=lambda: {"timeout_exponent": 12})
    fields: Mapping[str, Any] = field(default_factory=dict)
    ahead: int = 4
    step: int = _STEP


MODELS = (
    Model("as in E9 and E10"),
    Model("steps wait for ACKs", ahead=1),
    Model("steps wait, MRC sees losses by a timeout of 131 µs only", {**_BLIND, "timeout_exponent": 7}, ahead=1),
    Model("steps wait, MRC sees losses by a timeout of 262 µs only", {**_BLIND, "timeout_exponent": 8}, ahead=1),
    Model("steps wait, both have a timeout of 131 µs", {"timeout_exponent": 7}, {"timeout_exponent": 7}, ahead=1),
    Model("steps wait, both have a timeout of 4.2 ms", {"timeout_exponent": 12}, ahead=1),
    Model("both see losses by a timeout of 4.2 ms only", {**_BLIND, "timeout_exponent": 12}, ahead=1),
    Model("steps wait, NICs and hosts take twice as long", fields={"nic_latency": "4.12us"}, ahead=1),
    Model("steps wait, one uplink for two hosts", fields={"t1s": 0.5}, ahead=1),
    Model("steps wait, queues of 2 BDP", fields={"queue": {"depth_bdps": 2}}, ahead=1),
    Model("steps wait, eight times the bytes", ahead=1, step=8 * _STEP),
)


@dataclass(frozen=True)
class ComparedTransport:
    """A transport of the comparison, with the paper's Gb/s without loss, with 0.1 % and with 1 %."""

    name: str
    qps: int
    ring: tuple[float, float, float]
    exchange: tuple[float, float, float]

    @property
    def is_mrc(self) -> bool:
        """True for MRC."""
        return self.name == "MRC"


TRANSPORTS = (
    ComparedTransport("MRC", 1, (24, 8, 4), (150, 51, 34)),
    ComparedTransport("RoCE, 1 QP", 1, (23, 1, 0), (149, 5, 1)),
    ComparedTransport("RoCE, 16 QPs", 16, (23, 1, 0), (138, 6, 2)),
)
_COMMON = Path(__file__).with_name("models.yaml")
SIZES = {8: (2, 4), 16: (4, 4), 64: (8, 8)}
"""NICs → T0s, and hosts of each."""


@dataclass(frozen=True)
class Point:
    """One combination of parameters, all of which are in its scenario's name."""

    kind: str  # ring_all_reduce or all_to_all
    nics: int
    model: Model
    transport: ComparedTransport
    loss: str

    @property
    def name(self) -> str:
        """Name of the scenario."""
        place = MODELS.index(self.model)
        lost = list(LOSSES).index(self.loss)
        kind = "ring" if self.kind == "ring_all_reduce" else "exchange"
        return f"{kind}-{self.nics}-m{place}-t{TRANSPORTS.index(self.transport)}-l{lost}"

    @property
    def moved(self) -> int:
        """Bytes that a NIC sends in an iteration."""
        return (2 if self.kind == "ring_all_reduce" else 1) * (self.nics - 1) * self.model.step

    def data(self) -> dict[str, Any]:
        """The scenario as a file would hold it."""
        t0s, hosts = SIZES[self.nics]
        mrc, ring = self.transport.is_mrc, self.kind == "ring_all_reduce"
        common, own = read(_COMMON).data, dict(self.model.fields)
        fabric = common["fabric"] | {"t0s": t0s, "t1s": round(hosts * own.pop("t1s", 1)), "hosts_per_t0": hosts}
        planes, rate = (4, "100 Gb/s") if mrc else (1, "400 Gb/s")
        order = [f"h{group * hosts + place}" for place in range(1, hosts + 1) for group in range(t0s)]
        traffic: dict[str, Any] = {"name": "all", "kind": self.kind, "hosts": order, "iterations": 1}
        size = {"size": self.model.step * self.nics, "ahead": self.model.ahead} if ring else {"size": self.model.step}
        transport: dict[str, Any] = {"kind": "mrc" if mrc else "roce", "qps": self.transport.qps}
        attributes = self.model.mrc if mrc else self.model.roce
        lost = [{"name": "loss", "kind": "host_loss", "rate": LOSSES[self.loss], "at": "0s"}]
        return common | {
            "name": self.name,
            "title": f"{self.model.name}: {self.transport.name}, {self.loss} loss",
            "fabric": {**fabric, "planes": planes, "link": fabric["link"] | {"rate": rate}, **own},
            "transport": transport | ({"attributes": dict(attributes)} if attributes else {}),
            "traffic": [traffic | size],
            "faults": lost if self.loss != "none" else [],
        }

    def loaded(self, seed: int) -> Loaded:
        """The scenario with a seed."""
        made = scenario.from_data(self.data(), f"{self.name}.yaml")
        return made if seed == 1 else scenario.with_seed(made, seed)


KINDS = ("ring_all_reduce", "all_to_all")
SEEDS = (1, 2, 3)


def points(nics: int, kinds: Sequence[str] = KINDS, models: Sequence[Model] = MODELS) -> Iterator[Point]:
    """Every combination at a size; an exchange has no steps, so that `ahead` changes nothing there."""
    for model in models:
        for kind in kinds:
            for transport in TRANSPORTS:
                if nics == max(SIZES) and kind == "all_to_all" and transport.qps > 1:
                    continue  # 4,032 pairs of 16 QPs are more than a host may have
                yield from (Point(kind, nics, model, transport, loss) for loss in LOSSES)


def run(
    directory: Path, chosen: Sequence[Point], seeds: Sequence[int], notify: Callable[[str], None]
) -> dict[tuple[Point, int], SuiteEntry]:
    """Do missing runs, seed by seed."""
    jobs = [(point, seed, point.loaded(seed)) for seed in seeds for point in chosen]
    entries = table.run([job for _, _, job in jobs], directory, notify)
    found = {(entry.name, entry.seed): entry for entry in entries}
    return {(p, seed): found[p.name, seed] for p, seed, _ in jobs if (p.name, seed) in found}


Entries = Mapping[tuple[Point, int], SuiteEntry]
"""Runs by combination and seed."""


def chosen() -> list[Point]:
    """Combinations of the page: all models at 16 NICs, and at the paper's 64 those of the ring that concern waiting."""
    few = [
        p
        for p in points(16, KINDS[1:])
        if p.transport.qps == 1 and (p.model.ahead == MODELS[0].ahead or p.model in MODELS[2:])
    ]
    ring = [p for p in points(64, KINDS[:1], MODELS[1:4]) if p.transport.qps == 1]
    return [*points(16, KINDS[:1]), *few, *ring]


# --- the page -------------------------------------------------------------------------------------------------------


def rates(entries: Entries) -> dict[Point, Figure]:
    """Gb/s of every combination over its seeds."""
    found: dict[Point, list[float]] = {}
    for (point, _), entry in entries.items():
        times = [verdict.value for verdict in entry.verdicts if verdict.kind == "completion (time)"]
        if times and times[0]:
            found.setdefault(point, []).append(8e-9 * point.moved / times[0])
    return {point: summary(values) for point, values in found.items()}


def mrc_over_roce(found: Mapping[Point, Figure], kind: str, nics: int, model: Model) -> float | None:
    """MRC's rate over RoCE's with one QP, at 0.1 % loss; None where one is missing."""
    ours, theirs = (found.get(Point(kind, nics, model, one, "0.1 %")) for one in TRANSPORTS[:2])
    return ours.median / theirs.median if ours and theirs else None


def appendix(kind: str, entries: Entries, place: Path) -> Appendix:
    """Draw MRC's rate over RoCE's in every model and the paper's, with the rates."""
    found = rates(entries)
    lines = [
        (model, nics)
        for nics in SIZES
        for model in MODELS
        if any(p.kind == kind and p.model == model and p.nics == nics for p in found)
    ]
    paper = [(one.ring if kind == "ring_all_reduce" else one.exchange) for one in TRANSPORTS]
    rows = [["the paper", "64", *(number(rate) for one in paper for rate in one), _over(paper[0][1], paper[1][1])]]
    for model, nics in lines:
        cells = [cell(found.get(Point(kind, nics, model, one, loss))) for one in TRANSPORTS for loss in LOSSES]
        over = mrc_over_roce(found, kind, nics, model)
        rows.append([model.name, str(nics), *cells, number(over)])
    name = "ring" if kind == "ring_all_reduce" else "exchange"
    path = place / f"models-{name}.png"
    _draw(kind, lines, found, paper[0][1] / paper[1][1], path)
    heads = [f"{one.name}{', ' if loss else ''}{loss}" for one in TRANSPORTS for loss in ("no loss", "0.1 %", "1 %")]
    return Appendix(*table.texts_of(name), path, ["Gb/s", "NICs", *heads, "MRC over RoCE, 1 QP, 0.1 %"], rows)


def appendices(entries: Entries, place: Path) -> list[Appendix]:
    """Appendices of both collectives."""
    return [appendix(kind, entries, place) for kind in KINDS]


def _over(ours: float, theirs: float) -> str:
    return number(ours / theirs) if theirs else "–"


def _draw(
    kind: str, lines: Sequence[tuple[Model, int]], found: Mapping[Point, Figure], paper: float, path: Path
) -> None:
    from matplotlib.figure import Figure as Picture  # noqa: PLC0415 - Matplotlib takes a second to load

    from mrclab.lab.report.plots import style  # noqa: PLC0415

    picture = Picture(figsize=(style.WIDTH, 0.27 * len(lines) + 0.9), layout="constrained", dpi=style.DPI_ON_SCREEN)
    axes = picture.subplots()
    for place, (model, nics) in enumerate(lines):
        over = mrc_over_roce(found, kind, nics, model)
        if over:
            axes.plot([1, over], [place, place], "-", color="#8FA3B5", linewidth=5)
            axes.annotate(number(over), (max(over, 1), place), xytext=(6, 0), textcoords="offset points", va="center")
    axes.axvline(1, color=style.INK, linewidth=0.8)
    axes.axvline(paper, color="#C4452F", linewidth=1.2, linestyle="--", label="the paper")
    axes.set_xscale("log")
    axes.set_xlabel("MRC's rate over that of RoCEv2 with one QP, 0.1 % of packets lost", fontsize=8.5)
    axes.set_yticks(range(len(lines)), [f"{model.name}, {nics}" for model, nics in lines], fontsize=8)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.legend(frameon=False, fontsize=8.5, loc="best")
    style.save(picture, path)
