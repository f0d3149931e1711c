"""Trace of a run: the packets selected by a scenario's `trace`, as pcapng and Parquet files of its results."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mrclab.lab import history
from mrclab.lab.capture import packets, pcapng
from mrclab.lab.capture.recorders import VERBS, comment_on
from mrclab.lab.capture.where import cables

if TYPE_CHECKING:
    from mrclab.lab.capture.virtual import VirtualTaps
    from mrclab.lab.scenario.sections.trace import TraceSpec
    from mrclab.topo.model import Fabric

NAME = "trace"


class RunTrace:
    """Packets of one run in virtual time that a filter selects, from `begin` to `store`."""

    def __init__(self, spec: TraceSpec, fabric: Fabric, notify: Callable[[str], None]) -> None:
        self._spec, self._fabric, self._notify = spec, fabric, notify
        self._rows: list[packets.Row] = []
        self._taps: VirtualTaps | None = None

    def begin(self, world: Any) -> None:
        """Tap the cables."""
        links = cables(self._fabric, self._spec.where)
        name = packets.host_names(self._fabric)

        def keeps(frame: pcapng.CapturedFrame) -> bool:
            found = packets.row(frame, taps.interfaces, name)
            chosen = self._spec.accepts(found)
            if chosen and len(self._rows) < self._spec.most:
                self._rows.append(found)
            return chosen

        taps = self._taps = world.tap(links, keeps=keeps, most=self._spec.most)

    def store(self, directory: Path) -> None:
        """Write trace.pcapng and, where pyarrow is installed, trace.parquet; OSError as it comes."""
        taps = self._taps
        assert taps is not None
        log = directory / "history.jsonl"
        comments = []
        if log.exists():
            comments = [(round(record.t * 1e9), comment_on(record)) for record in history.load(log).of(*VERBS)]
        pcapng.store(directory / f"{NAME}.pcapng", taps.interfaces, taps.frames, comments)
        if importlib.util.find_spec("pyarrow") is not None:
            packets.write_parquet(directory / f"{NAME}.parquet", sorted(self._rows, key=lambda each: int(each[0])))
        if not self._rows:
            self._notify("trace: no packet met all of its conditions; a QP's first PSN is a random number")
        if taps.missed:
            self._notify(
                f"trace: {taps.missed} packets more than most: {self._spec.most} met the filter and are not kept"
            )
