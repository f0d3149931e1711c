"""Compiles transport and simulator for the page: mypyc's C to one WebAssembly library, which Python loads in the tab.

Optional: without clang, wasm-ld, wasm-opt, the headers of C's library for WebAssembly and those of the page's CPython,
the page runs plain Python, at less than half the speed. `sudo make site-compiler` installs all of them.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "setup"))
import compiled  # noqa: E402 - beside this folder
import links  # noqa: E402 - beside this folder

from mrclab.compiled import LIBRARY  # noqa: E402

LIBC = Path("/usr/include/wasm32-wasi")
VERSION = "3.14"
"""CPython of the page. Headers of any patch release serve."""

FINDER = "mrclab_native"
FLAGS = (
    "--target=wasm32-unknown-emscripten", "-fPIC", "-O2", "-g0", "-DNDEBUG", "-w", "-fvisibility=hidden",
    "-D__wasi__", "-D_WASI_EMULATED_SIGNAL", "-D_WASI_EMULATED_MMAN", "-D_WASI_EMULATED_PROCESS_CLOCKS",
    "-D_WASI_EMULATED_GETPID",
)  # fmt: skip
_PTHREAD = "HAVE_PTHREAD_H"
_LINK = ("-shared", "--experimental-pic", "--no-entry", "--gc-sections", "-O2", "--strip-all")
_OPTIMIZE = (
    "wasm-opt", "-O3", "--enable-mutable-globals", "--enable-bulk-memory", "--enable-sign-ext",
    "--enable-nontrapping-float-to-int",
)  # fmt: skip
"""Binaryen's passes, as Emscripten runs them behind its linker: a fifth smaller, a tenth less CPU time in the tab."""

_NAMES = re.compile(r"^(?:#\s*define|#\s*undef|/\* #undef)\s+(\w+)", re.MULTILINE)


def missing_requirement(parts: Path) -> str:
    """Return the missing requirement of a compiled page, or nothing."""
    for program in ("clang", "wasm-ld", "wasm-opt"):
        if shutil.which(program) is None:
            return f"{program} is not there"
    if not LIBC.is_dir():
        return "the headers of C's library for WebAssembly are not there"
    if headers(parts) is None:
        return f"the headers of CPython {VERSION} are not there"
    return ""


def headers(parts: Path) -> Path | None:
    """Return the folder of CPython's headers: those of `make site-compiler`, or of a CPython of this machine."""
    brought = parts / "headers" / "usr" / "include" / f"python{VERSION}"
    if brought.is_dir():
        return brought
    python = shutil.which(f"python{VERSION}")
    if python is None:
        return None
    ask = [python, "-c", "import sysconfig; print(sysconfig.get_path('include'))"]
    found = Path(subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip())
    return found if (found / "Python.h").is_file() else None


def library(parts: Path, engine: Path) -> Path | None:
    """Return the compiled library of the sources as they are, made if it must be; None where something is missing."""
    if reason := missing_requirement(parts):
        sys.stdout.write(f"transport and simulator stay plain Python in the tab: {reason} (sudo make site-compiler)\n")
        return None
    digest = hashlib.sha256()
    for file in (Path(__file__), Path(compiled.__file__), HERE / "loader.c"):
        digest.update(file.read_bytes())
    for name, known in compiled.reached(compiled.chosen()).items():
        digest.update(f"{name} {known}\n".encode())
    folder = parts / "native"
    made = folder / f"{digest.hexdigest()[:16]}.so"
    if not made.exists():
        sys.stdout.write("compiling transport and simulator for the tab (two minutes of CPU time)\n")
        sys.stdout.flush()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        build(parts, engine, made)
    return made


def chosen() -> list[str]:
    """Return the sources that are compiled, as files of the package."""
    return [f"mrclab/{path.as_posix()}" for path in compiled.chosen()]


def build(parts: Path, engine: Path, made: Path) -> None:
    """Have mypyc write C, compile it and link it."""
    work = made.parent
    subprocess.run([sys.executable, __file__, str(work)], check=True, stdout=subprocess.DEVNULL)
    known = headers(parts)
    assert known is not None
    include = work / "include"
    shutil.copytree(known, include / "python", ignore=shutil.ignore_patterns("pyconfig.h"))
    (include / "pyconfig.h").write_text(configuration(known, engine))
    import mypyc  # noqa: PLC0415

    runtime = Path(mypyc.__file__).parent / "lib-rt"
    places = ["-isystem", LIBC, *(f"-I{each}" for each in (include, include / "python", runtime, work / "c"))]
    files = [*(work / "c").glob("__native*.c"), *(work / "c").glob("[a-z]*.c"), HERE / "loader.c"]
    (work / "o").mkdir()

    def compile_one(source: Path) -> Path:
        to = work / "o" / f"{source.stem}.o"
        subprocess.run(["clang", *FLAGS, *places, "-c", source, "-o", to], check=True)
        return to

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = sorted(pool.map(compile_one, files))
    exported = [f"--export=PyInit_{name}" for name in (LIBRARY, "mrclab_loader")]
    linked = work / "linked.so"
    subprocess.run(["wasm-ld", *_LINK, *exported, *objects, "-o", linked], check=True)
    subprocess.run([*_OPTIMIZE, linked, "-o", made], check=True)
    linked.unlink()
    for rest in ("c", "o", "include", "mypy"):
        shutil.rmtree(work / rest)


def configuration(known: Path, engine: Path) -> str:
    """Return pyconfig.h of the page's Python, from the values that it keeps itself."""
    with zipfile.ZipFile(engine / "python_stdlib.zip") as std:
        text = std.read("_sysconfigdata__emscripten_wasm32-emscripten.py").decode()
    values: dict[str, dict[str, object]] = {}
    exec(text, values)  # a table in Python's own form
    others = [*known.glob("pyconfig.h"), *known.parent.glob(f"*/python{VERSION}/pyconfig.h")]
    names = {name for file in others for name in _NAMES.findall(file.read_text(encoding="utf-8"))} - {_PTHREAD}
    own = values["build_time_vars"]
    lines = [f"#define {name} {own[name]}" for name in sorted(names) if own.get(name) not in {None, 0, ""}]
    return "\n".join(["#pragma once", *lines, "#define HAVE_PTHREAD_STUBS 1", ""])


def put(stage: Path, made: Path, modules: Iterable[str]) -> None:
    """Put the library, and the finder of its modules, into the files of the lab."""
    shutil.copyfile(made, stage / "lab" / f"{LIBRARY}.so")
    shutil.copy(HERE / f"{FINDER}.py", stage / "lab")
    (stage / "native.json").write_text(json.dumps(sorted(modules)))


def generate(work: Path) -> None:
    """Have mypyc write C for a machine of 32 bits; in a process of its own, which takes its sizes for the machine's."""
    import sysconfig  # noqa: PLC0415

    sysconfig.get_config_vars()["SIZEOF_SIZE_T"] = 4  # before mypyc reads it
    os.chdir(links.link())
    compiled.extensions(work, chosen(), "2")


if __name__ == "__main__":
    generate(Path(sys.argv[1]).resolve())
