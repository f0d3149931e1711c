"""Compiled programs and their instances: tables, externs and the generated functions bound to a switch."""

from __future__ import annotations

import contextlib
import gc
import logging
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import CodeType
from typing import TYPE_CHECKING, Any

from mrclab.softswitch.compiler.expressions.operators import shift_left
from mrclab.softswitch.compiler.vocabulary import BUILTINS
from mrclab.softswitch.objects import hashing
from mrclab.softswitch.objects.digests import Digests
from mrclab.softswitch.objects.meters import MeterArray
from mrclab.softswitch.objects.replication import Replication
from mrclab.softswitch.objects.runtime_api import (
    CounterValue,
    InvalidRequestError,
    MeterConfig,
    NotFoundError,
    PipelineError,
)
from mrclab.softswitch.objects.tables import RuntimeProfile, RuntimeTable
from mrclab.softswitch.p4 import bmv2json, cache
from mrclab.softswitch.p4 import program as p4

if TYPE_CHECKING:
    from mrclab.softswitch.compiler.generate import Generated
    from mrclab.softswitch.dataplane import DataPlane

log = logging.getLogger(__name__)


class LoopError(RuntimeError):
    """A packet exceeded the limit of a program's loop."""


ValueSetMember = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Compiled:
    """A program with its code, not yet running."""

    program: p4.Program
    code: CodeType
    enqueue_time: bool
    config: str | bytes


_latest: dict[int, Compiled] = {}
"""Latest compiled program of this process, by drop port: it never changes, so forks of a process share it."""


def compile_program(config: str | bytes, drop_port: int) -> Compiled:
    """Compile BMv2 JSON, or reuse an earlier result of this process or of the cache. Raises PipelineError.

    Each call returns an object of its own.
    """
    latest = _latest.get(drop_port)
    if latest is None or latest.config != config:
        latest = _compile(config, drop_port)
        _latest.clear()
        _latest[drop_port] = latest
    return replace(latest)


def _compile(config: str | bytes, drop_port: int) -> Compiled:
    with compiling():
        program = bmv2json.load(config)
        key = cache.key(config, drop_port)
        kept = cache.load(key)
        if kept is not None:
            return Compiled(program, *kept, config)
        from mrclab.softswitch.compiler.generate import Generator  # noqa: PLC0415 - a cached program needs no compiler

        generated = Generator(program, drop_port).generate()
        compiled = compile_source(program, generated, config)
    cache.store(key, compiled.code, compiled.enqueue_time)
    del generated
    _give_back()
    return compiled


def compile_source(program: p4.Program, generated: Generated, config: str | bytes) -> Compiled:
    """Return a program with the code that was generated for it."""
    return Compiled(program, compile(generated.source, "<p4>", "exec"), generated.enqueue_time, config)


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Turn errors of loader and compiler, for an impossible program that no check found, into a refusal."""
    try:
        yield
    except PipelineError:
        raise
    except Exception as error:
        log.info("a program made the compiler fail", exc_info=error)
        raise PipelineError(f"the program cannot be compiled: {type(error).__name__} {str(error)!a}") from error


def _give_back() -> None:
    """Return the compiler's memory to the system: several times the need of the running program."""
    gc.collect()
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes  # noqa: PLC0415 - what is missing in a browser

        ctypes.CDLL(None).malloc_trim(0)


class ValueSet:
    """A parser value set: calling it with the select key returns whether the key is in."""

    def __init__(self) -> None:
        self.members: list[ValueSetMember] = []

    def __call__(self, *key: int) -> bool:
        """Return whether a member matches."""
        return any(all(k & m == v for k, (v, m) in zip(key, member, strict=True)) for member in self.members)


