"""Builds the lab in a browser tab: `make site`; static files for any web server, in build/site/try.

Pyodide comes from npm, wheels from PyPI, all by their hashes (package-lock.json, requirements.txt). Needs node and npm.
"""

import contextlib
import gzip
import hashlib
import html
import json
import lzma
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import glossary  # beside this file
import native  # beside this file
from markdown_it import MarkdownIt
from ruamel.yaml import YAML

from mrclab.lab.lessons.base import LESSONS
from mrclab.lab.scenario import schema
from mrclab.lab.ui.browser import learning, shortrun
from mrclab.lab.ui.browser.p4tab import P4Tab
from mrclab.lab.ui.browser.tab import Tab

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CACHE = ROOT / "build" / "site-parts"
PLATFORM = ("--platform", "pyemscripten_2026_0_wasm32", "--platform", "any", "--implementation", "cp",
            "--python-version", "314", "--abi", "cp314", "--abi", "none")  # fmt: skip
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:; connect-src 'self';"
    " style-src 'self' 'unsafe-inline'; img-src 'self' data:; manifest-src 'self'; base-uri 'none'; form-action 'none'"
)
LESSONS_HERE = '<link rel="stylesheet" href="lessons.css">\n<script type="module" src="lab.js"></script>\n'
FIRST_PACKET = {"from": "h1", "to": "h3", "plane": 1, "uplink": 2}
STEPS = 100  # frames of a figure, as cable.js has them
SQUEEZED = ("pyodide.asm.wasm", "std.zip", "core.zip", "lab.zip")
"""Names of parts of the engine that are transferred as xz, which the page unpacks and keeps."""
_BASE = "var memoryBase=metadata.memorySize?alignMemory(getMemory(metadata.memorySize+memAlign),memAlign):0;"
_LOAD = "function loadDynamicLibrary(libName,"
_KEPT_BASE = """
if(flags.at)wasmTable.grow(flags.at.tableBase-wasmTable.length);
var memoryBase=flags.at?flags.at.memoryBase:
  metadata.memorySize?alignMemory(getMemory(metadata.memorySize+memAlign),memAlign):0;
(Module.loadedDylibs??={})[libName]={memoryBase,tableBase:wasmTable.length};
"""
_KEPT_LOAD = """
Module.growTo=size=>{
  var more=size-wasmMemory.buffer.byteLength;
  if(more>0){wasmMemory.grow(Math.ceil(more/65536));updateMemoryViews()}
};
Module.loadKept=(name,bytes,at)=>{
  var dso=newDSO(name,undefined,'loading');
  dso.refcount=Infinity;dso.global=false;
  dso.exports=loadWebAssemblyModule(bytes,{global:false,nodelete:true,at},name,{});
};
"""
KEPT = ((_BASE, _KEPT_BASE), (_LOAD, _KEPT_LOAD + _LOAD))
"""Places of Pyodide's loader, and their replacements: see `keep_interpreter`."""
XZ = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 24}]


def main() -> int:
    """Build the site, and print its size."""
    target = ROOT / "build" / "site" / "try"
    if shutil.which("npm") is None or shutil.which("node") is None:
        sys.stderr.write("make site needs node and npm: apt-get install nodejs npm\n")
        return 1
    engine = parts()
    parsed: list[str] = []
    with contextlib.closing(Tab(parsed.append)) as tab:
        tab.source()
    shutil.rmtree(target, ignore_errors=True)
    (target / "engine").mkdir(parents=True)
    pages(target)
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder)
        collect(stage, engine)
        if (made := native.library(CACHE, engine)) is not None:
            native.put(stage, made, native.chosen())
        subprocess.run(["node", str(CACHE / "pack.mjs"), str(stage)], check=True, cwd=CACHE)
        for name in ("std", "core", "lab"):
            archive(stage / name, target / "engine" / f"{name}.zip")
    for name in ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm"):
        shutil.copyfile(engine / name, target / "engine" / name)
    keep_interpreter(target / "engine" / "pyodide.asm.mjs")
    for name in SQUEEZED:
        whole = target / "engine" / name
        squeezed = lzma.compress(whole.read_bytes(), lzma.FORMAT_XZ, lzma.CHECK_CRC32, filters=XZ)
        (target / "engine" / f"{name}.xz").write_bytes(squeezed)
        whole.unlink()
    xz = engine.parent / "xz-decompress" / "dist" / "package" / "xz-decompress.min.js"
    (target / "engine" / "xz.mjs").write_text(xz.read_text(encoding="utf-8").replace("}(this,", "}(globalThis,"))
    lock = json.loads((engine / "pyodide-lock.json").read_text(encoding="utf-8"))
    (target / "engine" / "pyodide-lock.json").write_text(json.dumps({"info": lock["info"], "packages": {}}))
    (target / "first.json").write_text(parsed[0], encoding="utf-8")  # what the page shows until Python runs
    (target / "schema.json").write_text(json.dumps(schema.build()), encoding="utf-8")
    (target / "lessons.json").write_text(json.dumps(lessons()), encoding="utf-8")
    (target / "p4.json").write_text(json.dumps(first_packet()), encoding="utf-8")
    (target / "figures.json").write_text(json.dumps(figures(), separators=(",", ":")), encoding="utf-8")
    keep_offline(target)
    sys.stdout.write(f"{target.relative_to(ROOT)}/index.html, {transferred(target) / 1e6:.2f} MB compressed\n")
    return 0


