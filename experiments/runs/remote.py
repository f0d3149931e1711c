"""Task of a Ray worker. It travels by value, so that it runs, and reports, with another mrclab or none.

It imports nothing of mrclab itself: code and data of a job come with the job, once both sides are known to be the same.
"""

import hashlib
import importlib
import importlib.metadata
import importlib.util
import pickle
from pathlib import Path
from typing import Any

_known: dict[str, str] = {}  # by Ray's name of the worker process, whose sources do not change while it runs


def run(packed: bytes, expected: str) -> tuple[dict[str, Any] | None, str]:
    """Do a pickled (function, job); returns its row, or none and the identity of another installed mrclab."""
    ray = importlib.import_module("ray")  # an extra
    me = ray.get_runtime_context().get_worker_id()
    if me not in _known:
        _known[me] = identity()
    if _known[me] != expected:
        return None, f"{ray.util.get_node_ip_address()} has {_known[me]}"
    do, job = pickle.loads(packed)
    return do(job), ""


def identity() -> str:
    """The mrclab that is imported here, in words: its version and a digest of its sources."""
    spec = importlib.util.find_spec("mrclab")
    if spec is None or spec.origin is None:
        return "no mrclab"
    try:
        version = importlib.metadata.version("mrclab")
    except importlib.metadata.PackageNotFoundError:
        version = "without a version"
    return f"mrclab {version} of sources {_digest(importlib.import_module('mrclab'))[:12]}"


def _digest(mrclab: Any) -> str:
    """SHA-256 over all Python files of the package, their names included."""
    own = Path(mrclab.__file__).parent
    found = {path.relative_to(own).as_posix(): path.read_bytes() for path in own.glob("*.py")}
    for package in mrclab.PACKAGES:
        for path in (mrclab.HOME / package).rglob("*.py"):
            if path.parent.name == "__pycache__":
                continue
            found[path.relative_to(mrclab.HOME).as_posix()] = path.read_bytes()
    whole = hashlib.sha256()
    for name in sorted(found):
        whole.update(f"{name}\0{len(found[name])}\0".encode() + found[name])
    return whole.hexdigest()
