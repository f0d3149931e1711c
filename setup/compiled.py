"""Compiles transport and simulator with mypyc into build/compiled: `make compiled`. Quick where nothing changed.

Whatever is in the way (no C compiler, no headers of Python, a compiler's error) is one line, and plain Python runs on.
With `--strict` it is the exit status too.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

TREE = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TREE))

from mrclab import compiled  # noqa: E402

FOLDERS = ("hosts/mrc", "hosts/rdma", "hosts/roce", "sim")
FILES = ("hosts/nic/seam.py",)
LEFT_OUT = {
    "hosts/mrc/ctl.py", "hosts/mrc/evs/profiles.py", "hosts/rdma/completion.py",  # the agent has subclasses of these
    "sim/breakage.py", "sim/controller.py", "sim/fabric.py", "sim/fleet.py", "sim/operations.py", "sim/world.py",
}  # fmt: skip
"""Sources that stay as they are: what plain Python derives from, and what runs a few times only."""

LOG = "compile.log"

_RUN = """
from mrclab.bench.sim import load
from mrclab.bench.sim.common import SimLoad
for traffic in ("permutation", "incast"):
    done = load.simulate(SimLoad(16, traffic, 200_000))
    print(done["packets"], done["again"], done["completions"])
"""


def chosen() -> list[Path]:
    """The sources that are compiled, below the tree."""
    found = [TREE / name for name in FILES]
    for folder in FOLDERS:
        found += sorted((TREE / folder).rglob("*.py"))
    wanted = [path.relative_to(TREE) for path in found]
    return [path for path in wanted if path.as_posix() not in LEFT_OUT and _has_code(TREE / path)]


def _has_code(path: Path) -> bool:
    return len(ast.parse(path.read_text(encoding="utf-8")).body) > 1  # more than a docstring


def name_of(path: Path) -> str:
    """The module that a source below the tree is."""
    return ".".join(("mrclab", *path.with_suffix("").parts)).removesuffix(".__init__")


def reached(paths: list[Path]) -> dict[str, str]:
    """These sources and all of ours that they import, as file and digest: what one says is built into others."""
    waiting, found = list(paths), {}
    while waiting:
        path = waiting.pop()
        if path.as_posix() in found:
            continue
        found[path.as_posix()] = compiled.digest(TREE / path)
        waiting += _imports(TREE / path)
    return dict(sorted(found.items()))


def _imports(path: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mrclab."):
            for name in (str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)):
                place = Path(*name.split(".")[1:])
                for file in (place.with_suffix(".py"), place / "__init__.py"):
                    if (TREE / file).is_file():
                        yield file


def obstacle() -> str:
    """Why nothing can be compiled here, or nothing."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    if not (shutil.which(compiler) or shutil.which("cc")):
        return f"there is no C compiler ({compiler})"
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        return "the headers of Python are not there (python3-dev)"
    if importlib.util.find_spec("mypyc") is None or importlib.util.find_spec("setuptools") is None:
        return "mypyc and setuptools are not there (pip install 'mrclab[dev]')"
    return ""


def build(paths: list[Path], target: Path) -> str:
    """Compile into a folder; returns what went wrong, or nothing."""
    target.mkdir(parents=True, exist_ok=True)
    program = [sys.executable, __file__, "--worker", str(target), *(f"mrclab/{path.as_posix()}" for path in paths)]
    with (target / LOG).open("w", encoding="utf-8") as log:
        done = subprocess.run(program, cwd=TREE, stdout=log, stderr=subprocess.STDOUT, check=False)
    return "" if done.returncode == 0 else f"compiling failed; see {target / LOG}"


def work(target: str, *paths: str) -> None:
    """Compile these sources, in a process of its own as mypyc and setuptools take the whole of one."""
    from mypyc.build import mypycify  # noqa: PLC0415
    from setuptools import setup  # noqa: PLC0415

    made = Path(target)
    # calls between functions of the one library are direct ones then
    os.environ["CFLAGS"] = f"{os.environ.get('CFLAGS', '')} -fno-semantic-interposition -fvisibility=hidden"
    group = compiled.LIBRARY.removesuffix("__mypyc")
    extensions = mypycify(
        ["--config-file=pyproject.toml", f"--cache-dir={made / 'mypy'}", *paths],
        opt_level="2", debug_level="0", target_dir=str(made / "c"), group_name=group,
    )  # fmt: skip
    where = ["--build-lib", str(made / "lib"), "--build-temp", str(made / "o"), "--parallel", "2"]
    setup(name=group, packages=[], ext_modules=extensions, script_args=["-q", "build_ext", *where])


def manifest(paths: list[Path], target: Path, sources: dict[str, str]) -> None:
    """Say what the build holds; it counts from now on."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    modules = {compiled.LIBRARY: f"lib/{compiled.LIBRARY}{suffix}"}
    for path in paths:
        modules[name_of(path)] = f"lib/mrclab/{path.with_suffix('').as_posix()}{suffix}"
    whole = {"sources": sources, "modules": modules}
    (target / "manifest.json").write_text(json.dumps(whole, indent=1), encoding="utf-8")


def compare() -> str:
    """Run the same traffic over the build and over the sources; returns what is wrong with the build, or nothing."""
    said = []
    for use in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", _RUN],
            cwd=TREE, env={**os.environ, compiled.VARIABLE: use}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            return f"the build does not run ({(done.stderr.strip().splitlines() or ['no word'])[-1]})"
        said.append(done.stdout)
    return "" if said[0] == said[1] else "a run over the build is another than over the sources"


def main(words: list[str]) -> int:
    """Compile what is not compiled yet."""
    if words[:1] == ["--worker"]:
        work(*words[1:])
        return 0
    paths, target = chosen(), compiled.folder()
    sources = reached(paths)
    sources["setup/compiled.py"] = compiled.digest(Path(__file__))
    known = target / "manifest.json"
    if known.exists() and json.loads(known.read_bytes())["sources"] == sources:
        return 0
    trouble = obstacle()
    if not trouble:
        sys.stdout.write("setup: compiling transport and simulator (a minute or two)\n")
        sys.stdout.flush()
        fresh = target.with_name(f"{target.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        trouble = build(paths, fresh)
    if not trouble:
        manifest(paths, fresh, sources)
        shutil.rmtree(target, ignore_errors=True)
        fresh.rename(target)
        trouble = compare()
    if trouble:
        shutil.rmtree(target, ignore_errors=True)
        sys.stdout.write(f"setup: transport and simulator run as plain Python, as {trouble}\n")
    return int(bool(trouble) and "--strict" in words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
