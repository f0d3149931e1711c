"""A control channel that is cut from outside: both ends notice, neither took part, and it can be made again."""

import os
import socket
import subprocess
import sys

import pytest

from mrclab.topo.errors import EmulationError
from mrclab.topo.linux import channels

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="lending a process's descriptors needs root"),
]

CLIENT = """
import socket, sys
def connect(path):
    one = socket.socket(socket.AF_UNIX); one.connect(path); return one
cut, kept = connect(sys.argv[1]), connect(sys.argv[2])
print("connected", flush=True)
print("cut" if not cut.recv(1) else "no", flush=True)
sys.stdin.readline()
kept.sendall(b"still here")
try:
    connect(sys.argv[1])
except FileNotFoundError:
    print("nobody there", flush=True)
sys.stdin.readline()
connect(sys.argv[1])
print("again", flush=True)
"""


def serve(path):
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()
    server.settimeout(10)
    return server


def test_one_channel_is_cut_and_the_other_is_not(tmp_path):
    one, other = tmp_path / "one.sock", tmp_path / "other.sock"
    with serve(one) as server, serve(other) as second:
        argv = [sys.executable, "-c", CLIENT, str(one), str(other)]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
            connection, kept = server.accept()[0], second.accept()[0]
            assert client.stdout.readline() == "connected\n"
            cut = channels.cut(client.pid, one)
            assert client.stdout.readline() == "cut\n"
            assert connection.recv(1) == b""
            client.stdin.write("\n")
            client.stdin.flush()
            assert client.stdout.readline() == "nobody there\n"
            assert kept.recv(20) == b"still here"
            cut.clear()
            client.stdin.write("\n")
            client.stdin.flush()
            assert client.stdout.readline() == "again\n"
            server.accept()[0].close()
            connection.close()
            kept.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.sock", "other.sock"]


def test_a_socket_that_its_server_made_anew_stays_when_the_cut_is_healed(tmp_path):
    path = tmp_path / "one.sock"
    with serve(path):
        cut = channels.cut(os.getpid(), path)
        with serve(path) as again:
            cut.clear()
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
                again.accept()[0].close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["one.sock"]


def test_what_cannot_be_cut_stays_in_reach(tmp_path):
    path = tmp_path / "one.sock"
    with serve(path), subprocess.Popen(["/bin/true"]) as gone:
        gone.wait()
        with pytest.raises(EmulationError, match="cannot be cut from outside: No such process"):
            channels.cut(gone.pid, path)
        assert path.exists()
