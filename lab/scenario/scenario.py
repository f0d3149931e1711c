"""A scenario: fabric, transport, traffic, faults, expectations, variants. All mistakes are reported together.

Names are checked while the file is read: hosts and cables against its fabric, faults and workloads against its lists.
A valid scenario can be started; `lab.expectations` judges its run.
"""

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WrapValidator,
    field_validator,
)

from mrclab.lab.errors import ScenarioError
from mrclab.lab.expectations import Expectation
from mrclab.lab.expectations.base import without_limits
from mrclab.lab.faults.base import Fault
from mrclab.lab.scenario.base import Strict
from mrclab.lab.scenario.checks import consistency
from mrclab.lab.scenario.files import yamlfile
from mrclab.lab.scenario.files.inputfile import SourceFile
from mrclab.lab.scenario.files.yamlfile import ScenarioContent, dumped
from mrclab.lab.scenario.sections import variants
from mrclab.lab.scenario.sections.mapper import MapperSpec
from mrclab.lab.scenario.sections.trace import TraceSpec
from mrclab.lab.scenario.sections.transport import ScenarioTransport
from mrclab.lab.scenario.sections.variants import Variant
from mrclab.lab.scenario.units import Duration
from mrclab.lab.topology import Topology
from mrclab.lab.traffic.base import Flow, Traffic, all_flows
from mrclab.topo.config.transport import fabric_defaults
from mrclab.topo.input import sentences
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec, SpecError

_DEFAULT_EXPECTATIONS = ("integrity", "qp_errors", "health")  # expectations of a scenario that lists none
_TOPOLOGY_FILE = "fabric.topology"  # reserved: no traffic can have this name
_LONGEST = 604_800.0  # seconds of a run: a week
_MAX_VARIANTS = 1000
_MAX_ENTRIES = 200_000  # entries of a scenario, each counted once per variant
_MAX_REPORTED = 100  # mistakes of one file
_MAX_EXAMINED = 10 * _MAX_REPORTED  # mistakes examined; those that repeat another are left out


class LabSetting(Strict):
    """The lab before anything happens: fabric and transport."""

    seed: int = Field(
        default=1, ge=0, le=2**63 - 1, description="of the bytes, of every draw of EVs, pairs and fault times"
    )
    repeatable: bool = Field(
        default=False, description="draw memory keys, QPNs and first PSNs from the seed, too; default: they are random"
    )
    world: Literal["wire", "sim"] = Field(
        default="wire", description="wire: namespaces and P4 switches on this machine; sim: virtual time"
    )
    topology: Topology | None = Field(
        default=None, description="makes fields of fabric, over which those that are given go; left out: none"
    )
    fabric: FabricSpec = FabricSpec()
    transport: ScenarioTransport = ScenarioTransport()
    mapper: MapperSpec | None = Field(default=None, description="Clustermapper; left out: none")


