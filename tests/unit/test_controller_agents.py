"""The controller's end of an agent's API, against a real JSON-lines server."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mrclab.controller import nodefiles
from mrclab.controller.history import ControllerHistory
from mrclab.controller.wire import agents
from mrclab.controller.wire.agents import AgentLink
from mrclab.rpc.aserver import AsyncServer
from mrclab.rpc.errors import RpcError
from mrclab.topo.config.nodeconfig import NodeConfig
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

FABRIC = Fabric(FabricSpec())
WAIT = 120.0  # seconds before a test that hangs fails


def config(version: int) -> NodeConfig:
    return nodefiles.node_configs(FABRIC, version)["h1"]


class Agent:
    """The part of an agent's API that handles configs."""

    def __init__(self, path: Path, host: str = "h1", version: int = 1) -> None:
        self.version = version
        self.refusal = ""
        self.server = AsyncServer(
            path,
            {"hello": lambda: {"host": host, "config_version": self.version}, "update_config": self.update_config},
        )

    def update_config(self, config: dict[str, Any]) -> dict[str, Any]:
        if self.refusal:
            raise RpcError("EINVAL", self.refusal)
        self.version = max(self.version, NodeConfig.model_validate(config).version)
        return {"version": self.version}


class Rig:
    """A link to h1's agent, its events, and its history."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "h1.sock"
        self.heard: asyncio.Queue[tuple[str, dict[str, Any]]] = asyncio.Queue()
        self.history_path = directory / "controller.jsonl"
        self.kinds: asyncio.Queue[str] = asyncio.Queue()
        history = ControllerHistory(self.history_path)
        history.listen(lambda event: self.kinds.put_nowait(event["kind"]))
        self.link = AgentLink(
            "h1", self.path, history, lambda host, event: self.heard.put_nowait((host, event)), ["mapper.report"]
        )

    async def until(self, kind: str) -> None:
        while await asyncio.wait_for(self.kinds.get(), WAIT) != kind:
            pass

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [e for e in map(json.loads, self.history_path.read_text().splitlines()) if e["kind"] == kind]


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[Rig]:
    rig = Rig(directory)
    task = asyncio.create_task(rig.link.run())
    try:
        yield rig
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "CONNECT_INTERVAL", 0.02)


def test_an_agent_is_told_what_it_does_not_know_yet(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(tmp_path) as rig:
            rig.link.send(config(3))
            await rig.link.notified()  # nobody is there: nobody to wait for
            agent = Agent(rig.path)
            async with agent.server:
                await rig.until("agent.updated")
                assert agent.version == 3
                rig.link.send(config(4))
                await asyncio.wait_for(rig.link.notified(), WAIT)
                assert agent.version == 4

    asyncio.run(body())


def test_who_waits_for_a_config_is_not_told_of_the_one_before_it(tmp_path: Path) -> None:
    """The second denial comes while the agent takes the first."""

    async def body() -> None:
        async with running(tmp_path) as rig:
            takes, may_answer = asyncio.Event(), asyncio.Event()

            class Slow(Agent):
                async def update_config(self, config: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]
                    takes.set()
                    await may_answer.wait()
                    return super().update_config(config)

            agent = Slow(rig.path)
            async with agent.server:
                await rig.until("agent.up")
                rig.link.send(config(2))
                await asyncio.wait_for(takes.wait(), WAIT)
                rig.link.send(config(3))
                waiting = asyncio.create_task(rig.link.notified())
                may_answer.set()
                await asyncio.wait_for(waiting, WAIT)
                assert agent.version == 3

    asyncio.run(body())


def test_an_agent_that_knows_already_is_left_alone(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(tmp_path) as rig:
            rig.link.send(config(3))
            agent = Agent(rig.path, version=3)
            agent.refusal = "must not be called"
            async with agent.server:
                await rig.until("agent.up")
                await asyncio.wait_for(rig.link.notified(), WAIT)
            assert rig.events("agent.updated") == []

    asyncio.run(body())


def test_events_are_handed_on_and_an_agent_that_went_away_is_found_again(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(tmp_path) as rig:
            for number in (1, 2):
                agent = Agent(rig.path)
                async with agent.server:
                    await rig.until("agent.up")
                    agent.server.publish({"kind": "mapper.report", "cycle": number})
                    host, event = await asyncio.wait_for(rig.heard.get(), WAIT)
                    assert (host, event["cycle"]) == ("h1", number)
                await rig.until("agent.down")

    asyncio.run(body())


def test_an_agent_of_another_host_is_not_believed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        async with running(tmp_path) as rig:
            async with Agent(rig.path, host="h2").server:
                while "says it is 'h2', not h1" not in caplog.text:
                    await asyncio.sleep(0.01)
            assert not rig.link.connected

    asyncio.run(asyncio.wait_for(body(), WAIT))


def test_a_config_that_is_refused_is_said_once_and_not_offered_again(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(tmp_path) as rig:
            agent = Agent(rig.path)
            agent.refusal = "ports of a running NIC cannot change; restart the agent"
            async with agent.server:
                await rig.until("agent.up")
                for _ in range(2):
                    rig.link.send(config(2))
                    await asyncio.wait_for(rig.link.notified(), WAIT)
                assert rig.link.connected
                agent.refusal = ""
                rig.link.send(config(3))
                await rig.until("agent.updated")
            (refused,) = rig.events("agent.refused")
            assert (refused["host"], refused["version"]) == ("h1", 2)
            assert "restart the agent" in refused["reason"]
            assert len(rig.events("agent.up")) == 1

    asyncio.run(body())


@pytest.mark.parametrize("version", ["soon", 0, None, 1.5])
def test_an_agent_that_talks_nonsense_is_not_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, version: object
) -> None:
    async def body() -> None:
        async with running(tmp_path) as rig:
            agent = Agent(rig.path, version=version)  # type: ignore[arg-type]
            async with agent.server:
                while "which is not a version number" not in caplog.text:
                    await asyncio.sleep(0.01)
            assert not rig.link.connected

    asyncio.run(asyncio.wait_for(body(), WAIT))
    assert caplog.text.count("which is not a version number") == 1


async def _saying(line: bytes, path: Path) -> asyncio.Server:
    """Serve a line to each client, and close when that has gone: Python 3.12 waits for what its server left open."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(line)
        with contextlib.suppress(OSError):
            await reader.read()
        writer.close()

    return await asyncio.start_unix_server(talk, path)


