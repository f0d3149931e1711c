"""Notebooks of the documentation: valid files that hold outputs and pictures, and run to the same outputs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.once, pytest.mark.usefixtures("form_of_users")]

FOLDER = Path(__file__).parents[2] / "docs" / "notebooks"


def test_every_notebook_is_valid_and_holds_a_picture():
    paths = sorted(FOLDER.glob("*.ipynb"))
    assert len(paths) == 5
    for path in paths:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
        cells = notebook["cells"]
        assert len({cell["id"] for cell in cells}) == len(cells)
        assert all(cell["execution_count"] for cell in cells if cell["cell_type"] == "code"), path.name
        outputs = [output for cell in cells for output in cell.get("outputs", ())]
        assert any("image/png" in output.get("data", {}) for output in outputs), path.name


def test_they_run_and_say_the_same():
    pytest.importorskip("matplotlib")
    command = [sys.executable, str(FOLDER / "execute.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