class Scenario(LabSetting):
    """A whole scenario, every name resolved."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=80, description="names the result directory")
    title: str = Field(default="", max_length=200)
    description: str = Field(default="", max_length=10_000)
    traffic: Annotated[list[Traffic], Field(min_length=1)]
    faults: list[Fault] = Field(default=[])
    expect: list[Expectation] = Field(
        default=[], validate_default=True, description="left out: the bytes arrive whole, no QP fails, no process dies"
    )
    measure: Annotated[list[Expectation], WrapValidator(without_limits)] = Field(
        default=[], description="expectations whose figure is measured and not judged: they need no limits"
    )
    variants: Annotated[list[Variant], Field(max_length=_MAX_VARIANTS)] = Field(default=[])
    report: bool = Field(
        default=True, description="draw pictures and the page report.html; false: figures only, in result.json"
    )
    history: Literal["full", "none"] = Field(
        default="full", description="none: keep no history, for figures alone that need none; virtual time only"
    )
    trace: TraceSpec | None = Field(
        default=None, description="packets to write into the results; left out: none. Virtual time only"
    )
    timeout: Duration = Field(default=300.0, gt=0, le=_LONGEST, description="seconds the traffic may take")
    linger: Duration = Field(
        default=0.0, ge=0, le=_LONGEST, description="seconds to wait after it for all EVs to be GOOD again"
    )
    max_wait: Duration | None = Field(
        default=None,
        gt=0,
        le=_LONGEST,
        description="a run is INVALID if a host waited longer than this for a CPU; default: one RTT",
    )

    @field_validator("traffic", "faults", "expect", "measure", "variants")
    @classmethod
    def _names_differ(cls, entries: list[Any], info: ValidationInfo) -> list[Any]:
        names = [entry.name for entry in entries if entry.name is not None]
        others = ((info.context or {}).get("traffic") or []) if info.field_name == "faults" else []
        for name, count in Counter(names).items():
            if count > 1 or name in others:
                raise ValueError(f"two entries are named {name!r}; give each its own name")
        return entries

    @field_validator("expect", mode="before")
    @classmethod
    def _or_default(cls, entries: Any) -> Any:
        return entries if entries != [] else [{"kind": kind} for kind in _DEFAULT_EXPECTATIONS]

    @property
    def figures(self) -> list[Expectation]:
        """All that is judged, and all that is measured."""
        return [*self.expect, *self.measure]

    def flows(self, fabric: Fabric) -> list[Flow]:
        """Return the flows of all workloads."""
        return all_flows(self.traffic, fabric, self.seed)

    def transports(self, fabric: Fabric) -> dict[str, ScenarioTransport]:
        """Return the transports of hosts that have one of their own."""
        return {
            host: entry.transport
            for entry in self.traffic
            if entry.transport is not None
            for host in entry.hosts_in(fabric, self.seed)
        }


Mistakes = list[tuple[tuple[int | str, ...], str]]  # place in the file, and the mistake there


def setting(options: Mapping[str, Any]) -> tuple[LabSetting, Fabric]:
    """Make a lab setting from values rather than a file; ScenarioError lists every mistake."""
    try:
        made = LabSetting.model_validate({**options, "fabric": _fabric_data(options)})
        return made, Fabric(made.fabric)
    except ValidationError as error:
        items = error.errors(include_url=False)
        raise ScenarioError(
            [f"{'.'.join(map(str, item['loc']))}: {yamlfile.message(item, LabSetting)}" for item in items]
        ) from None
    except SpecError as error:
        raise ScenarioError([f"fabric: {error}"]) from None


class Loaded(NamedTuple):
    """A valid scenario: the model, its fabric, and the contents of its file.

    `runs` are the variants, each a scenario of its own, or else the scenario itself.
    """

    scenario: Scenario
    fabric: Fabric
    content: ScenarioContent
    source: str
    variant: str = ""
    variants: tuple["Loaded", ...] = ()
    named: tuple[str, ...] = ()  # dotted paths of the values that this variant gives

    @property
    def text(self) -> str:
        """The scenario's own text, or one made of its values."""
        return self.content.text

    @property
    def runs(self) -> tuple["Loaded", ...]:
        """All variants, or this scenario where it has none."""
        return self.variants or (self,)

    @property
    def base_name(self) -> str:
        """The scenario's name without that of the variant."""
        return self.scenario.name.removesuffix(f"-{self.variant}") if self.variant else self.scenario.name

    def pick(self, variant: str) -> "Loaded":
        """Return the variant with this name; ScenarioError suggests the nearest."""
        for candidate in self.variants:
            if candidate.variant == variant:
                return candidate
        known = [candidate.variant for candidate in self.variants]
        hint = sentences.nearest(variant, known) if known else "this scenario has no variants"
        raise ScenarioError([f"{self.source}: no variant is named {variant!r}; {hint}"])


def load(path: Path, within: Path | None = None) -> Loaded:
    """Read a scenario file; ScenarioError lists every mistake with line, field and remedy. `within` as in `loads`."""
    return check(yamlfile.read(path), within=within)


