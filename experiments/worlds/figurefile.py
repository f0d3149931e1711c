"""A page's figures as data, so that the page can be made again, and its figures judged again, without a run."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mrclab.experiments.worlds import hold
from mrclab.experiments.worlds.figures import RunFigure
from mrclab.experiments.worlds.hold import Row, Side
from mrclab.experiments.worlds.page import About, BothWorlds, WorldRuns, slowness
from mrclab.lab.errors import LabError
from mrclab.topo.input import files


def dump(made: Sequence[BothWorlds], about: About) -> str:
    """Return the figures as JSON, a line for each, without verdicts."""
    lines = ["{", *(f'"{name}": {_json(value)},' for name, value in asdict(about).items()), '"runs": [']
    for place, chapter in enumerate(made):
        head: dict[str, Any] = {"run": chapter.label, "wire": asdict(chapter.wire), "sim": asdict(chapter.sim)}
        if chapter.jittery.states:
            head["jittery"] = asdict(chapter.jittery)
        if chapter.slower != 1:
            head["slower"] = chapter.slower
        lines.append(_json(head)[:-1] + ', "figures": [')
        lines.append(",\n".join(map(_figure, chapter.rows)) + "]}" + ("," if place < len(made) - 1 else ""))
    return "\n".join([*lines, "]}"]) + "\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _figure(row: Row) -> str:
    some = (row.wire, row.sim, row.jittery) if row.jittery else (row.wire, row.sim)
    return _json([row.name, row.kind, row.unit, *([*asdict(side).values()] if side else None for side in some)])


def load(path: Path) -> tuple[list[BothWorlds], About]:
    """Read a file of `dump`, and judge its figures; LabError where it is none."""
    try:
        fields = json.loads(files.read_bytes(path))
        return [_chapter(one) for one in fields.pop("runs")], About(**fields)
    except OSError as error:
        raise LabError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise LabError(f"{path} holds no figures of `mrclab worlds --page` ({error})") from None


def _chapter(fields: dict[str, Any]) -> BothWorlds:
    found = [
        (RunFigure(name, kind, 0.0, unit), _side(wire), _side(sim), _side(jittery[0] if jittery else None))
        for name, kind, unit, wire, sim, *jittery in fields["figures"]
    ]
    slower = fields.get("slower", 1.0)
    rows = hold.rows(fields["run"] + slowness(slower), found)
    wire, sim, jittery = (
        WorldRuns(**fields.get(one, {"states": {}, "seeds": []})) for one in ("wire", "sim", "jittery")
    )
    return BothWorlds(fields["run"], wire, sim, rows, jittery, slower)


def _side(fields: list[Any] | None) -> Side | None:
    return Side(*fields) if fields else None
