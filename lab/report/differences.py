"""Differences of compared runs beyond those of their variants."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mrclab.lab.report import results
from mrclab.lab.scenario.files import yamlfile
from mrclab.lab.scenario.scenario import Scenario, loads
from mrclab.lab.scenario.sections.variants import leaves
from mrclab.topo.input.sentences import several

_NOT_COMPARED = {"name", "title", "description", "seed", "expect", "variants", "world"}  # labels name the world
_MAX_FIELDS = 12  # fields listed before the rest is only counted


def unnamed(runs: Mapping[str, Path]) -> list[str]:
    """One phrase per field that differs between runs (label → result directory) though no variant names it.

    Only runs of one scenario are looked at: those of several differ in whatever they differ in.
    """
    infos = {label: results.read_file(directory, "run.json") for label, directory in runs.items()}
    if len({info.get("base", "") for info in infos.values()}) != 1:
        return []
    named = {path for info in infos.values() for path in info.get("named", ())}
    resolved = {label: _resolved(directory) for label, directory in runs.items()}
    found = []
    for path in dict.fromkeys(path for fields in resolved.values() for path in fields):
        values = {label: fields.get(path) for label, fields in resolved.items()}
        if len({json.dumps(value) for value in values.values()}) > 1 and not _is_named(path, named):
            found.append(f"{path} ({_values(values)})")
    return [*found[:_MAX_FIELDS], *([f"{len(found) - _MAX_FIELDS} more fields"] if len(found) > _MAX_FIELDS else [])]


def _is_named(path: str, named: set[str]) -> bool:
    """Return True if a variant gives this value, or one that it is a part or the whole of."""
    return any(path == name or path.startswith(f"{name}.") or name.startswith(f"{path}.") for name in named)


def _values(values: Mapping[str, Any]) -> str:
    by_value: dict[str, list[str]] = {}
    for label, value in values.items():
        by_value.setdefault("not there" if value is None else str(value), []).append(label)
    return "; ".join(f"{value} in {several(labels)}" for value, labels in by_value.items())


def scenario_text(directory: Path) -> str:
    """Every value of a run's scenario that is not of its name, seed or world, as text."""
    return json.dumps(_resolved(directory, _NOT_COMPARED - {"expect"}), sort_keys=True)


def _resolved(directory: Path, but: set[str] = _NOT_COMPARED) -> dict[str, Any]:
    """Every value of a run's scenario, defaults and derived ones included, by its dotted path; without some fields."""
    path = directory / "scenario.yaml"
    text = yamlfile.text_of(path, follow=False)
    return values_of(loads(text, str(path), within=directory).scenario, but)


def values_of(scenario: Scenario, but: set[str]) -> dict[str, Any]:
    """Every value of a scenario, defaults and derived ones included, by its dotted path; without some of its fields."""
    return leaves(scenario.model_dump(mode="json", by_alias=True, exclude=but))