def parts() -> Path:
    """Return the folder of Pyodide; packages are brought where they are not there yet."""
    CACHE.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", "pack.mjs", "pack.py"):
        shutil.copy(HERE / name, CACHE / name)
    stamp, digest = CACHE / "stamp", hashlib.sha256()
    for name in ("package-lock.json", "requirements.txt"):
        digest.update((HERE / name).read_bytes())
    if not stamp.exists() or stamp.read_text() != digest.hexdigest():
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], check=True, cwd=CACHE)
        shutil.rmtree(CACHE / "wheels", ignore_errors=True)
        download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", *PLATFORM]
        subprocess.run(
            [*download, "--require-hashes", "-r", str(HERE / "requirements.txt"), "-d", str(CACHE / "wheels")],
            check=True,
        )
        stamp.write_text(digest.hexdigest())
    return CACHE / "node_modules" / "pyodide"


def pages(target: Path) -> None:
    """The live page's own files, with the replacement of a server."""
    static = ROOT / "lab" / "ui" / "static"
    shutil.copytree(static, target / "static", ignore=shutil.ignore_patterns("index.html", "server.js"))
    for name, place in (("server.js", "static/server.js"), ("worker.mjs", "worker.mjs"), ("sw.js", "sw.js")):
        shutil.copy(HERE / name, target / place)
    shutil.copy(HERE / "interpreter.js", target)
    for each in sorted((ROOT / "docs" / "lessons").glob("0*")):
        shutil.copy(each / "picture.svg", target / f"lesson-{int(each.name[:2])}.svg")
    for folder in ("cable", "lessons", "p4", "teach"):
        for path in [*(HERE / folder).glob("*.js"), *(HERE / folder).glob("*.css")]:
            shutil.copy(path, target)
    policy = f'<meta charset="utf-8">\n<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    for page in (static / "index.html", *(HERE / name / f"{name}.html" for name in ("cable", "p4", "teach"))):
        text = page.read_text(encoding="utf-8").replace('<meta charset="utf-8">', policy, 1)
        if page.name == "index.html":
            text = text.replace("</body>", f"{LESSONS_HERE}</body>", 1)
        (target / page.name).write_text(text, encoding="utf-8")


def figures() -> dict[str, Any]:
    """Figures of the page on a dying cable, each with its content before Python runs in the page."""
    parsed = YAML(typ="safe", pure=True).load((HERE / "cable" / "figures.yaml").read_text(encoding="utf-8"))
    first = {name: [shortrun.frames_of(text, *span(each)) for text in texts(each, each["start"])]
             for name, each in parsed.items()}  # fmt: skip
    return {"figures": parsed, "first": first}


def first_packet() -> dict[str, Any]:
    """The packet that its page shows before Python runs there: its way, and the tables of the switches on it."""
    switches = P4Tab()

    def request(path: str, **body: Any) -> Any:
        return json.loads(switches.request(path, json.dumps(body)))

    hops = request("api/p4/walk", **FIRST_PACKET)["hops"]
    tables = {hop["node"]: request("api/p4/tables", switch=hop["node"]) for hop in hops if hop.get("tables")}
    return {"layout": request("api/p4/layout"), "packet": FIRST_PACKET, "hops": hops, "tables": tables}


def lessons() -> list[dict[str, Any]]:
    """All lessons: number, title, minutes, lessons before it, text as HTML, first content of the learner's file."""
    return [_lesson(number) for number in LESSONS]


def _lesson(number: int) -> dict[str, Any]:
    lesson, folder = LESSONS[number], next((ROOT / "docs" / "lessons").glob(f"{number:02}-*"))
    text = (folder / "README.md").read_text(encoding="utf-8").split("\n", 1)[1]
    page = MarkdownIt("commonmark", {"html": True}).enable("table").render(text.replace(' markdown="1"', ""))
    page = re.sub(r'<a href="(?!https?:)[^"]*">(.*?)</a>', r"\1", page, flags=re.DOTALL)  # pages of the documentation
    page = glossary.marked(page.replace('src="picture.svg"', f'src="lesson-{number}.svg"'), _explained)
    start = (folder / lesson.file).read_text(encoding="utf-8") if lesson.file else ""
    return {
        "number": number, "title": lesson.title, "minutes": lesson.minutes, "needs": lesson.needs, "file": lesson.file,
        "here": number in learning.HERE, "html": page, "text": start,
    }  # fmt: skip


