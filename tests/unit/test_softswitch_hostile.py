"""softswitch and who is not trusted: P4 programs, other local users, and controllers that ask for too much."""

import json
import os
import random
import resource
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from finsy.proto import p4r, p4r_grpc
from json_injection import CODE, MARK, PAYLOADS, PROGRAMS, Injection, originals, sample
from p4runtime_fixtures import PROGRAM_JSON, Running, running

from mrclab.softswitch.compiler import vocabulary
from mrclab.softswitch.objects.runtime_api import PipelineError
from mrclab.softswitch.p4 import cache
from mrclab.softswitch.p4runtime.messages.address import ServerError, default_address
from mrclab.softswitch.pipeline import compile_program
from mrclab.softswitch.process.control_socket import ControlSocket
from mrclab.softswitch.switch import SoftSwitch

pytestmark = pytest.mark.once

__all__ = ["running"]

Json = Any
DROP_PORT, NOBODY = 511, 65534


def compiled(root: Json) -> Any:
    return compile_program(json.dumps(root), DROP_PORT)


# -- a P4 program is data ---------------------------------------------------------------------------------------------


def test_programs_with_code_in_any_place_leave_no_mark() -> None:
    """A sample of what `make fuzz-p4` tries in full."""
    injection = Injection()
    for name, changes in sample(random.Random(20), sorted(set(PROGRAMS) - {"mrc"}), singles=180, pairs=80):
        injection.attempt(name, changes)
    injection.close()
    assert injection.failures == []
    assert injection.ends["refused"] > 100
    assert injection.ends["harmless"] > 25


@pytest.mark.parametrize("payload", PAYLOADS[:8])
@pytest.mark.parametrize(
    ("program", "place"),
    [
        ("tables", ("actions", 0, "id")),
        ("replication", ("field_lists", 0, "id")),
        ("tables", ("pipelines", 0, "tables", 0, "default_entry", "action_id")),
        ("externs", ("counter_arrays", 0, "size")),
        ("externs", ("register_arrays", 0, "bitwidth")),
        ("flow", ("header_types", 0, "fields", 0, 1)),
    ],
)
def test_code_in_the_place_of_a_number_is_refused_and_does_not_run(
    program: str, place: tuple[str | int, ...], payload: str
) -> None:
    root = originals(program)
    holder = root
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = payload
    with pytest.raises(PipelineError, match="a whole number is expected"):
        compiled(root)
    assert MARK not in os.environ


@pytest.mark.parametrize(
    "text", [CODE, "f_1 = open\n", "d.__class__\n", "f_1 = '\\x41'\n", "lambda_1\n", "f_1 = `1`\n"]
)
def test_a_source_with_a_word_that_the_compiler_has_no_use_for_does_not_become_code(text: str) -> None:
    with pytest.raises(PipelineError, match="the compiler wrote"):
        vocabulary.check(text)


def test_generated_code_has_no_functions_of_python_but_those_it_needs() -> None:
    switch = SoftSwitch()
    switch.commit(compiled(originals("externs")))
    given = switch.program().ingress.__globals__["__builtins__"]
    assert sorted(given) == ["AssertionError", "bytearray", "bytes", "int", "len", "max", "min"]
    switch.close()


# -- and takes no more than there is ----------------------------------------------------------------------------------


def wide_field(root: Json) -> None:
    root["header_types"][0]["fields"][0][1] = 8 * 10**9


def many_cells(root: Json) -> None:
    root["register_arrays"] = [
        {"name": f"r{number}", "id": number, "size": 1 << 23, "bitwidth": 8} for number in range(3)
    ]


def long_number(root: Json) -> None:
    root["actions"][0]["id"] = 10**3000


def deep_nesting(root: Json) -> None:
    inner: Json = {"type": "bool", "value": True}
    for _ in range(300):
        inner = {"type": "expression", "value": {"op": "not", "left": None, "right": inner}}
    root["pipelines"][0]["conditionals"][0]["expression"] = inner


def wide_shift(root: Json) -> None:
    """x << (x << (x << …)): code that would double with each level."""
    inner: Json = {"type": "field", "value": ["standard_metadata", "packet_length"]}
    for _ in range(60):
        inner = {"type": "expression", "value": {"op": "<<", "left": inner, "right": inner}}
        inner["value"]["left"] = {"type": "field", "value": ["standard_metadata", "packet_length"]}
    root["pipelines"][0]["conditionals"][0]["expression"] = inner


