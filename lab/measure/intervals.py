"""Figures of repeated runs: median, mean, and the interval that holds the mean with 95 % confidence (Student's t).

A figure is written with its interval, `4.2 ± 0.3`, or with the range of its runs, `4.2 (4.0 … 4.5)`.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# Two-sided 95 % quantiles of Student's t by degrees of freedom; beyond the table the first terms of their expansion in
# the inverse of those (Abramowitz and Stegun 26.7.5).
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
_NORMAL95 = 1.95996


@dataclass(frozen=True)
class Figure:
    """Figure over several runs; `low` and `high` are None where there are fewer than two."""

    count: int
    median: float
    mean: float
    low: float | None
    high: float | None
    least: float
    most: float

    @property
    def half(self) -> float | None:
        """Half the width of the interval; None without one."""
        return None if self.high is None else self.high - self.mean


def summary(values: Sequence[float]) -> Figure:
    """The figure of at least one value."""
    mean = statistics.fmean(values)
    low = high = None
    if len(values) > 1:
        freedom = len(values) - 1
        quantile = _T95[freedom - 1] if freedom <= len(_T95) else _expanded(freedom)
        half = quantile * statistics.stdev(values) / math.sqrt(len(values))
        low, high = mean - half, mean + half
    return Figure(len(values), statistics.median(values), mean, low, high, min(values), max(values))


def with_half(value: str, half: str | None) -> str:
    """Return a figure with half the width of its interval, `4.2 ± 0.3`; the figure alone without one."""
    return value if half is None else f"{value} ± {half}"


def range_text(low: float, high: float, show: Callable[[float], str]) -> str:
    """Return a range, `4.0 … 4.5`."""
    return f"{show(low)} … {show(high)}"


def with_range(value: float, ends: tuple[float, float] | None, show: Callable[[float], str]) -> str:
    """Return a figure with the range of its runs, `4.2 (4.0 … 4.5)`; the figure alone without one."""
    return show(value) if ends is None else f"{show(value)} ({range_text(*ends, show)})"


def _expanded(freedom: int) -> float:
    z = _NORMAL95
    return z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
