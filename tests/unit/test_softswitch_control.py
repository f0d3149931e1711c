"""The control socket: registers of a running program, one cell, several, or all; and what is refused."""

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from softswitch_fixtures import looping, switch

from mrclab.softswitch.__main__ import main
from mrclab.softswitch.p4runtime.messages.address import ServerError
from mrclab.softswitch.process import connections
from mrclab.softswitch.process.control_socket import ControlSocket
from mrclab.softswitch.switch import SoftSwitch

__all__ = ["switch"]

PROGRAM = Path(__file__).parents[1] / "switch" / "programs" / "externs.json"
WAIT = 60.0  # seconds before a test that hangs fails
CELLS = "TheIngress.cells"  # 8 of 48 bits


@pytest.fixture
def control(switch: SoftSwitch, tmp_path: Path) -> Iterator[ControlSocket]:
    switch.commit(switch.compile(PROGRAM.read_bytes()))
    made = ControlSocket(switch, tmp_path / "ctl")
    yield made
    made.close()


def test_cells_come_in_the_order_asked_for_and_all_without_an_index(control: ControlSocket) -> None:
    assert control.answer(f"register_write {CELLS} 2 17") == "ok"
    assert control.answer(f"register_write {CELLS} 7 0xff") == "ok"
    assert control.answer(f"register_read {CELLS} 7") == "ok 255"
    assert control.answer(f"register_read {CELLS} 7 0 2 2") == "ok 255 0 17 17"
    assert control.answer(f"register_read {CELLS}") == "ok 0 0 17 0 0 0 0 255"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (f"register_read {CELLS} 1 8", "error: .*8"),
        (f"register_read {CELLS} 1 one", "error: wrong arguments for register_read"),
        ("register_read nothing 1", "error: .*nothing"),
        ("register_read", "error: wrong arguments"),
        (f"register_write {CELLS} 0 0x1000000000000", "error: .* not a value of 48 bits"),
    ],
)
def test_what_is_not_there_is_refused_in_one_line(control: ControlSocket, line: str, says: str) -> None:
    answer = control.answer(line)
    assert "\n" not in answer
    assert re.match(says, answer), answer


def test_without_a_program_there_are_no_registers(switch: SoftSwitch, tmp_path: Path) -> None:
    control = ControlSocket(switch, tmp_path / "ctl")
    assert control.answer("register_read queue_depths 1 2").startswith("error: ")
    control.close()


def test_an_answer_that_the_socket_cannot_hold_ends_the_connection(
    control: ControlSocket, switch: SoftSwitch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half an answer would leave its reader waiting for the rest."""
    control._commands["help"] = lambda: "x" * (1 << 22)
    monkeypatch.setattr(connections, "LONGEST_ANSWER", 1 << 12)
    with looping(switch), socket.socket(socket.AF_UNIX) as client:
        client.settimeout(WAIT)
        client.connect(str(tmp_path / "ctl"))
        client.sendall(b"help\n")
        while part := client.recv(1 << 20):
            assert set(part) <= set(b"ok x")


@pytest.mark.parametrize(
    ("option", "place", "sentence"),
    [
        ("--control-socket", "none/ctl", "its directory does not exist, make it first"),
        ("--control-socket", "x" * 120, "the path of a Unix socket has at most 107 bytes, use a shorter one"),
        ("--log-file", "none/log", "No such file or directory"),
        ("--pcap", "file/pcap", "Not a directory"),
    ],
)
def test_a_file_that_cannot_be_made_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, place: str, sentence: str
) -> None:
    (tmp_path / "file").touch()
    assert main(["--no-grpc", option, str(tmp_path / place)]) == 1
    assert capsys.readouterr().err == f"softswitch: {tmp_path / place}: {sentence}\n"


def test_the_socket_of_a_switch_that_runs_is_not_taken_from_it(
    control: ControlSocket, switch: SoftSwitch, tmp_path: Path
) -> None:
    with pytest.raises(ServerError, match="another process listens there"):
        ControlSocket(switch, tmp_path / "ctl")
