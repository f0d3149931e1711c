"""A softswitch inside the test process: packets go in by a call, and what comes out is a list."""

from pathlib import Path

from mrclab.softswitch.clock import SetClock
from mrclab.softswitch.switch import SoftSwitch

Output = tuple[int, bytes]
SHORTEST = 14
"""The kernel sends nothing shorter than an Ethernet header."""


class SoftBench:
    """One switch without network interfaces. `run` is what the loop does when packets and timers are due."""

    def __init__(self, json_file: Path, cpu_port: int = 510, priorities: int = 8) -> None:
        self._start(json_file.read_text(), cpu_port, priorities)

    @classmethod
    def of(cls, config: str) -> "SoftBench":
        """A bench for a program given as text."""
        bench = cls.__new__(cls)
        bench._start(config, 510, 8)
        return bench

    def _start(self, config: str, cpu_port: int, priorities: int) -> None:
        self._time = SetClock()
        self.switch = SoftSwitch(cpu_port, 511, priorities, self._time.clock)
        self.out: list[Output] = []
        self.switch.transmit = self._transmit  # type: ignore[method-assign]
        self.switch.commit(self.switch.compile(config))

    def _transmit(self, port: int, data: bytearray) -> None:
        if len(data) >= SHORTEST:
            self.out.append((port, bytes(data)))

    def send(self, port: int, frame: bytes) -> list[Output]:
        """Let a frame arrive; return what leaves the switch because of it, in order."""
        self.out.clear()
        self.switch.inject(port, frame)
        self.switch.settle()
        return list(self.out)

    def pass_time(self, seconds: float) -> None:
        """Let the switch's clock go on by `seconds`."""
        self._time.now_ns += int(seconds * 1e9)
