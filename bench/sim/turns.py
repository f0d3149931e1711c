"""A load in both simulators, alternating, with every seed."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from mrclab import compiled
from mrclab.bench.sim import htsim, load
from mrclab.bench.sim.children import SimCost
from mrclab.bench.sim.common import SimLoad
from mrclab.lab.errors import RunError
from mrclab.topo.input import files
from mrclab.topo.linux import paths


class OutOfTimeError(Exception):
    """Raised in place of a run that would begin too late."""


class Turns:
    """Runner of loads in both simulators.

    Every run is kept in `folder`, where one is named, and none that is there is repeated. After `minutes` none begins,
    and OutOfTimeError is raised.
    """

    def __init__(self, folder: Path | None = None, minutes: float = math.inf) -> None:
        self._folder, self._until = folder, time.monotonic() + minutes * 60

    def once(self, spec: SimLoad, seed: int, *, with_htsim: bool) -> list[SimCost]:
        """Do one run here, and one of uet-htsim if requested; RunError if a simulator does not finish."""
        one = replace(spec, seed=seed)
        return [self.here(one), self.there(one)] if with_htsim else [self.here(one)]

    def here(self, spec: SimLoad) -> SimCost:
        """Do one run of MRC Lab; the compiled form and plain Python are kept apart, as their costs are."""
        form = [] if compiled.state().runs else ["plain Python"]
        return self._kept([load.NAME, asdict(spec), *form], lambda: load.run(spec))

    def there(self, spec: SimLoad) -> SimCost:
        """Do one run of uet-htsim."""

        def run() -> SimCost:
            with tempfile.TemporaryDirectory(prefix=paths.folder_prefix()) as folder:
                return htsim.run(spec, Path(folder))

        return self._kept([htsim.NAME, asdict(spec)], run)

    def _kept(self, key: list[object], run: Callable[[], SimCost]) -> SimCost:
        """Return the stored run if there is one; else do a new one and store it."""
        text = json.dumps(key, sort_keys=True)
        path = self._folder and self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
        if path and path.exists():
            return _read(path)
        if time.monotonic() > self._until:
            raise OutOfTimeError
        cost = run()
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.replace_file(path, json.dumps({"load": json.loads(text), "cost": asdict(cost)}))
        return cost


def _read(path: Path) -> SimCost:
    """Return the cost of a stored run; those of earlier versions call `retransmitted` `again`. RunError if damaged."""
    names = {"again": "retransmitted"}
    try:
        stored = json.loads(path.read_bytes())["cost"]
        fields = {names.get(name, name): value for name, value in stored.items()}
        return SimCost(**{**fields, "completions": tuple(fields["completions"])})
    except (ValueError, KeyError, TypeError, AttributeError):
        raise RunError(f"{path} is not a run that was kept here; remove it, and it is done again") from None
