"""Coverage-guided fuzzing of one target with Atheris: `python tests/fuzz/run.py TARGET SECONDS [DIRECTORY]`.

New inputs go to DIRECTORY (build/fuzz/TARGET), which the kept corpus begins. An input that crashes the target stays
there as `crash-…`, one that takes longer than a minute as `timeout-…`; the exit status is not 0 then. Needs
`pip install atheris` (Linux, CPython up to 3.13).
"""

import logging
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(
    include=["mrclab.lab", "mrclab.rpc", "mrclab.hosts", "mrclab.topo", "mrclab.softswitch", "ruamel.yaml"]
):
    sys.path.insert(0, str(Path(__file__).parent))
    import targets

_SLOW = 60  # seconds by the clock, on a machine that others keep busy, too
_LONGEST = 4096  # bytes of an input


def main() -> None:
    """Fuzz until the time is over, or something is found."""
    name, seconds = sys.argv[1], int(sys.argv[2])
    place = Path(sys.argv[3]) if len(sys.argv) > 3 else Path("build/fuzz") / name
    place.mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={seconds}", f"-timeout={_SLOW}", f"-max_len={_LONGEST}", f"-artifact_prefix={place}/",
        "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=0",
    ]  # fmt: skip
    kept = targets.CORPUS / name
    dictionary = targets.CORPUS / f"{name}.dict"
    logging.disable(logging.CRITICAL)
    options += [f"-dict={dictionary}"] if dictionary.exists() else []
    atheris.Setup([sys.argv[0], *options, str(place), str(kept)], targets.TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
