"""The finished runs of a results folder, to choose from and to play again."""

import json
from pathlib import Path
from typing import Any

from mrclab.lab.errors import LabError
from mrclab.lab.report.summary import state_of
from mrclab.lab.ui.sources import Replay
from mrclab.topo.input import files

_NEEDED = ("history.jsonl", "fabric.yaml")
_MAX_RUNS = 200  # runs listed, the newest


class RunIndex:
    """Result directories in a folder, and in those of suites one below; others are skipped."""

    def __init__(self, results: Path) -> None:
        self.results = results

    def runs(self) -> list[dict[str, Any]]:
        """`name` below the folder, `state` that the report says, `ended` (seconds since 1970); the newest first."""
        found = []
        for file in (*self.results.glob("*/result.json"), *self.results.glob("*/*/result.json")):
            directory = file.parent
            try:
                if all((directory / name).is_file() for name in _NEEDED):
                    found.append((file.stat().st_mtime, directory))
            except OSError:  # it is being removed
                continue
        listed = []
        for ended, directory in sorted(found, reverse=True)[:_MAX_RUNS]:
            name = directory.relative_to(self.results).as_posix()
            listed.append({"name": name, "state": _state(directory), "ended": ended})
        return listed

    def take(self, name: str) -> Replay:
        """One of them. LabError where there is none of that name, or it cannot be read."""
        if name not in {run["name"] for run in self.runs()}:
            raise LabError(f"there is no finished run {name} in {self.results}; choose one of the list")
        return Replay(self.results / name)


def _state(directory: Path) -> str:
    try:
        return state_of(json.loads(files.read_bytes(directory / "result.json", follow=False))["state"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "unreadable"
