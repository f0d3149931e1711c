"""Client and servers over real sockets: answers, errors, events, and peers that die or misbehave."""

import asyncio
import contextlib
import os
import resource
import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mrclab.rpc.aserver import AsyncServer
from mrclab.rpc.client import Client
from mrclab.rpc.dispatch import Operations
from mrclab.rpc.errors import RpcError, RpcTimeout, RpcUnavailable
from mrclab.rpc.framing import LineSplitter, decode
from mrclab.rpc.paths import listen
from mrclab.rpc.server import Server


class SelectPeer:
    """A server in a select loop of its own thread, as the agent has it in its main loop."""

    def __init__(self, path: Path) -> None:
        self._wake, self._waker = socket.socketpair()
        self._calls = []
        self.server = Server(path, operations(self.publish))
        self._thread = threading.Thread(target=self._loop)
        self._thread.start()

    def _loop(self) -> None:
        while True:
            ready, _, _ = select.select([self.server, self._wake], [], [])
            if self._wake in ready and not self._wake.recv(1):
                break
            self.server.service()
        self.server.close()

    def publish(self, event: dict) -> None:
        self.server.publish(event)

    def stop(self) -> None:
        self._waker.close()
        self._thread.join()
        self._wake.close()


class AsyncPeer:
    """A server under asyncio in a thread, as the controller has it."""

    def __init__(self, path: Path) -> None:
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main(path)))
        self._thread.start()
        self._started.wait()

    async def _main(self, path: Path) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with AsyncServer(path, operations(self.publish)) as self.server:
            self._started.set()
            await self._stop.wait()

    def publish(self, event: dict) -> None:
        self.server.publish(event)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


