"""Transport of a run's hosts, and its settings: the file that a run leaves for its controller.

The controller turns it into every host's node config. `fabric_defaults` has the fabric's settings that go with a
transport; the composer of a fabric puts it below the user's choices.
"""

import json
from collections.abc import Mapping
from operator import not_
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from mrclab.topo.config.algorithms import CONGESTION_CONTROLS, PATH_SELECTIONS, QP_SCHEDULERS
from mrclab.topo.config.nodeconfig import EvProfileConfig, TransportSection
from mrclab.topo.config.registry import OneOf, Registry, checked
from mrclab.topo.errors import TopoError
from mrclab.topo.input import files
from mrclab.topo.input.exacttypes import ExactTypes
from mrclab.topo.spec import explain

FILE_NAME = "transport.json"
Kind = Literal["mrc", "roce"]

_DEFAULT_CONTROL: dict[Kind, str] = {"mrc": "nscc", "roce": "dcqcn"}
_DEFAULT_SELECTION = "rotation"
_DEFAULT_SCHEDULER = "round_robin"
SECTION_FIELDS = {
    "kind": "kind",
    "cc_profile": "congestion_control",
    "cc_config": "congestion_settings",
    "path_selection": "path_selection",
    "path_config": "path_settings",
    "scheduler": "scheduler",
    "scheduler_config": "scheduler_settings",
}
"""Fields of TransportSection that have a field of their own here."""

SETTINGS = frozenset({"cc_config", "path_config", "scheduler_config"})
"""Fields of TransportSection with the settings of an algorithm."""

_ROCE_BUFFER_BDPS = 100.0  # holds what eight senders with eight QPs each put in before DCQCN has slowed them


class TransportError(TopoError, ValueError):
    """A transport that hosts cannot be given; the text is one sentence with the remedy."""


