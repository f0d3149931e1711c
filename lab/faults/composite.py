"""Faults that consist of others: they share the start of their names, and run on a time line of their own."""

from typing import Any, ClassVar

from typing_extensions import override

from mrclab.lab.faults.action import Counters, FaultAction, FaultContext
from mrclab.lab.faults.base import FAULTS, FaultBase
from mrclab.lab.faults.probe import FaultProbe
from mrclab.lab.faults.timeline import TimeLine
from mrclab.lab.scenario.triggers import Trigger
from mrclab.topo.model import Fabric

_NAME_LENGTH = 32  # of the fault's own name in those of its parts


class RunParts(FaultAction["CompositeFault"]):
    """Inject and clear all parts of a fault at their times."""

    def __init__(self, context: FaultContext, fault: "CompositeFault") -> None:
        super().__init__(context, fault)
        self._line = TimeLine(context, fault.parts(context.fabric, context.seed))
        self._began = 0.0

    @property
    @override
    def pending(self) -> bool:
        return self._line.pending

    @override
    def inject(self) -> None:
        self._began = self.context.now
        self.advance(self._began)

    @override
    def advance(self, now: float) -> list[str]:
        done = self._line.advance(now - self._began, {})
        self.due = self._line.next_due()
        return done

    @override
    def clear(self) -> Counters | None:
        self._line.clear_all()
        return None


class CompositeFault(FaultBase):
    """A fault that consists of `parts`, with times relative to its own."""

    action_class: ClassVar[type[FaultAction[Any]]] = RunParts

    @property
    @override
    def ends_itself(self) -> bool:
        return True  # with its last part; parts that do not end are cleared with the run

    @property
    @override
    def prefix(self) -> str:
        return self.name[:_NAME_LENGTH]

    def part(self, kind: str, fabric: Fabric, number: int, /, **fields: Any) -> FaultBase:
        """Return a part of a kind, by default from this fault's begin on; ValidationError for invalid fields."""
        entry = {"at": Trigger(), **fields, "kind": kind, "name": f"{self.prefix}-{number}"}
        return FAULTS[kind].model_validate(entry, context={"fabric": fabric})

    @override
    def self_test(self, probe: FaultProbe) -> None:
        """Every part that began ends, and there are at least two."""
        probe.inject()
        begun = probe.records("fault.begin")
        probe.clear()
        ended = probe.records("fault.end")
        probe.expect(len(begun) >= 2 and len(ended) >= 2, f"{len(begun)} faults began, {len(ended)} ended")
