"""The garbage collector and runs: it goes through a run, and not through all that is loaded."""

import gc
import weakref

import light_runs
import pytest

from mrclab.lab.command import ending
from mrclab.lab.report import results


class Part:
    """Part of a run that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _collector(monkeypatch):
    monkeypatch.setattr(results, "gc", gc)
    gc.unfreeze()
    yield
    light_runs.keep()


def test_a_run_is_freed_and_what_was_loaded_is_not_looked_through(monkeypatch):
    results.freeze_loaded()
    loaded = gc.get_freeze_count()
    monkeypatch.setattr(results, "_MANY", loaded + 10_000)  # tests before may have loaded more than any command does
    run = weakref.ref(Part())
    results.freeze_loaded()
    results.free_runs()
    assert run() is None
    assert gc.get_freeze_count() > 0.9 * loaded > 10_000


def test_a_large_run_is_freed_that_was_out_of_sight(monkeypatch):
    monkeypatch.setattr(results, "_MANY", 10_000)
    run = weakref.ref(Part())
    gc.freeze()
    results.free_runs()
    assert run() is None


def test_a_command_ends_without_a_last_look_through_what_is_loaded():
    with pytest.raises(SystemExit) as end:
        ending.run(lambda: None)
    assert end.value.code == 0
    assert gc.get_freeze_count() > 10_000