@pytest.mark.parametrize(
    ("program", "change", "text"),
    [
        ("flow", wide_field, r"header_types\[0\].fields\[0\]\[1\] is 8000000000, a number from 0 to 4096 is expected"),
        ("externs", many_cells, "16777248 cells with those before; the most is 16777216"),
        ("flow", long_number, "a number of 3001 digits"),
        ("flow", deep_nesting, None),
        ("flow", wide_shift, None),
    ],
)
def test_what_would_fill_the_memory_is_refused_at_once(
    program: str, change: Callable[[Json], None], text: str | None
) -> None:
    root = originals(program)
    change(root)
    before = resource.getrusage(resource.RUSAGE_SELF)
    if text is None:
        compiled(root)
    else:
        with pytest.raises(PipelineError, match=text):
            compiled(root)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_utime - before.ru_utime < 5
    assert after.ru_maxrss - before.ru_maxrss < 64 << 10


def expression(op: str, left: Json, right: Json) -> Json:
    return {"type": "expression", "value": {"op": op, "left": left, "right": right}}


PACKET_LENGTH: Json = {"type": "field", "value": ["standard_metadata", "packet_length"]}
MINUS_ONE: Json = {"type": "hexstr", "value": "-0x1"}
COMPUTED: Json = expression("-", {"type": "hexstr", "value": "0x1"}, {"type": "hexstr", "value": "0x2"})


@pytest.mark.parametrize("op", ["<<", ">>"])
@pytest.mark.parametrize("amount", [MINUS_ONE, COMPUTED])
def test_a_shift_by_a_negative_number_is_refused_with_its_place(op: str, amount: Json) -> None:
    root = originals("flow")
    assignment = next(call for action in root["actions"] for call in action["primitives"] if call["op"] == "assign")
    assignment["parameters"][1] = expression(op, PACKET_LENGTH, amount)
    with pytest.raises(PipelineError, match=rf"operator {op}: a shift by -1 bits.*, in assign \(flow.p4:\d+\)"):
        compiled(root)
    root = originals("flow")
    root["pipelines"][0]["conditionals"][0]["expression"] = expression(op, PACKET_LENGTH, amount)
    place = r".*, in condition node_3 \(flow.p4:78\)" if amount is MINUS_ONE else ""
    with pytest.raises(PipelineError, match=f"operator {op}: a shift by -1 bits{place}"):
        compiled(root)


def test_json_nested_without_end_is_refused() -> None:
    with pytest.raises(PipelineError, match="nested too deeply"):
        compile_program("[" * 200_000, DROP_PORT)


def test_a_loop_without_end_costs_the_packet_and_not_the_switch() -> None:
    root = originals("flow")
    root["parsers"][0]["parse_states"] = [
        {"name": "start", "id": 0, "parser_ops": [], "transition_key": [],
         "transitions": [{"type": "default", "value": None, "mask": None, "next_state": "start"}]}
    ]  # fmt: skip
    root["parsers"][0]["init_state"] = "start"
    switch = SoftSwitch()
    switch.commit(compiled(root))
    switch._guarded(lambda: switch.inject(1, bytes(64)))
    assert switch.errors == 1
    switch.close()


# -- the cache --------------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with one entry, `name`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cache.store("name", compile("1", "<test>", "eval"), enqueue_time=True)
    assert cache.load("name") is not None
    return tmp_path / "cache" / "softswitch"


def test_a_cached_file_that_is_a_link_is_not_followed(kept: Path, tmp_path: Path) -> None:
    (kept / "name").rename(tmp_path / "elsewhere")
    (kept / "name").symlink_to(tmp_path / "elsewhere")
    assert cache.load("name") is None
    (kept / "name").unlink()
    os.link(tmp_path / "elsewhere", kept / "name")
    assert cache.load("name") is None


@pytest.mark.parametrize("depth", [0, 1])
def test_a_cache_behind_a_link_is_neither_read_nor_written(kept: Path, tmp_path: Path, depth: int) -> None:
    folder = [kept, kept.parent][depth]
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert cache.load("name") is None
    cache.store("more", compile("1", "<test>", "eval"), enqueue_time=True)
    assert not list(tmp_path.rglob("more"))


