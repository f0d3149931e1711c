"""Trims and compiles the Python of the page, with the interpreter that will read it: pack.mjs runs this in Pyodide."""

import ast
import json
import py_compile
import shutil
from pathlib import Path

STAGE = Path("/stage")
# Of the standard library, what is imported within functions only, or by Pyodide itself:
ALWAYS = ("_pyodide", "pyodide", "pyodide_js", "encodings", "zipfile", "zipimport", "site", "runpy", "_py_warnings",
          "_weakrefset", "importlib", "pathlib", "shutil", "email", "linecache", "traceback", "_colorize", "uuid",
          "webloop", "stringprep", "collections", "_strptime",
          "_pydatetime", "_sysconfigdata__emscripten_wasm32-emscripten")  # fmt: skip
NEVER = {"_pyrepl", "argparse", "bdb", "cmd", "doctest", "multiprocessing", "pdb", "socketserver", "tomllib",
         "unittest"}  # fmt: skip
UNUSED = ("xml/dom", "xml/sax")  # of packages that stay: JUnit's files need xml.etree alone
ENCODINGS = {"__init__", "aliases", "ascii", "cp437", "idna", "latin_1", "punycode", "raw_unicode_escape",
             "unicode_escape", "utf_8", "utf_16", "utf_8_sig"}  # fmt: skip

# Of the project, where what is reached begins: the tab, and modules that a registry imports by their folder.
ROOTS = ("mrclab.compiled", "mrclab.lab.ui.browser.tab", "mrclab.lab.ui.browser.shortrun", "mrclab.lab.faults",
         "mrclab.lab.expectations", "mrclab.lab.traffic", "mrclab.hosts.mrc.cc", "mrclab.hosts.roce.cc",
         "mrclab.hosts.mrc.evs.selections", "mrclab.hosts.mrc.scheduling", "mrclab.lab.topology",
         "mrclab.lab.lessons.fabric", "mrclab.lab.lessons.variants",
         "mrclab.lab.lessons.happened", "mrclab.lab.ui.browser.p4tab", "mrclab.lab.lessons.p4.shift",
         "mrclab_native")  # fmt: skip


def sources(lab: Path) -> dict[str, Path]:
    """Modules below a folder by their names."""
    modules = {".".join(path.relative_to(lab).with_suffix("").parts): path for path in lab.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for name, path in modules.items()}


def reached(modules: dict[str, Path]) -> set[str]:
    """Return the modules that import statements reach from the roots, also within functions."""
    kept, found = set[str](), {name for name in modules for root in ROOTS if f"{name}.".startswith(f"{root}.")}
    while found:
        name = found.pop()
        kept.add(name)
        for node in ast.walk(ast.parse(modules[name].read_bytes())):
            if isinstance(node, ast.Import):
                imported = [each.name for each in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
            else:
                continue
            for each in imported:
                folders = each.split(".")
                found |= {".".join(folders[: n + 1]) for n in range(len(folders))} & modules.keys() - kept
    return kept


def reach(lab: Path) -> None:
    """Delete modules of the project that no import statement reaches."""
    modules = sources(lab)
    kept = reached(modules)
    for name, path in modules.items():
        if name not in kept:
            path.unlink()
    for path in list(lab.rglob("*")):
        if path.is_file() and path.suffix not in {".py", ".json", ".yaml", ".so"}:
            path.unlink()


def trim(stage: Path) -> None:
    """Delete modules of the standard library that nothing left imports."""
    std, kept, found = stage / "std", set[str](), set(ALWAYS)
    for folder in ("core", "lab"):
        for path in (stage / folder).rglob("*.py"):
            found |= imported(path, deep=True)
    while found:
        name = found.pop()
        if name in NEVER:
            continue
        kept.add(name)
        sources = [std / f"{name}.py"] if (std / f"{name}.py").exists() else (std / name).rglob("*.py")
        for path in sources:
            found |= imported(path, deep=False) - kept
    for path in std.iterdir():
        if path.is_dir() and path.name not in kept:
            shutil.rmtree(path)
        elif path.suffix == ".py" and path.stem not in kept:
            path.unlink()
    for name in UNUSED:
        shutil.rmtree(std / name)
    for path in (std / "encodings").glob("*.py"):
        if path.stem not in ENCODINGS:
            path.unlink()


def imported(path: Path, *, deep: bool) -> set[str]:
    """Top names that a source imports; with `deep` also within functions."""
    found: set[str] = set()
    pending: list[ast.AST] = [ast.parse(path.read_bytes())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            found |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
        if deep or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            pending += ast.iter_child_nodes(node)
    return found


def compiled(stage: Path) -> None:
    """Replace every source by its bytecode, or by nothing where the compiled library has it.

    Docstrings stay in the lab, whose models show them.
    """
    listed = stage / "native.json"
    native = set(json.loads(listed.read_text())) if listed.exists() else set()
    for source in stage.rglob("*.py"):
        if source.is_relative_to(stage / "lab") and source.relative_to(stage / "lab").as_posix() in native:
            source.with_suffix(".pyc").touch()  # for listings of a package's modules
            source.unlink()
            continue
        py_compile.compile(
            str(source),
            cfile=str(source.with_suffix(".pyc")),
            dfile=source.relative_to(stage).as_posix(),
            doraise=True,
            optimize=0 if "mrclab" in source.parts else 2,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
        source.unlink()


if __name__ == "__main__":
    reach(STAGE / "lab")
    trim(STAGE)
    compiled(STAGE)
