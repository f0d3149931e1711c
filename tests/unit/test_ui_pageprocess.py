"""The page's process beside a lab: what a signal does to it while it starts is no matter of the lab's."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from mrclab.lab.errors import LabError
from mrclab.lab.ui.web import pageprocess


@pytest.mark.parametrize(
    ("program", "number", "said"),
    [
        ("import time; time.sleep(1000)", signal.SIGKILL, "killed or stopped by a signal"),
        ("import time; time.sleep(1000)", signal.SIGSTOP, "killed or stopped by a signal"),
        ("print('http://127.0.0.1:1/')", None, "live page: http://127.0.0.1:1/"),
    ],
)
def test_a_lab_goes_on_without_a_page_that_a_signal_took(tmp_path, monkeypatch, program, number, said):
    monkeypatch.setattr(pageprocess, "STOPPED_S", 0.1)
    popen = subprocess.Popen

    def started(_command, **options):
        process = popen([sys.executable, "-c", program], **options)
        if number is not None:
            threading.Timer(0.2, os.kill, (process.pid, number)).start()
        return process

    monkeypatch.setattr(pageprocess.subprocess, "Popen", started)
    lines = []
    with pageprocess.PageProcess(tmp_path, lines.append) as page:
        page.show(tmp_path)
    assert [said in line for line in lines] == [True]


def test_a_page_that_ends_by_itself_ends_the_command(tmp_path, monkeypatch):
    popen = subprocess.Popen
    argv = [sys.executable, "-c", "raise SystemExit(2)"]
    monkeypatch.setattr(pageprocess.subprocess, "Popen", lambda _command, **options: popen(argv, **options))
    with pageprocess.PageProcess(tmp_path, print) as page, pytest.raises(LabError, match="the page did not start"):
        page.show(tmp_path)
