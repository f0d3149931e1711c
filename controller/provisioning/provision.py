"""Provision one switch: adopt it if it runs the right program, write the difference, read back."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from mrclab.controller.errors import SwitchError
from mrclab.controller.p4runtime.session import SwitchSession
from mrclab.controller.provisioning.intent import IntendedEntry
from mrclab.controller.provisioning.program import PipelineConfig
from mrclab.controller.provisioning.reconcile import Change, UpdateKind, changes


@dataclass(frozen=True)
class Provisioned:
    """Outcome of provisioning. `adopted`: the switch ran the program already and kept forwarding.

    `replaced`: it ran another one. `seconds`: duration of all this.
    """

    adopted: bool
    replaced: bool
    inserted: int
    modified: int
    deleted: int
    seconds: float

    @property
    def untouched(self) -> bool:
        """True if nothing had to be written."""
        return self.adopted and not (self.inserted or self.modified or self.deleted)


async def provision(session: SwitchSession, program: PipelineConfig, intended: Sequence[IntendedEntry]) -> Provisioned:
    """Make the switch hold exactly `intended`; SwitchError (WriteError with each refused update) where it does not."""
    begun = time.monotonic()
    cookie = await session.cookie()
    adopted = cookie == program.cookie
    if not adopted:
        await session.set_pipeline()
    todo = changes(intended, await session.read_entries())
    await session.write(todo)
    if todo:
        await _read_back(session, intended)
    count = {op: sum(change.op is op for change in todo) for op in UpdateKind}
    return Provisioned(
        adopted,
        cookie is not None and not adopted,
        count[UpdateKind.INSERT],
        count[UpdateKind.MODIFY],
        count[UpdateKind.DELETE],
        time.monotonic() - begun,
    )


async def _read_back(session: SwitchSession, intended: Sequence[IntendedEntry]) -> None:
    left: tuple[Change, ...] = changes(intended, await session.read_entries())
    if left:
        raise SwitchError(session.name, f"holds something else than was written, {len(left)} entries: {left[0]}")
