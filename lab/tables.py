"""Tables of one run as plain rows, and as pandas or Arrow where those are installed.

Times are seconds after the first workload began, sizes bytes, rates payload bytes per second.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from html import escape
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from typing import Any

from mrclab.events.event import EVENTS
from mrclab.lab.errors import LabError
from mrclab.lab.expectations import Verdict
from mrclab.lab.measure.fabric.switches import link_at
from mrclab.lab.measure.measures import Measures
from mrclab.lab.measure.series import quantile
from mrclab.lab.measure.traffic import slowdown
from mrclab.lab.measure.traffic.flows import Selection, ends_of
from mrclab.lab.report.summary import bins
from mrclab.topo.input.sentences import nearest

Row = dict[str, Any]
_SHOWN = 20  # rows of a table in a notebook
_UNITS = {
    **dict.fromkeys(
        ("t", "step", "began", "ended", "seconds", "posted", "done", "sent", "begin", "end", "compute"), "s"
    ),
    **dict.fromkeys(("size", "bytes"), "bytes"),
    "goodput": "bytes/s",
    **dict.fromkeys(("packets", "sent_packets", "lost_packets", "mean", "p50", "p90", "p99", "most"), "packets"),
}
"""Units of columns by name."""

_TYPES = {
    **dict.fromkeys((*(name for name, unit in _UNITS.items() if unit in {"s", "bytes/s"}), "slowdown"), "float64"),
    **dict.fromkeys(("mean", "p50", "p90", "p99", "value", "low", "high"), "float64"),
    **dict.fromkeys(("size", "bytes", "packets", "sent_packets", "lost_packets", "most", "samples"), "int64"),
    **dict.fromkeys(("qps", "qp", "ev", "psn", "plane", "uplink", "port"), "int64"),
    **dict.fromkeys(("flow", "traffic", "kind", "source", "destination", "error", "host", "old", "new"), "string"),
    **dict.fromkeys(("reason", "switch", "link", "tier", "fault", "text", "expected", "observed", "when"), "string"),
    **dict.fromkeys(("unit", "job", "node", "fields"), "string"),
    "passed": "bool",
}
"""Types of columns by name, in pandas and Arrow alike; of others the values decide."""


class Table(Sequence[Row]):
    """Rows of equal fields, in order: a sequence of dicts."""

    def __init__(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        self.columns = tuple(columns)
        """Names of the fields."""
        self._rows = [dict(zip(self.columns, row, strict=True)) for row in rows]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        return self._rows[place]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def column(self, name: str) -> list[Any]:
        """Values of one field, in order; KeyError names the fields that there are."""
        if name not in self.columns:
            raise KeyError(f"no column {name!r}; there are {', '.join(self.columns)}")
        return [row[name] for row in self._rows]

    def to_pandas(self) -> Any:
        """Return a pandas.DataFrame; ImportError where pandas is not installed."""
        frame = _library("pandas").DataFrame(self._rows, columns=list(self.columns))
        types = {name: self._type(name) for name in self.columns}
        sure = {"float64"} if self._rows else {"float64", "int64", "bool"}  # of numbers without a gap
        return frame.astype({name: kind for name, kind in types.items() if kind in sure})

    def to_arrow(self) -> Any:
        """Return a pyarrow.Table with units as field metadata; ImportError where pyarrow is not installed.

        Fields of records, of which each kind has others, are JSON.
        """
        arrow = _library("pyarrow")
        made = arrow.table({name: self._arrow_column(arrow, name) for name in self.columns})
        return made.cast(arrow.schema([self._with_unit(field) for field in made.schema]))

    @property
    def _counts_steps(self) -> bool:
        """True if `step` is the number of a step, not seconds."""
        return "job" in self.columns

    def _type(self, name: str) -> str | None:
        return "int64" if name == "step" and self._counts_steps else _TYPES.get(name)

    def _arrow_column(self, arrow: Any, name: str) -> Any:
        values, kind = self.column(name), self._type(name)
        if name == "links":
            return arrow.array(values, arrow.list_(arrow.string()))
        if name == "fields":
            values = [json.dumps(value) for value in values]
        return arrow.array(values, kind and arrow.type_for_alias(kind))

    def _with_unit(self, field: Any) -> Any:
        unit = "" if field.name == "step" and self._counts_steps else _UNITS.get(field.name, "")
        return field.with_metadata({"unit": unit}) if unit else field

    def _repr_html_(self) -> str:
        """Return the first rows as an HTML table, which notebooks show."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        rows = (
            "".join(f"<td>{escape(format(v, '.6g') if isinstance(v, float) else str(v))}</td>" for v in row.values())
            for row in self._rows[:_SHOWN]
        )
        body = "".join(f"<tr>{cells}</tr>" for cells in rows)
        more = f"<p>{len(self)} rows, the first {_SHOWN} shown</p>" if len(self) > _SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def __repr__(self) -> str:
        return f"<Table {len(self)} rows: {', '.join(self.columns)}>"


