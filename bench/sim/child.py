"""`python -m mrclab.bench.sim.child LOAD` simulates a load, which it reads as JSON, and prints JSON."""

from __future__ import annotations

from mrclab import starting


def main() -> None:
    """Load the simulator and run it."""
    starting.quickly()
    from mrclab.bench.sim import load  # noqa: PLC0415 - that is what takes a moment

    load.main()


if __name__ == "__main__":
    main()