def operations(publish) -> dict:
    def add(a: int, b: int = 1) -> dict:
        return {"sum": a + b}

    def refuse() -> dict:
        raise RpcError("EBUSY", "profile 3 is online")

    def fail() -> dict:
        return {"never": 1 // 0}

    def unwritable() -> dict:
        return {"value": b"bytes"}

    def blob(size: int) -> dict:
        return {"data": "x" * size}

    def emit(count: int) -> None:
        for number in range(count):
            publish({"kind": "even" if number % 2 == 0 else "odd", "number": number})

    return {"add": add, "refuse": refuse, "fail": fail, "unwritable": unwritable, "blob": blob, "emit": emit}


def leave_out_what_linux_alone_has(monkeypatch) -> None:
    for module, name in ((select, "epoll"), (socket, "SOCK_NONBLOCK"), (socket, "SOCK_CLOEXEC")):
        monkeypatch.delattr(module, name)


@pytest.fixture(params=["select", "asyncio", "asyncio without Linux"])
def path(request, tmp_path, monkeypatch) -> Iterator[Path]:
    if request.param.endswith("without Linux"):
        leave_out_what_linux_alone_has(monkeypatch)
    peer = (SelectPeer if request.param == "select" else AsyncPeer)(tmp_path / "peer.sock")
    yield tmp_path / "peer.sock"
    peer.stop()
    assert not (tmp_path / "peer.sock").exists()


def test_a_call_returns_what_the_operation_returns(path):
    with Client(path) as client:
        assert client.call("add", a=2) == {"sum": 3}
        assert client.call("add", a=2, b=5) == {"sum": 7}
        assert client.call("emit", count=0) == {}


@pytest.mark.parametrize(
    ("op", "arguments", "code", "message"),
    [
        ("refuse", {}, "EBUSY", "profile 3 is online"),
        ("add", {}, "EINVAL", "operation add: missing a required argument: 'a'"),
        ("add", {"a": 1, "c": 2}, "EINVAL", "operation add: got an unexpected keyword argument 'c'"),
        ("subtract", {}, "ENOSYS", "no operation 'subtract'; there are: add, "),
        ("fail", {}, "EIO", "ZeroDivisionError"),
        ("unwritable", {}, "EPROTO", "cannot be written as JSON"),
    ],
)
def test_an_error_has_code_and_sentence_and_the_connection_lives(path, op, arguments, code, message):
    with Client(path) as client:
        with pytest.raises(RpcError) as caught:
            client.call(op, **arguments)
        assert caught.value.code == code
        assert message in caught.value.message
        assert client.call("add", a=1) == {"sum": 2}


def test_an_operation_with_a_name_of_many_pages_is_not_told_in_full(path):
    with Client(path) as client:
        with pytest.raises(RpcError) as caught:
            client.call("x" * 200_000)
        assert caught.value.code == "ENOSYS"
        assert len(caught.value.message) < 1000


def test_a_large_answer_and_a_large_request_arrive_whole(path):
    with Client(path) as client:
        assert len(client.call("blob", size=4_000_000)["data"]) == 4_000_000
        with pytest.raises(RpcError, match="unexpected keyword"):
            client.call("add", a=1, padding="y" * 4_000_000)


def test_events_reach_subscribers_only_and_in_order(path):
    with Client(path) as watcher, Client(path) as stranger:
        watcher.subscribe()
        stranger.call("emit", count=5)
        events = watcher.events(timeout=120)
        assert [next(events)["number"] for _ in range(5)] == [0, 1, 2, 3, 4]
        assert list(stranger.events(timeout=0)) == []


def test_a_subscription_to_some_kinds_gets_only_those_until_it_is_replaced(path):
    with Client(path) as client:
        client.subscribe(["odd", "other"])
        client.call("emit", count=4)
        assert [event["number"] for event in client.events(timeout=0)] == [1, 3]
        client.subscribe()
        client.call("emit", count=2)
        assert [event["number"] for event in client.events(timeout=0)] == [0, 1]


@pytest.mark.parametrize("arguments", [{"kinds": "odd"}, {"kinds": [1]}, {"sort": []}])
def test_a_subscription_that_makes_no_sense_is_refused(path, arguments):
    with Client(path) as client:
        with pytest.raises(RpcError, match="subscribe") as caught:
            client.call("subscribe", **arguments)
        assert caught.value.code == "EINVAL"
        client.call("emit", count=1)
        assert list(client.events(timeout=0)) == []


def test_events_that_arrive_during_a_call_are_kept(path):
    with Client(path) as client:
        client.subscribe()
        client.call("emit", count=3)
        assert client.call("add", a=1) == {"sum": 2}
        assert [event["number"] for event in client.events(timeout=0)] == [0, 1, 2]


def test_a_slow_client_does_not_hold_up_others(path):
    with Client(path) as slow, Client(path) as quick:
        slow._socket.sendall(b'{"id":1,"op":"blob","size":4000000}\n' * 3)
        assert quick.call("add", a=1) == {"sum": 2}


def test_a_client_that_sends_garbage_is_answered_and_may_go_on(path):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as raw:
        raw.connect(str(path))
        raw.sendall(b'nonsense\n[1]\n{"id":7,"op":"add","a":1}\n')
        splitter, answers = LineSplitter(), []
        while len(answers) < 3:
            answers += [decode(line) for line in splitter.feed(raw.recv(65536))]
        by_id = {answer["id"]: answer for answer in answers}
        assert by_id[7]["ok"] == {"sum": 2}
        assert by_id[None]["error"]["code"] == "EPROTO"


def test_a_client_that_leaves_in_the_middle_of_a_line_does_no_harm(path):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as raw:
        raw.connect(str(path))
        raw.sendall(b'{"id":7,"op":"blob","size":4000000}\n{"id":8')
    with Client(path) as client:
        assert client.call("add", a=1) == {"sum": 2}


def test_a_second_server_is_refused_while_the_first_lives(path):
    with pytest.raises(RpcError, match="another process serves") as caught:
        Server(path, {})
    assert caught.value.code == "EADDRINUSE"


def test_a_missing_socket_is_named(tmp_path):
    with pytest.raises(RpcUnavailable, match=f"no socket {tmp_path}/none.sock: its process is not running"):
        Client(tmp_path / "none.sock")


def test_a_dead_server_is_named_and_its_socket_file_replaced(tmp_path):
    path = tmp_path / "dead.sock"
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(path))
    with pytest.raises(RpcUnavailable, match="has died"):
        Client(path)
    peer = SelectPeer(path)
    try:
        with Client(path) as client:
            assert client.call("add", a=1) == {"sum": 2}
    finally:
        peer.stop()


def test_a_server_that_ends_during_a_call_is_named(tmp_path):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(tmp_path / "s.sock"))
        listener.listen()
        client = Client(tmp_path / "s.sock")
        accepted, _ = listener.accept()
        threading.Thread(target=lambda: (accepted.recv(1000), accepted.close())).start()
        with pytest.raises(RpcUnavailable, match="process has ended"):
            client.call("add", a=1)
        with pytest.raises(RpcUnavailable, match="is closed"):
            client.call("add", a=1)


