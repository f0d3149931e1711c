"""The compiled form of ``p4src``: makes it with p4c, and checks that it belongs to the sources beside it.

``p4src/build`` is committed so that the lab starts without p4c; ``DIGEST`` there ties it to the sources.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from mrclab import HOME

SOURCE_DIR = HOME / "p4src"
BUILD_DIR = SOURCE_DIR / "build"
PROGRAM = "mrc"
P4_JSON = BUILD_DIR / f"{PROGRAM}.json"
P4_INFO = BUILD_DIR / f"{PROGRAM}.p4info.txtpb"
DIGEST = BUILD_DIR / "DIGEST"


class BuildError(Exception):
    """p4c is missing or refused the program."""


def source_digest(source_dir: Path = SOURCE_DIR) -> str:
    """SHA-256 over the names and texts of all ``*.p4`` files, in name order, as hex."""
    digest = hashlib.sha256()
    for path in sorted(source_dir.glob("*.p4")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def build(build_dir: Path = BUILD_DIR, source_dir: Path = SOURCE_DIR) -> None:
    """Compile ``p4src``, or another copy of it, into BMv2 JSON and P4Info.

    Raises:
        BuildError: p4c is not installed, or the program does not compile.
    """
    p4c = shutil.which("p4c")
    if p4c is None:
        raise BuildError("p4c is not on PATH; install the package p4lang-p4c, or keep the committed p4src/build")
    build_dir.mkdir(parents=True, exist_ok=True)
    info = build_dir / P4_INFO.name
    command = [p4c, "--target", "bmv2", "--arch", "v1model", "--std", "p4-16"]
    command += ["--p4runtime-files", str(info), "-o", str(build_dir), f"{PROGRAM}.p4"]
    result = subprocess.run(command, cwd=source_dir, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BuildError(f"p4c refused {PROGRAM}.p4:\n{result.stderr}")
    preprocessed = build_dir / f"{PROGRAM}.p4i"
    preprocessed.unlink(missing_ok=True)
    pipeline = build_dir / P4_JSON.name  # p4c notes the absolute path of what it read; a build must not depend on it
    pipeline.write_text(pipeline.read_text().replace(str(preprocessed), f"{PROGRAM}.p4"))
    (build_dir / DIGEST.name).write_text(source_digest(source_dir) + "\n")


if __name__ == "__main__":
    try:
        build()
    except BuildError as error:
        sys.exit(str(error))
