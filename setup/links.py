"""The package as one folder of links, for type checkers, editors and mypyc, which read imports without running them.

Python finds `mrclab.hosts` in `hosts/` by the `__path__` of mrclab/__init__.py. Tools that do not run that look into
build/types/mrclab (`mypy_path` and `extraPaths` in pyproject.toml), which `make setup` and `make lint` make by
`python setup/links.py`. On Windows the links are junctions and hard links, which need no privilege.
"""

import contextlib
import os
import sys
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
PLACE = TREE / "build" / "types"


def link(tree: Path = TREE, place: Path = PLACE) -> Path:
    """Make the folder of links where it is not there or not whole; returns it."""
    sys.path.insert(0, str(tree))
    from mrclab import PACKAGES  # noqa: PLC0415 - found by the line before

    package = place / "mrclab"
    package.mkdir(parents=True, exist_ok=True)
    expected = {path.name: path for path in (tree / "mrclab").iterdir() if path.suffix == ".py" or path.name == "torch"}
    expected |= {name: tree / name for name in PACKAGES}
    for stale in package.iterdir():
        if stale.name not in expected or not (stale.exists() and stale.samefile(expected[stale.name])):
            _remove(stale)
    for name, path in expected.items():
        if not (package / name).exists():
            with contextlib.suppress(FileExistsError):  # made by another process
                _link(path, package / name)
    return place


def _link(path: Path, place: Path) -> None:
    if sys.platform == "win32":
        import _winapi  # noqa: PLC0415 - Windows alone has it

        _winapi.CreateJunction(str(path), str(place)) if path.is_dir() else os.link(path, place)
    else:
        place.symlink_to(os.path.relpath(path, place.parent))


def _remove(place: Path) -> None:
    if sys.platform == "win32" and place.is_dir():
        place.rmdir()  # the junction, not what it leads to
    else:
        place.unlink()


if __name__ == "__main__":
    link()
