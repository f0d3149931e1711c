import os
import shutil
import subprocess
import sys

from mrclab.lab.command import doctor
from mrclab.topo.linux.state import RunState


def test_a_mininet_that_cannot_be_imported_is_missing_and_says_why(tmp_path, monkeypatch):
    (tmp_path / "mininet").mkdir()
    (tmp_path / "mininet" / "__init__.py").write_text("")
    (tmp_path / "mininet" / "node.py").write_text("import a_module_that_python_dropped\n")
    for name in [name for name in sys.modules if name.split(".")[0] == "mininet"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    checks = {check.name: check for check in doctor.examine()}
    assert not checks["Mininet"].ok
    assert "a_module_that_python_dropped" in checks["Mininet"].found
    assert not doctor.ready(list(checks.values()))


def labs(run_dir):
    return next(check for check in doctor.examine(run_dir) if check.name == "other labs")


def test_a_lab_is_found_wherever_it_is_and_so_are_processes_that_a_killed_one_left(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "_BUSY_S", 0.0001)
    run = RunState.claim(tmp_path / "one")
    run.make_directory(tmp_path / "one" / "lab")
    assert f"process {os.getpid()} runs one in {tmp_path / 'one'}" in labs(tmp_path / "one" / "lab").found
    orphan = subprocess.Popen(["sleep", "60"], env=run.environment)
    try:
        elsewhere = labs(tmp_path / "two" / "lab")
        assert not elsewhere.ok
        assert f"process {os.getpid()} runs one in {tmp_path / 'one'}" in elsewhere.found
        shutil.rmtree(tmp_path / "one")  # as if the lab had been killed and its files removed
        left = labs(tmp_path / "two" / "lab")
        assert f"1 processes of a killed one in {tmp_path / 'one'}" in left.found
        assert f"`mrclab --run-dir {tmp_path / 'one' / 'lab'} clean`" in left.remedy
    finally:
        orphan.kill()
        orphan.wait()
        run.release()


def test_without_root_nothing_is_called_unfit_that_only_root_can_try(monkeypatch):
    monkeypatch.setattr(doctor.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(doctor, "_succeeds", lambda *_: False)
    checks = {check.name: check for check in doctor.examine()}
    for name in ("network namespaces", "nftables netdev", "netem"):
        assert (checks[name].ok, checks[name].found) == (True, "only root can try")
    assert not checks["root"].ok