def test_a_link_in_the_place_of_a_file_is_replaced_and_what_it_names_stays(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("data")
    (kept / "new").symlink_to(tmp_path / "precious")
    cache.store("new", compile("1", "<test>", "eval"), enqueue_time=False)
    assert (tmp_path / "precious").read_text() == "data"
    assert not (kept / "new").is_symlink()


def test_another_source_drop_port_or_python_gives_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {cache.key("{}", 511), cache.key("{} ", 511), cache.key("{}", 510)}
    monkeypatch.setattr(cache.sys, "version", "4.0")
    keys.add(cache.key("{}", 511))
    monkeypatch.setattr(cache, "_sources", lambda: b"other")
    keys.add(cache.key("{}", 511))
    assert len(keys) == 5


def test_the_key_covers_every_source_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline that numbers its tables otherwise must not run code of the one before."""
    (tmp_path / "objects").mkdir()
    (tmp_path / "pipeline.py").write_text("a")
    (tmp_path / "objects" / "tables.py").write_text("a")
    monkeypatch.setattr(cache, "PACKAGE", tmp_path)
    found = set()
    for path in (None, tmp_path / "pipeline.py", tmp_path / "objects" / "tables.py"):
        if path is not None:
            path.write_text("b")
        cache._sources.cache_clear()
        found.add(cache.key("{}", 511))
    cache._sources.cache_clear()
    assert len(found) == 3


# -- who may connect --------------------------------------------------------------------------------------------------


def may_connect(path: str, user: int) -> bool:
    """Return True if a process of another user can connect to a Unix socket."""
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(path)
            os._exit(0)
        except PermissionError:
            os._exit(1)
        finally:
            os._exit(2)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in {0, 1}
    return status == 0


def test_the_p4runtime_socket_is_its_users_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        it = Running(tmp_path / "p4rt.sock")
        control = ControlSocket(it.switch, tmp_path / "control.sock")
    finally:
        os.umask(before)
    try:
        for name in ("p4rt.sock", "control.sock"):
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        if os.geteuid() == 0:
            for folder in (tmp_path, *tmp_path.parents[:2]):
                folder.chmod(0o755)
            assert not may_connect(str(tmp_path / "p4rt.sock"), NOBODY)
            assert not may_connect(str(tmp_path / "control.sock"), NOBODY)
    finally:
        it.switch.run(control.close)
        it.stop()


def test_without_an_address_the_socket_is_in_a_folder_that_only_its_user_enters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "run"
    own.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(own))
    assert default_address(7) == f"unix:{own}/softswitch-7.sock"


@pytest.mark.parametrize("wrong", ["open", "link"])
def test_a_folder_that_others_enter_or_a_link_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    own = tmp_path / "run"
    if wrong == "link":
        (tmp_path / "real").mkdir(mode=0o700)
        own.symlink_to(tmp_path / "real")
    else:
        own.mkdir()
        own.chmod(0o755)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(own))
    monkeypatch.setattr("mrclab.softswitch.p4runtime.messages.address._folders", lambda: iter([own]))
    with pytest.raises(ServerError, match="give --grpc-server-addr"):
        default_address(0)


# -- too much at once -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("updates", "takes"), [(20, None), (3000, None), (3000, 1 << 20)])
def test_a_write_of_many_updates_that_fail_ends_in_their_errors(
    running: Running, updates: int, takes: int | None
) -> None:
    with running.client() as client:
        client.become_primary()
        client.set_pipeline(PROGRAM_JSON)
        wrong = p4r.Update(type=p4r.Update.INSERT, entity=p4r.Entity(table_entry=p4r.TableEntry(table_id=1)))
        request = p4r.WriteRequest(device_id=1, election_id=p4r.Uint128(low=1), updates=[wrong] * updates)
        options = (
            [] if takes is None else [("grpc.max_metadata_size", takes), ("grpc.absolute_max_metadata_size", takes)]
        )
        channel = grpc.insecure_channel(running.address, options=options)
        headers = () if takes is None else (("p4runtime-max-metadata-size", str(takes)),)
        with channel, pytest.raises(grpc.RpcError) as caught:
            p4r_grpc.P4RuntimeStub(channel).Write(request, metadata=headers)
    error: Any = caught.value
    details = dict(error.trailing_metadata())["grpc-status-details-bin"]
    assert error.code() is grpc.StatusCode.UNKNOWN
    told = details.count(b"p4.v1.Error")
    if updates == 20 or takes is not None:
        assert (told, error.details()) == (updates, "")
    else:
        assert 50 < told < updates
        assert error.details().startswith(f"{updates} of {updates} updates failed, the details hold the first {told}; ")
        assert f"update {told}: INVALID_ARGUMENT" in error.details()
