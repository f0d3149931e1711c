"""The page that holds both worlds side by side, as Markdown."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mrclab.experiments.runs.store import grouped
from mrclab.experiments.worlds import comparison
from mrclab.experiments.worlds.comparison import Row, Side
from mrclab.experiments.worlds.figures import MIN_RTTS, RunFigure, figures
from mrclab.experiments.worlds.runs import Store, StoredRun, label, with_jitter
from mrclab.lab import machine
from mrclab.lab.errors import LabError, error_of
from mrclab.lab.expectations.base import verdict_row
from mrclab.lab.measure.intervals import with_range
from mrclab.lab.report import template
from mrclab.lab.report.summary import VALID
from mrclab.lab.scenario.scenario import Loaded
from mrclab.lab.scenario.units import scale_of, show_number
from mrclab.topo.input import files

_TEMPLATE = Path(__file__).with_name("worlds.md.j2")
_DETAILS = Path(__file__).with_name("details.md.j2")
_WORLDS = {"wire": "the wire", "sim": "virtual time"}
_FAR = 20.0  # times: beyond that a difference in per cent says nothing


@dataclass(frozen=True)
class WorldRuns:
    """The runs of a scenario in one world."""

    states: Mapping[str, int]  # number of runs by state
    seeds: Sequence[int]  # of the valid runs
    missed: Sequence[str] = ()  # one phrase for each run that did not pass: its seed, and why

    @classmethod
    def of(cls, kept: Sequence[StoredRun]) -> "WorldRuns":
        """Return the summary of some runs."""
        missed = [f"seed {one.seed}, {_WORLDS[one.world]}: {_why(one)}" for one in kept if _why(one)]
        return cls(dict(Counter(one.state for one in kept)), [one.seed for one in kept if one.state in VALID], missed)

    def plus(self, other: "WorldRuns") -> "WorldRuns":
        """Return the summary of these runs and others."""
        states = Counter(self.states) + Counter(other.states)
        return WorldRuns(dict(states), sorted([*self.seeds, *other.seeds]), [*self.missed, *other.missed])


def slowness(slower: float) -> str:
    """Words behind the label of a run that is slower than its scenario; empty where it is not."""
    return f", {slower:g} times slower" if slower != 1 else ""


@dataclass(frozen=True)
class BothWorlds:
    """A scenario, or a variant of one, in both worlds."""

    label: str
    wire: WorldRuns
    sim: WorldRuns
    rows: list[Row]
    jittery: WorldRuns = WorldRuns({}, ())  # in virtual time with jitter of hosts
    slower: float = 1.0  # on links slower and longer by this factor, in both worlds

    @property
    def key(self) -> tuple[str, float]:
        """Label and slowness, which no other has."""
        return self.label, self.slower

    @property
    def name(self) -> str:
        """The label for display."""
        return self.label.replace("[", "– ").replace("]", "") + slowness(self.slower)

    @property
    def anchor(self) -> str:
        """Anchor of its heading."""
        slower = f"-slower-{self.slower:g}" if self.slower != 1 else ""
        text = self.label.replace(" [", "-").rstrip("]") + slower
        return "".join(c if c.isalnum() or c == "-" else "-" for c in text)

    @property
    def counts(self) -> Counter[str]:
        """Number of rows by outcome."""
        return Counter(row.state for row in self.rows)

    @property
    def missed(self) -> list[str]:
        """One sentence for each run that did not pass: which, and why."""
        return [f"{self.label}, {missed}" for missed in (*self.wire.missed, *self.sim.missed)]


@dataclass(frozen=True)
class About:
    """Origin of the figures of a page."""

    command: str
    note: str = ""
    machines: Sequence[str] = ()  # of the wire
    date: str = ""  # of the runs
    jitter: str = ""  # of hosts in the third set of runs; empty: none


def chapters(
    runs: Sequence[Loaded],
    store: Store,
    seeds: Sequence[int],
    more: Sequence[int] = (),
    earlier: Sequence[BothWorlds] = (),
    jitter: str = "",
    slower: float = 1.0,
) -> list[BothWorlds]:
    """Return a store's figures of each scenario, of virtual time with `more` seeds, and with `jitter` of hosts.

    `slower` is by how much the runs are slower than their scenarios.
    `earlier` are those of a page that was written before: scenarios with new runs replace theirs, with the runs of
    the wire that had one seed or two, which no new run has: of two the least and the greatest are all there is.
    """
    known = {chapter.key: chapter for chapter in earlier}
    made = []
    for run in runs:
        wire, sim = store.of(run, "wire", seeds), store.of(run, "sim", [*seeds, *more])
        late = store.of(with_jitter(run, jitter), "sim", [*seeds, *more]) if jitter else []
        here, there = dict(_figures(wire)), _figures(sim)
        outcomes = WorldRuns.of(wire)
        before = known.get((label(run), slower))
        if before is not None and len(before.wire.seeds) in {1, 2} and not {*before.wire.seeds} & here.keys():
            here.update(_of_wire(before))
            outcomes = before.wire.plus(outcomes)
        rows = (
            comparison.rows(label(run) + slowness(slower), comparison.sides(here, there, _figures(late)))
            if here and there
            else []
        )
        made.append(BothWorlds(label(run), outcomes, WorldRuns.of(sim), rows, WorldRuns.of(late), slower))
    new = {chapter.key: chapter for chapter in made if chapter.rows}
    kept = [new.pop(chapter.key, chapter) for chapter in earlier]
    return [*kept, *(chapter for chapter in made if chapter.key in new)] if earlier else made


def _of_wire(before: BothWorlds) -> dict[int, dict[str, RunFigure]]:
    """Return the figures of one or two runs of the wire; which of two runs had which figure is not known."""
    found: dict[int, dict[str, RunFigure]] = {seed: {} for seed in before.wire.seeds}
    first, *second = found.values()
    for row in before.rows:
        if row.wire is not None:
            first[row.name] = RunFigure(row.name, row.kind, row.wire.least, row.unit)
            for other in second if row.wire.seeds > 1 else ():
                other[row.name] = RunFigure(row.name, row.kind, row.wire.most, row.unit)
    return found


def machines(runs: Sequence[Loaded], store: Store, seeds: Sequence[int]) -> list[str]:
    """Return the machines that carried the wire, without anything that identifies their owners."""
    found = []
    for kept in (kept for run in runs for kept in store.of(run, "wire", seeds)):
        here, python = kept.info.get("machine", {}), kept.info.get("versions", {}).get("python")
        size, system = machine.size_text(here), machine.system_text(here)
        found.append(f"{size}, {system}, Python {python}, switches: {kept.info.get('target', '')}")
    return list(dict.fromkeys(found))


def _by_scenario(made: Sequence[BothWorlds]) -> list[dict[str, Any]]:
    """All variants of each scenario together, as the summary needs them."""
    found = grouped((one for one in made if one.rows), lambda one: one.label.partition(" [")[0])
    return [{"name": name, "anchor": some[0].anchor, **_together(some)} for name, some in found.items()]


def _together(chapters: Sequence[BothWorlds]) -> dict[str, Any]:
    """Counts of rows, state of the runs, and the fewest and the most seeds on the wire and in virtual time."""
    sides = [side for one in chapters for side in (one.wire, one.sim)]
    seeds = [_least_most([len(side.seeds) for side in world]) for world in (sides[::2], sides[1::2])]
    states = sum((Counter(side.states) for side in sides), Counter[str]())
    counts = sum((one.counts for one in chapters), Counter[str]())
    return {"counts": counts, "verdict": verdicts(WorldRuns(states, ())), "seeds": " / ".join(seeds)}


def _least_most(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def render(made: Sequence[BothWorlds], about: About, details: str = "") -> str:
    """Return the page, one screen: the outcome of each scenario, with `details` the name of the page of all figures.

    Without that name, return the page of details.
    """
    counts: Counter[str] = sum((chapter.counts for chapter in made), Counter())
    context = {
        "chapters": made,
        "scenarios": _by_scenario(made),
        "details": details,
        "unexplained": [(chapter, row) for chapter in made for row in chapter.rows if row.state == "beyond"],
        "explained": _by_reason(made),
        "between": [(chapter, row) for chapter in made for row in chapter.rows if row.state == "jitter"],
        "jitter": about.jitter,
        "counts": {state: counts[state] for state in ("within", "spread", "jitter", "explained", "beyond")},
        "figures": sum(counts.values()),
        "command": about.command,
        "note": about.note,
        "date": about.date,
        "machines": about.machines,
        "within": f"{comparison.WITHIN:.0%}".replace("%", " %"),
        "least_rtts": MIN_RTTS,
    }
    return template.fill(
        _TEMPLATE if details else _DETAILS,
        context,
        side=side,
        both=both,
        difference=difference,
        verdicts=verdicts,
        seeds=lambda runs: ", ".join(map(str, runs.seeds)) or "–",
    )


def as_json(chapter: BothWorlds) -> dict[str, Any]:
    """A scenario in both worlds for programs: every figure, with the range of its seeds."""
    rows = [
        {
            "figure": row.name,
            "unit": row.unit,
            "state": row.state,
            "because": row.because,
            "wire": row.wire and asdict(row.wire),
            "sim": row.sim and asdict(row.sim),
            "jitter": row.jittery and asdict(row.jittery),
        }
        for row in chapter.rows
    ]
    states = {"wire": dict(chapter.wire.states), "sim": dict(chapter.sim.states)}
    head = {"run": chapter.label, "slower": chapter.slower, "states": states}
    return {**head, "counts": dict(chapter.counts), "figures": rows}


def _by_reason(made: Sequence[BothWorlds]) -> list[tuple[str, list[tuple[BothWorlds, str, list[Row]]]]]:
    """Rows that differ for a known reason: reason → scenarios, limits and rows of these, as they come first."""
    found: dict[str, dict[tuple[str, str], tuple[BothWorlds, str, list[Row]]]] = {}
    for chapter in made:
        for row in chapter.rows:
            if row.reason:
                limit = limit_of(row)
                mine = found.setdefault(row.because, {})
                mine.setdefault((chapter.label, limit), (chapter, limit, []))[2].append(row)
    return [(because, list(rows.values())) for because, rows in found.items()]


def limit_of(row: Row) -> str:
    """Return the accepted difference of the worlds in a figure, as text; empty where no reason explains it."""
    reason = row.reason
    if reason is None:
        return ""
    if reason.by is not None:
        factor, unit = _scale(row)
        most = show_number(factor * reason.by, 3) + unit
        return f"{_WORLDS[reason.missing]} has none; {most}" if reason.missing else most
    share = [f"{100 * reason.share:g} % of the wire's"] if reason.share is not None else []
    return ", ".join([*share, f"{reason.spreads:g} × spread"] if reason.spreads is not None else share)


def _figures(runs: Sequence[StoredRun]) -> comparison.Runs:
    return {kept.seed: figures(kept.facts) for kept in runs if kept.state in VALID}


def verdicts(runs: WorldRuns) -> str:
    """`PASS` if all passed, else the number of each outcome; the reason of an invalid run."""
    if not runs.states:
        return "not run"
    total = sum(runs.states.values())
    found = [f"{state.upper()}" + (f" {count} of {total}" if total > 1 else "") for state, count in runs.states.items()]
    return "PASS" if set(runs.states) == {"passed"} else ", ".join(found)


def _why(kept: StoredRun) -> str:
    """Return the reason why a run failed; empty where it passed."""
    if kept.state == "passed":
        return ""
    if kept.state != "failed":
        return f"{kept.state.upper()}, {'; '.join(kept.facts['invalid']) or error_of(kept.info)}"
    rows = map(verdict_row, kept.facts["verdicts"])
    missed = [f"expected {row['expected']}, observed {row['observed']}" for row in rows if not row["ok"]]
    return f"FAILED, {'; '.join(missed)}"


def side(found: Side | None, row: Row) -> str:
    """A figure as text: the median, and in brackets the range of several seeds."""
    if found is None:
        return "–"
    ends = (found.least, found.most) if found.seeds > 1 else None
    factor, unit = _scale(row)
    return with_range(found.median, ends, lambda value: show_number(factor * value, 3)) + unit


def both(row: Row) -> str:
    """A figure of both worlds in a few words."""
    gap = difference(row)
    outcomes = f" ({gap})" if row.because and gap != "–" else ""
    return f"{row.name}: {side(row.wire, row)} → {side(row.sim, row)}{outcomes}"


def _scale(row: Row) -> tuple[float, str]:
    """Return the factor by which both worlds' figures are shown, and the unit behind them."""
    return scale_of(row.unit, max(side.median for side in (row.wire, row.sim) if side))