class Instance:
    """One run of a program: its state from empty, and its functions."""

    def __init__(self, compiled: Compiled, host: DataPlane) -> None:
        program = compiled.program
        self.compiled = compiled
        clock, seconds = host.now_us, host.clock.seconds
        self.profiles = {name: RuntimeProfile(program, profile) for name, profile in program.profiles.items()}
        self.tables: dict[str, RuntimeTable] = {}
        for table in program.tables.values():
            profile = self.profiles[table.profile] if table.profile is not None else None
            if profile is not None:
                profile.use_by(table)
            self.tables[table.name] = RuntimeTable(program, table, profile, clock, seconds)
        self.packets = {c.name: [0] * c.size for c in program.counters.values() if not c.direct}
        self.bytes = {c.name: [0] * c.size for c in program.counters.values() if not c.direct}
        self.meters = {m.name: MeterArray(m.size, m.packets, clock) for m in program.meters.values() if not m.direct}
        self.registers = {register.name: [0] * register.size for register in program.registers.values()}
        self.value_sets = {name: ValueSet() for name in program.value_sets}
        self.digests = Digests({learn.id: learn.name for learn in program.learn_lists.values()}, seconds)
        self.ages = any(table.support_timeout for table in program.tables.values())
        self.replication = Replication(host.enqueue)
        names = self._globals(program, host)
        exec(compiled.code, names)  # its words are those of compiler.vocabulary
        self.ingress: Callable[[bytearray, int, int], None] = names["ingress"]
        self.ingress_again: Callable[..., None] | None = names.get("ingress_again")

    def _globals(self, program: p4.Program, host: DataPlane) -> dict[str, Any]:
        """Return the names that the generated code uses."""
        names: dict[str, Any] = {
            "int_from": int.from_bytes,
            "take_4": struct.Struct("!I").unpack_from,
            "take_8": struct.Struct("!Q").unpack_from,
            "take_16": struct.Struct("16s").unpack_from,
            "random": host.rng.random,
            "randint": host.rng.randint,
            "monotonic": host.clock.seconds,
            "enqueue": host.enqueue,
            "transmit": host.transmit,
            "again": host.again,
            "multicast": self.replication.multicast,
            "clone_to": self.replication.clone_to,
            "clone_sessions": self.replication.sessions,
            "out_of_range": host.out_of_range,
            "log_msg": host.log_msg,
            "now_us": host.now_us,
            "learn": self.digests.learn,
            "shift_left": shift_left,
            "LoopError": LoopError,
            "__builtins__": BUILTINS,
        }
        return names | self._object_names(program)

    def _object_names(self, program: p4.Program) -> dict[str, Any]:
        """Return the names of the program's own objects: kind and number."""
        names: dict[str, Any] = {f"text_{number}": text for text, number in program.texts.items()}
        for number, table in enumerate(self.tables.values()):
            names[f"find_{number}"], names[f"default_{number}"] = table.find, table.default
        for number, counter in enumerate(program.counters):
            names[f"packets_{number}"] = self.packets.get(counter)
            names[f"bytes_{number}"] = self.bytes.get(counter)
        for number, meter in enumerate(program.meters):
            names[f"meter_{number}"] = self.meters[meter].execute if meter in self.meters else None
        for number, register in enumerate(program.registers):
            names[f"reg_{number}"] = self.registers[register]
        for number, value_set in enumerate(program.value_sets):
            names[f"vset_{number}"] = self.value_sets[value_set]
        for number, calculation in enumerate(program.calculations.values()):
            if calculation.algorithm in hashing.ALGORITHMS:
                names[f"hash_{number}"] = hashing.make(calculation.algorithm)
        for number, profile in enumerate(program.profiles.values()):
            if profile.algorithm is not None:
                names[f"select_{number}"] = hashing.make(profile.algorithm)
        return names

    # -- cells --------------------------------------------------------------------------------------------------------

    def cell(self, kind: str, cells: dict[str, Any], name: str, index: int) -> Any:
        """Return the array called `name` after checking that it has `index`."""
        array = cells.get(name)
        if array is None:
            raise NotFoundError(f"the program has no {kind} {name}")
        size = len(array) if isinstance(array, list) else array.size
        if not 0 <= index < size:
            raise InvalidRequestError(f"{kind} {name}: index {index} is not below its size {size}")
        return array

    def counter_read(self, name: str, index: int) -> CounterValue:
        """Return one counter cell."""
        packets = self.cell("counter", self.packets, name, index)
        return CounterValue(packets[index], self.bytes[name][index])

    def counter_write(self, name: str, index: int, value: CounterValue) -> None:
        """Set one counter cell."""
        self.cell("counter", self.packets, name, index)[index] = value.packets
        self.bytes[name][index] = value.bytes

    def meter_read(self, name: str, index: int) -> MeterConfig | None:
        """Return one meter's configuration."""
        array: MeterArray = self.cell("meter", self.meters, name, index)
        return array.config(index)

    def meter_write(self, name: str, index: int, config: MeterConfig | None) -> None:
        """Configure one meter."""
        self.cell("meter", self.meters, name, index).configure(index, config)

    def register_read(self, name: str, index: int) -> int:
        """Return one register cell."""
        return int(self.cell("register", self.registers, name, index)[index])

    def register_write(self, name: str, index: int, value: int) -> None:
        """Set one register cell."""
        width = self.compiled.program.registers[name].width if name in self.registers else 0
        array = self.cell("register", self.registers, name, index)
        if not 0 <= value < 1 << width:
            raise InvalidRequestError(f"register {name}: {value} is not a value of {width} bits")
        array[index] = value
