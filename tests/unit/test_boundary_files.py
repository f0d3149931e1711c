"""Boundary: directories, files and sockets that another local user may have made."""

import os
import socket
import stat
import struct

import pytest

from mrclab.lab.command.live import rundir
from mrclab.lab.errors import LabError
from mrclab.lab.prompt.remote import client
from mrclab.lab.run.mirror import Mirror
from mrclab.rpc import peers
from mrclab.rpc.client import Client
from mrclab.rpc.errors import RpcError
from mrclab.rpc.server import Server
from mrclab.topo.errors import UntrustedPlace
from mrclab.topo.input import files, trust
from mrclab.topo.linux import state
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

OTHER = 12345  # a user id that nobody has
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="files of another user can be made by root only")


class Quiet:
    fabric = Fabric(FabricSpec())

    def history_since(self, _number):
        return []


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fifo", "device", "directory", "socket"])
def test_what_is_no_regular_file_is_refused_at_once_and_named(tmp_path, kind):
    path = tmp_path / "x"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "directory":
        path.mkdir()
    else:
        socket.socket(socket.AF_UNIX).bind(str(path))
    with pytest.raises(OSError, match=kind.replace("fifo", "FIFO")) as caught:
        files.read_bytes(path)
    assert caught.value.filename == str(path)


def test_a_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"x" * (1 << 20))
    assert len(files.read_bytes(path, 1 << 20)) == 1 << 20
    with pytest.raises(OSError, match="it has more than"):
        files.read_bytes(path, (1 << 20) - 1)


def test_a_link_is_followed_only_where_that_is_wanted(tmp_path):
    (tmp_path / "there").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "there")
    assert files.read_text(tmp_path / "link") == "secret"
    with pytest.raises(OSError, match="symbolic link"):
        files.read_text(tmp_path / "link", follow=False)


@pytest.mark.parametrize("name", ["/etc/passwd", "../out", "in/../../out", "link", "folder/x", ""])
def test_below_a_folder_nothing_else_is_read(tmp_path, name):
    root = tmp_path / "root"
    (root / "in").mkdir(parents=True)
    (tmp_path / "out").write_text("secret")
    (root / "in" / "x").write_text("x")
    (root / "link").symlink_to(tmp_path / "out")
    (root / "folder").symlink_to(root / "in")
    assert files.read_beneath(root, "in/x") == b"x"
    with pytest.raises(OSError):  # noqa: PT011 - which of them depends on what is in the way
        files.read_beneath(root, name)