def loads(
    text: str, name: str = "scenario", files: Mapping[str, str] | None = None, within: Path | None = None
) -> Loaded:
    """Read a scenario's text; `files` has texts of files that it names, others are read from the folder of `name`.

    `within`: no file is read but those below this folder, which no link leaves; names are relative to it.
    """
    return check(yamlfile.Document(text, name), files, within)


def from_data(data: Mapping[str, Any], name: str) -> Loaded:
    """Read a scenario from data, as a file would hold it."""
    return loads(dumped(data), name)


def with_seed(loaded: Loaded, seed: int) -> Loaded:
    """Return the scenario with all its variants with another seed."""
    return _with(loaded, {"seed": seed})


def in_world(loaded: Loaded, world: str | None) -> Loaded:
    """Return the scenario with all its variants in another world; None leaves the world of the file."""
    return loaded if world is None else _with(loaded, {"world": world})


def parse_values(word: str) -> tuple[str, list[Any]]:
    """Parse `fabric.t1s=2,4,8` into a dotted path and YAML values; ScenarioError for anything else."""
    path, sign, text = word.partition("=")
    try:
        values = yamlfile.parse_value(f"[{text}]") if path.strip() and sign else []
    except ValueError as error:
        raise ScenarioError([f"--set {path[:60]}: {error}"]) from None
    if not isinstance(values, list) or not values:
        raise ScenarioError([f"--set {word[:200]}: write a field and its value, for example --set fabric.t1s=4"])
    return path.strip(), values


def parse_settings(words: Sequence[str]) -> dict[str, Any]:
    """Parse assignments like `fabric.t1s=4` into values by path; ScenarioError if one has several values."""
    made = {}
    for word in words:
        path, values = parse_values(word)
        if len(values) > 1:
            raise ScenarioError([f"--set {word}: {len(values)} values; give one, or sweep them with `mrclab campaign`"])
        made[path] = values[0]
    return made


def with_values(loaded: Loaded, values: Mapping[str, Any]) -> Loaded:
    """Return the scenario, or each variant, with other values at dotted paths; ScenarioError names mistakes.

    The paths are those of a variant's `set`, and override variants. Files that were read are not read again.
    """
    if not values:
        return loaded
    if loaded.variants:
        return loaded._replace(variants=tuple(with_values(variant, values) for variant in loaded.variants))
    label = f"{loaded.source} with {', '.join(f'{path}={_word(value)}' for path, value in values.items())}"
    try:
        given = Variant(name="set", set=dict(values))
        data, _, _ = variants.apply(loaded.content.data, given)
    except ValidationError as error:
        raise ScenarioError([f"{label}: {yamlfile.message(dict(item), Variant)}" for item in error.errors()]) from None
    except variants.UnknownPath as error:
        raise ScenarioError([f"{label}: {error.path}: {error}"]) from None
    scenario, fabric, errors = _validate(data, {"folder": Path(loaded.source).parent, "files": files_of(loaded)})
    if errors or scenario is None or fabric is None:
        raise ScenarioError([f"{label}: {variants.dotted(data, location)}: {message}" for location, message in errors])
    content = ScenarioContent(data)
    return loaded._replace(scenario=scenario, fabric=fabric, content=content, named=(*loaded.named, *values))


def _word(value: Any) -> Any:
    """Return a value as a command line has it: YAML's word for nothing."""
    return "null" if value is None else value


def slower(loaded: Loaded, factor: float) -> Loaded:
    """Return the scenario, or each variant, on links `factor` times slower and longer: the same per round trip.

    Times that the scenario gives in seconds do not change.
    """
    if factor == 1:
        return loaded
    if loaded.variants:
        return loaded._replace(variants=tuple(slower(variant, factor) for variant in loaded.variants))
    link = loaded.fabric.spec.link
    values: dict[str, float] = {"fabric.link.delay": link.delay * factor}
    if link.rate is None:
        values["fabric.link.rate_pps"] = max(1, round(link.rate_pps / factor))
    else:
        values["fabric.link.rate"] = link.rate / factor
    return with_values(loaded, values)


