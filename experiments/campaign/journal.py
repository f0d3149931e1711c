"""The table of a campaign: one row per finished run, a JSON line each in `runs.jsonl`.

A Parquet file has its index at its end and cannot grow line by line; `runs.parquet` is made of the finished lines.
"""

import importlib.util
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from mrclab.experiments.campaign import quantities
from mrclab.experiments.campaign.plan import CampaignPlan, Job, key
from mrclab.experiments.runs import batch
from mrclab.experiments.runs.store import Row, RunStore
from mrclab.lab.errors import LabError, naming
from mrclab.lab.expectations.base import verdict_row
from mrclab.lab.report.summary import VALID, state_of
from mrclab.lab.scenario import seeds
from mrclab.topo.input import files

ROWS, ABOUT, PARQUET, FLOWS = "runs.jsonl", "campaign.json", "runs.parquet", "flows.parquet"

_KINDS = {"variant": str, "values": dict, "seed": int, "state": str, "error": str, "seconds": float | int}
_VERDICT = {"ok", "value", "unit", "expected", "observed"}


class Journal(RunStore):
    """The rows of one directory, to read and to append to."""

    def __init__(self, directory: Path, option: str = "--output") -> None:
        super().__init__(directory / ROWS, _checked_key, "a campaign", option)
        self.directory = directory

    def begin(self, plan: CampaignPlan, sources: str = "") -> "Journal":
        """Read existing rows; LabError if they are of another scenario, other fields or other files.

        `sources` is the digest of the program: runs of another one are read, and none is added to them.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        about: dict[str, Any] = {
            "scenario": plan.source,
            "digest": plan.digest,
            "fields": sorted(plan.fields),
            "files": {**plan.files},
            "seeds": seeds.shown(plan.seeds),
            "settings": [[one.variant, one.values] for one in plan.settings],
        }
        if known := self.about():
            if known["digest"] != plan.digest:
                raise self.refused(
                    f"{self.directory} holds a campaign of {known['scenario']} with other variants or other content"
                )
            if known["fields"] != about["fields"]:
                fields = ", ".join(map(str, known["fields"])) or "no field"
                raise self.refused(f"{self.directory} holds a campaign that sweeps {fields}")
            about["files"] = self._files(known.get("files") or {}, plan.files)
        elif self.path.exists():
            raise self.refused(f"{self.directory} holds a {ROWS} and no {ABOUT}")
        self.open()
        about["sources"] = known.get("sources", sources) if self.rows else sources
        if sources != about["sources"] and any(batch.missing(self, plan)):
            raise self.refused(f"{self.directory} holds runs of mrclab with other sources")
        path = self.directory / ABOUT
        with naming(path):
            files.replace_file(path, json.dumps(about) + "\n")
        kept = [row for row in self.of(plan) if row["state"] in VALID]
        if plan.keeps_flows and not all("flows" in row for row in kept):
            raise self.refused(f"{self.directory} holds runs that kept no flows")
        return self

    def of(self, planned: Iterable[Job]) -> list[Row]:
        """Return the rows of a plan's jobs, in its order, without those that are not done."""
        return [self.rows[job.key] for job in planned if job.key in self.rows]

    def _files(self, known: Mapping[str, str], files: Mapping[str, str]) -> dict[str, str]:
        """Return the digests of the files of all runs, old and new; LabError where a file has changed."""
        for name in known.keys() & files.keys():
            if known[name] != files[name]:
                raise self.refused(f"{self.directory} holds runs with another {name}")
        return {**known, **files}

    def about(self) -> dict[str, Any]:
        """Return the description of the campaign, empty if there is none; LabError where it is not one."""
        path = self.directory / ABOUT
        if not path.exists():
            return {}
        try:
            known = json.loads(files.read_bytes(path, follow=False))
        except OSError as error:
            raise self.refused(f"{path} cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise self.refused(f"{path} is damaged ({error})") from None
        if not isinstance(known, dict) or not {"digest", "fields", "scenario"} <= known.keys():
            raise self.refused(f"{path} does not belong to a campaign")
        return known

    def latest(self) -> Iterator[Row]:
        """Yield the rows of the last command, which page and Parquet file hold; all rows where nothing says which."""
        about, rows = self.about(), self.read()
        if "settings" not in about:
            return rows
        try:
            numbers = set(seeds.parse(about["seeds"]))
            settings = {key(name, values, 0) for name, values in about["settings"]}
        except (KeyError, TypeError, AttributeError, LabError) as error:
            path = self.directory / ABOUT
            raise LabError(f"{path} is damaged ({error!r}); run the campaign's command again") from None
        return (row for row in rows if row["seed"] in numbers and key(row["variant"], row["values"], 0) in settings)


def _checked_key(row: Row) -> str:
    """Return the key of a row that has all that the page and the table need; ValueError where it has not."""
    name = key_of(row)
    if "trouble" in row:
        row["error"] = row.pop("trouble")  # of versions before 0.2
    if isinstance(row["verdicts"], dict):
        row_fields = row["verdicts"].items()
        row["verdicts"] = {kind: verdict_row(each) if isinstance(each, dict) else each for kind, each in row_fields}
    if not _is_whole(row):
        raise ValueError(name)
    row["state"] = state_of(row["state"])
    return name


def _is_whole(row: Mapping[str, Any]) -> bool:
    """Return True if a row has all that the page and the table need."""
    verdicts = row["verdicts"].values() if isinstance(row["verdicts"], dict) else [None]
    return all(isinstance(row[key], kind) for key, kind in _KINDS.items()) and all(
        isinstance(verdict, dict) and verdict.keys() >= _VERDICT for verdict in verdicts
    )


def key_of(row: Mapping[str, Any]) -> str:
    """Return the key of a row's run."""
    return key(row["variant"], row["values"], row["seed"])


def field_of(row: Mapping[str, Any], name: str) -> Any:
    """Return the value of a swept field, or of `variant`; None where the run has no such field."""
    return row["variant"] if name == "variant" else row["values"].get(name)


def text_of(row: Mapping[str, Any], name: str) -> str:
    """Return the same as text, by which runs are grouped; empty where no field is named."""
    return str(field_of(row, name)) if name else ""


def flat(row: Mapping[str, Any]) -> Row:
    """A row with plain values only: `set.PATH`, and per expectation `passed.NAME` and `value.NAME`."""
    made = {name: row[name] for name in ("variant", "seed", "state", "error", "seconds")}
    made.update({f"set.{path}": quantities.plain(value) for path, value in row["values"].items()})
    for name, verdict in row["verdicts"].items():
        made[f"passed.{name}"], made[f"value.{name}"] = verdict["ok"], verdict["value"]
    return made


def write_parquet(directory: Path, kept: Iterable[Row]) -> Path | None:
    """Write rows as one Parquet file, in the order of a plan; None if pyarrow, an extra, is missing."""
    if importlib.util.find_spec("pyarrow") is None:
        return None
    # Rows stand in the journal as they came, which is another order every time.
    ordered = sorted(kept, key=lambda row: (row["variant"], json.dumps(row["values"]), row["seed"]))
    rows = [flat(row) for row in ordered]
    units = {f"value.{name}": v["unit"] for row in ordered for name, v in row["verdicts"].items() if v["unit"]}
    units |= _as_numbers(rows)
    if any("flows" in row for row in ordered):
        flows = list(flow_rows(ordered))
        _write_columns(flows, directory / FLOWS, {"bytes": "B", "began": "s", "ended": "s", **_as_numbers(flows)})
    return _write_columns(rows, directory / PARQUET, {"seconds": "s", **units})


def _as_numbers(rows: list[Row]) -> dict[str, str]:
    """Replace the texts of each swept field that are quantities of one kind, such as `1%`, by numbers; their units."""
    units: dict[str, str] = {}
    for name in dict.fromkeys(name for row in rows for name in row if name.startswith("set.")):
        if (found := quantities.numbers(row.get(name) for row in rows)) is not None:
            numbers, unit = found
            for row in rows:
                row[name] = numbers.get(row.get(name))
            units |= {name: unit} if unit else {}
    return units


def flow_rows(rows: Iterable[Row]) -> Iterator[Row]:
    """One row for each flow of each run: variant, seed, and all of the flow; ended None: it failed."""
    for row in rows:
        same = {name: value for name, value in flat(row).items() if name in {"variant", "seed"} or name[:4] == "set."}
        for traffic, size, began, ended, *more in row.get("flows", ()):
            row_fields = {"traffic": traffic, "bytes": size, "began": began, "ended": ended}
            yield {**same, **row_fields, "slowdown": more[0] if more else None}


def _write_columns(rows: list[Row], path: Path, units: Mapping[str, str]) -> Path:
    """Write rows as a Parquet file, with the units of columns in its schema (field metadata `unit`)."""
    import pyarrow  # noqa: PLC0415 - an extra
    from pyarrow import parquet  # noqa: PLC0415

    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: _column([row.get(name) for row in rows]) for name in names}
    table = pyarrow.table(columns)
    schema = pyarrow.schema(
        [field.with_metadata({"unit": units[field.name]}) if field.name in units else field for field in table.schema]
    )
    part = path.with_name(f".{path.name}.part")
    with naming(part), part.open("wb") as file:  # pyarrow opens no path whose name is not UTF-8
        parquet.write_table(table.cast(schema), file)
    return part.replace(path)


def _column(values: list[Any]) -> list[Any]:
    """Values of one type, as a column of a Parquet file has them; None stays."""
    kinds = {type(value) for value in values} - {type(None)}
    if len(kinds) < 2:
        return values
    kind = float if kinds == {int, float} else str
    return [None if value is None else kind(value) for value in values]
