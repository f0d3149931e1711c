"""Steps of a training job, as a rank reports them: a line of its output for each, which the lab puts into the history.

The line is `training.step ` and JSON: rank, step, began and ended in seconds of the machine's monotonic clock, which
all hosts of a lab share, and the loss where the job has one. Outside the lab it is a line of output like any other.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any, Final

PREFIX: Final = "training.step "


def line(rank: int, step: int, began: float, ended: float, loss: float | None = None) -> str:
    """The line that reports a step."""
    row: dict[str, Any] = {"rank": rank, "step": step, "began": round(began, 6), "ended": round(ended, 6)}
    if loss is not None:
        row["loss"] = loss
    return PREFIX + json.dumps(row)


def parse(text: str) -> dict[str, Any] | None:
    """The step that a line of output reports; None for any other line, and for an incomplete one."""
    if not text.startswith(PREFIX):
        return None
    try:
        row = json.loads(text[len(PREFIX) :])
        return {
            "rank": int(row["rank"]), "step": int(row["step"]), "began": float(row["began"]),
            "ended": float(row["ended"]), **({"loss": float(row["loss"])} if "loss" in row else {}),
        }  # fmt: skip
    except (ValueError, TypeError, KeyError):
        return None


class Steps:
    """Reports this rank's steps; each begins when the one before ended, the first when this is made."""

    def __init__(self, rank: int | None = None) -> None:
        self._rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        self._step = 0
        self._began = time.monotonic()

    def done(self, loss: float | None = None) -> None:
        """End the current step, and report it."""
        ended = time.monotonic()
        sys.stdout.write(line(self._rank, self._step, self._began, ended, loss) + "\n")
        sys.stdout.flush()
        self._began = ended
        self._step += 1
