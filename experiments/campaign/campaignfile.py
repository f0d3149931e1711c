"""Campaign file: scenario, seeds and swept fields of a campaign in one YAML file, so that one command repeats it."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mrclab.lab.errors import LabError
from mrclab.lab.scenario.files import yamlfile
from mrclab.topo.spec import explain

Sweep = dict[str, list[Any]]


class CampaignFile(BaseModel):
    """Fields of a campaign file; `scenario` is relative to its folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    scenario: Path
    seeds: str = "1..10"
    sweep: Sweep = {}  # dotted path → values, of every variant
    variants: dict[str, Sweep] = Field(default={}, description="those that run, each with what is swept of it alone")
    flows: bool = False  # keep a table of flows


def read(path: Path) -> CampaignFile | None:
    """Read a campaign file; None if it is another file; LabError if it is invalid."""
    if path.suffix not in {".yaml", ".yml"} or not path.is_file():
        return None
    data = yamlfile.read(path).data
    if not isinstance(data, dict) or "scenario" not in data:
        return None
    try:
        made = CampaignFile.model_validate(data)
    except ValidationError as error:
        raise LabError(f"{path}: " + "; ".join(explain(error, CampaignFile, "campaign"))) from None
    return made.model_copy(update={"scenario": path.parent / made.scenario})


def with_sets(given: CampaignFile, sets: Sweep) -> CampaignFile:
    """The same with other values of fields: where variants sweep a field of their own, theirs; else of all variants."""
    own = {path for sweep in given.variants.values() for path in sweep}
    variants = {
        name: {path: sets.get(path, values) for path, values in sweep.items()} for name, sweep in given.variants.items()
    }
    common = {**given.sweep, **{path: values for path, values in sets.items() if path not in own}}
    return given.model_copy(update={"sweep": common, "variants": variants})
