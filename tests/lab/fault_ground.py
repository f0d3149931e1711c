"""Faults of scenarios on a running fabric that has neither controller nor agents."""

import time
from contextlib import contextmanager

from pydantic import TypeAdapter

from mrclab.lab.faults.base import Fault
from mrclab.lab.faults.timeline import TimeLine
from mrclab.lab.run.wire.wireinjector import WireFaultInjector


class Ground:
    """A running fabric without controller and agents, with everything that was recorded."""

    seed = 1

    def __init__(self, emulation):
        self.emulation, self.fabric = emulation, emulation.fabric
        self.injector = WireFaultInjector(emulation, self)
        self.records = []
        self.may_end = set()

    def record(self, event, t=None):
        at = time.monotonic() if t is None else t
        self.records.append((event.kind, {"t": at, **event.fields()}))
        return at

    @property
    def now(self):
        return time.monotonic()

    def pause(self, seconds):
        time.sleep(seconds)

    def forget(self, node):
        """There is no connection."""

    def excuse(self, *processes):
        self.may_end.update(processes)

    def expect_alive(self, *processes):
        self.may_end.difference_update(processes)

    def of(self, kind):
        return [fields for found, fields in self.records if found == kind]


def fault(ground, name, kind, at=0, **fields):
    entry = {"name": name, "kind": kind, "at": at, **fields}
    return TypeAdapter(Fault).validate_python(entry, context={"fabric": ground.fabric})


@contextmanager
def scoped(ground, one):
    """Keep a fault in force inside the block, whatever its triggers."""
    line = TimeLine(ground, [])
    try:
        line.inject(one)
        yield
    finally:
        line.clear_all()