class TransportSpec(ExactTypes):
    """Transport and congestion control of all QPs, with `attributes` over the defaults of a node config's transport.

    `ev_profile` overrides fields of the default EV profile (MRC only).
    """

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    kind: Kind = "mrc"
    congestion_control: Annotated[str, OneOf(*CONGESTION_CONTROLS.values())] | None = Field(
        default=None, description="else nscc of mrc, dcqcn of roce"
    )
    congestion_settings: dict[str, Any] = Field(
        default={}, description="settings of the congestion control that differ from its defaults"
    )
    path_selection: Annotated[str, OneOf(PATH_SELECTIONS)] | None = Field(
        default=None, description="MRC: how the next EV of a plane is chosen; default: by rotation"
    )
    path_settings: dict[str, Any] = Field(
        default={}, description="settings of the path selection that differ from its defaults"
    )
    scheduler: Annotated[str, OneOf(QP_SCHEDULERS)] | None = Field(
        default=None,
        exclude_if=not_,
        description="MRC: which QP of a host sends next; default: by round robin",
    )
    scheduler_settings: dict[str, Any] = Field(
        default={}, exclude_if=not_, description="settings of the scheduler that differ from its defaults"
    )
    ev_profile: dict[str, Any] = Field(default={})
    attributes: dict[str, Any] = Field(default={})

    @model_validator(mode="after")
    def _fits(self) -> "TransportSpec":
        controls, default = CONGESTION_CONTROLS[self.kind], _DEFAULT_CONTROL[self.kind]
        _check(controls, self.control, default, "congestion_settings", self.congestion_settings)
        if self.kind == "mrc":
            _check(PATH_SELECTIONS, self.selection, _DEFAULT_SELECTION, "path_settings", self.path_settings)
            _check(QP_SCHEDULERS, self.order, _DEFAULT_SCHEDULER, "scheduler_settings", self.scheduler_settings)
        elif self.path_selection is not None or self.path_settings or self.ev_profile:
            raise ValueError("roce has no EVs, so ev_profile, path_selection and path_settings must be left out")
        elif self.scheduler is not None or self.scheduler_settings:
            raise ValueError("QPs of roce send in turn, so scheduler and scheduler_settings must be left out")
        for name in self.attributes:
            if name in SECTION_FIELDS:
                raise ValueError(f"attributes.{name} is set by {SECTION_FIELDS[name]}; leave it out")
        return self

    @property
    def control(self) -> str:
        """The congestion control's name."""
        return self.congestion_control or _DEFAULT_CONTROL[self.kind]

    @property
    def selection(self) -> str:
        """The path selection's name."""
        return self.path_selection or _DEFAULT_SELECTION

    @property
    def order(self) -> str:
        """The QP scheduler's name."""
        return self.scheduler or _DEFAULT_SCHEDULER

    def section(self, defaults: Mapping[str, Any]) -> TransportSection:
        """The transport section of a node config with these defaults; TransportError names an attribute at fault."""
        control = CONGESTION_CONTROLS[self.kind].get(self.control)
        own = {
            "kind": self.kind,
            "cc_profile": control.profile or control.name,
            "cc_config": checked(control, self.congestion_settings),
        }
        if self.kind == "mrc":
            own["path_selection"] = self.selection
            own["path_config"] = checked(PATH_SELECTIONS.get(self.selection), self.path_settings)
            if self.scheduler is not None:
                own["scheduler"] = self.order
                own["scheduler_config"] = checked(QP_SCHEDULERS.get(self.order), self.scheduler_settings)
        if not (self.attributes or self.congestion_settings or self.path_settings or self.scheduler_settings):
            return TransportSection.model_construct(**defaults, **own)  # to build its validator takes a while
        try:
            return TransportSection.model_validate({**defaults, **self.attributes, **own})
        except ValidationError as error:
            raise TransportError("; ".join(explain(error, TransportSection, "transport.attributes"))) from None

    def profile(self, default: EvProfileConfig) -> EvProfileConfig:
        """The default EV profile with this run's overrides; TransportError names a field at fault."""
        if not self.ev_profile:
            return default
        try:
            return EvProfileConfig.model_validate({**default.model_dump(), **self.ev_profile})
        except ValidationError as error:
            raise TransportError("; ".join(explain(error, EvProfileConfig, "transport.ev_profile"))) from None


def _check(registry: Registry, name: str, default: str, field: str, settings: Mapping[str, Any]) -> None:
    """ValueError for an algorithm or a setting of it that does not exist."""
    if name == default and not settings:
        return  # so that the module of a spec may be loaded before those of the algorithms
    registry.get(name)
    try:
        registry.choose(name, settings)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from None


DEFAULT_TRANSPORT = TransportSpec.model_construct()  # needs no validator


def fabric_defaults(kind: Kind) -> dict[str, Any]:
    """Return a fabric's default fields for this transport, as fields of a FabricSpec.

    RoCEv2 needs ECN where incast happens, at the last hop, and buffers that hold the packets sent until DCQCN has
    slowed down: there is neither trimming nor a pause frame that would spare the buffer.
    """
    return {"last_hop_ecn": True, "queue": {"depth_bdps": _ROCE_BUFFER_BDPS}} if kind == "roce" else {}


def load(path: Path) -> TransportSpec:
    """Read the file; TransportError where it is missing, no JSON, or wrong."""
    try:
        return TransportSpec.model_validate(json.loads(files.read_bytes(path)))
    except OSError as error:
        raise TransportError(f"{path}: {error.strerror}; give the transport with --transport") from None
    except ValidationError as error:
        raise TransportError("; ".join(explain(error, TransportSpec, "transport"))) from None
    except ValueError as error:
        raise TransportError(f"{path} is not JSON: {error}") from None


def store(spec: TransportSpec, path: Path) -> None:
    """Replace `path` in one step; of a subclass only the fields that the controller needs are written."""
    kept = spec.model_dump(mode="json", include=set(TransportSpec.model_fields))
    files.replace_file(path, json.dumps(kept) + "\n")
