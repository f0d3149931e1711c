"""Execution of the notebooks beside this file: outputs are written into them, or compared with the outputs there.

`python docs/notebooks/execute.py` writes; with `--check` nothing is written, and the exit status is 1 where outputs
differ in more than numbers. It needs no Jupyter: cells are plain Python, except lines of `%`.
"""

import ast
import base64
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DPI = 70


def main() -> int:
    """Execute every notebook; return the exit status."""
    check, status = "--check" in sys.argv, 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for path in sorted(HERE.glob("*.ipynb")):
            notebook = json.loads(path.read_text(encoding="utf-8"))
            before = shapes(notebook)
            execute(notebook)
            if not check:
                path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            elif shapes(notebook) != before:
                differing = [
                    f"{new} in place of {old}" for old, new in zip(before, shapes(notebook), strict=True) if old != new
                ]
                print(f"{path.name}: {'; '.join(differing)}\nrun python docs/notebooks/execute.py", file=sys.stderr)
                status = 1
    return status


def execute(notebook: dict[str, Any]) -> None:
    """Run the code cells in order in one name space, and replace their outputs."""
    space: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        lines = [line for line in "".join(cell["source"]).splitlines() if not line.startswith("%")]
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            value = _run(ast.parse("\n".join(lines)), space)
        text = [{"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)}]
        cell["execution_count"] = number
        cell["outputs"] = (text if printed.getvalue() else []) + _shown(value, number)


def _run(code: ast.Module, space: dict[str, Any]) -> Any:
    """Execute a cell; return the value of its last line where that is an expression."""
    last = code.body.pop() if code.body and isinstance(code.body[-1], ast.Expr) else None
    exec(compile(code, "cell", "exec"), space)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), space) if isinstance(last, ast.Expr) else None


def _shown(value: Any, number: int) -> list[dict[str, Any]]:
    """Return the output of a cell's value, as Jupyter would show it."""
    if value is None:
        return []
    if hasattr(value, "savefig"):
        picture = io.BytesIO()
        value.savefig(picture, dpi=DPI, format="png", bbox_inches="tight")
        data = {"image/png": base64.b64encode(picture.getvalue()).decode(), "text/plain": ["<Figure>"]}
    else:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
    return [{"output_type": "execute_result", "execution_count": number, "metadata": {}, "data": data}]


def shapes(notebook: dict[str, Any]) -> list[str]:
    """Return the outputs without numbers and pictures: a change of the transport may move figures."""
    found = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            text = "".join(output.get("text", ())) + "".join(output.get("data", {}).get("text/plain", ()))
            kinds = sorted(output.get("data", {}))
            found.append(re.sub(r"[-+]?[0-9.]+(e-?[0-9]+)?", "#", f"{text} {kinds}").replace(" ", ""))
    return found


if __name__ == "__main__":
    sys.exit(main())