def _library(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError:
        raise ImportError(f"{name} is not installed; `pip install {name}`, or take the rows as they are") from None


class RunTables:
    """Tables of one run, each made when it is first asked for. The base of `mrclab.Run`."""

    def __init__(self, measures: Measures, verdicts: Sequence[Verdict]) -> None:
        self._measures = measures
        self.verdicts: tuple[Verdict, ...] = tuple(verdicts)
        """Verdicts of all expectations, in the scenario's order."""

    @cached_property
    def flows(self) -> Table:
        """Flows, one row each: bytes, beginning and end in s, goodput in bytes/s, packets sent and lost.

        They are in the order in which they started; `ended` and columns computed from it are None where a flow never
        ended. `slowdown` is the time that a flow took over that of its bytes on an idle fabric.
        """
        measures, since = self._measures, self._measures.since_start
        ends = {record["flow"]: record for record in measures.history.of("flow.end")}
        columns = (
            "flow", "traffic", "kind", "source", "destination", "qps", "size", "bytes", "began", "ended", "seconds",
            "goodput", "slowdown", "sent_packets", "lost_packets", "error",
        )  # fmt: skip
        rows = []
        for flow in measures.flows:
            end = ends.get(flow.name)
            ended = end is not None and flow.end < float("inf")
            carried = int(end.get("bytes", 0)) if end is not None else None
            seconds = flow.end - flow.begin if ended else None
            kept = measures.scenario.history != "none"
            packets = [
                round(measures.samples.last(flow.senders, name)) if kept else None
                for name in ("sent_packets", "lost_packets")
            ]
            rows.append((
                flow.name, flow.traffic, flow.kind, flow.source, flow.destination, len(flow.senders), flow.size,
                carried, since(flow.begin), since(flow.end) if ended else None, seconds,
                carried / seconds if carried is not None and seconds else None,
                seconds / slowdown.idle(measures.fabric, flow.source, flow.destination, carried)
                if carried and seconds else None,
                *packets,
                str(end.get("error", "")) if end is not None else "",
            ))  # fmt: skip
        return Table(columns, [*rows, *_ended(measures)])

    @cached_property
    def messages(self) -> Table:
        """Messages that completed, one row each, in that order: posted, done and duration in s, size in bytes."""
        since = self._measures.since_start
        return Table(
            ("traffic", "flow", "posted", "done", "seconds", "bytes"),
            (
                (one.traffic, one.flow, since(one.posted), since(one.done), one.seconds, one.size)
                for one in self._measures.completions.messages
            ),
        )

    @cached_property
    def samples(self) -> Table:
        """Goodput in bytes/s by plane over time, as the report draws it; `t` is the beginning of `step` seconds."""
        measures = self._sampled("samples")
        at = bins(measures) if measures.flows else []
        by_plane = {plane: measures.rates.binned(at, Selection(plane=plane)) for plane in measures.rates.by_plane}
        return Table(
            ("t", "step", "plane", "goodput"),
            (
                (measures.since_start(begin), end - begin, plane, values[number])
                for number, (begin, end) in enumerate(pairwise(at))
                for plane, values in by_plane.items()
            ),
        )

    @cached_property
    def ev_transitions(self) -> Table:
        """Changes of EV states, in the order of time."""
        measures = self._sampled("changes of EV states")
        return Table(
            ("t", "host", "qp", "ev", "plane", "uplink", "old", "new", "reason"),
            (
                (measures.since_start(c.t), c.host, c.qp, c.ev, *c.path, c.old, c.new, c.reason)
                for c in measures.paths.changes
            ),
        )

    @cached_property
    def losses(self) -> Table:
        """Packets that senders declared lost, in the order of time; a row may stand for several `packets`."""
        measures = self._sampled("losses")
        since = measures.since_start
        return Table(
            ("t", "host", "qp", "psn", "plane", "uplink", "reason", "sent", "packets"),
            (
                (since(loss.t), loss.host, loss.qp, loss.psn, *loss.path, loss.reason, since(loss.sent), loss.packets)
                for loss in measures.paths.losses
            ),
        )

    @cached_property
    def queues(self) -> Table:
        """Distribution of queue depths, port by port: mean, percentiles and maximum over all samples."""
        measures, rows = self._sampled("queue depths"), []
        for (switch, port), gauge in measures.switches.depth.items():
            depths = [round(depth) for depth in gauge.values]
            if depths:
                tier, plane = switch.split("-")[:2]
                place = (switch, port, link_at(measures.fabric, switch, port), tier, int(plane[1:]))
                shares = (quantile(depths, share) for share in (0.5, 0.9, 0.99))
                rows.append((*place, len(depths), sum(depths) / len(depths), *shares, max(depths)))
        names = ("switch", "port", "link", "tier", "plane", "samples", "mean", "p50", "p90", "p99", "most")
        return Table(names, rows)

    @cached_property
    def queue_depths(self) -> Table:
        """Packets in the data queues of switch ports over time, of ports that ever held any."""
        measures = self._sampled("queue depths")
        return Table(
            ("t", "switch", "port", "link", "packets"),
            (
                (measures.since_start(t), switch, port, link_at(measures.fabric, switch, port), round(depth))
                for (switch, port), gauge in measures.switches.depth.items()
                for t, depth in zip(gauge.times, gauge.values, strict=True)
            ),
        )

    @cached_property
    def faults(self) -> Table:
        """Faults that began: kind, begin and end in s (None: not cleared before the run ended), cables."""
        since = self._measures.since_start
        return Table(
            ("fault", "kind", "text", "begin", "end", "links"),
            (
                (s.name, s.kind, s.text, since(s.begin), None if s.end is None else since(s.end), list(s.links))
                for s in sorted(self._measures.faults.values(), key=lambda fault: fault.begin)
            ),
        )

    @cached_property
    def expectations(self) -> Table:
        """Verdicts as rows: the figure judged with its unit, expected and observed."""
        return Table(
            ("kind", "passed", "expected", "observed", "when", "value", "unit"),
            ((v.kind, v.ok, v.expected, v.observed, v.when, v.value, v.unit) for v in self.verdicts),
        )

    @cached_property
    def steps(self) -> Table:
        """Steps of training jobs: beginning, end and duration in s; `compute` is the mean of a job's ranks, or None."""
        since, training = self._measures.since_start, self._measures.training
        return Table(
            ("job", "step", "began", "ended", "seconds", "compute"),
            (
                (job, step.number, since(step.began), since(step.ended), step.seconds, step.compute)
                for job in training.jobs
                for step in training.steps(job)
            ),
        )

    def records(self, *kinds: str) -> Table:
        """Return the records of some kinds from the run's history, of all kinds where none is named.

        `fields` are those of a record except time, node and kind.
        """
        from mrclab.events import codec  # noqa: F401, PLC0415 - loads all classes, which few callers need

        measures = self._measures
        for kind in kinds:
            if kind not in EVENTS and next(measures.history.of(kind), None) is None:
                raise LabError(f"no record is called {kind!r}; {nearest(str(kind), list(EVENTS))}")
        found = measures.history.of(*kinds) if kinds else iter(measures.history.records)
        return Table(
            ("t", "node", "kind", "fields"),
            ((measures.since_start(record.t), record.node, record.kind, dict(record.data)) for record in found),
        )

    def _sampled(self, what: str) -> Measures:
        """Return the measures; LabError for what a run without a history lacks, rather than a table without rows."""
        if self._measures.scenario.history == "none":
            raise LabError(f"this run kept no history, of which {what} are; run it with history: full")
        return self._measures


def _ended(measures: Measures) -> Iterator[tuple[Any, ...]]:
    """Flows of open loops, which are known by their ends alone, in that order; their QPs are not counted."""
    kinds = {r["traffic"]: r["traffic_kind"] for r in measures.history.of("traffic.start") if r.get("flows") == []}
    for end in measures.history.of("flow.end"):
        if end["traffic"] not in kinds:
            continue
        source, destination = ends_of(end["flow"])
        size, seconds = int(end["bytes"]), float(end["seconds"])
        ended, arrived = measures.since_start(end.t), not end["error"] and size and seconds
        yield (
            end["flow"], end["traffic"], kinds[end["traffic"]], source, destination, None, size, size,
            ended - seconds, ended, seconds, size / seconds if arrived else None,
            seconds / slowdown.idle(measures.fabric, source, destination, size) if arrived else None,
            None, None, end["error"],
        )  # fmt: skip
