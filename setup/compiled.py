"""Compiles transport and simulator with mypyc into build/compiled, for `make setup` and for wheels (setup/backend.py).

Quick where nothing changed.

Whatever is in the way (no C compiler, no headers of Python, a compiler's error) is one line, and plain Python runs on.
With `--strict` it is the exit status too. Every build has a folder of its own, and counts when the manifest names it,
which happens last: running processes keep the old build.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

TREE = Path(__file__).resolve().parents[1]
if str(TREE) not in sys.path:
    sys.path.insert(0, str(TREE))

import links  # noqa: E402 - of this folder

from mrclab import compiled  # noqa: E402

FILES = ("hosts/nic/interface.py", "topo/srv6.py")
LEFT_OUT = {
    "hosts/mrc/ctl.py", "hosts/workloads/api.py", "hosts/workloads/digests.py", "hosts/workloads/specs.py",
    "sim/injector.py", "sim/controller.py", "sim/fabric.py", "sim/fleet.py", "sim/world.py",
}  # fmt: skip
"""Sources that stay as they are: what plain Python derives from, and what runs a few times only."""

LOG = "compile.log"

LEVEL = "MRCLAB_OPTIMIZE"
"""Variable with the level of the C compiler's optimization: 1 takes half the time of 2, and tests no less."""

FLAGS = ("-fvisibility=hidden", "-fno-plt", "-w")
"""For Unix compilers: direct calls within the library; no warnings, which differ by compiler."""

_RUN = """
import pathlib
import sys
from mrclab import compiled
compiled.take(pathlib.Path(sys.argv[1]))
from mrclab.bench.sim import load
from mrclab.bench.sim.common import SimLoad
for traffic in ("permutation", "incast"):
    done = load.simulate(SimLoad(16, traffic, 200_000))
    print(done["packets"], done["retransmitted"], done["completions"])
"""


def chosen() -> list[Path]:
    """The sources that are compiled, below the root."""
    found = [TREE / name for name in FILES]
    for folder in compiled.FOLDERS:
        found += sorted((TREE / folder).rglob("*.py"))
    paths = [path.relative_to(TREE) for path in found]
    return [path for path in paths if path.as_posix() not in LEFT_OUT and _has_code(TREE / path)]


def _has_code(path: Path) -> bool:
    return len(ast.parse(path.read_text(encoding="utf-8")).body) > 1  # more than a docstring


def name_of(path: Path) -> str:
    """The module that a source below the root is."""
    return ".".join(("mrclab", *path.with_suffix("").parts)).removesuffix(".__init__")


def reached(paths: list[Path]) -> dict[str, str]:
    """These sources and all of ours that they import, as file and digest: constants of one are built into others."""
    waiting, found = list(paths), {}
    while waiting:
        path = waiting.pop()
        name = f"mrclab/{path.as_posix()}"
        if name in found:
            continue
        found[name] = compiled.digest(TREE / path)
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


def build(paths: list[Path], target: Path, lock: int) -> str:
    """Compile into a folder; return the error, or nothing. The lock is held while compiling."""
    target.mkdir(parents=True)
    program = [sys.executable, __file__, "--worker", str(target), *(f"mrclab/{path.as_posix()}" for path in paths)]
    log = target.parent / LOG
    with log.open("w", encoding="utf-8") as written:
        done = subprocess.run(
            program, cwd=links.link(), stdout=written, stderr=subprocess.STDOUT, check=False, pass_fds=[lock]
        )
    return "" if done.returncode == 0 else f"compiling failed; see {log.relative_to(TREE)}"


_SETTINGS = """\
[mypy]
python_version = 3.10
strict = True
[mypy-mrclab.lab.*,mrclab.experiments.*]
follow_imports = skip
ignore_missing_imports = True
"""
# mypy follows no imports into the layers above transport and simulator, which mrclab/__init__.py names.
_GROUP = compiled.LIBRARY.removesuffix("__mypyc")


def extensions(made: Path, sources: Sequence[str], level: str) -> Any:
    """Have mypyc write C for files of the package into `made`; return its extension modules. Takes the whole process.

    The working directory is that of `links.link`.
    """
    from mypyc.build import mypycify  # noqa: PLC0415

    settings = made / "mypy.ini"
    settings.write_text(_SETTINGS, encoding="utf-8")
    # One C file for each source: gcc takes as long for all in one, on one core.
    return mypycify(
        [f"--config-file={settings}", f"--cache-dir={made / 'mypy'}", *sources],
        opt_level=level, debug_level="0", multi_file=True, target_dir=str(made / "c"), group_name=_GROUP,
    )  # fmt: skip


def work(target: str, *paths: str) -> None:
    """Compile these sources, in a process of its own as mypyc and setuptools take the whole of one."""
    from setuptools import setup  # noqa: PLC0415

    made = Path(target)
    # calls between functions of the one library are direct ones then
    os.environ["CFLAGS"] = f"{os.environ.get('CFLAGS', '')} -fno-semantic-interposition -fvisibility=hidden"
    modules = extensions(made, paths, os.environ.get(LEVEL, "2"))
    where = ["--build-lib", str(made / "lib"), "--build-temp", str(made / "o")]
    words = ["-q", "build_ext", *where]
    os.chdir(made)  # pyproject.toml is about the package
    setup(name=_GROUP, packages=[], ext_modules=modules, cmdclass={"build_ext": _parallel_build()}, script_args=words)
    for rest in ("mypy", "c", "o"):
        shutil.rmtree(made / rest)