def source_files(loaded: Loaded) -> dict[str, SourceFile]:
    """Return the files that workloads are made of, by the workloads' names, and that of the topology."""
    found = {entry.name: entry.source_file for entry in loaded.scenario.traffic}
    if loaded.scenario.topology is not None:
        found[_TOPOLOGY_FILE] = loaded.scenario.topology.source_file
    return {name: file for name, file in found.items() if file is not None}


def files_of(loaded: Loaded) -> dict[str, str]:
    """Return the texts of the files that a scenario names, by the names that it gives them."""
    return {file.name: file.text for file in source_files(loaded).values()}


def with_names(loaded: Loaded, files: Mapping[str, str]) -> str:
    """Return a scenario's text in which the workloads with these names are made of these files."""
    if not files:
        return loaded.text
    data = copy.deepcopy(dict(loaded.content.data))
    if _TOPOLOGY_FILE in files:
        data["topology"]["file"] = files[_TOPOLOGY_FILE]
    for entry in data["traffic"]:
        if entry["name"] in files:
            entry["file"] = files[entry["name"]]
    return dumped(data)


def _with(loaded: Loaded, values: Mapping[str, Any]) -> Loaded:
    if all(getattr(loaded.scenario, name) == value for name, value in values.items()) and not loaded.variants:
        return loaded
    content = ScenarioContent({**loaded.content.data, **values})
    scenario = loaded.scenario.model_copy(update=dict(values))
    others = tuple(_with(variant, values) for variant in loaded.variants)
    return loaded._replace(scenario=scenario, content=content, variants=others)


def check(document: yamlfile.Document, files: Mapping[str, str] | None = None, within: Path | None = None) -> Loaded:
    """Validate a document against the models and its fabric; `files` as in `loads`."""
    places = {"folder": Path(document.name).parent, "files": files, "within": within}
    scenario, fabric, errors = _validate(document.data, places)
    mistakes = [(location, document.at(location, message)) for location, message in errors]
    others: list[Loaded] = []
    count = len(_entries(document.data, "variants"))
    entries = sum(len(_entries(document.data, section)) for section in ("traffic", "faults", "expect", "measure"))
    if count * entries > _MAX_ENTRIES:
        text = f"{count} variants of {entries} entries are too many to check; split the file"
        mistakes.append((("variants",), document.at(("variants",), text)))
        count = 0
    for index in range(min(count, _MAX_VARIANTS) if len(mistakes) < _MAX_REPORTED else 0):
        found, wrong = _variant(document, index, {message for _, message in errors}, places)
        mistakes += wrong
        others += [found] if found else []
    if mistakes or scenario is None or fabric is None:
        listed = [text for _, text in sorted(mistakes, key=lambda mistake: document.line(mistake[0]))]
        more = [f"{document.name}: {len(listed) - _MAX_REPORTED} more mistakes; fix these first"]
        raise ScenarioError(listed if len(listed) <= _MAX_REPORTED else listed[:_MAX_REPORTED] + more)
    content = ScenarioContent(document.data, document.text)
    return Loaded(scenario, fabric, content, document.name, variants=tuple(others))


def _validate(data: Mapping[str, Any], places: Mapping[str, Any]) -> tuple[Scenario | None, Fabric | None, Mistakes]:
    """Return the models of one scenario, and every mistake in it; `places` says where the files that it names are."""
    whole = {**data, "fabric": _made_fabric(data, places)}
    fabric, mistakes = _fabric(whole["fabric"])
    context = {
        **places,
        "fabric": fabric,
        "traffic": _names(data, "traffic"),
        "faults": _names(data, "faults"),
        "goodput": [*(_names(data, "expect") or ()), *(_names(data, "measure") or ())],
    }
    try:
        scenario = Scenario.model_validate(whole, context=context)
        return scenario, fabric, mistakes + (consistency.mistakes(scenario, fabric) if fabric else [])
    except ValidationError as error:
        items = yamlfile.without_echoes(error.errors(include_url=False)[:_MAX_EXAMINED], Scenario)
        found = [(tuple(item["loc"]), text) for item in items for text in yamlfile.messages(item, Scenario)]
        return None, fabric, [*found, *mistakes]


