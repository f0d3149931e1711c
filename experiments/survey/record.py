"""The records of a survey: one JSON object per line, so that a survey can end at any moment and go on later."""

import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

from mrclab.lab.errors import LabError, naming

FILE = "survey.jsonl"

Record = dict[str, Any]


def read(directory: Path) -> list[Record]:
    """All records so far, oldest first; LabError where a line is no record."""
    path = directory / FILE
    if not path.exists():
        return []
    try:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except ValueError as error:
        raise LabError(f"{path} is damaged ({error}); name another directory with --out") from None
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict) or not _fields(record) <= record.keys():
            raise LabError(f"{path}, line {number} is no record of a survey; name another directory with --out")
    return records


def _fields(record: Record) -> set[str]:
    """Return the fields of a record of its kind."""
    own = {"case", "injuries", "verdicts", "alarms", "named", "complete", "cycle", "controller_cpu"}
    return {"kind", "seed", "target", "versions", "machine"} | (own if record.get("kind") == "case" else set())


def append(directory: Path, record: Record) -> None:
    """Add one record."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / FILE
    with naming(path), path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def circumstances(target: str) -> Record:
    """Versions and machine, described so that nobody learns whose it is."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "target": target,
        "versions": {
            "mrclab": importlib.metadata.version("mrclab"),
            "Python": platform.python_version(),
            "Linux": ".".join(platform.release().split(".")[:2]),
            target: _version(target),
        },
        "machine": f"{os.cpu_count()} cores, {pages * size / 2**30:.0f} GiB of memory",
    }


def _version(target: str) -> str:
    """Version of the switch."""
    binary = shutil.which("simple_switch_grpc")
    if target == "bmv2" and binary:
        asked = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False)
        return asked.stdout.strip().splitlines()[-1] if asked.stdout.strip() else "unknown"
    return importlib.metadata.version("mrclab")
