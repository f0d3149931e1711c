"""lib_mrc's declarations: the agent's numbers are those of wire.h, ours of the MRC interface are the published ones."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from verbs_ground import COMPILER, LIBMRC, PROGRAMS, ROOT, build, needs_compiler

from mrclab.hosts.agent.provider import wire

pytestmark = needs_compiler

OCP = Path(os.environ.get("OCP", ROOT.parent / "OCP-Multipath-Reliable-Connection"))
needs_ocp = pytest.mark.skipif(
    not (OCP / "mrc_ctl.h").exists(), reason=f"needs OCP's MRC headers: set OCP to a folder with mrc.h (none in {OCP})"
)


def output_of(source: Path, folder: Path, *flags: str) -> str:
    target = folder / "a.out"
    done = subprocess.run(
        [str(COMPILER), "-std=gnu11", "-w", *flags, "-o", str(target), str(source)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return subprocess.run([str(target)], capture_output=True, text=True, check=True).stdout


def test_the_agent_and_the_library_mean_the_same_bytes(tmp_path):
    said = output_of(PROGRAMS / "layout.c", tmp_path, f"-I{LIBMRC}")
    for line in said.splitlines():
        name, value = line.split()
        ours = getattr(wire, name, None)
        if name == "last_op":
            ours = max(wire.Op)
        elif name == "CREATE_QP":
            ours = wire.Op.CREATE_QP
        assert getattr(ours, "size", ours) == int(value), name


def declarations() -> tuple[list[tuple[str, str]], list[str]]:
    """(struct, field) and constants that our headers declare; nested structs by their dotted names."""
    fields, constants = [], []
    for header in ("mrc.h", "mrc_ctl.h", "mrc_api_ver.h", "mrc_ctl_api_ver.h"):
        text = re.sub(r"/\*.*?\*/", "", (LIBMRC / "include" / header).read_text(), flags=re.DOTALL)
        constants += re.findall(
            r"\b(MRC_[A-Z0-9_]+)\b(?= *[=,}\n])", "".join(re.findall(r"enum \w+ \{(.*?)\}", text, re.DOTALL))
        )
        constants += [
            name
            for name in re.findall(r"#define (MRC_\w+) ", text)
            if "UNPOPULATED" not in name and "_USED" not in name
        ]
        for struct, body in re.findall(r"^struct (mrc_\w+) \{\n(.*?)^\};", text, re.DOTALL | re.MULTILINE):
            flat = re.sub(r"\t(?:struct|union) \{\n(.*?)\n\t\} (\w+);", _dotted, body, flags=re.DOTALL)
            fields += [(struct, name) for name in re.findall(r"([\w.]+)(?:\[\w+\])?;", flat)]
    return fields, constants


def _dotted(match: re.Match[str]) -> str:
    inner = re.sub(r"\t\t(?:struct|union) \{\n(.*?)\n\t\t\} (\w+);", _dotted, match[1], flags=re.DOTALL)
    return re.sub(r"([\w.]+)(\[\w+\])?;", lambda found: f"{match[2]}.{found[1]}{found[2] or ''};", inner)


@needs_ocp
def test_structs_fields_and_constants_are_the_published_ones(tmp_path):
    fields, constants = declarations()
    assert len(fields) > 100
    assert len(constants) > 90
    lines = [
        "#include <stddef.h>", "#include <stdio.h>", "#include <mrc_ctl.h>",
        "#define F(s, f) printf(#s \".\" #f \" %zu %zu\\n\", offsetof(struct s, f), sizeof(((struct s *)0)->f))",
        "#define C(c) printf(#c \" %lld\\n\", (long long)(c))",
        "#define S(s) printf(#s \" %zu\\n\", sizeof(struct s))", "int main(void) {",
    ]  # fmt: skip
    lines += [f"F({struct}, {name});" for struct, name in fields] + [f"C({name});" for name in constants]
    lines += [f"S({struct});" for struct in sorted({struct for struct, _ in fields})] + ["return 0; }"]
    source = tmp_path / "abi.c"
    source.write_text("\n".join(lines))
    ours = output_of(source, tmp_path, f"-I{LIBMRC / 'include'}")
    assert output_of(source, tmp_path, f"-I{OCP}") == ours


@needs_ocp
def test_the_library_builds_against_the_published_headers_and_exports_their_every_function(tmp_path):
    library = build(tmp_path, f"OCP={OCP}")
    names = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    exported = set(re.findall(r" T (mrc_\w+)", names))
    published = set()
    for header in ("mrc.h", "mrc_ctl.h"):
        text = re.sub(r"/\*.*?\*/", "", (OCP / header).read_text(), flags=re.DOTALL)
        published |= set(re.findall(r"\b(mrc_\w+)\(", text))
    assert published == exported