def test_a_server_that_does_not_answer_times_out(tmp_path):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(tmp_path / "s.sock"))
        listener.listen()
        with Client(tmp_path / "s.sock", timeout=0.05) as client, pytest.raises(RpcTimeout, match="did not answer add"):
            client.call("add", a=1)


def test_wait_for_gives_up_with_the_reason(tmp_path):
    with pytest.raises(RpcUnavailable, match="not running"):
        Client.wait_for(tmp_path / "none.sock", timeout=0.05)


def test_wait_for_reaches_a_server_that_starts_later(tmp_path):
    peers = []
    starter = threading.Thread(target=lambda: peers.append(SelectPeer(tmp_path / "s.sock")))
    starter.start()
    with Client.wait_for(tmp_path / "s.sock", timeout=120) as client:
        assert client.call("add", a=1) == {"sum": 2}
    starter.join()
    peers[0].stop()


def test_a_path_too_long_for_a_socket_is_refused_with_the_remedy(tmp_path):
    with pytest.raises(RpcError, match="use a shorter directory"):
        Client(tmp_path / ("x" * 120))


def test_a_subscriber_that_does_not_read_loses_events_and_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("mrclab.rpc.server.MAX_BACKLOG_BYTES", 1000)
    peer = SelectPeer(tmp_path / "s.sock")
    try:
        with Client(tmp_path / "s.sock") as slow, Client(tmp_path / "s.sock") as quick:
            slow.subscribe()
            quick.call("emit", count=20_000)
            received = 0
            for event in slow.events(timeout=120):
                if event.get("kind") == "rpc.events_dropped":
                    break
                received += 1
            assert event["count"] > 0
            assert received + event["count"] == 20_000
    finally:
        peer.stop()


async def _hang_up(path: Path, *, whole: bool) -> list[str]:
    """Request a slow operation and hang up; return how it ended, and the bytes that came back."""
    began, go, ended = asyncio.Event(), asyncio.Event(), []

    async def slow() -> None:
        began.set()
        try:
            await go.wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        ended.append("done")

    async with AsyncServer(path, {"slow": slow}, cancel=True):
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(b'{"id":1,"op":"slow"}\n')
        await began.wait()
        if whole:
            writer.close()
            while not ended:
                await asyncio.sleep(0.01)
        else:
            writer.write_eof()
            await asyncio.sleep(0.05)
            go.set()
            ended.append((await asyncio.wait_for(reader.read(), 60)).decode())
            writer.close()
    return ended


@pytest.fixture(params=[True, False], ids=["Linux", "without Linux"])
def each_system(request, monkeypatch) -> None:
    if not request.param:
        leave_out_what_linux_alone_has(monkeypatch)


@pytest.mark.usefixtures("each_system")
def test_a_request_whose_client_hangs_up_is_cancelled(tmp_path):
    assert asyncio.run(_hang_up(tmp_path / "s.sock", whole=True)) == ["cancelled"]


@pytest.mark.usefixtures("each_system")
def test_a_client_that_sends_no_more_gets_its_answers(tmp_path):
    assert asyncio.run(_hang_up(tmp_path / "s.sock", whole=False)) == ["done", '{"id":1,"ok":{}}\n']


@pytest.mark.usefixtures("each_system")
@pytest.mark.parametrize("cancel", [False, True])
def test_a_long_answer_is_sent_whole_to_a_client_that_sends_no_more(tmp_path, cancel):
    async def request() -> bytes:
        async with AsyncServer(tmp_path / "s.sock", {"long": lambda: {"text": "x" * 8_000_000}}, cancel=cancel):
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s.sock"))
            writer.write(b'{"id":1,"op":"long"}\n')
            writer.write_eof()
            received = await asyncio.wait_for(reader.read(), 60)
            writer.close()
            return received

    received = asyncio.run(request())
    assert (len(received) > 8_000_000, received[-3:]) == (True, b"}}\n")