def difference(row: Row) -> str:
    """Difference of the medians in per cent of the wire's."""
    if row.difference is None or abs(row.difference) > _FAR:
        return "–"
    return f"{100 * row.difference:+.1f} %"


def dumped(made: Sequence[BothWorlds], about: About) -> str:
    """Return the figures as JSON, a line for each, without verdicts."""
    lines = ["{", *(f'"{name}": {_json(value)},' for name, value in asdict(about).items()), '"runs": [']
    for place, chapter in enumerate(made):
        head: dict[str, Any] = {"run": chapter.label, "wire": asdict(chapter.wire), "sim": asdict(chapter.sim)}
        if chapter.jittery.states:
            head["jittery"] = asdict(chapter.jittery)
        if chapter.slower != 1:
            head["slower"] = chapter.slower
        lines.append(_json(head)[:-1] + ', "figures": [')
        lines.append(",\n".join(map(_figure, chapter.rows)) + "]}" + ("," if place < len(made) - 1 else ""))
    return "\n".join([*lines, "]}"]) + "\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _figure(row: Row) -> str:
    some = (row.wire, row.sim, row.jittery) if row.jittery else (row.wire, row.sim)
    return _json([row.name, row.kind, row.unit, *([*asdict(side).values()] if side else None for side in some)])


def load_figures(path: Path) -> tuple[list[BothWorlds], About]:
    """Read a file of `dumped`, and judge its figures; LabError where it is not one."""
    try:
        fields = json.loads(files.read_bytes(path))
        return [_chapter(one) for one in fields.pop("runs")], About(**fields)
    except OSError as error:
        raise LabError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LabError(f"{path} holds no figures of `mrclab worlds --page` ({error})") from None


def _chapter(fields: dict[str, Any]) -> BothWorlds:
    found = [
        (RunFigure(name, kind, 0.0, unit), _side(wire), _side(sim), _side(jittery[0] if jittery else None))
        for name, kind, unit, wire, sim, *jittery in fields["figures"]
    ]
    slower = fields.get("slower", 1.0)
    rows = comparison.rows(fields["run"] + slowness(slower), found)
    wire, sim, jittery = (
        WorldRuns(**fields.get(one, {"states": {}, "seeds": []})) for one in ("wire", "sim", "jittery")
    )
    return BothWorlds(fields["run"], wire, sim, rows, jittery, slower)


def _side(fields: list[Any] | None) -> Side | None:
    return Side(*fields) if fields else None
