"""Comparison of runs: the variants of a scenario, each with one or several seeds.

`compare` makes one self-contained page of them: every figure that expectations judged, by variant, goodput over time
and completion times in one picture each. Invalid and aborted runs are named and left out of the figures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mrclab.lab.errors import LabError, error_of
from mrclab.lab.expectations import Verdict
from mrclab.lab.expectations.base import verdict_row
from mrclab.lab.measure.intervals import Figure, summary, with_half
from mrclab.lab.measure.measures import Measures
from mrclab.lab.report import differences, results, template
from mrclab.lab.report.summary import state_of
from mrclab.lab.scenario.units import scale_of, show_number
from mrclab.topo.input import files


@dataclass(frozen=True)
class Member:
    """One run: its variant, result directory and state; the P4 switch that it ran on, or virtual time."""

    label: str
    directory: Path
    verdicts: Sequence[Verdict]
    invalid: str = ""  # why it is invalid, or was aborted
    target: str = ""  # empty where the run ended before it was known


@dataclass(frozen=True)
class ComparisonRow:
    """One expectation over all variants."""

    title: str
    unit: str
    values: Mapping[str, Sequence[float]]  # by variant: the figure of each run that has one
    passed: Mapping[str, tuple[int, int]]  # by variant: runs that passed, runs

    @property
    def figures(self) -> dict[str, Figure]:
        """Figures over all runs, by variant."""
        return {label: summary(values) for label, values in self.values.items()}


def read_all(directories: Sequence[Path]) -> list[Member]:
    """Read runs; where the targets, or the scenarios of one label, differ, labels name them."""
    members = [read(directory) for directory in directories]
    if len({member.target for member in members if member.target}) > 1:
        members = [replace(each, label=f"{each.label} ({each.target})") if each.target else each for each in members]
    first: dict[str, dict[str, str]] = {}  # label → scenario → first of its result directories
    texts = {each.directory: differences.scenario_text(each.directory) for each in members}
    for each in members:
        first.setdefault(each.label, {}).setdefault(texts[each.directory], each.directory.name)
    return [
        replace(each, label=f"{each.label} ({names[texts[each.directory]]})") if len(names) > 1 else each
        for each in members
        for names in (first[each.label],)
    ]


def read(directory: Path) -> Member:
    """A run from its result directory, under its variant's or scenario's name; LabError where it is not one."""
    try:
        result, info = results.read_file(directory, "result.json"), results.read_file(directory, "run.json")
        verdicts = [Verdict(**verdict_row(row)) for row in result["verdicts"]]
        aborted = "state" in result and state_of(result["state"]) == "aborted"
    except (LabError, ValueError, KeyError, TypeError, AttributeError):
        if (directory / "suite.json").is_file():
            raise LabError(
                f"{directory} is a suite's: `mrclab report {directory}` compares it with the paper; to compare runs,"
                " give their directories in it"
            ) from None
        if (directory / "run.json").is_file():
            raise LabError(f"{directory} holds no result yet; make it with `mrclab report {directory}`") from None
        raise
    invalid = "; ".join(result.get("invalid", []))
    if aborted:
        invalid = error_of(info) or "it was aborted"
    label = str(info.get("variant") or info.get("scenario", directory.name))
    return Member(label, directory, verdicts, invalid, str(info.get("target", "")))


def rows(members: Sequence[Member]) -> list[ComparisonRow]:
    """Return one row per expectation; those of one kind share it at the same place, or with the same text."""
    found: dict[tuple[int, str], dict[str, list[Verdict]]] = {}
    for member in members:
        for place, verdict in enumerate(member.verdicts):
            found.setdefault((place, verdict.kind), {}).setdefault(member.label, []).append(verdict)
    texts: dict[tuple[str, str], dict[str, list[Verdict]]] = {}
    groups = []
    for (_, kind), by_label in sorted(found.items(), key=lambda item: item[0][0]):
        first = next(iter(by_label.values()))[0]
        same = texts.setdefault((kind, first.expected), by_label)
        if same is by_label or same.keys() & by_label.keys():
            groups.append(by_label)
        else:  # variants that list it at different places
            same.update(by_label)
    made = []
    for by_label in groups:
        every = [verdict for verdicts in by_label.values() for verdict in verdicts]
        values = {label: [v.value for v in verdicts if v.value is not None] for label, verdicts in by_label.items()}
        values = {label: found for label, found in values.items() if found}
        passed = {label: (sum(v.ok for v in verdicts), len(verdicts)) for label, verdicts in by_label.items()}
        limits: dict[str, list[str]] = {}  # what is expected → variants
        for label, verdicts in by_label.items():
            limits.setdefault(verdicts[0].expected or every[0].kind, []).append(label)
        title = "; ".join(f"{text} ({', '.join(who)})" if len(limits) > 1 else text for text, who in limits.items())
        unit = next((v.unit for v in every if v.value is not None), "")
        made.append(ComparisonRow(title, unit, values, passed))
    return made


def compare(members: Sequence[Member], directory: Path, title: str, name: str = "compare") -> Path:
    """Write `NAME.html` and its pictures into a directory; returns the page. Pictures over time are of first runs."""
    directory.mkdir(parents=True, exist_ok=True)
    valid = [member for member in members if not member.invalid]
    labels = list(dict.fromkeys(member.label for member in members))
    first = {member.label: member for member in reversed(valid)}
    runs = {label: results.load(first[label].directory).measures for label in labels if label in first}
    pictures = _draw(runs, valid, directory / name)
    invalid = [(member.label, member.directory.name, member.invalid) for member in members if member.invalid]
    context = {
        "title": title, "rows": rows(valid), "labels": labels, "pictures": template.inlined(pictures),
        "invalid": invalid, "unnamed": unnamed(members), "show": show,
    }  # fmt: skip
    text = template.fill(template.TEMPLATES / "compare.html.j2", context)
    page = directory / f"{name}.html"
    files.replace_file(page, text)
    return page


def unnamed(members: Sequence[Member]) -> list[str]:
    """Return the differences of variants that their names do not show, one phrase for each field."""
    first: dict[str, Path] = {}
    for member in members:
        first.setdefault(member.label, member.directory)
    return differences.unnamed(first)


def show(figure: Figure | None, unit: str = "") -> str:
    """Format a figure with its unit: the mean, and half the interval's width."""
    if figure is None:
        return "–"
    factor, shown = scale_of(unit, figure.mean)
    half = show_number(factor * figure.half, 2) if figure.half else None
    return with_half(show_number(factor * figure.mean), half) + shown


