"""Two-rate three-colour meters as behavioral-model has them (meters.cpp): 0 green, 1 yellow, 2 red.

Tokens are counted from one origin in whole units, so that rounding does not add up. A packet pays at the peak rate
first: too few tokens there is red; then at the committed rate: too few is yellow, and the peak tokens stay spent.
"""

from __future__ import annotations

from collections.abc import Callable

from mrclab.softswitch.objects.runtime_api import InvalidRequestError, MeterConfig

GREEN, YELLOW, RED = 0, 1, 2


class RuntimeMeter:
    """One meter. `clock` gives microseconds; without a configuration every packet is green."""

    __slots__ = ("_clock", "_committed", "_committed_last", "_origin", "_packets", "_peak", "_peak_last", "config")

    def __init__(self, packets: bool, clock: Callable[[], int]) -> None:
        self._packets = packets
        self._clock = clock
        self.config: MeterConfig | None = None
        self._origin = self._committed = self._peak = self._committed_last = self._peak_last = 0

    def configure(self, config: MeterConfig | None) -> None:
        """Set the rates and fill both buckets. The peak rate must not be below the committed one."""
        if config is not None and config.pir < config.cir:
            raise InvalidRequestError(f"meter: peak rate {config.pir} is below the committed rate {config.cir}")
        self.config = config
        self._origin = self._clock()
        self._committed_last = self._peak_last = 0
        if config is not None:
            self._committed, self._peak = config.cburst, config.pburst

    def execute(self, length: int) -> int:
        """Return the colour of a packet of `length` bytes."""
        config = self.config
        if config is None:
            return GREEN
        elapsed = self._clock() - self._origin
        cost = 1 if self._packets else length
        total = elapsed * config.pir // 1_000_000
        self._peak = min(self._peak + total - self._peak_last, config.pburst)
        self._peak_last = total
        if self._peak < cost:
            return RED
        self._peak -= cost
        total = elapsed * config.cir // 1_000_000
        self._committed = min(self._committed + total - self._committed_last, config.cburst)
        self._committed_last = total
        if self._committed < cost:
            return YELLOW
        self._committed -= cost
        return GREEN


class MeterArray:
    """An indirect meter array; meters come into being when they are first configured."""

    def __init__(self, size: int, packets: bool, clock: Callable[[], int]) -> None:
        self.size = size
        self._packets = packets
        self._clock = clock
        self._meters: dict[int, RuntimeMeter] = {}

    def execute(self, index: int, length: int) -> int:
        """Return the colour of a packet of `length` bytes at one cell."""
        meter = self._meters.get(index)
        return GREEN if meter is None else meter.execute(length)

    def configure(self, index: int, config: MeterConfig | None) -> None:
        """Configure one cell; None makes it always green."""
        if config is None:
            self._meters.pop(index, None)
            return
        meter = self._meters.get(index) or RuntimeMeter(self._packets, self._clock)
        meter.configure(config)
        self._meters[index] = meter

    def config(self, index: int) -> MeterConfig | None:
        """Return one cell's configuration."""
        meter = self._meters.get(index)
        return None if meter is None else meter.config
