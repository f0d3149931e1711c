"""Listening addresses of the server, and its messages for bad ones."""

import socket
from pathlib import Path

import pytest
from p4runtime_fixtures import Running, running

from mrclab.softswitch.p4runtime.server import P4RuntimeServer, ServerError

__all__ = ["running"]


def refusal(running: Running, address: str) -> str:
    with pytest.raises(ServerError) as caught:
        P4RuntimeServer(running.switch, address, device_id=1)
    return str(caught.value)


def test_a_path_in_use_is_not_taken_over(running: Running, tmp_path: Path) -> None:
    assert "another process listens there" in refusal(running, running.address)
    with running.client() as client:
        client.become_primary()


def test_a_socket_file_that_nobody_listens_on_is_replaced(running: Running, tmp_path: Path) -> None:
    path = tmp_path / "old.sock"
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(path))
    assert path.exists()
    P4RuntimeServer(running.switch, f"unix:{path}", device_id=1).stop()
    assert not path.exists()


def test_impossible_addresses_are_named(running: Running, tmp_path: Path) -> None:
    assert "at most 107 bytes" in refusal(running, "unix:/" + "x" * 107)
    assert "its directory does not exist" in refusal(running, f"unix:{tmp_path}/none/p4rt.sock")
    for address in ("", "9559", "host:port", "127.0.0.1:99999", "127.0.0.1"):
        assert "is not an address to listen on" in refusal(running, address)


def test_a_tcp_port_is_served_on_its_address_only_and_not_shared(running: Running) -> None:
    server = P4RuntimeServer(running.switch, "127.0.0.1:0", device_id=1)
    try:
        socket.create_connection(("127.0.0.1", server.port), timeout=60).close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", server.port), timeout=60)
        assert "it is in use" in refusal(running, f"127.0.0.1:{server.port}")
    finally:
        server.stop()
