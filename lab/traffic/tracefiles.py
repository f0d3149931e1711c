"""The files of a recorded job as a scenario names them: regular files of bounded size, kept with a run's results.

A run keeps them as one text, `NAME.trace`: JSON with base64. A scenario may name it in their place.
"""

import base64
import binascii
import errno
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, ValidationInfo, WithJsonSchema

from mrclab.lab.training.job import TrainingJob
from mrclab.lab.training.traces import chakra, goal, recorded
from mrclab.topo.input import files

MAX_BYTES = 1 << 28
"""Bytes of all files of a trace together."""

MAX_FILES = 1 << 16
KEPT_SUFFIX = ".trace"


class TraceFiles:
    """A recorded job, a `SourceFile`: its name in the scenario, and the bytes of its files by their names."""

    suffix = KEPT_SUFFIX

    def __init__(self, name: str, parts: Mapping[str, bytes]) -> None:
        self.name = name
        self.files = dict(parts)

    def __str__(self) -> str:
        return self.name

    @functools.cached_property
    def text(self) -> str:
        """All files as one text."""
        return json.dumps({name: base64.b64encode(data).decode() for name, data in self.files.items()})

    @functools.cached_property
    def _chakra(self) -> dict[int, bytes]:
        """Return the files of ranks; empty for GOAL."""
        ranks = ((_rank_of(name), data) for name, data in self.files.items())
        return {rank: data for rank, data in ranks if rank is not None}

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.job().ranks

    @functools.lru_cache(maxsize=4)  # noqa: B019 - at most four graphs, which may live as long as the process
    def job(self, algorithm: str = "ring", cycle: float = 1e-9) -> TrainingJob:
        """Return the graph; JobError names file and node of a mistake."""
        if self._chakra:
            stem = next(iter(self.files)).rpartition(".")[0].rpartition(".")[0]
            ranks = chakra.read(self._chakra, stem)
        else:
            ((name, data),) = self.files.items()
            ranks = goal.read(data, name, cycle)
        return recorded.job(ranks, algorithm)


def read_trace(value: object, info: ValidationInfo) -> object:
    """Read a path, relative to the scenario's folder, or files that came with the scenario."""
    if isinstance(value, TraceFiles):
        return value
    if not isinstance(value, str) or not value:
        raise ValueError("this does not name files; name, for example, traces/all_reduce or schedule.goal")
    context = info.context or {}
    kept = (context.get("files") or {}).get(value)
    within: Path | None = context.get("within")
    path = (within or Path(context.get("folder", "."))) / value
    if within is not None and (Path(value).is_absolute() or ".." in Path(value).parts):
        raise ValueError(f"{value} cannot be read: it is not below {within.absolute()}; name a trace there")
    if kept is None and value.endswith(KEPT_SUFFIX):
        kept = _bytes_of(path, MAX_BYTES * 2, within).decode("utf-8", "replace")
    found = TraceFiles(value, _from_kept(value, kept) if kept is not None else _read_files(path, within))
    found.job()  # JobError, which is a ValueError
    return found


def _rank_of(name: str) -> int | None:
    """Return the rank in the name of a Chakra file; None for any other name."""
    middle = name.removesuffix(chakra.SUFFIX).rpartition(".")[2]
    return int(middle) if name.endswith(chakra.SUFFIX) and middle.isdecimal() else None


def _from_kept(name: str, text: str) -> dict[str, bytes]:
    try:
        rows: dict[str, Any] = json.loads(text)
        found = {file: base64.b64decode(data, validate=True) for file, data in rows.items()}
        if len(found) != 1 and not all(_rank_of(file) is not None for file in found or [""]):
            raise ValueError
        return found
    except (ValueError, AttributeError, TypeError, RecursionError, binascii.Error):
        raise ValueError(f"{name} is not a trace that a run kept; name the files that it was made of") from None


def _read_files(path: Path, within: Path | None) -> dict[str, bytes]:
    """The files of a trace: one schedule, or one file for each rank."""
    if path.suffix == chakra.SUFFIX:
        path = path.with_suffix("").with_suffix("")  # a rank's own file was named
    try:
        alone = path.suffix in {".goal", ".bin"} or path.is_file()
    except OSError:  # of which reading it gives the reason
        alone = True
    if alone:
        return {path.name: _bytes_of(path, MAX_BYTES, within)}
    try:
        ranks = sorted(
            (rank, file)
            for file in path.parent.iterdir()
            if (rank := _rank_of(file.name)) is not None and Path(file.stem).stem == path.name
        )
    except OSError:
        ranks = []
    if not ranks:
        raise ValueError(f"there is neither {path} nor {path}.0{chakra.SUFFIX}; name a trace beside the scenario")
    if len(ranks) > MAX_FILES:
        raise ValueError(f"{path} has {len(ranks)} files; a trace has at most {MAX_FILES}")
    found, left = {}, MAX_BYTES
    for _, file in ranks:
        found[file.name] = _bytes_of(file, left, within)
        left -= len(found[file.name])
    return found


def _bytes_of(path: Path, most: int, within: Path | None) -> bytes:
    """Return a regular file; where `within` is given, through no link and from below that folder only."""
    try:
        if within is None:
            return files.read_bytes(path, most)
        return files.read_beneath(within, str(path.relative_to(within)), most)
    except (OSError, ValueError) as error:  # ValueError: a name with a null character
        if getattr(error, "errno", None) == errno.EFBIG:
            more = f"the files of a trace have at most {MAX_BYTES >> 20} MiB together; this is more"
            raise ValueError(f"{path}: {more}") from None
        why = getattr(error, "strerror", None) or error
        raise ValueError(f"{path} cannot be read: {why}; name a trace beside the scenario") from None


TraceField = Annotated[
    TraceFiles,
    BeforeValidator(read_trace),
    PlainSerializer(str, return_type=str),
    WithJsonSchema({"type": "string"}),
]
