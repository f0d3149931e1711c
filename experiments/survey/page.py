"""The page of a survey: tables from its records, in Markdown."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from mrclab.lab.measure.series import quantile
from mrclab.lab.report import template
from mrclab.lab.report.grid import markdown

Record = dict[str, Any]

_NAMES = {
    "nic-loss": "NIC–T0 cable, 5 % of one direction",
    "cable": "T0–T1 cable, silent",
    "t1": "T1, silent",
    "double": "two at once",
}
_LOCALISATION_COLUMNS = ("switches", "fault", "cases", "named", "right verdicts", "healthy called down",
                         "median cycles", "90 %", "most")  # fmt: skip


def render(surveys: Sequence[Sequence[Record]], page: str) -> str:
    """One page for the records of one survey per target; `page` is where it goes."""
    fields = [records for records in surveys if records]
    cases = [some for records in fields if (some := _of_kind(records, "case"))]
    context = {
        "circumstances": _circumstances(fields),
        "localisation": _localisation(cases),
        "cycle": cases[-1][0]["cycle"] if cases else 0.0,
        "cpu": [f"{some[0]['target']} {mean(case['controller_cpu'] for case in some):.0f} %" for some in cases],
        "misses": _misses(fields),
        "denial": _denial(fields),
        "startup": _startup(fields),
        "commands": [_command(records[0]) for records in fields],
        "page": page,
    }
    return template.fill(Path(__file__).with_name("survey.md.j2"), context) + "\n"


def verdict_shares(records: Iterable[Record]) -> tuple[int, int, int]:
    """(verdicts in all, of these right, healthy elements that were called down) over cases, alarms included."""
    total = right = false_positives = 0
    for case in records:
        truth = {fault["element"] for fault in case["faults"]}
        for verdict in [*case["verdicts"], *case["alarms"]]:
            good = verdict["element"] in truth and verdict not in case["alarms"]
            total, right = total + 1, right + good
            false_positives += verdict["state"] == "down" and not good
    return total, right, false_positives


def as_json(records: Sequence[Record]) -> dict[str, Any]:
    """Summarize the records of one survey, for programs."""
    cases = _of_kind(records, "case")
    total, right, false_positives = verdict_shares(cases)
    named = sum(bool(case["complete"]) for case in cases)
    kinds = sorted({str(record["kind"]) for record in records})
    fields = {
        "cases": len(cases),
        "named": named,
        "verdicts": total,
        "right": right,
        "healthy_called_down": false_positives,
    }
    return {"records": len(records), "parts": kinds, **fields}


def _command(record: Record) -> str:
    """Return the command that makes the records of this one's target and seed."""
    where = "--world sim" if record["target"] == "virtual time" else f"--target {record['target']}"
    return f"{'' if where == '--world sim' else 'sudo '}mrclab survey {where} --seed {record['seed']}"


def _circumstances(surveys: Sequence[Sequence[Record]]) -> str:
    rows = []
    for one in (record for records in surveys for record in records):
        versions = ", ".join(f"{name} {version}" for name, version in one["versions"].items())
        rows.append((one["target"], str(one["seed"]), versions, one["machine"]))
    return markdown(["switches", "seed", "versions", "machine"], list(dict.fromkeys(rows)))


def _localisation(surveys: Sequence[Sequence[Record]]) -> str:
    """Table of verdicts by kind of fault, of each survey's cases; empty without any."""
    rows = []
    for cases in surveys:
        target = cases[0]["target"]
        for kind, name in _NAMES.items():
            if some := [case for case in cases if _kind(case) == kind]:
                rows.append([target, name, *_found(some)])
        rows.append([target, "**all**", *_found(cases)])
    return markdown(_LOCALISATION_COLUMNS, rows) if rows else ""


def _found(cases: Sequence[Record]) -> list[str]:
    complete = [case for case in cases if case["complete"]]
    total, right, false_positives = verdict_shares(cases)
    cycles = [max(case["named"].values()) for case in complete]
    share = f"{right} of {total} ({right / total:.0%})" if total else "–"
    return [
        str(len(cases)),
        f"{len(complete)} ({len(complete) / len(cases):.0%})",
        share,
        str(false_positives),
        *([f"{median(cycles):.0f}", f"{quantile(cycles, 0.9):.0f}", f"{max(cycles):.0f}"] if cycles else ["–"] * 3),
    ]


def _misses(surveys: Sequence[Sequence[Record]]) -> list[str]:
    """Every case that was not named whole and right, so that nothing hides in a percentage."""
    lines = []
    for records in surveys:
        for case in _of_kind(records, "case"):
            total, right, _ = verdict_shares([case])
            if not case["complete"] or right < total:
                faulty = " and ".join(fault["element"] for fault in case["faults"])
                verdicts = [f"{v['element']} {v['state']}" for v in [*case["alarms"], *case["verdicts"]]]
                named = ", ".join(verdicts) or "nothing"
                lines.append(f"{records[0]['target']}, case {case['case']}: {faulty} at fault; verdicts: {named}")
    return lines


def _denial(surveys: Sequence[Sequence[Record]]) -> str:
    rows = []
    for records in surveys:
        for run in (record for record in records if record["kind"].startswith("healing")):
            expected, then = (run["planes"] - 1) / run["planes"], run["after"] / run["before"]
            rows.append([
                run["target"], f"{run['cable']} {run['direction']}", f"{run['before'] / 1e6:.2f} MB/s",
                f"{run['lossy'] / run['before']:.1%}", f"{run['denied_after']:.1f} s",
                f"{then:.1%}", f"{expected:.0%}", f"{then / expected - 1:+.1%}",
            ])  # fmt: skip
    columns = ["switches", "cable", "before", "with the loss", "denied after", "then", "(P−1)/P", "off by"]
    return markdown(columns, rows) if rows else ""


def _startup(surveys: Sequence[Sequence[Record]]) -> str:
    rows = []
    for records in surveys:
        for run in (record for record in records if record["kind"].startswith("startup")):
            lost, seconds = run["lost_per_qp"], run["lost_by_second"]
            last = seconds[-1] - seconds[-11]
            rows.append([
                run["target"], "yes" if run["denied_after"] is not None else "no", str(run["qps"]),
                f"{len(run['broken'])} of {run['cables']}", f"{run['bad_in_set']:.1f}",
                f"{run['lost_on_bad'] / run['qps']:.2f}", f"{mean(lost):.2f}", str(max(lost)), str(seconds[4]),
                str(last), str(run["trimmed"]), str(run["packets"]),
            ])  # fmt: skip
    columns = ["switches", "denylist", "QPs", "silent T0–T1 cables", "bad EVs per QP", "lost on bad EVs per QP",
               "lost per QP", "most", "lost in the first 5 s", "in the last 10 s", "trimmed", "delivered"]  # fmt: skip
    return markdown(columns, rows) if rows else ""


def _kind(case: Record) -> str:
    return str(case["faults"][0]["kind"]) if len(case["faults"]) == 1 else "double"


def _of_kind(records: Sequence[Record], kind: str) -> list[Record]:
    return [record for record in records if record["kind"] == kind]
