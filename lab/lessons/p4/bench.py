"""A switch that serves P4Runtime, for the lesson that programs one: frames in at a port, and frames out by port."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mrclab.lab.errors import LabError
from mrclab.softswitch.switch import SoftSwitch
from mrclab.topo.numbers import CPU_PORT, DROP_PORT, PRIORITIES

DEVICE_ID = 1


class Bench(SoftSwitch):
    """A switch without sockets for its ports."""

    def __init__(self) -> None:
        super().__init__(CPU_PORT, DROP_PORT, PRIORITIES)
        self._sent: list[tuple[int, bytes]] = []

    def transmit(self, number: int, data: bytearray) -> None:
        """Keep sent frames."""
        self._sent.append((number, bytes(data)))

    def answer(self, port: int, data: bytes) -> list[tuple[int, bytes]]:
        """Inject a frame; return the frames sent: port and bytes of each."""
        self._sent.clear()
        self.inject(port, data)
        self.traffic.run()
        return list(self._sent)


@contextmanager
def served(socket: Path) -> Iterator[Bench]:
    """A switch without a program that serves P4Runtime at a Unix socket inside the block."""
    try:
        from mrclab.softswitch.p4runtime.server import serve  # noqa: PLC0415 - needs packages that the rest does not
    except ImportError as error:
        raise LabError(
            f"{error.name} is missing; P4Runtime needs what real frames need: pip install '.[wire]'"
        ) from None
    switch = Bench()
    thread = threading.Thread(target=switch.loop, name="switch", daemon=True)
    thread.start()
    server = serve(switch, f"unix:{socket}", device_id=DEVICE_ID)
    try:
        yield switch
    finally:
        server.stop()
        switch.stop()
        thread.join()
        switch.close()
