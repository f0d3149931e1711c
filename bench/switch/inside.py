"""Share of the program in softswitch's CPU time: frames go through the generated code by a call, without any socket."""

from __future__ import annotations

import time

from mrclab.bench.switch import frames
from mrclab.lab.command.p4build import P4_JSON
from mrclab.softswitch.objects.runtime_api import ActionCall, TableEntry
from mrclab.softswitch.switch import SoftSwitch
from mrclab.topo.numbers import CPU_PORT, DROP_PORT, PRIORITIES

FRAMES = 10_000


def program_seconds(size: int, count: int = FRAMES) -> float:
    """Return the CPU seconds of one frame of `size` bytes from the parser to the deparser, queue included."""
    switch, sent = SoftSwitch(CPU_PORT, DROP_PORT, PRIORITIES), [0]

    def transmit(number: int, data: bytearray) -> None:
        sent[0] += number == frames.OUT_PORT and len(data) > 0

    switch.transmit = transmit  # type: ignore[method-assign]
    switch.commit(switch.compile(P4_JSON.read_bytes()))
    forward = (frames.OUT_PORT, frames.OUT_SOURCE, frames.OUT_DESTINATION)
    _insert(switch, "my_usid", frames.BLOCK << 16 | frames.MY_USID, "shift_usid")
    _insert(switch, "usid_fib", frames.BLOCK << 16 | frames.NEXT_USID, "forward", *forward)
    _insert(switch, "trim_policy", frames.OUT_PORT, "set_trim", frames.NEVER, 0)
    _insert(switch, "ecn_policy", frames.OUT_PORT, "mark_between", frames.NEVER, 1)
    ingress = switch.program().ingress
    arrived = [bytearray(frames.frame(size, bytes(6))) for _ in range(count)]
    begun = time.thread_time()
    for frame in arrived:
        ingress(frame, frames.IN_PORT, size)
    seconds = time.thread_time() - begun
    switch.close()
    if sent[0] != count:
        raise RuntimeError(f"the program forwarded {sent[0]} of {count} frames")
    return seconds / count


def _insert(switch: SoftSwitch, table: str, key: int, action: str, *arguments: int) -> None:
    """Insert an entry with one exact key, tables and actions by their last names."""
    info = switch.info
    assert info is not None
    name = next(full for full in info.tables if full.rsplit(".", 1)[-1] == table)
    called = next(full for full in info.tables[name].actions if full.rsplit(".", 1)[-1] == action)
    switch.table(name).insert(TableEntry((key,), ActionCall(called, arguments)))