def _variant(
    document: yamlfile.Document, index: int, reported: set[str], places: Mapping[str, Any]
) -> tuple[Loaded | None, Mistakes]:
    """Return one variant as a scenario; mistakes of the file without the variant are not repeated."""
    try:
        variant = Variant.model_validate(document.data["variants"][index])
    except ValidationError:
        return None, []  # reported with the whole file
    try:
        data, changed, named = variants.apply(document.data, variant)
    except variants.UnknownPath as error:
        wrong = ("variants", index, error.field, error.path)
        return None, [(wrong, document.at(wrong, str(error)))]
    scenario, fabric, errors = _validate(data, places)
    mistakes: Mistakes = []
    for location, message in errors:
        if message not in reported:
            place, field = variants.origin(data, changed, location, index)
            mistakes.append((place, document.at(place, f"{field}: {message}" if field else message)))
    if mistakes or scenario is None or fabric is None:
        return None, mistakes
    name = f"{scenario.name}-{variant.name}"
    titles = " – ".join(text for text in (scenario.title, variant.title or variant.name) if text)
    scenario = scenario.model_copy(update={"name": name, "title": titles})
    content = ScenarioContent({**data, "name": name, "title": titles})
    return Loaded(scenario, fabric, content, document.name, variant.name, named=named), []


def _fabric_data(data: Mapping[str, Any]) -> Any:
    """Return the file's fabric, over the defaults of its transport."""
    given, transport = data.get("fabric") or {}, data.get("transport") or {}
    kind = transport.get("kind") if isinstance(transport, dict) else None
    return _merged(fabric_defaults("roce"), given) if kind == "roce" and isinstance(given, dict) else given


def _made_fabric(data: Mapping[str, Any], places: Mapping[str, Any]) -> Any:
    """Return the file's fabric over that of its topology; a wrong topology is reported later, with its line."""
    given = _fabric_data(data)
    if not isinstance(data.get("topology"), dict) or not isinstance(given, dict):
        return given
    try:
        made = TypeAdapter(Topology).validate_python(data["topology"], context=dict(places))
        return _merged(made.fabric(), given)
    except ValidationError:
        return given


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    both = {key: (below[key], above[key]) for key in below.keys() & above.keys()}
    inner = {key: _merged(a, b) for key, (a, b) in both.items() if isinstance(a, dict) and isinstance(b, dict)}
    return {**below, **above, **inner}


def _fabric(data: Any) -> tuple[Fabric | None, Mistakes]:
    """Return the fabric, or None with mistakes that only the arithmetic of the whole fabric finds."""
    try:
        return Fabric(FabricSpec.model_validate(data)), []
    except ValidationError:
        return None, []  # reported with its line when the whole scenario is validated
    except SpecError as error:
        return None, [(("fabric",), str(error))]


def _entries(data: Mapping[str, Any], section: str) -> list[Any]:
    entries = data.get(section)
    return entries if isinstance(entries, list) else []


def _names(data: Mapping[str, Any], section: str) -> dict[str, None] | None:
    """Return the names of a section's entries in order; None for a section that is not a list."""
    if not isinstance(data.get(section, []), list) or (section == "traffic" and section not in data):
        return None
    named = (entry["name"] for entry in _entries(data, section) if isinstance(entry, dict) and "name" in entry)
    return dict.fromkeys(sentences.shown(name) if isinstance(name, int) else str(name) for name in named)
