"""The catalogue of bugs that tests notice: each still fits the sources, and the machinery tells noticed from not."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "mutants"))

from catalogue import MUTANTS, Mutant  # noqa: E402


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_fits_the_sources(mutant):
    source = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert source.count(mutant.old) == 1, f"{mutant.file} was changed: give the bug its new text, or another bug"
    compile(source.replace(mutant.old, mutant.new), mutant.file, "exec")
    for name in mutant.tests:
        file, _, test = name.partition("::")
        source = (ROOT / f"tests/unit/test_{file}.py").read_text(encoding="utf-8")
        assert not test or f"def test_{test.partition('[')[0]}(" in source


def test_there_are_eighty_and_no_two_have_one_name():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 80
    assert all(isinstance(mutant, Mutant) and mutant.old != mutant.new for mutant in MUTANTS)
