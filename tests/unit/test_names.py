"""One word names one thing: no two classes of the packages have the same name."""

import ast
from collections import defaultdict

import pytest

from mrclab import HOME

pytestmark = pytest.mark.once

TREE = HOME
OF_THE_API = {"Run", "Scenario", "Table"}  # lab/api.py and lab/tables.py have the words that a user would guess
PACKAGES = ("bench", "controller", "events", "experiments", "hosts", "lab", "rpc", "sim", "softswitch", "topo")


def test_a_class_name_means_one_thing_in_all_packages():
    places = defaultdict(list)
    for path in (path for package in PACKAGES for path in (TREE / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(TREE)))
    assert len(places) > 800
    assert {name: paths for name, paths in places.items() if len(paths) > 1 and name not in OF_THE_API} == {}