async def _request_the_end(path: Path) -> bytes:
    """Request an operation that ends the server; return the bytes that came back."""
    stop = asyncio.Event()

    async def end() -> None:
        stop.set()

    async with AsyncServer(path, {"end": end}):
        reader, writer = await asyncio.open_unix_connection(str(path))
        writer.write(b'{"id":1,"op":"end"}\n')
        await stop.wait()
    received = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return received


@pytest.mark.usefixtures("each_system")
def test_an_operation_that_ends_the_server_is_answered(tmp_path):
    assert asyncio.run(_request_the_end(tmp_path / "s.sock")) == b'{"id":1,"ok":{}}\n'
    assert not (tmp_path / "s.sock").exists()


def _ping() -> None:
    """Do nothing."""


@contextlib.contextmanager
def no_descriptor_left(client: socket.socket) -> Iterator[None]:
    """Let this process open nothing more; `client` has been its last descriptor."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(client.fileno())
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_client_for_whom_no_descriptor_is_left_is_disconnected(tmp_path):
    server = Server(tmp_path / "s.sock", {"ping": _ping})
    with contextlib.closing(server), socket.socket(socket.AF_UNIX) as client, socket.socket(socket.AF_UNIX) as second:
        for each in (client, second):
            each.connect(server.path)
            each.settimeout(60)
        with no_descriptor_left(client):
            server.service()
        assert client.recv(1) == b""
        server.service()
        second.send(b'{"id":1,"op":"ping"}\n')
        server.service()
        assert second.recv(100) == b'{"id":1,"ok":{}}\n'


def test_a_subscriber_that_left_before_its_own_operation_publishes_is_no_warning(tmp_path, caplog):
    def leave() -> None:
        server.publish({"kind": "left"})

    server = Server(tmp_path / "s.sock", {"leave": leave})
    with contextlib.closing(server):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(server.path)
            server.service()
            client.send(b'{"id":1,"op":"subscribe"}\n{"id":2,"op":"leave"}\n{"id":3,"op":"leave"}\n')
        server.service()
        assert not server.has_subscribers
    assert caplog.messages == []


def test_requests_that_wait_for_one_future_are_all_answered(tmp_path):
    async def request() -> list[bytes]:
        shared = asyncio.get_running_loop().create_future()
        async with AsyncServer(tmp_path / "s.sock", {"wait": lambda: shared}):
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s.sock"))
            writer.write(b'{"id":1,"op":"wait"}\n{"id":2,"op":"wait"}\n')
            await asyncio.sleep(0.05)
            shared.set_result({"done": True})
            received = [await asyncio.wait_for(reader.readline(), 60) for _ in range(2)]
            writer.close()
            return received

    assert sorted(asyncio.run(request())) == [b'{"id":1,"ok":{"done":true}}\n', b'{"id":2,"ok":{"done":true}}\n']


class TakenAtOnce:
    """A spare descriptor that another thread takes as soon as it is free."""

    def __init__(self, spare: socket.socket) -> None:
        self._spare = spare

    def close(self) -> None:
        self._spare.close()
        self.taken = os.open("/dev/null", os.O_RDONLY)


def test_a_server_whose_spare_descriptor_another_thread_takes_goes_on(tmp_path):
    server = Server(tmp_path / "s.sock", {"ping": _ping})
    with contextlib.closing(server), socket.socket(socket.AF_UNIX) as client:
        client.connect(server.path)
        client.settimeout(60)
        server._listener._spare = spare = TakenAtOnce(server._listener._spare)
        with no_descriptor_left(client):
            server.service()
        os.close(spare.taken)
        server.service()
        client.send(b'{"id":1,"op":"ping"}\n')
        server.service()
        assert client.recv(100) == b'{"id":1,"ok":{}}\n'


def test_operations_refuse_a_request_without_a_name():
    with pytest.raises(RpcError, match="no operation None"):
        Operations({}).invoke({"id": 1})


def test_a_path_that_leads_through_a_file_is_not_called_in_use(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(RpcError) as refused:
        listen(tmp_path / "file" / "api.sock")
    assert refused.value.code == "ENOTDIR"


def test_a_path_is_measured_in_bytes_whatever_they_are(tmp_path):
    folder = tmp_path / "\udcff"  # as os.fsdecode returns a byte that is no UTF-8
    folder.mkdir()
    listen(folder / "a").close()
    with pytest.raises(RpcError) as refused:
        listen(folder / ("é" * 60))
    assert refused.value.code == "ENAMETOOLONG"
