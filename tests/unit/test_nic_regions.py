"""Files as memory regions."""

import os
import resource
import signal
import subprocess
import sys

import pytest

from mrclab.hosts.memory.regions import Mapped
from mrclab.rpc.errors import RpcError

MEMORY = Mapped()


def test_a_file_is_read_where_it_lies(tmp_path):
    path = tmp_path / "source"
    path.write_bytes(bytes(range(256)) * 20)
    buffer = MEMORY.map(str(path), None, "read")
    assert bytes(buffer) == path.read_bytes()
    with pytest.raises(TypeError):
        buffer[0:1] = b"x"
    MEMORY.unmap(buffer)


def test_only_the_length_asked_for_is_mapped(tmp_path):
    path = tmp_path / "source"
    path.write_bytes(b"0123456789")
    assert bytes(MEMORY.map(str(path), 4, "read")) == b"0123"


def test_a_written_region_makes_the_file_and_what_is_written_is_in_it(tmp_path):
    path = tmp_path / "target"
    buffer = MEMORY.map(str(path), 5000, "write")
    memoryview(buffer)[4096:4101] = b"hello"
    assert path.read_bytes() == bytes(4096) + b"hello" + bytes(899)
    MEMORY.unmap(buffer)


@pytest.mark.parametrize("before", [b"", b"x" * 10, b"x" * 9000])
def test_a_written_region_has_exactly_its_length(tmp_path, before):
    path = tmp_path / "target"
    path.write_bytes(before)
    MEMORY.map(str(path), 5000, "write")
    assert path.stat().st_size == 5000


def truncate(path) -> None:
    """As another process does it."""
    subprocess.run([sys.executable, "-c", "import os, sys; os.truncate(sys.argv[1], 10)", str(path)], check=True)


def test_a_file_that_is_truncated_keeps_its_bytes_in_the_region(tmp_path):
    path = tmp_path / "source"
    content = os.urandom(100_000)
    path.write_bytes(content)
    buffer = MEMORY.map(str(path), None, "read")
    view = memoryview(buffer)
    truncate(path)
    assert path.stat().st_size == 10
    assert bytes(view) == content
    view.release()
    MEMORY.unmap(buffer)


def test_a_file_that_somebody_writes_to_is_copied_at_once(tmp_path):
    path = tmp_path / "source"
    content = os.urandom(100_000)
    path.write_bytes(content)
    with path.open("r+b") as writer:
        buffer = MEMORY.map(str(path), None, "read")
        writer.truncate(10)
    assert bytes(buffer) == content
    MEMORY.unmap(buffer)


def test_a_file_can_be_written_to_once_its_region_is_gone(tmp_path):
    path = tmp_path / "source"
    path.write_bytes(bytes(100_000))
    first, second = MEMORY.map(str(path), None, "read"), MEMORY.map(str(path), None, "read")
    MEMORY.unmap(first)
    truncate(path)
    assert bytes(second) == bytes(100_000)
    MEMORY.unmap(second)
    truncate(path)


@pytest.mark.parametrize("access", ["read", "write"])
def test_an_empty_region_is_allowed(tmp_path, access):
    path = tmp_path / "empty"
    path.write_bytes(b"")
    buffer = MEMORY.map(str(path), 0, access)
    assert len(memoryview(buffer)) == 0
    MEMORY.unmap(buffer)


def test_a_view_that_is_left_outlives_the_region_safely(tmp_path):
    path = tmp_path / "target"
    buffer = MEMORY.map(str(path), 100, "write")
    view = memoryview(buffer)
    MEMORY.unmap(buffer)
    view[:5] = b"hello"
    assert path.read_bytes()[:5] == b"hello"
    view.release()
    MEMORY.unmap(buffer)
    with pytest.raises(ValueError, match="closed"):
        memoryview(buffer)


