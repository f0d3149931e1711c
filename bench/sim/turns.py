"""A load here and in uet-htsim alternating, with every seed."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from mrclab.bench.sim import htsim, load
from mrclab.bench.sim.children import SimCost
from mrclab.bench.sim.common import SimLoad
from mrclab.bench.sim.table import SimRow


class Turns:
    """Runner of loads in both simulators.

    Every run is kept in `folder`, where one is named, and none that is there is repeated.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def both(self, asked: SimLoad, seeds: int, *, beside: bool) -> list[SimRow]:
        """One row here, and one there where it is asked for; RuntimeError where a simulator does not end its work."""
        here, there = [], []
        for seed in range(1, seeds + 1):
            here.append(self.here(replace(asked, seed=seed)))
            if beside:
                there.append(self.there(replace(asked, seed=seed)))
        return [SimRow.of(asked, costs) for costs in (here, there) if costs]

    def only_there(self, asked: SimLoad, seeds: int, *extra: str) -> SimRow:
        """In uet-htsim alone, with options of its own."""
        return SimRow.of(asked, [self.there(replace(asked, seed=seed), extra) for seed in range(1, seeds + 1)])

    def here(self, asked: SimLoad) -> SimCost:
        """One run of MRC Lab."""
        return self._kept([load.NAME, asdict(asked)], lambda: load.run(asked))

    def there(self, asked: SimLoad, extra: tuple[str, ...] = ()) -> SimCost:
        """One run of uet-htsim."""

        def run() -> SimCost:
            with tempfile.TemporaryDirectory(prefix="mrclab-") as folder:
                return htsim.run(asked, Path(folder), extra)

        return self._kept([htsim.NAME, asdict(asked), *extra], run)

    def _kept(self, key: list[object], run: Callable[[], SimCost]) -> SimCost:
        """The run of before, if it is kept; else a new one, which is."""
        if self._folder is None:
            return run()
        text = json.dumps(key, sort_keys=True)
        path = self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
        if path.exists():
            found = json.loads(path.read_text(encoding="utf-8"))["cost"]
            return SimCost(**{**found, "completions": tuple(found["completions"])})
        cost = run()
        self._folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"load": json.loads(text), "cost": asdict(cost)}), encoding="utf-8")
        return cost