def _draw(runs: Mapping[str, Measures], members: Sequence[Member], stem: Path) -> dict[str, Path]:
    """Draw the pictures of a page, named after it: caption → file."""
    from mrclab.lab.report.plots import compare as plots  # noqa: PLC0415 - Matplotlib takes a second to load

    made: dict[str, Path] = {}
    drawn = []
    for row in rows(members):
        values = {label: row.values[label] for label in runs if label in row.values}
        if len(values) > 1 and any(row.figures[label].mean for label in values):
            drawn.append(replace(row, values=values))
    figures, goodput = stem.with_name(f"{stem.name}-figures.png"), stem.with_name(f"{stem.name}-goodput.png")
    if plots.bars(drawn, figures):
        made["What expectations measured, by variant; ticks are single runs, the bar is their mean"] = figures
    if plots.over_time(runs, goodput):
        made["Goodput over time, the first run of each variant"] = goodput
    for traffic in dict.fromkeys(flow.traffic for run in runs.values() for flow in run.flows):
        path = stem.with_name(f"{stem.name}-{traffic}.png")
        what, times = _completions(runs, traffic)
        if plots.distributions(times, path, what):
            made[f"Completion times: {what}"] = path
    return made


def _completions(runs: Mapping[str, Measures], traffic: str) -> tuple[str, dict[str, list[float]]]:
    """Return the timed unit of a workload and its durations by run: iterations, else messages, else flows."""
    for kind in ("iterations", "messages", "flows"):
        times = {label: run.completions.seconds(kind, traffic) for label, run in runs.items()}
        if any(len(seconds) > 1 for seconds in times.values()):
            return f"{kind} of {traffic}", times
    return traffic, {}
