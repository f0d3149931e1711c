"""Mininet's shells where mnexec does not do what it should."""

import os
import stat

import pytest

from mrclab.topo.errors import EmulationError
from mrclab.topo.linux import nodes
from mrclab.topo.linux.adaptivetimeout import MachineSlowness

pytest.importorskip("mininet.node", reason="Debian's Mininet is not installed")


def _host(tmp_path, script):
    """A host whose mnexec is `script`."""
    from mrclab.topo.linux.nodes import FabricHost  # noqa: PLC0415 - it imports Mininet

    program = tmp_path / "mnexec"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    return FabricHost("h1", environment=environment, slowness=MachineSlowness())


@pytest.mark.parametrize("words", ["", "mount: Invalid argument"])
def test_an_mnexec_that_dies_at_once_is_an_error_with_its_words(tmp_path, words):
    with pytest.raises(EmulationError, match=r"the shell of h1 ended \(status 7\): " + (words or "it wrote nothing")):
        _host(tmp_path, f"printf '{words}'; exit 7")


def test_a_shell_that_gives_no_prompt_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(nodes, "START_TIMEOUT", 0.05)
    with pytest.raises(EmulationError, match=r"the shell of h1 took more than .* to give its first prompt"):
        _host(tmp_path, "exec sleep 1000")


def test_a_shell_that_dies_later_is_an_error_for_who_asks_it(tmp_path):
    host = _host(tmp_path, 'shift; exec "$@"')
    try:
        assert host.cmd("echo $((6 * 7))").strip() == "42"
        host.sendCmd("kill -9 $$")
        with pytest.raises(EmulationError, match="the shell of h1 ended"):
            host.waitOutput()
    finally:
        host.cleanup()
