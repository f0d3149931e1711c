"""A run's report for a page that draws it itself: figures and series of the report's pictures, as JSON."""

from pathlib import Path
from typing import Any

from mrclab.lab.measure import Measures
from mrclab.lab.report import results, summary


def report(directory: Path) -> dict[str, Any]:
    """Return the report of a result directory.

    `headline`, `verdicts` (ok, expected, observed), `series` as in its series.json (seconds after the traffic began,
    bytes/s), and `faults`: name, begin, end on the same clock.
    """
    run = results.load(directory)
    verdicts = run.judge()
    facts = summary.summarize(run.measures, verdicts, run.info)
    return {
        "title": run.loaded.scenario.title or run.loaded.scenario.name,
        "headline": facts.headline,
        "verdicts": [{"ok": each.ok, "expected": each.expected, "observed": each.observed} for each in verdicts],
        "series": summary.series(run.measures),
        "faults": _faults(run.measures),
    }


def _faults(measures: Measures) -> list[dict[str, Any]]:
    spans = {name: span.during(measures.end) for name, span in measures.faults.items()}
    return [
        {"name": name, "begin": begin - measures.start, "end": end - measures.start}
        for name, (begin, end) in spans.items()
    ]