def _parallel_build() -> type[Any]:
    """Return setuptools' build_ext that compiles all C files in parallel, on all cores.

    Its own `--parallel` does so by extension, and one of them has nearly all the work.
    """
    from setuptools.command.build_ext import build_ext  # noqa: PLC0415

    class ParallelBuild(build_ext):
        def build_extensions(self) -> None:
            jobs = [(extension, source) for extension in self.extensions for source in extension.sources]
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                objects = list(pool.map(lambda job: self._object(*job), jobs))
                list(pool.map(lambda extension: self._link(extension, jobs, objects), self.extensions))

        def _object(self, extension: Any, source: str) -> str:
            flags = FLAGS if self.compiler.compiler_type == "unix" else ()
            arguments = [*extension.extra_compile_args, *flags]
            made = self.compiler.compile(
                [source], self.build_temp, include_dirs=extension.include_dirs, extra_postargs=arguments
            )
            return str(made[0])

        def _link(self, extension: Any, jobs: list[tuple[Any, str]], objects: list[str]) -> None:
            mine = [made for (whose, _), made in zip(jobs, objects, strict=True) if whose is extension]
            file = self.get_ext_fullpath(extension.name)
            self.compiler.link_shared_object(mine, file, export_symbols=self.get_export_symbols(extension))

    return ParallelBuild


def manifest(paths: list[Path], target: Path, sources: dict[str, str]) -> compiled.Manifest:
    """Return the manifest of the build in this folder."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    modules = {compiled.LIBRARY: f"{target.name}/lib/{compiled.LIBRARY}{suffix}"}
    for path in paths:
        modules[name_of(path)] = f"{target.name}/lib/mrclab/{path.with_suffix('').as_posix()}{suffix}"
    return compiled.Manifest(sources, modules, (target.parent / modules[compiled.LIBRARY]).stat().st_size)


def compare(known: Path) -> str:
    """Run the same traffic over this build and over the sources; return a description of the difference, or nothing."""
    outputs = []
    for use in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-c", _RUN, str(known)],
            cwd=TREE, env={**os.environ, compiled.VARIABLE: use}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            return f"the build does not run ({(done.stderr.strip().splitlines() or ['no message'])[-1]})"
        outputs.append(done.stdout)
    return "" if outputs[0] == outputs[1] else "a run of the build differs from one of the sources"


def make(paths: list[Path], sources: dict[str, str], home: Path, lock: int) -> str:
    """Make, try and name a build; return the error, or nothing. The previous build stays for processes that run it."""
    target = home / hashlib.sha256(json.dumps(sources).encode()).hexdigest()[:12]
    before = compiled.read(home / compiled.MANIFEST)
    keep = {Path(name).parts[0] for name in before.modules.values()} if before else set()
    for folder in home.iterdir():
        if folder.is_dir() and (folder.name not in keep or folder == target):
            shutil.rmtree(folder)
    tried = target / compiled.MANIFEST
    reason = build(paths, target, lock)
    if not reason:
        write(tried, manifest(paths, target, sources))
        reason = compare(tried)
    if reason:
        shutil.rmtree(target)
        write(home / compiled.MANIFEST, compiled.Manifest(sources, {}, 0, reason))
    else:
        tried.replace(home / compiled.MANIFEST)
    return reason


def write(file: Path, what: compiled.Manifest) -> None:
    """Put a manifest in the place of another, at once."""
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(what._asdict(), indent=1), encoding="utf-8")
    fresh.replace(file)


def main(words: list[str]) -> int:
    """Compile the sources, unless a build of them is there."""
    if words[:1] == ["--worker"]:
        work(*words[1:])
        return 0
    strict = "--strict" in words
    if os.environ.get(compiled.VARIABLE) == "0" and not strict:
        return 0
    try:
        reason = ensure_built(strict)
    except OSError as error:
        reason = f"nothing can be compiled into {compiled.folder().relative_to(TREE)} ({error.strerror})"
    except KeyboardInterrupt:
        reason, strict = "compiling was interrupted", True
    if reason:
        sys.stdout.write(f"setup: transport and simulator run as plain Python, as {reason}\n")
    return int(bool(reason) and strict)


def copy_into(into: Path) -> str:
    """Copy the build of the current sources, made where there is none, into a wheel's package; return why it cannot.

    The wheel's manifest leaves this file out.
    """
    if reason := ensure_built(False):
        return reason
    home, found = compiled.folder(), into / compiled.INSTALLED / compiled.TAG
    known = compiled.read(home / compiled.MANIFEST)
    if known is None:  # another build took its place
        return "another process is compiling other sources"
    build_name = Path(known.modules[compiled.LIBRARY]).parts[0]
    shutil.rmtree(found, ignore_errors=True)
    shutil.copytree(home / build_name, found / build_name)
    kept = {name: digest for name, digest in known.sources.items() if name != _SELF}
    write(found / compiled.MANIFEST, known._replace(sources=kept))
    return ""


_SELF = "setup/compiled.py"


def ensure_built(again: bool) -> str:
    """Make a build of the current sources, unless there is one; return why not. `again`: also after a failure."""
    paths, home = chosen(), compiled.folder()
    sources = reached(paths)
    sources[_SELF] = compiled.digest(Path(__file__))
    if compiled.runs(sources):
        return ""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = compiled.read(home / compiled.MANIFEST)
        if compiled.runs(sources):  # made by the previous holder of the lock
            return ""
        if reason := compiled.missing_requirement():
            return reason
        if known and known.sources == sources and known.reason and not again:
            return f"{known.reason} (`make compiled` tries again)"
        sys.stdout.write(
            "setup: compiling transport and simulator, which makes them faster (a minute of CPU time; "
            f"{compiled.VARIABLE}=0 leaves it out)\n"
        )
        sys.stdout.flush()
        return make(paths, sources, home, lock.fileno())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
