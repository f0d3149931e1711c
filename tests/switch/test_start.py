"""Start of the process: its default listening address, and its messages where it cannot listen."""

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from netns import Namespace

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces")]

COMMAND = [sys.executable, "-m", "mrclab.softswitch"]
LISTEN, TIMEOUT_S = "0A", 20.0


@pytest.fixture
def space():
    made = Namespace("start")
    made.ip("link", "set", "lo", "up")
    yield made
    made.remove()


def listeners(space: Namespace) -> set[str]:
    """Addresses that sockets in the namespace listen on, as /proc/net/tcp writes them."""
    with space.entered():
        tables = [Path(f"/proc/thread-self/net/{name}").read_text().splitlines() for name in ("tcp", "tcp6")]
    rows = [line.split() for lines in tables for line in lines]
    return {fields[1] for fields in rows if fields[3] == LISTEN}


def test_without_an_address_only_this_user_reaches_it(space, tmp_path):
    tmp_path.chmod(0o700)
    path = tmp_path / "softswitch-0.sock"
    process = space.popen(COMMAND, env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)})
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while not path.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert listeners(space) == set()
    finally:
        process.terminate()
        process.wait()


def test_an_interface_that_is_not_there_is_named(space):
    process = space.popen([*COMMAND, "-i", "1@nosuchif"], stderr=subprocess.PIPE)
    _, text = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, text) == (1, "softswitch: port 1@nosuchif: no interface with this name\n")