def test_a_signal_that_comes_as_a_draft_is_opened_leaves_none(tmp_path, monkeypatch):
    opened = os.open

    def interrupted(*arguments):
        os.close(opened(*arguments))
        raise KeyboardInterrupt

    monkeypatch.setattr(files.os, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.replace_file(tmp_path / "file", "new")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_whole_and_a_link_in_its_place_is_not_followed(tmp_path):
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_text("kept")
    link.symlink_to(victim)
    files.replace_file(link, "new")
    assert (victim.read_text(), link.read_text(), link.is_symlink()) == ("kept", "new", False)

    def torn():
        with files.replacing(link) as file:
            file.write(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        torn()
    assert link.read_text() == "new"
    assert {path.name for path in tmp_path.iterdir()} == {"victim", "link"}


# --- directories ------------------------------------------------------------------------------------------------------


def test_a_directory_is_made_for_its_user_alone(tmp_path):
    trust.make_private(tmp_path / "a" / "b")
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700


def test_a_directory_that_everybody_may_write_to_is_refused_and_a_sticky_one_passed(tmp_path):
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    for wanted in (place, place / "lab"):
        with pytest.raises(UntrustedPlace, match=r"other users may write to .*mode 0777"):
            trust.check_directory(wanted)
    place.chmod(0o1777)
    trust.check_directory(place / "lab")
    with pytest.raises(UntrustedPlace, match="can be written by other users"):
        trust.check_private(place)


@as_root
@pytest.mark.parametrize("what", ["directory", "parent", "link"])
def test_a_place_that_another_user_has_a_hand_in_is_refused(tmp_path, what):
    place = tmp_path / "lab"
    if what == "link":
        place.symlink_to(tmp_path)
        os.lchown(place, OTHER, OTHER)
    else:
        place.mkdir()
        os.chown(place, OTHER, OTHER)
    wanted = place / "inner" if what == "parent" else place
    with pytest.raises(UntrustedPlace, match=f"uid {OTHER}"):
        trust.check_directory(wanted)
    with pytest.raises(LabError, match="XDG_RUNTIME_DIR"):
        Mirror(Quiet(), wanted)


def test_a_link_in_place_of_the_virtual_labs_directory_is_refused_and_its_target_kept(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.mkdir()
    for name in ("fabric.yaml", "over"):
        (victim / name).write_text("kept")
    (tmp_path / "mrclab").symlink_to(victim)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(LabError, match="symbolic link"):
        Mirror(Quiet(), rundir.virtual_run_dir())
    with pytest.raises(UntrustedPlace, match="symbolic link"):
        rundir.running_dir(rundir.RUN_DIR)
    assert {path.name: path.read_text() for path in victim.iterdir()} == {"fabric.yaml": "kept", "over": "kept"}


def test_links_in_the_virtual_labs_directory_are_replaced_and_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / "lab" / "history").mkdir(parents=True, mode=0o700)
    for name in ("fabric.yaml", "history/lab.jsonl"):
        (tmp_path / "lab" / name).symlink_to(victim)
    Mirror(Quiet(), tmp_path / "lab").close()
    assert victim.read_text() == "kept"


# --- sockets ----------------------------------------------------------------------------------------------------------


def test_a_socket_that_another_user_serves_is_not_asked(tmp_path, monkeypatch):
    server = Server(tmp_path / "lab.sock", {})
    real = socket.socket.getsockopt

    def others(self, level, option, size=0):
        if option == socket.SO_PEERCRED:
            return struct.pack("3i", 1, OTHER, OTHER)
        return real(self, level, option, size)

    monkeypatch.setattr(peers.socket.socket, "getsockopt", others)
    try:
        with pytest.raises(RpcError, match=f"another user .uid {OTHER}.; it gets no request"):
            Client(tmp_path / "lab.sock")
        with pytest.raises(LabError, match="another user"):
            client.ask(tmp_path, "command", line="nodes")
    finally:
        server.close()


# --- base directory -----------------------------------------------------------------------------------------------


@as_root
def test_a_base_directory_of_another_user_is_refused_and_nothing_in_it_is_removed(tmp_path):
    base = tmp_path / "mrclab"
    (base / "lab").mkdir(parents=True)
    (base / "lab" / ".mrclab").touch()
    os.chown(base, OTHER, OTHER)
    for call in (state.clean, state.running, state.RunState.claim):
        with pytest.raises(UntrustedPlace, match=f"uid {OTHER}"):
            call(base)
    assert (base / "lab").exists()


def test_a_namespace_that_is_not_named_as_the_labs_own_stays(tmp_path, monkeypatch):
    base, there = tmp_path / "mrclab", tmp_path / "netns"
    (base / "lab").mkdir(parents=True)
    there.mkdir()
    own = state.namespace(base, "cables")
    for name in (own, "mrclab-cables", "victim"):
        (there / name).write_text("")
    monkeypatch.setattr(state.kernel, "NETNS_DIR", there)
    assert state.clean(base) == []  # nothing says that a run was here
    (base / "lab" / ".mrclab").touch()
    assert state.clean(base) == [f"namespace {own}", f"directory {base / 'lab'}"]
    assert {path.name for path in there.iterdir()} == {"mrclab-cables", "victim"}


def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    victim, base = tmp_path / "victim", tmp_path / "mrclab"
    victim.write_text("kept")
    base.mkdir()
    (base / "lock").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        state.RunState.claim(base)
    assert victim.read_text() == "kept"
