"""Switches and agents that are there and do not answer: the controller names them, and reads nothing into silence."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_controller_api import FABRIC, PROGRAM
from test_stopped import stopped_server

from mrclab.controller.driver import SwitchState
from mrclab.controller.errors import SwitchError
from mrclab.controller.history import ControllerHistory
from mrclab.controller.operations import by_name
from mrclab.controller.p4runtime import fleet
from mrclab.controller.provisioning.cables import CableStates
from mrclab.controller.wire import agents
from mrclab.controller.wire.app import Controller

SILENT = "t1-p1-1"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (agents, fleet):
        monkeypatch.setattr(module, "STOPPED_S", 0.15)
        monkeypatch.setattr(module, "_LOOK_S", 0.05)


class Session:
    """A switch that holds what it should, and answers or does not."""

    def __init__(self, worker: Any, error: SwitchError | None) -> None:
        self._worker, self._error = worker, error

    async def read_entries(self) -> tuple[Any, ...]:
        if self._error is not None:
            raise self._error
        await asyncio.sleep(1000 if self._worker.pid else 0)
        return tuple(self._worker.intended)


def with_controller(directory: Path, error: SwitchError | None, pid: int | None, body: Any) -> None:
    """Run `body` on a controller whose switches are all ready but for `SILENT`, which gives an error or nothing."""

    async def main() -> None:
        controller = Controller(FABRIC, directory, PROGRAM, ControllerHistory(directory / "history.jsonl"), 100)
        for name, worker in controller.fleet.workers.items():
            worker.state, worker.pid = SwitchState.READY, pid if name == SILENT else None
            worker.session = Session(worker, error if name == SILENT else None)  # type: ignore[assignment]
        controller.cable_states = CableStates(FABRIC, known=True)
        api = by_name(controller.core, asynchronous=True)
        await body(SimpleNamespace(**api))

    asyncio.run(main())


def test_entries_of_a_stopped_switch_are_not_said_to_be_right(tmp_path: Path) -> None:
    with stopped_server(tmp_path / "switch.sock") as process:
        why = f"is stopped (process {process.pid}, state T: SIGSTOP or the like)"

        async def body(api: Any) -> None:
            audited = await api.audit(switch=SILENT)
            assert audited["entries"] == []
            assert audited["unread"][SILENT].startswith(why)
            assert (await api.audit(switch="t0-p1-1"))["unread"] == {}
            assert list((await api.audit())["unread"]) == [SILENT]
            status = await api.status()
            assert status["switches_ready"] == len(FABRIC.switches) - 1
            assert status["by_switch"][SILENT]["error"].startswith(why)
            assert list(status["entries_unread"]) == [SILENT]
            checks = {check["name"]: check for check in (await api.precheck(timeout=0))["checks"]}
            assert checks["switches"]["detail"].startswith(f"not ready: {SILENT} {why}")
            assert checks["entries"]["detail"].startswith(f"{SILENT} was not read: it {why}")

        with_controller(tmp_path, None, process.pid, body)


def test_a_switch_that_hangs_without_being_stopped_is_named_too(tmp_path: Path) -> None:
    async def body(api: Any) -> None:
        assert (await api.audit())["unread"] == {SILENT: "does not answer"}
        status = await api.status()
        assert status["by_switch"][SILENT]["silent"]
        assert status["links"] - status["links_verified"] == len(FABRIC.switch(SILENT).ports), (
            "nobody vouches for these"
        )

    with_controller(tmp_path, SwitchError(SILENT, "Read timed out", "DEADLINE_EXCEEDED"), None, body)


def test_an_audit_reads_few_switches_at_once_and_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All at once keep every CPU from switches and hosts that forward meanwhile."""
    now: list[str] = []
    seen: list[int] = []

    async def read(self: Session) -> tuple[Any, ...]:
        now.append(self._worker.name)
        seen.append(len(now))
        await asyncio.sleep(0.001)
        now.remove(self._worker.name)
        return tuple(self._worker.intended)

    monkeypatch.setattr(Session, "read_entries", read)

    async def body(api: Any) -> None:
        assert await api.audit() == {"entries": [], "unread": {}}
        assert len(seen) == len(FABRIC.switches)
        assert max(seen) == fleet._READ_AT_ONCE < len(FABRIC.switches)

    with_controller(tmp_path, None, None, body)


def test_a_stopped_agent_is_neither_there_nor_gone_and_is_not_said_to_know_of_a_denial(tmp_path: Path) -> None:
    async def main() -> None:
        history = ControllerHistory(tmp_path / "history.jsonl")
        controller = Controller(FABRIC, tmp_path, PROGRAM, history, 100)
        api = by_name(controller.core, asynchronous=True)
        link = controller.nodes.agents["h1"]
        with stopped_server(tmp_path / "h1.sock") as process:
            running = asyncio.create_task(link.run())
            while not link.unresponsive:
                await asyncio.sleep(0.01)
            why = f"is stopped (process {process.pid}, state T"
            denied = await api["deny"](what="t1-p2-1")
            assert denied["unnotified"]["h1"].startswith(why)
            status = await api["status"](ask=0.1)
            assert status["agents_silent"]["h1"].startswith(why)
            assert status["agents"]["h1"] == 0
        while link.unresponsive:  # it ended: it is not there any more
            await asyncio.sleep(0.01)
        running.cancel()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_call_to_a_stopped_agent_ends_in_a_moment(tmp_path: Path) -> None:
    async def main() -> None:
        with stopped_server(tmp_path / "h1.sock"):
            client = agents.AsyncClient(tmp_path / "h1.sock", lambda _event: None)
            await client.open()
            with pytest.raises(agents.RpcError, match="it is stopped"):
                await client.call("stats", 60.0)
            await client.close()

    asyncio.run(main())
