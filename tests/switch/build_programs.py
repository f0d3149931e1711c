"""Compile tests/switch/programs/*.p4 with p4c; the results are committed beside the sources.

Run it after a change: `.venv/bin/python tests/switch/build_programs.py [PROGRAM…]`.
"""

import json
import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"


def build(name: str) -> None:
    """Compile one program; p4c's message ends the run where it refuses."""
    json_file = PROGRAMS / f"{name}.json"
    command = ["p4c", "--target", "bmv2", "--arch", "v1model", "--std", "p4-16", "-o", "."]
    command += ["--p4runtime-files", f"{name}.p4info.txtpb", f"{name}.p4"]
    subprocess.run(command, cwd=PROGRAMS, check=True)
    (PROGRAMS / f"{name}.p4i").unlink(missing_ok=True)
    root = json.loads(json_file.read_text())
    root["program"] = f"{name}.p4"
    json_file.write_text(json.dumps(root, separators=(",", ":")) + "\n")


def main() -> None:
    """Compile all programs, or those named on the command line."""
    names = sys.argv[1:] or sorted(p.stem for p in PROGRAMS.glob("*.p4") if p.stem != "common")
    for name in names:
        build(name)


if __name__ == "__main__":
    main()