def _explained(text: str, _anchor: str, meaning: str) -> str:
    meaning = html.escape(meaning)
    return f'<span class="word" tabindex="0" data-says="{meaning}" aria-description="{meaning}">{text}</span>'


def span(figure: dict[str, Any]) -> tuple[float, float, float]:
    """Begin, end and step of a figure, seconds of virtual time."""
    return figure["begin"], figure["end"], (figure["end"] - figure["begin"]) / STEPS


def texts(figure: dict[str, Any], place: int) -> list[str]:
    """Scenarios of a figure, its handle at a place."""
    fill = figure["values"][place][1]
    return [re.sub(r"\$([A-Z]+)", lambda found: str(fill[found[1]]), each["text"]) for each in figure["scenarios"]]


def keep_interpreter(loader: Path) -> None:
    """Let the loader of the interpreter put shared libraries where they were when its memory was kept.

    Pyodide keeps and restores memory, but without shared libraries (here pydantic's): their code has to be loaded
    again, with the same addresses of data and of functions.
    """
    text = loader.read_text(encoding="utf-8")
    for old, new in KEPT:
        if text.count(old) != 1:
            raise ValueError(f"this Pyodide's loader has another form: {old[:60]} is there {text.count(old)} times")
        text = text.replace(old, new)
    loader.write_text(text, encoding="utf-8")


def collect(stage: Path, engine: Path) -> None:
    """Sources of the standard library, of the wheels and of the project, a folder each."""
    with zipfile.ZipFile(engine / "python_stdlib.zip") as std:
        std.extractall(stage / "std")
    for wheel in sorted((CACHE / "wheels").glob("*.whl")):
        with zipfile.ZipFile(wheel) as file:
            file.extractall(stage / "core")
    shutil.rmtree(stage / "core" / "pydantic" / "v1")
    for metadata in (stage / "core").glob("*.dist-info"):  # Python needs name and version alone
        text = (metadata / "METADATA").read_text(encoding="utf-8")
        shutil.rmtree(metadata)
        metadata.mkdir()
        head = [line for line in text.splitlines() if line.startswith(("Metadata-Version:", "Name:", "Version:"))]
        (metadata / "METADATA").write_text("\n".join(head) + "\n", encoding="utf-8")
    for package in ("controller", "events", "hosts", "lab", "rpc", "sim", "softswitch", "topo"):
        source = ROOT / package
        ignore = shutil.ignore_patterns("__pycache__", "*.so", "*.c", "*.pyi")
        shutil.copytree(source, stage / "lab" / "mrclab" / package, ignore=ignore)
    program = stage / "lab" / "mrclab" / "p4src" / "build"
    program.mkdir(parents=True)
    shutil.copy(ROOT / "p4src" / "build" / "mrc.json", program)
    for name in ("__init__.py", "compiled.py"):
        shutil.copy(ROOT / "mrclab" / name, stage / "lab" / "mrclab" / name)


def archive(folder: Path, to: Path) -> None:
    """A zip of a folder, not compressed, the same bytes for the same files."""
    with zipfile.ZipFile(to, "w", zipfile.ZIP_STORED) as made:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                made.writestr(zipfile.ZipInfo(path.relative_to(folder).as_posix()), path.read_bytes())


def keep_offline(target: Path) -> None:
    """Name the version in both workers, and for the service worker all files that the other does not keep itself."""
    made = ("sw.js", "worker.mjs")
    whole = hashlib.sha256()
    for path in files(target):
        whole.update(path.relative_to(target).as_posix().encode() + path.read_bytes())
    names = [path.relative_to(target).as_posix() for path in files(target) if path.suffix != ".xz"]
    for name in made:
        text = (target / name).read_text(encoding="utf-8").replace("@VERSION@", f"mrclab-{whole.hexdigest()[:16]}")
        text = re.sub(r"\[/\* @FILES@ \*/\]", lambda _: json.dumps([name for name in names if name != "sw.js"]), text)
        text = re.sub(r"\[/\* @SQUEEZED@ \*/\]", lambda _: json.dumps(SQUEEZED), text)
        (target / name).write_text(text, encoding="utf-8")


def transferred(target: Path) -> int:
    """Bytes of a first visit, text compressed with gzip as servers do it."""
    return sum(
        path.stat().st_size if path.suffix == ".xz" else len(gzip.compress(path.read_bytes(), 6))
        for path in files(target)
    )


def files(target: Path) -> Iterable[Path]:
    """All files of the page."""
    return sorted(path for path in target.rglob("*") if path.is_file())


if __name__ == "__main__":
    sys.exit(main())
