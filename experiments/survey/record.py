"""The records of a survey: one row per experiment."""

import platform
import shutil
import subprocess
from pathlib import Path

import mrclab
from mrclab.experiments.runs.store import Row, RunStore
from mrclab.lab import machine

FILE = "survey.jsonl"

Record = Row


def store(directory: Path) -> RunStore:
    """Return the store of a directory's records: by `case NUMBER`, or by the kind of another experiment."""
    return RunStore(directory / FILE, _key, "a survey")


def _key(record: Record) -> str:
    """Return the name of a record's experiment; ValueError where it is not one."""
    own = {"case", "faults", "verdicts", "alarms", "named", "complete", "cycle", "controller_cpu"}
    case = record["kind"] == "case"
    if not {"seed", "target", "versions", "machine"} | (own if case else set()) <= record.keys():
        raise ValueError(record["kind"])
    return f"case {record['case']}" if case else str(record["kind"])


def environment(target: str) -> Record:
    """Versions and machine, without anything that identifies its owner."""
    here = machine.about()
    return {
        "target": target,
        "versions": {
            "mrclab": mrclab.__version__,
            "Python": platform.python_version(),
            "Linux": machine.system_text(here).rpartition(" ")[2],
            target: _version(target),
        },
        "machine": machine.size_text(here),
    }


def _version(target: str) -> str:
    """Version of the switch."""
    binary = shutil.which("simple_switch_grpc")
    if target == "bmv2" and binary:
        done = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False)
        return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else "unknown"
    return mrclab.__version__
