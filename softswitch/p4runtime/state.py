"""Control-plane state of a running pipeline that the data plane does not have.

One `PipelineState` exists per committed pipeline and is thrown away with it. It is changed in the data-plane thread
only (where updates are applied), which orders it with the data plane itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from finsy.proto import p4r

from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError
from mrclab.softswitch.p4runtime.p4info import P4Index
from mrclab.softswitch.p4runtime.profile_state import ActionProfileState
from mrclab.softswitch.switch import SoftSwitch

Apply = Callable[[], None]
"""The part of an update that touches the data plane; runs in its thread and raises P4RuntimeError if it fails."""


@dataclass(slots=True)
class EntryNotes:
    """Controller's notes on a table entry, kept with it in the data plane."""

    controller_metadata: int = 0
    metadata: bytes = b""
    idle_timeout_ns: int = 0
    oneshot_group: int | None = None


@dataclass
class PipelineState:
    """The control plane's side of one pipeline."""

    index: P4Index
    switch: SoftSwitch
    defaults: dict[int, EntryNotes] = field(default_factory=dict)
    profiles: dict[int, ActionProfileState] = field(default_factory=dict)
    multicast: dict[int, p4r.MulticastGroupEntry] = field(default_factory=dict)
    clones: dict[int, p4r.CloneSessionEntry] = field(default_factory=dict)
    digests: dict[int, p4r.DigestEntry] = field(default_factory=dict)


class EntityHandler:
    """Handler of one kind of entity: writes and reads. A kind without a handler of its own is not supported."""

    def __init__(self, state: PipelineState, kind: str = "") -> None:
        self._state, self._switch, self._kind = state, state.switch, kind

    def parse(self, update_type: int, entity: p4r.Entity) -> Apply:
        """Check an update as far as possible without the data plane; return the function that applies it."""
        raise P4RuntimeError(Code.UNIMPLEMENTED, f"{self._kind} writes are not supported yet")

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Yield the entities that match the request `entity`. Any thread may call it."""
        raise P4RuntimeError(Code.UNIMPLEMENTED, f"{self._kind} reads are not supported yet")
