"""Ctrl-C, however often and wherever it comes: raised once, never lost, nothing printed by Python itself."""

import os
import signal
import subprocess
import sys
import time
import weakref

import pytest

from mrclab.lab.run.interrupts import guarded


class Thing:
    pass


def test_a_signal_that_comes_in_a_callback_of_a_weak_reference_is_not_lost_and_says_nothing(capfd):
    def interrupted():
        thing = Thing()
        _kept = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT))
        del thing
        for _ in range(1000):
            time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt), guarded():
        interrupted()
    assert capfd.readouterr() == ("", "")


def test_once_an_inner_block_was_interrupted_the_outer_one_is_not_interrupted_again():
    with guarded(outermost=True):
        with pytest.raises(KeyboardInterrupt), guarded():
            signal.raise_signal(signal.SIGINT)
        for _ in range(5):
            signal.raise_signal(signal.SIGINT)


def test_ctrl_c_outside_of_a_lab_works_each_time():
    with guarded(outermost=True):
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)


def mrclab(*words, cwd, before=""):
    code = f"{before}\nfrom mrclab.lab.command.entry import main; main()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-c", code, *words]
    return subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def test_a_current_directory_that_was_removed_is_named(tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    done = mrclab("doctor", cwd=place, before=f"import os; os.rmdir({str(place)!r})")
    assert done.returncode == 2
    assert done.stderr == "mrclab: the current directory was removed; change to one that exists, with `cd`\n"


def test_ctrl_c_while_the_command_line_is_loaded_is_one_line(tmp_path):
    early = "import builtins\n_before = builtins.__import__\n"
    early += "def _interrupted(name, *rest):\n    if name == 'typer': raise KeyboardInterrupt\n"
    early += "    return _before(name, *rest)\nbuiltins.__import__ = _interrupted\n"
    done = mrclab("doctor", cwd=tmp_path, before=early)
    assert (done.returncode, done.stderr) == (130, "mrclab: interrupted\n")
