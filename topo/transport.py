"""Transport of a run's hosts, and its settings: the file that a run leaves for its controller.

The controller turns it into every host's node config. `fabric_defaults` says what else in the fabric goes with a
transport; whoever composes a fabric puts it below what the user asked for.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from mrclab.topo import files
from mrclab.topo.errors import TopoError
from mrclab.topo.nodeconfig import EvProfileConfig, TransportSection
from mrclab.topo.spec import explain

FILE_NAME = "transport.json"
Kind = Literal["mrc", "roce"]

_CONTROL: dict[Kind, dict[str, str]] = {
    "mrc": {"nscc": "uet-1.0-nscc", "none": "none"},
    "roce": {"dcqcn": "dcqcn", "none": "none"},
}
_OWN = frozenset({"kind", "cc_profile"})  # of TransportSection; said by `kind` and `congestion_control`
_ROCE_BUFFER_BDPS = 100.0  # holds what eight senders with eight QPs each put in before DCQCN has slowed them


class TransportError(TopoError, ValueError):
    """A transport that hosts cannot be given; the text is one sentence with the remedy."""


class TransportSpec(BaseModel):
    """Transport and congestion control of all QPs, with `attributes` over the defaults of a node config's transport.

    `ev_profile` overrides fields of the default EV profile (MRC only).
    """

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    kind: Kind = "mrc"
    congestion_control: Literal["nscc", "dcqcn", "none"] | None = None
    ev_profile: dict[str, Any] = {}
    attributes: dict[str, Any] = {}

    @model_validator(mode="after")
    def _fits(self) -> "TransportSpec":
        known = _CONTROL[self.kind]
        if self.congestion_control is not None and self.congestion_control not in known:
            raise ValueError(
                f"{self.kind} has no congestion control {self.congestion_control!r}; it has {' and '.join(known)}"
            )
        if self.kind == "roce" and self.ev_profile:
            raise ValueError("roce has no EVs, so ev_profile must be left out")
        for name in self.attributes:
            if name in _OWN:
                raise ValueError(f"attributes.{name} is set by kind and congestion_control; leave it out")
        return self

    @property
    def cc_profile(self) -> str:
        """The name that node configs give the congestion control."""
        known = _CONTROL[self.kind]
        return next(iter(known.values())) if self.congestion_control is None else known[self.congestion_control]

    def section(self, defaults: Mapping[str, Any]) -> TransportSection:
        """The transport section of a node config with these defaults; TransportError names an attribute at fault."""
        own = {"kind": self.kind, "cc_profile": self.cc_profile}
        try:
            return TransportSection.model_validate({**defaults, **self.attributes, **own})
        except ValidationError as error:
            raise TransportError("; ".join(explain(error, TransportSection, "transport.attributes"))) from None

    def profile(self, default: EvProfileConfig) -> EvProfileConfig:
        """The default EV profile with this run's overrides; TransportError names a field at fault."""
        try:
            return EvProfileConfig.model_validate({**default.model_dump(), **self.ev_profile})
        except ValidationError as error:
            raise TransportError("; ".join(explain(error, EvProfileConfig, "transport.ev_profile"))) from None


DEFAULT_TRANSPORT = TransportSpec()


def fabric_defaults(kind: Kind) -> dict[str, Any]:
    """Return a fabric's default fields for this transport, as fields of a FabricSpec.

    RoCEv2 needs ECN where incast happens, at the last hop, and buffers that hold what DCQCN takes round trips to slow
    down: there is neither trimming nor a pause frame that would spare the buffer.
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
    """Replace `path` in one step; of a subclass only what the controller needs is written."""
    kept = spec.model_dump(mode="json", include=set(TransportSpec.model_fields))
    files.replace_file(path, json.dumps(kept) + "\n")
