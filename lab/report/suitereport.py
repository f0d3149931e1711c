"""The one report of a suite: a page, JUnit XML, JSON, and a table in the terminal."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.markup import escape

from mrclab.lab import machine
from mrclab.lab.measure.intervals import range_text
from mrclab.lab.report import compare, junit, template
from mrclab.lab.report.grid import grid
from mrclab.lab.report.results import page_of
from mrclab.lab.run.suite import Repeated, Suite, SuiteEntry, SuiteResult
from mrclab.lab.scenario.scenario import Loaded
from mrclab.lab.scenario.units import scale_of, show_number, show_seconds, show_value
from mrclab.topo.input import files

_COLOURS = {"passed": "green", "failed": "red", "aborted": "red", "invalid": "yellow"}


def run(made: Suite, planned: Sequence[Loaded], name: str, err: Console) -> SuiteResult:
    """Run a suite and write its report. An interrupted suite has one of the runs that ended, and `err` says so."""
    try:
        result = made.run(planned, name)
    except BaseException:  # Ctrl-C, or something that no run after it would survive
        if made.result and made.result.entries:
            err.print(f"Report of the runs that ended: {write(made.result)}", soft_wrap=True)
        raise
    write(result)
    return result


def write(result: SuiteResult) -> Path:
    """Write index.html, junit.xml and suite.json into the suite's directory; returns the page."""
    write_json(result)
    files.replace_file(result.directory / "junit.xml", _junit(result))
    rows = [(entry, _page(entry, result.directory)) for entry in result.entries]
    context = {
        "name": result.directory.name, "rows": rows, "comparisons": _comparisons(result), "counts": _counts(result),
        "figures": [(row, _numbers(row)) for row in result.repeated()], "versions": machine.versions(),
        "machine": machine.about(), "show_seconds": show_seconds,
    }  # fmt: skip
    text = template.fill(template.TEMPLATES / "suite.html.j2", context)
    page = result.directory / "index.html"
    files.replace_file(page, text)
    return page


def write_json(result: SuiteResult) -> None:
    """Write suite.json into the suite's directory."""
    result.directory.mkdir(parents=True, exist_ok=True)
    files.replace_file(result.directory / "suite.json", json.dumps(as_json(result), indent=1) + "\n")


def _comparisons(result: SuiteResult) -> list[tuple[str, str, list[str]]]:
    """A page for every scenario of which several variants ran: (scenario, file, differences that no variant names)."""
    by_name: dict[str, list[SuiteEntry]] = {}
    for entry in result.entries:
        if entry.directory and entry.verdicts:
            by_name.setdefault(entry.name, []).append(entry)
    made = []
    for name, entries in by_name.items():
        if len({entry.variant for entry in entries}) > 1:
            members = [
                compare.Member(
                    entry.variant or entry.name,
                    entry.directory,
                    entry.verdicts,
                    entry.error if entry.state in {"invalid", "aborted"} else "",
                )
                for entry in entries
                if entry.directory
            ]
            title = entries[0].title.rpartition(" – ")[0]  # without the variant's
            page = compare.compare(members, result.directory, title or name, f"compare-{name}")
            made.append((name, page.name, compare.unnamed(members)))
    return made


def as_json(result: SuiteResult) -> dict[str, object]:
    """All runs and figures; directories relative to the suite's."""
    entries = [
        {**asdict(entry), "directory": _relative(entry.directory, result.directory), "seconds": round(entry.seconds, 2)}
        for entry in result.entries
    ]
    repeated = [asdict(row) for row in result.repeated()]
    came = {"ok": result.ok, "status": result.status}
    return {**came, "runs": entries, "figures": repeated, "versions": machine.versions(), "machine": machine.about()}


def show(result: SuiteResult, console: Console) -> None:
    """Print all runs, and where runs were repeated the figures over them."""
    table = grid("scenario", "seed", "", "expectations passed", "took", "why", title="Runs", fold=True)
    for entry in result.entries:
        state = f"[{_COLOURS[entry.state]}]{entry.state}[/]"
        judged = [verdict.ok for verdict in entry.verdicts if not verdict.is_measured]
        passed = f"{sum(judged)} of {len(judged)}" if judged else "–"
        table.add_row(
            escape(entry.label), str(entry.seed), state, passed, show_seconds(entry.seconds), escape(why(entry))
        )
    console.print(table)
    figures = [row for row in result.repeated() if row.figure is not None and row.figure.count > 1]
    if figures:
        columns = ("scenario", "expectation", "expected", "passed", "mean", "95 % interval")
        table = grid(*columns, title="Figures over repeated runs", fold=True)
        for row in figures:
            mean, interval = _numbers(row)
            passed = f"{row.passed} of {row.runs}"
            table.add_row(escape(row.label), row.expectation, escape(row.expected), passed, mean, interval)
        console.print(table)
    console.print(f"Report: {escape(str(result.directory / 'index.html'))}", soft_wrap=True)


def why(entry: SuiteEntry) -> str:
    """The first reason for which a run did not pass."""
    return next(iter(entry.reasons), "")


def _numbers(row: Repeated) -> tuple[str, str]:
    """Mean and interval as text."""
    figure = row.figure
    if figure is None:
        return "–", "–"
    mean = show_value(figure.mean, row.unit)
    if figure.low is None or figure.high is None:
        return mean, "–"
    factor, shown = scale_of(row.unit, figure.mean)
    return mean, range_text(figure.low, figure.high, lambda value: show_number(factor * value)) + shown


def _page(entry: SuiteEntry, directory: Path) -> str:
    """The run's page, or its figures, as seen from the suite's page; empty where it has none."""
    found = page_of(entry.directory) if entry.directory else None
    return _relative(found, directory) if found is not None and found.exists() else ""


def _relative(path: Path | None, directory: Path) -> str:
    """A path as seen from the suite's directory; empty without one."""
    return str(path.absolute().relative_to(directory.absolute())) if path else ""


def _counts(result: SuiteResult) -> dict[str, int]:
    found = Counter(entry.state for entry in result.entries)
    return {state: found[state] for state in ("passed", "failed", "invalid", "aborted") if found[state]}


def _junit(result: SuiteResult) -> str:
    """One test suite per run."""
    root = ElementTree.Element("testsuites", name=result.directory.name)
    for entry in result.entries:
        name = f"{entry.label} seed {entry.seed}"
        if entry.state == "aborted" and not entry.verdicts:
            suite = ElementTree.SubElement(root, "testsuite", name=name, tests="1", failures="0", errors="1")
            case = ElementTree.SubElement(suite, "testcase", classname=name, name="the run completes")
            ElementTree.SubElement(case, "error", message=junit.plain(entry.error)).text = junit.plain(entry.error)
            continue
        invalid = [entry.error] if entry.state == "invalid" else []
        root.append(ElementTree.fromstring(junit.render(name, entry.verdicts, invalid)))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