@pytest.mark.parametrize("access", ["read", "write"])
def test_populating_takes_steps_touches_every_page_and_changes_nothing(tmp_path, access):
    path = tmp_path / "file"
    path.write_bytes(os.urandom(1_000_000))
    before = path.read_bytes()
    buffer = MEMORY.map(str(path), 1_000_000, access)
    step, steps = MEMORY.populate(buffer, access), 1
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    while step(0.0):
        steps += 1
    assert steps == 4
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    assert sum(buffer[::4096]) == sum(before[::4096])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults < 50
    assert path.read_bytes() == before


def test_populating_ends_when_the_region_is_unmapped(tmp_path):
    buffer = MEMORY.map(str(tmp_path / "file"), 1_000_000, "write")
    step = MEMORY.populate(buffer, "write")
    assert step(0.0)
    MEMORY.unmap(buffer)
    assert not step(0.0)


def test_a_region_that_the_disk_cannot_hold_is_refused_before_anything_is_written(tmp_path):
    path = tmp_path / "file"
    with pytest.raises(RpcError, match="No space left") as caught:
        MEMORY.map(str(path), 1 << 60, "write")
    assert caught.value.code == "ENOSPC"
    assert path.stat().st_size == 0


@pytest.mark.parametrize(
    ("name", "length", "access", "code", "message"),
    [
        ("none", None, "read", "ENOENT", "No such file"),
        ("none/target", 1, "write", "ENOENT", "No such file"),
        ("", 1, "write", "EISDIR", "Is a directory"),
        ("", None, "read", "EINVAL", "not a regular file"),
        ("short", 11, "read", "EINVAL", "has 10 bytes, fewer than the 11"),
        ("short", -1, "read", "EINVAL", "negative"),
        ("short", None, "write", "EINVAL", "needs a length"),
    ],
)
def test_a_region_that_cannot_be_is_refused_with_a_sentence(tmp_path, name, length, access, code, message):
    (tmp_path / "short").write_bytes(b"0123456789")
    with pytest.raises(RpcError, match=message) as caught:
        MEMORY.map(str(tmp_path / name), length, access)
    assert caught.value.code == code


def test_a_relative_path_is_refused():
    with pytest.raises(RpcError, match="give an absolute path"):
        MEMORY.map("target", 1, "write")


@pytest.mark.parametrize("access", ["read", "write"])
def test_a_file_that_is_cut_short_under_its_mapping_costs_the_region_and_not_the_process(tmp_path, access):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100_000)
    child = subprocess.run([sys.executable, "-c", CUT_SHORT, str(path), access], capture_output=True, check=False)
    assert child.returncode == 0, child.stderr.decode()
    assert child.stdout.decode().split() == ["told", "10"]


CUT_SHORT = """
import mmap, os, sys, zlib
from mrclab.hosts.memory import regions
from mrclab.hosts.memory.regions import Mapped
path, access = sys.argv[1:]
regions._take_lease = lambda descriptor: None  # as after a lease that was broken while the process was stopped
memory, told = Mapped(), []
buffer = memory.map(path, 100_000, access)
memory.watch(buffer, lambda: told.append("told"))
view = memoryview(buffer)
os.truncate(path, 10)
if access == "write":
    view[50_000:50_010] = b"0123456789"
    assert bytes(view[50_000:50_010]) == b"0123456789"
    view[99_990:] = b"0123456789"
zlib.crc32(view)
view.release()
memory.unmap(buffer)
print(told[0], os.path.getsize(path))
"""


def test_a_fault_outside_any_region_still_ends_the_process(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(100_000))
    child = subprocess.run([sys.executable, "-c", NOT_OURS, str(path)], capture_output=True, check=False)
    assert child.returncode == -signal.SIGBUS


NOT_OURS = """
import mmap, os, sys
from mrclab.hosts.memory.regions import Mapped
memory = Mapped()
memory.watch(memory.map(sys.argv[1] + "2", 4096, "write"), lambda: None)
with open(sys.argv[1], "r+b") as file:
    other = mmap.mmap(file.fileno(), 100_000)
os.truncate(sys.argv[1], 10)
other[50_000] = 1
"""