def test_an_event_that_is_no_object_ends_the_connection_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        async with running(tmp_path) as rig:
            async with await _saying(b'{"event": "mapper.report"}\n', rig.path):
                while "an event that is not an object" not in caplog.text:
                    await asyncio.sleep(0.01)
            async with Agent(tmp_path / "h1.sock").server:
                await rig.until("agent.up")

    asyncio.run(asyncio.wait_for(body(), WAIT))


@pytest.mark.parametrize("answer", ['"ok": [1]', '"error": "no"'])
def test_an_answer_of_the_wrong_form_ends_the_connection_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, answer: str
) -> None:
    async def body() -> None:
        async with running(tmp_path) as rig:
            async with await _saying(f'{{"id": 1, {answer}}}\n'.encode(), rig.path):
                while "an answer of the wrong form" not in caplog.text:
                    await asyncio.sleep(0.01)
            async with Agent(tmp_path / "h1.sock").server:
                await rig.until("agent.up")

    asyncio.run(asyncio.wait_for(body(), WAIT))


def test_what_nobody_serves_cannot_be_asked(tmp_path: Path) -> None:
    async def body() -> None:
        async with running(tmp_path) as rig:
            with pytest.raises(RpcError, match="no agent serves"):
                await rig.link.request("hello")

    asyncio.run(body())


@pytest.mark.parametrize("refusal", ["", "too new"])
def test_who_answers_again_is_silent_no_more(tmp_path: Path, refusal: str) -> None:
    async def body() -> None:
        async with running(tmp_path) as rig:
            agent = Agent(rig.path)
            async with agent.server:
                await rig.until("agent.up")
                rig.link._silent = True  # as after a look at a process that stood still
                agent.refusal = refusal
                rig.link.send(config(2))
                await asyncio.wait_for(rig.link.notified(), WAIT)
                assert rig.link.unresponsive == ""

    asyncio.run(body())
