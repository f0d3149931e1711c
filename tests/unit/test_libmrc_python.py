"""The MRC interface in Python: its structs are those of the C headers, and its example runs."""

import ctypes
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from verbs_ground import COMPILER, LIBMRC, ROOT, Ground, build, needs_compiler

from mrclab.hosts.libmrc import mrc

pytestmark = needs_compiler


def test_structs_are_those_of_the_headers(tmp_path):
    lines = ["#include <stddef.h>", "#include <stdio.h>", "#include <mrc.h>", "int main(void) {"]
    expected = []
    for name, kind in mrc.STRUCTS.items():
        lines.append(f'printf("{name} %zu\\n", sizeof(struct {name}));')
        expected.append(f"{name} {ctypes.sizeof(kind)}")
        for field, *_ in kind._fields_:
            if field not in {"tail", "room"}:
                lines.append(f'printf("{name}.{field} %zu\\n", offsetof(struct {name}, {field}));')
                expected.append(f"{name}.{field} {getattr(kind, field).offset}")
    source, target = tmp_path / "abi.c", tmp_path / "abi"
    source.write_text("\n".join([*lines, "return 0; }"]))
    subprocess.run([str(COMPILER), "-w", f"-I{LIBMRC / 'include'}", "-o", str(target), str(source)], check=True)
    said = subprocess.run([str(target)], capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == expected


@pytest.fixture
def ground(tmp_path, monkeypatch):
    monkeypatch.setenv("LIB_MRC", str(build(tmp_path / "build")))
    monkeypatch.chdir(ROOT)
    made = Ground(tmp_path)
    yield made
    made.close()


def test_the_example_writes_from_one_host_to_the_other(ground):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ("-m", "mrclab.hosts.libmrc.example")
    listener = ground.start("h3", Path(sys.executable), *words, "listen", port)
    ground.until(lambda: _listens(port))
    caller = ground.start("h1", Path(sys.executable), *words, "connect", port, "127.0.0.1")
    said = ground.run(listener, caller)
    assert said[0] == "listen: success, 1048576 bytes, 42, b'hello'\n"
    assert said[1] == "connect: success, 1048576 bytes, None, b'hello'\n"
    ground.until(ground.nothing_left)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the following arguments are required: role, port"),
        (["listen", "x"], "argument port: invalid port 'x': expected a number from 1 to 65535"),
        (["listen", "70000"], "argument port: invalid port '70000': expected a number from 1 to 65535"),
        (["connect", "7000"], "connect needs the address of the other side"),
        (["listen", "7000"], "there is no device; start the program with mrclab exec HOST --"),
    ],
)
def test_the_example_says_in_a_sentence_what_it_lacks(ground, words, said):
    command = [sys.executable, "-m", "mrclab.hosts.libmrc.example", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr


_CLOSING = """
from mrclab.hosts.libmrc.mrc import CQ, MR, PD, QP, Context

with Context() as context:
    pd = PD(context)
    cq, mr = CQ(context, 4), MR(pd, 8)
    qp = QP(pd, cq)
    for busy in (cq, pd):
        try:
            busy.close()
        except OSError as error:
            print(error)
    for one in (qp, mr, cq, pd, pd):
        one.close()
    print("closed")
"""


def test_closing_what_is_in_use_is_refused_and_can_be_repeated(ground):
    (said,) = ground.run(ground.start("h1", Path(sys.executable), "-c", _CLOSING))
    assert [line for line in said.splitlines() if not line.startswith("lib_mrc:")] == [
        "[Errno 16] destroy_cq: Device or resource busy",
        "[Errno 16] dealloc_pd: Device or resource busy",
        "closed",
    ]
    ground.until(ground.nothing_left)


def test_the_example_ends_in_a_sentence_where_the_other_side_has_ended(ground):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        words = ("-m", "mrclab.hosts.libmrc.example", "connect", port, "127.0.0.1")
        caller = ground.start("h1", Path(sys.executable), *words)
        ground.until(lambda: select.select([server], [], [], 0)[0])
        other, _ = server.accept()
        other.shutdown(socket.SHUT_WR)
        ground.until(lambda: caller.poll() is not None)
    assert caller.communicate()[0] == "connect: the other side has ended\n"
    other.close()
    assert caller.returncode == 1


def _listens(port: int) -> bool:
    lines = (Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()).splitlines()
    return any(f":{port:04X} " in line and " 0A " in line for line in lines)


def test_a_path_mtu_that_ibta_does_not_have_is_refused_before_any_call():
    with pytest.raises(ValueError, match="path_mtu 1500 is none of 256, 512, 1024, 2048, 4096"):
        mrc.QP.connect(object.__new__(mrc.QP), mrc.Address("::1", 1, 1), 1500)
