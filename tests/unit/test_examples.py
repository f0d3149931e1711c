"""Every program of examples/ runs and prints what it promises; the plug-in is built and installed as a package."""

import os
import re
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from mrclab import HOME

pytestmark = pytest.mark.once

EXAMPLES = Path(__file__).parents[2] / "examples"
MAX_LINES = 40
SAYS = {
    "first_run.py": r"PASS integrity\n[^$]*file/h1>h3: [\d.]+ µs, \d+\.\d Gb/s\nplane 1",
    "own_fault.py": r"down at [\d.]+ µs; [1-9]\d* packets lost\n(.*\n)*.*plane 1, uplink 2 ASSUMED_BAD\n(.*\n)*passed",
    "sweep_evs.py": r"1 EVs per plane.*\n2 EVs per plane.*\n4 EVs per plane: +[\d.]+ µs ± [\d.]+ ",
    "live.py": r"'GOOD'.*\n.*port 1 of h1 down: .*'PORT_DOWN'.*\n.*: intact, \d",
    "compare_transports.py": r"mrc +slowest flow .*\nroce slowest flow ",
    "matrix.py": r"steps/h1>h3: 0.0 to .* 500000 bytes\n.*\nsteps/h3>h1: [1-9][\d.]+ to .* 250000 bytes",
    "training.py": r"from \d+ to \d+ µs\nstep \d.*\nstep .*\nstep .*\nstep ",
    "campaign.py": r"(seed \d, \{'fabric.t1s': \d\}: passed, [\d.]+ µs\n){4}",
    "population.py": r"(seed \d: \d+ packets lost on 4 cables, .*: passed\n +t0-.*\n){2}",
    "history.py": r"fault.begin cut\n.*fault.end cut\ngoodput by plane drawn: True",
}


def test_every_program_is_short_and_named_here():
    programs = {path.name: path for path in EXAMPLES.glob("*.py") if path.name != "fabrics.py"}
    assert programs.keys() == SAYS.keys()
    long = [name for name, path in programs.items() if len(path.read_text("utf-8").splitlines()) > MAX_LINES]
    assert long == []


@pytest.mark.parametrize("name", SAYS)
def test_it_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "argv", [name])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    said = capsys.readouterr().out
    assert re.search(SAYS[name], said), said
    assert list(tmp_path.iterdir()) == []


BUILD = "import sys, setuptools.build_meta as b; print(b.build_wheel(sys.argv[1]))"


def test_the_plugin_works_once_it_is_installed(tmp_path):
    source, installed = tmp_path / "source", tmp_path / "installed"
    for file in (EXAMPLES / "plugin").rglob("*"):
        if file.suffix in {".py", ".toml"}:
            place = source / file.relative_to(EXAMPLES / "plugin")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read_bytes())
    made = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BUILD, str(tmp_path)], cwd=source, capture_output=True, check=True
    )
    assert made.returncode == 0
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    path = os.pathsep.join([str(HOME), str(installed)])
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "plugin" / "run.py")],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "t0-p1-1 loses all uplinks: t0-p1-1/t1-p1-1, t0-p1-1/t1-p1-2" in done.stdout
    assert re.search(r"PASS integrity.*\nPASS lost_share \d", done.stdout), done.stdout
