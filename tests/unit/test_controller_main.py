"""The controller's command line: what it says when it cannot run, and how it ends."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mrclab.controller.__main__ import main
from mrclab.controller.history import FREQUENT
from mrclab.rpc.client import Client

ROOT = Path(__file__).resolve().parents[2]
WAIT = 120.0  # seconds, on a machine that has other things to do


@pytest.mark.parametrize(
    ("fabric", "options", "sentence"),
    [
        (None, [], "fabric.yaml: No such file or directory; give the fabric with --fabric"),
        ("planes: [", [], "fabric.yaml is not YAML"),
        ("- 1", [], "fabric.yaml holds no mapping; it should give planes, t0s, t1s, hosts_per_t0"),
        ("plains: 2", [], "fabric.plains is not a known field; did you mean 'planes'?"),
        ("planes: 0", [], "fabric.planes: this must be at least 1"),
        ("planes: 2", ["--transport", "/nowhere"], "/nowhere: No such file or directory; give the transport with"),
        ("planes: 2", ["--p4json", "/nowhere"], "/nowhere: No such file or directory; run `make p4`"),
    ],
)
def test_what_keeps_it_from_running_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fabric: str | None, options: list[str], sentence: str
) -> None:
    if fabric is not None:
        (tmp_path / "fabric.yaml").write_text(fabric)
    assert main(["--run-dir", str(tmp_path), *options]) == 1
    said = capsys.readouterr().err
    assert sentence in said
    assert said.startswith("controller: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("value", ["-1", "nan", "inf", "soon"])
@pytest.mark.parametrize("option", ["--mapper-cycle", "--audit", "--telemetry", "--stretch", "--election-id"])
def test_a_number_that_makes_no_sense_is_refused_with_the_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--run-dir", str(tmp_path), option, value])
    *_, said = capsys.readouterr().err.splitlines()
    assert said.startswith(f"controller: error: argument {option}: invalid value {value!r}: expected ")


def test_a_port_that_there_is_not_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--run-dir", str(tmp_path), "--metrics-port", "65536"])
    said = "argument --metrics-port: invalid value '65536': expected a whole number from 0 to 65535"
    assert said in capsys.readouterr().err


def test_it_serves_without_any_switch_and_ends_cleanly_on_sigterm(tmp_path: Path) -> None:
    (tmp_path / "fabric.yaml").write_text("{planes: 1, hosts_per_t0: 1}")
    argv = [sys.executable, "-m", "mrclab.controller", "--run-dir", str(tmp_path), "--log-level", "WARNING"]
    with subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        with Client.wait_for(tmp_path / "controller.sock", WAIT) as client:
            status = client.call("status")
            assert (status["state"], status["switches"], status["switches_ready"]) == ("connecting", 4, 0)
            assert not client.call("wait_verified", timeout=0)["verified"]
        second = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=WAIT)
        assert (second.returncode, second.stderr.count("\n")) == (1, 1)
        assert "another process serves" in second.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert not (tmp_path / "controller.sock").exists()
    lines = (tmp_path / "history" / "controller.jsonl").read_text().splitlines()
    kinds = [kind for kind in (json.loads(line)["kind"] for line in lines) if kind not in FREQUENT]
    assert kinds == ["controller.up", "nodes.written", "controller.down"]
