import sys

from mrclab.lab.command import doctor


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
