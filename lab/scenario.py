"""A scenario: fabric, traffic, faults on a time line, expectations. Everything that is wrong with one is said at once.

Names are checked while the file is read: hosts and cables against the fabric it describes, faults and traffics against
those it lists. What is valid here can be started; whether it holds is for `lab.expectations` to say.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from lab import yamlfile
from lab.errors import ScenarioError
from lab.expectations import Expectation
from lab.moments import TriggerField
from lab.names import CableName, HostName, NewName
from lab.units import Duration, Size
from topo.model import Fabric
from topo.spec import FabricSpec, SpecError


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, populate_by_name=True)


class Write(_Strict):
    """One transfer of random bytes from host to host as an RDMA write."""

    kind: Literal["write"] = "write"
    name: NewName
    source: HostName = Field(alias="from")
    destination: HostName = Field(alias="to")
    size: Size
    start: Duration = Field(default=0.0, ge=0, description="seconds after the first traffic")

    @model_validator(mode="after")
    def _two_hosts(self) -> "Write":
        if self.source == self.destination:
            raise ValueError(f"{self.name} goes from {self.source} to itself; name two hosts")
        return self


class LinkDown(_Strict):
    """Carrier is lost at both ends of a cable, and comes back."""

    kind: Literal["link_down"]
    name: NewName
    link: CableName
    at: TriggerField
    until: TriggerField | None = None  # None: healed when the run ends


Traffic = Write
Fault = LinkDown


class Scenario(_Strict):
    """A whole scenario, every name resolved."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", description="names the result directory")
    title: str = ""
    description: str = ""
    seed: int = Field(default=1, ge=0)
    fabric: FabricSpec = FabricSpec()
    traffic: Annotated[list[Traffic], Field(min_length=1)]
    faults: list[Fault] = []
    expect: list[Expectation] = []
    timeout: Duration = Field(default=300.0, gt=0, description="seconds the traffic may take")
    linger: Duration = Field(default=0.0, ge=0, description="seconds to wait after it for all EVs to be GOOD again")

    @field_validator("traffic", "faults")
    @classmethod
    def _names_differ(cls, entries: list[Any]) -> list[Any]:
        names = [entry.name for entry in entries]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two entries are named {name!r}; every name stands for one")
        return entries

    @field_validator("faults")
    @classmethod
    def _triggers_known(cls, faults: list[Fault], info: ValidationInfo) -> list[Fault]:
        if not info.context:
            return faults
        known = list(info.context["traffic"])
        for fault in faults:
            for trigger in (fault.at, fault.until):
                if trigger and trigger.traffic and trigger.traffic not in known:
                    hint = yamlfile.nearest(trigger.traffic, known)
                    raise ValueError(f"{fault.name}: no traffic is named {trigger.traffic!r}; {hint}")
        return faults


@dataclass(frozen=True)
class Loaded:
    """A scenario that was read and found valid: the model, its fabric, and the text it came from."""

    scenario: Scenario
    fabric: Fabric
    text: str
    source: str


def load(path: Path) -> Loaded:
    """Read a scenario file; ScenarioError lists every mistake with line, field and remedy."""
    return check(yamlfile.read(path))


def loads(text: str, name: str = "scenario") -> Loaded:
    """The same from text."""
    return check(yamlfile.Document(text, name))


def check(document: yamlfile.Document) -> Loaded:
    """Validate a document against the models and the fabric it describes."""
    fabric, mistakes = _fabric(document)
    context = {
        "fabric": fabric,
        "traffic": _names(document.data, "traffic"),
        "faults": _names(document.data, "faults"),
        "goodput": _names(document.data, "expect"),
    }
    scenario = None
    try:
        scenario = Scenario.model_validate(document.data, context=context)
    except ValidationError as error:
        mistakes = document.mistakes(error, Scenario) + mistakes
    if mistakes or scenario is None or fabric is None:
        raise ScenarioError(mistakes)
    return Loaded(scenario, fabric, document.text, document.name)


def _fabric(document: yamlfile.Document) -> tuple[Fabric | None, list[str]]:
    """The fabric, or None with what only the arithmetic of the whole fabric could find."""
    try:
        return Fabric(FabricSpec.model_validate(document.data.get("fabric", {}))), []
    except ValidationError:
        return None, []  # said with its line when the whole scenario is validated
    except SpecError as error:
        return None, [document.at(("fabric",), str(error))]


def _names(data: Mapping[str, Any], section: str) -> list[str]:
    entries = data.get(section)
    if not isinstance(entries, list):
        return []
    return [str(entry["name"]) for entry in entries if isinstance(entry, dict) and "name" in entry]


def with_seed(loaded: Loaded, seed: int) -> Loaded:
    """The same scenario with another seed."""
    return replace(loaded, scenario=loaded.scenario.model_copy(update={"seed": seed}))
