"""A drain whose switch cannot be read for a moment, or at all."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mrclab.controller.driver import SwitchState
from mrclab.controller.errors import SwitchError
from mrclab.controller.health import maintenance
from mrclab.controller.health.maintenance import MaintenanceError
from mrclab.controller.history import ControllerHistory
from mrclab.controller.provisioning.cables import CableStates, End
from mrclab.controller.provisioning.program import PipelineConfig
from mrclab.controller.wire.app import Controller
from mrclab.lab.command.display.views import undrained
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

BUILD = Path(__file__).resolve().parents[2] / "p4src" / "build"
FABRIC = Fabric(FabricSpec(planes=2, t0s=2, t1s=2, hosts_per_t0=1))
T1 = "t1-p1-1"
WAIT = 120.0  # seconds before a test that hangs fails
MUTE = SwitchError(T1, "did not answer", "DEADLINE_EXCEEDED")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "POLL", 0.001)


def drained(directory: Path, state: SwitchState, readings: Iterator[int | SwitchError], timeout: float) -> Any:
    """Answer of a drain of T1, which has this state, and whose counters read so."""

    async def body() -> dict[str, Any]:
        history = ControllerHistory(directory / "history.jsonl")
        program = PipelineConfig(BUILD / "mrc.p4info.txtpb", BUILD / "mrc.json")
        controller = Controller(FABRIC, directory, program, history, 100)
        controller.fleet.workers[T1].state = state

        async def traffic(name: str) -> int:
            assert name == T1
            found = next(readings)
            if isinstance(found, SwitchError):
                raise found
            return found

        controller.fleet.traffic = traffic  # type: ignore[method-assign]
        try:
            return await controller.core.drain(T1, "reboot", timeout)
        finally:
            history.close()

    return asyncio.run(body())


def for_ever(found: SwitchError) -> Iterator[SwitchError]:
    while True:
        yield found


def test_a_reading_that_fails_does_not_end_a_drain(tmp_path: Path) -> None:
    told = drained(tmp_path, SwitchState.READY, iter([5, 5, 5, MUTE, 5, 6, 6, 6, 6]), 60.0)
    assert (told["drained"], told["unread"]) == (True, "")


@pytest.mark.parametrize("state", [SwitchState.BACKUP, SwitchState.FAILED, SwitchState.PROVISIONING])
def test_a_switch_that_is_there_and_cannot_be_read_is_not_drained(tmp_path: Path, state: SwitchState) -> None:
    unready = SwitchError(T1, f"is not ready but {state.value}; wait for it", "UNAVAILABLE")
    told = drained(tmp_path, state, for_ever(unready), 0.05)
    assert (told["drained"], told["unread"]) == (False, f"is not ready but {state.value}; wait for it")


def test_a_switch_that_is_gone_carries_nothing(tmp_path: Path) -> None:
    gone = SwitchError(T1, "is not ready but connecting; wait for it", "UNAVAILABLE")
    assert drained(tmp_path, SwitchState.CONNECTING, for_ever(gone), 60.0)["drained"]


def test_precheck_does_not_wait_for_the_cables_of_who_does_not_answer(tmp_path: Path) -> None:
    async def body() -> None:
        history = ControllerHistory(tmp_path / "history.jsonl")
        program = PipelineConfig(BUILD / "mrc.p4info.txtpb", BUILD / "mrc.json")
        controller = Controller(FABRIC, tmp_path, program, history, 100)
        every = controller.fleet.workers.values()
        for worker in every:
            worker.state = SwitchState.READY
        controller.fleet.workers[T1].silent = True
        with pytest.raises(asyncio.TimeoutError):  # the cables of the others may be verified yet
            await asyncio.wait_for(controller.core.precheck(WAIT), 0.1)
        for worker in every:
            worker.silent = True
        told = await asyncio.wait_for(controller.core.precheck(WAIT), WAIT / 2)
        assert not told["ok"]
        history.close()

    asyncio.run(body())


def test_a_fabric_is_verified_once_the_last_stopped_switch_goes_on(tmp_path: Path) -> None:
    async def body() -> None:
        history = ControllerHistory(tmp_path / "history.jsonl")
        program = PipelineConfig(BUILD / "mrc.p4info.txtpb", BUILD / "mrc.json")
        controller = Controller(FABRIC, tmp_path, program, history, 100, telemetry=0.001)
        controller.cable_states = CableStates(FABRIC, known=True)
        for worker in controller.fleet.workers.values():
            worker.state = SwitchState.READY
        controller.fleet.workers[T1].silent = True

        async def totals(_timeout: float) -> dict[str, Any]:
            return {}

        controller.fleet.totals = totals  # type: ignore[method-assign,assignment]
        beat = asyncio.create_task(controller._sample())
        await asyncio.sleep(0.05)
        assert controller.verified_after is None
        controller.fleet.workers[T1].silent = False
        await asyncio.wait_for(_until(lambda: controller.verified_after is not None), WAIT)
        beat.cancel()
        history.close()

    asyncio.run(body())


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def known(directory: Path) -> Controller:
    """A controller whose switches are ready and whose cables are verified."""
    program = PipelineConfig(BUILD / "mrc.p4info.txtpb", BUILD / "mrc.json")
    made = Controller(FABRIC, directory, program, ControllerHistory(directory / "history.jsonl"), 100)
    made.cable_states = made.cables.states = CableStates(FABRIC, known=True)
    for worker in made.fleet.workers.values():
        worker.state = SwitchState.READY
    return made


def test_a_drained_switch_stays_drained_while_a_cable_works_only_from_it(tmp_path: Path) -> None:
    async def body() -> None:
        controller = known(tmp_path)
        await controller.core.drain(T1, "", 0.0)
        controller.cable_states.forget([End("t0-p1-2", 2)])  # its neighbour's end: no probe from there arrives
        assert str(FABRIC.switch("t0-p1-2").port(2).peer.node) == T1
        with pytest.raises(MaintenanceError, match="it still lacks all its cables"):
            await controller.core.undrain(T1, 0.01)

    asyncio.run(body())


def test_a_switch_that_somebody_else_denies_is_not_said_to_carry_traffic_again(tmp_path: Path) -> None:
    async def body() -> None:
        controller = known(tmp_path)
        await controller.core.deny(T1)
        await controller.core.drain(T1, "", 0.0)
        reply = await controller.core.undrain(T1, 0.0)
        assert reply["denied_by"] == ["operator"]
        assert undrained(reply) == f"{T1} is no longer drained, but still denied by operator; undeny it, too"

    asyncio.run(body())


def test_a_controller_that_took_over_knows_what_the_one_before_it_drained(tmp_path: Path) -> None:
    async def body() -> None:
        first, second = known(tmp_path), known(tmp_path)
        await first.core.drain(T1, "", 0.0)
        assert [denial["element"] for denial in (await second.core.status())["denied"]] == [T1]
        assert (await second.core.undrain(T1, 0.0))["undrained"]
        assert (await first.core.status())["denied"] == []

    asyncio.run(body())


def test_cables_of_a_switch_that_went_away_are_verified_anew_both_ways(tmp_path: Path) -> None:
    async def body() -> None:
        controller = known(tmp_path)
        controller.fleet.workers[T1]._become(SwitchState.CONNECTING)
        assert set(controller.cable_states.pending()) == set(controller.cable_states.ends_of(T1))

    asyncio.run(body())


def test_probes_of_a_stopped_switch_hold_up_no_other(tmp_path: Path) -> None:
    """Writes wait once the socket of a process that reads nothing is full."""

    class Wire:
        is_open = True

        async def packet_out(self, port: int, frame: bytes) -> None:
            probed.append(self)
            if self is wires["t0-p1-1"]:
                await asyncio.Event().wait()

    probed: list[Wire] = []
    wires = {switch.name: Wire() for switch in FABRIC.switches}

    async def body() -> None:
        controller = known(tmp_path)
        for name, worker in controller.fleet.workers.items():
            worker.session = wires[name]  # type: ignore[assignment]
        controller.fleet.workers["t0-p1-1"].silent = True
        controller.forget(None)
        probing = asyncio.create_task(controller.cables.run())
        await asyncio.wait_for(_until(lambda: set(wires.values()) - set(probed) == {wires["t0-p1-1"]}), WAIT)
        probing.cancel()

    asyncio.run(body())
