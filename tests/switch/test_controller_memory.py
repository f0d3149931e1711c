"""The controller against P4Runtime servers in memory: provisioning, adoption, take-over, and switches that misbehave.

Real gRPC over Unix sockets; only the data plane is missing. What real ones do is in tests/lab/test_controller_lab.py.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from finsy.proto import p4r
from memoryswitch import MemorySwitch

from mrclab.controller.driver import SwitchState
from mrclab.controller.history import ControllerHistory
from mrclab.controller.operations import run_to_end
from mrclab.controller.p4runtime import session, worker
from mrclab.controller.provisioning import intent
from mrclab.controller.provisioning.program import PipelineConfig
from mrclab.controller.provisioning.provision import Provisioned
from mrclab.controller.wire.app import Controller
from mrclab.topo import linkcheck
from mrclab.topo.model import Fabric, mac_bytes
from mrclab.topo.spec import FabricSpec

BUILD = Path(__file__).resolve().parents[2] / "p4src" / "build"
FABRIC = Fabric(FabricSpec(planes=2, t0s=2, t1s=2, hosts_per_t0=2))
WAIT = 60.0  # seconds a test waits for something that takes milliseconds, before it fails

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """Runs a test's body. One loop for all: grpc.aio does not survive a second one in a process."""
    loop = asyncio.new_event_loop()
    yield lambda body: loop.run_until_complete(asyncio.wait_for(body, 4 * WAIT))
    loop.close()


PROGRAM = PipelineConfig(BUILD / "mrc.p4info.txtpb", BUILD / "mrc.json")


class Net:
    """Switches of FABRIC in memory, joined by its cables; NICs answer link checks."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.cables = {(s.name, p.number): (p.peer.node, p.peer.number) for s in FABRIC.switches for p in s.ports}
        self.switches: dict[str, MemorySwitch] = {}

    async def start(self, name: str) -> MemorySwitch:
        self.switches[name] = switch = MemorySwitch(FABRIC.switch(name).device_id, self._egress(name))
        await switch.start(f"unix:{self.run_dir}/{name}.p4rt.sock")
        return switch

    def _egress(self, name: str) -> Callable[[int, bytes], None]:
        def send(port: int, frame: bytes) -> None:
            node, number = self.cables.get((name, port), ("", 0))
            if node in self.switches:
                self.switches[node].receive(number, frame)
            elif node:
                back = linkcheck.answer(frame, node, number, mac_bytes("02:0c:00:00:00:01"))
                self.switches[name].receive(port, back)

        return send

    def swap(self, one: tuple[str, int], other: tuple[str, int]) -> None:
        a, b = self.cables[one], self.cables[other]
        self.cables.update({one: b, other: a, a: other, b: one})


@asynccontextmanager
async def net(run_dir: Path) -> AsyncIterator[Net]:
    it = Net(run_dir)
    await asyncio.gather(*(it.start(switch.name) for switch in FABRIC.switches))
    try:
        yield it
    finally:
        await asyncio.gather(*(switch.stop() for switch in it.switches.values()))


@asynccontextmanager
async def controller(run_dir: Path, election_id: int = 100, telemetry: float = 0.0) -> AsyncIterator[Controller]:
    history = ControllerHistory(run_dir / "history" / f"controller-{election_id}.jsonl")
    it = Controller(FABRIC, run_dir, PROGRAM, history, election_id, telemetry=telemetry)
    task = asyncio.create_task(it.run())
    try:
        yield it
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        history.close()


def events(run_dir: Path, kind: str, election_id: int = 100) -> list[dict[str, Any]]:
    lines = (run_dir / "history" / f"controller-{election_id}.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["kind"] == kind]


async def until(condition: Callable[[], bool], it: Controller) -> None:
    """Wait for something that a change of some switch brings about."""
    while not condition():
        await asyncio.wait_for(it.changed(), WAIT)


def counts(done: dict[str, Provisioned]) -> dict[str, tuple[int, int, int]]:
    return {name: (it.inserted, it.modified, it.deleted) for name, it in done.items()}


def status_of(it: Controller) -> dict[str, Any]:
    told: dict[str, Any] = run_to_end(it.core.status())
    return told


def problems(it: Controller) -> list[str]:
    return [text for link in it.cables.states.links("wrong") for text in it.cables.states.problems_of(link)]


def holds_what_it_should(it: Controller, switch: MemorySwitch, name: str) -> bool:
    wanted = {
        PROGRAM.encode(e).table_entry.SerializeToString(deterministic=True) for e in it.fleet.workers[name].intended
    }
    held = {entry.SerializeToString(deterministic=True) for entry in switch.entries.values()}
    return wanted == held


def test_all_switches_are_provisioned_and_all_cables_verified(tmp_path: Path, run: Run) -> None:
    async def body() -> None:
        async with net(tmp_path) as lab, controller(tmp_path) as it:
            outcome = await it.core.wait_verified(WAIT)
            assert outcome["verified"], outcome
            assert outcome["links"] == len(FABRIC.links)
            for name, switch in lab.switches.items():
                assert holds_what_it_should(it, switch, name)
                assert switch.writes == 1
            assert status_of(it)["state"] == "verified"
            assert sorted(p.name for p in (tmp_path / "node").iterdir()) == [f"{h.name}.json" for h in FABRIC.hosts]
            assert {e["link"] for e in events(tmp_path, "link.verified")} == {link.name for link in FABRIC.links}

    run(body())


def test_swapped_cables_are_named_and_the_rest_is_verified(tmp_path: Path, run: Run) -> None:
    async def body() -> None:
        async with net(tmp_path) as lab, controller(tmp_path) as it:
            lab.swap(("t0-p1-1", 3), ("t0-p1-1", 4))
            await until(lambda: len(events(tmp_path, "link.verified")) == len(FABRIC.links) - 2, it)
            await until(lambda: len(problems(it)) == 4, it)
            outcome = await it.core.wait_verified(0)
            assert not outcome["verified"]
            assert outcome["failed"] == ["t0-p1-1/t1-p1-1", "t0-p1-1/t1-p1-2"]
            assert "t0-p1-1 port 4 should reach t1-p1-2 port 1, reaches t1-p1-1 port 1" in outcome["problems"]
            lab.swap(("t0-p1-1", 3), ("t0-p1-1", 4))
            assert (await it.core.wait_verified(WAIT))["verified"]

    run(body())


def test_a_restarted_controller_adopts_without_a_write(tmp_path: Path, run: Run) -> None:
    async def body() -> None:
        async with net(tmp_path) as lab:
            async with controller(tmp_path) as it:
                assert (await it.core.wait_verified(WAIT))["verified"]
            writes = {name: switch.writes for name, switch in lab.switches.items()}
            async with controller(tmp_path) as it:
                assert (await it.core.wait_verified(WAIT))["verified"]
                assert all(worker.provisioned and worker.provisioned.untouched for worker in it.fleet.workers.values())
            assert writes == {name: switch.writes for name, switch in lab.switches.items()}

    run(body())


def test_only_the_difference_is_written_to_a_switch_that_strayed(tmp_path: Path, run: Run) -> None:
    async def body() -> None:
        async with net(tmp_path) as lab:
            async with controller(tmp_path) as it:
                assert (await it.core.wait_verified(WAIT))["verified"]
            strayed = lab.switches["t0-p1-1"]
            key, entry = next((k, e) for k, e in strayed.entries.items() if len(e.action.action.params) == 3)
            entry.action.action.params[0].value = b"\x63"
            strayed.entries.pop(next(k for k in strayed.entries if k != key))
            async with controller(tmp_path) as it:
                assert (await it.core.wait_verified(WAIT))["verified"]
                done = it.fleet.workers["t0-p1-1"].provisioned
                assert done
                assert (done.adopted, done.inserted, done.modified, done.deleted) == (True, 1, 1, 0)
                assert holds_what_it_should(it, strayed, "t0-p1-1")

    run(body())


def test_a_wrong_entry_is_found_named_and_repaired(tmp_path: Path, run: Run) -> None:
    async def body() -> None:
        async with net(tmp_path) as lab, controller(tmp_path) as it:
            assert (await it.core.wait_verified(WAIT))["verified"]
            route = next(
                e for e in it.fleet.workers["t0-p1-1"].intended if e.match == (("locator_usid", 0xFCBBBB001102),)
            )
            wrong = intent.IntendedEntry(route.table, route.match, (intent.forward(FABRIC.switch("t0-p1-1").port(3)),))
            for key, entry in lab.switches["t0-p1-1"].entries.items():
                if entry == PROGRAM.encode(route).table_entry:
                    lab.switches["t0-p1-1"].entries[key] = PROGRAM.encode(wrong).table_entry
            (complaint,) = (await it.fleet.audit()).wrong
            assert complaint == (
                "t0-p1-1 usid_fib should hold fcbb:bb00:1102::/48 by port 4 to t1-p1-2,"
                " holds fcbb:bb00:1102::/48 by port 3 to t1-p1-1"
            )
            assert counts(await it.fleet.repair()) == {"t0-p1-1": (0, 1, 0)}
            assert (await it.fleet.audit()).wrong == []

    run(body())


def test_a_switch_that_comes_back_empty_is_provisioned_again(tmp_path: Path, run: Run) -> None:
    async def body() -> None:
        async with net(tmp_path) as lab, controller(tmp_path) as it:
            assert (await it.core.wait_verified(WAIT))["verified"]
            await lab.switches["t1-p2-1"].stop()
            await until(lambda: it.fleet.workers["t1-p2-1"].state is SwitchState.CONNECTING, it)
            assert not (await it.core.wait_verified(0))["verified"]
            empty = await lab.start("t1-p2-1")
            assert (await it.core.wait_verified(WAIT))["verified"]
            assert holds_what_it_should(it, empty, "t1-p2-1")
            assert [e["switch"] for e in events(tmp_path, "switch.down")] == ["t1-p2-1"]
            others = [s.writes for name, s in lab.switches.items() if name != "t1-p2-1"]
            assert set(others) == {1}

    run(body())


def test_a_backup_takes_over_and_the_old_primary_returns_as_backup(tmp_path: Path, run: Run) -> None:
    async def body() -> None:
        async with net(tmp_path) as lab:
            backup_context = controller(tmp_path, election_id=50)
            async with controller(tmp_path) as primary:
                assert (await primary.core.wait_verified(WAIT))["verified"]
                backup = await backup_context.__aenter__()
                await until(lambda: status_of(backup)["state"] == "backup", backup)
            try:
                assert (await backup.core.wait_verified(WAIT))["verified"]
                assert all(
                    worker.provisioned and worker.provisioned.untouched for worker in backup.fleet.workers.values()
                )
                assert {s.writes for s in lab.switches.values()} == {1}
                async with controller(tmp_path) as returned:
                    await until(lambda: status_of(returned)["state"] == "backup", returned)
                assert status_of(backup)["state"] == "verified"
            finally:
                await backup_context.__aexit__(None, None, None)

    run(body())


def test_a_refused_update_is_named_with_its_error(tmp_path: Path, run: Run) -> None:
    async def body() -> None:
        async with net(tmp_path) as lab, controller(tmp_path) as it:
            table = PROGRAM.schema.tables["ecn_policy"].id
            lab.switches["t0-p1-1"].fault_mode.refuse_tables.add(table)
            await until(lambda: it.fleet.workers["t0-p1-1"].state is SwitchState.FAILED, it)
            message = status_of(it)["message"]
            count = len(intent.entries(FABRIC, FABRIC.switch("t0-p1-1")))
            assert message.startswith(
                f"t0-p1-1: 2 of {count} updates were refused: insert ecn_policy[std.egress_port=0x3]"
            )
            assert "RESOURCE_EXHAUSTED table is full (and 1 more)" in message
            lab.switches["t0-p1-1"].fault_mode.refuse_tables.clear()
            assert (await it.core.wait_verified(WAIT))["verified"]

    run(body())


def test_a_switch_that_does_not_keep_what_it_accepts_is_not_ready(tmp_path: Path, run: Run) -> None:
    async def body() -> None:
        async with net(tmp_path) as lab, controller(tmp_path) as it:
            lab.switches["t1-p1-1"].fault_mode.forget_tables.add(PROGRAM.schema.tables["my_usid"].id)
            await until(lambda: it.fleet.workers["t1-p1-1"].state is SwitchState.FAILED, it)
            assert (
                "t1-p1-1: holds something else than was written, 1 entries: insert my_usid" in status_of(it)["message"]
            )

    run(body())


def test_a_refused_program_is_said_and_stops_nothing_else(tmp_path: Path, run: Run) -> None:
    async def body() -> None:
        async with net(tmp_path) as lab, controller(tmp_path) as it:
            lab.switches["t1-p1-1"].fault_mode.refuse_pipeline = "not enough stages"
            await until(lambda: it.fleet.workers["t1-p1-1"].state is SwitchState.FAILED, it)
            await until(lambda: status_of(it)["switches_ready"] == len(FABRIC.switches) - 1, it)
            assert (
                "t1-p1-1: SetForwardingPipelineConfig failed: INVALID_ARGUMENT not enough stages"
                in (status_of(it)["message"])
            )

    run(body())


def test_a_switch_that_stalls_holds_up_nobody_else_and_is_ready_when_it_wakes(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "RPC_TIMEOUT", 0.3)

    async def body() -> None:
        async with net(tmp_path) as lab:
            stall = lab.switches["t0-p2-1"].fault_mode.stall = asyncio.Event()
            async with controller(tmp_path) as it:
                await until(lambda: status_of(it)["switches_ready"] == len(FABRIC.switches) - 1, it)
                await until(lambda: it.fleet.workers["t0-p2-1"].state is SwitchState.FAILED, it)
                assert "t0-p2-1: GetForwardingPipelineConfig timed out" in status_of(it)["message"]
                stall.set()
                assert (await it.core.wait_verified(WAIT))["verified"]

    run(body())


def test_a_controller_that_dies_in_mid_provisioning_leaves_work_that_the_next_one_finishes(
    tmp_path: Path, run: Run
) -> None:
    async def body() -> None:
        async with net(tmp_path) as lab:
            held = [lab.switches[name] for name in ("t0-p1-1", "t1-p2-2")]
            for switch in held:
                switch.fault_mode.forget_tables.add(PROGRAM.schema.tables["usid_fib"].id)
            async with controller(tmp_path) as it:
                await until(lambda: status_of(it)["switches_ready"] == len(FABRIC.switches) - len(held), it)
            for switch in held:
                assert switch.entries
                switch.fault_mode.forget_tables.clear()
            async with controller(tmp_path) as it:
                assert (await it.core.wait_verified(WAIT))["verified"]
                assert all(worker.provisioned and worker.provisioned.adopted for worker in it.fleet.workers.values())
                for name, switch in lab.switches.items():
                    assert holds_what_it_should(it, switch, name)

    run(body())


def test_a_switch_with_another_program_gets_ours(tmp_path: Path, run: Run) -> None:
    async def body() -> None:
        async with net(tmp_path) as lab:
            other = lab.switches["t1-p1-1"]
            other.config.CopyFrom(PROGRAM.pipeline_config())
            other.config.cookie.cookie ^= 1
            async with controller(tmp_path) as it:
                assert (await it.core.wait_verified(WAIT))["verified"]
                assert holds_what_it_should(it, other, "t1-p1-1")
            assert other.config.cookie.cookie == PROGRAM.cookie
            assert [e["switch"] for e in events(tmp_path, "program.replaced")] == ["t1-p1-1"]

    run(body())


def test_telemetry_goes_on_for_all_others_while_one_switch_stands_still(tmp_path: Path, run: Run) -> None:
    others = {switch.name for switch in FABRIC.switches} - {"t1-p1-2"}

    def told() -> list[set[str]]:
        return [set(event["switches"]) for event in events(tmp_path, "switches")]

    async def body() -> None:
        async with net(tmp_path) as lab, controller(tmp_path, telemetry=0.4) as it:
            assert (await it.core.wait_verified(WAIT))["verified"]
            stall = lab.switches["t1-p1-2"].fault_mode.stall = asyncio.Event()
            while told().count(others) < 2:
                await asyncio.sleep(0.02)
            assert [event["switch"] for event in events(tmp_path, "switch.silent")] == ["t1-p1-2"]
            stall.set()
            while told()[-1] == others:
                await asyncio.sleep(0.02)

    run(body())


def unreadable(table: str) -> p4r.Entity:
    """An entry of a table with a key that the program does not have."""
    entry = p4r.TableEntry(table_id=PROGRAM.schema.tables[table].id)
    entry.match.add(field_id=99).exact.value = b"\x01"
    return p4r.Entity(table_entry=entry)


def test_a_switch_that_reads_back_nonsense_is_named_and_holds_up_nobody_else(tmp_path: Path, run: Run) -> None:
    async def body() -> None:
        async with net(tmp_path) as lab, controller(tmp_path) as it:
            faults = lab.switches["t1-p2-1"].fault_mode
            faults.invent = [unreadable("usid_fib")]
            await until(lambda: it.fleet.workers["t1-p2-1"].state is SwitchState.FAILED, it)
            await until(lambda: status_of(it)["switches_ready"] == len(FABRIC.switches) - 1, it)
            said = "t1-p2-1: answered a read with an entry that the program cannot hold"
            assert status_of(it)["message"].startswith(said)
            faults.invent.clear()
            assert (await it.core.wait_verified(WAIT))["verified"]
            faults.invent = [unreadable("usid_fib")]
            assert (await it.audit()).wrong == []
            assert set(await it.fleet.counters()) == {switch.name for switch in FABRIC.switches} - {"t1-p2-1"}
            faults.invent.clear()
        assert [e["switch"] for e in events(tmp_path, "switch.error")] == ["t1-p2-1"] * 3  # three requests

    run(body())


def test_an_error_that_stays_is_recorded_once(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "RETRY_MAX", worker.RETRY_FIRST)

    async def body() -> None:
        async with net(tmp_path) as lab, controller(tmp_path) as it:
            broken = lab.switches["t1-p1-1"]
            broken.fault_mode.refuse_pipeline = "not enough stages"
            await until(lambda: broken.programs >= 3, it)
        assert [e["switch"] for e in events(tmp_path, "switch.error")] == ["t1-p1-1"]

    run(body())


def test_two_controllers_with_one_election_id_are_told_apart(tmp_path: Path, run: Run) -> None:
    async def body() -> None:
        async with net(tmp_path), controller(tmp_path) as first:
            assert (await first.core.wait_verified(WAIT))["verified"]
            async with controller(tmp_path) as second:
                await until(lambda: status_of(second)["state"] == "failed", second)
                assert (
                    "another controller has election id 100; start this one with another --election-id"
                    in status_of(second)["message"]
                )
            assert status_of(first)["state"] == "verified"

    run(body())


def test_a_switch_that_came_back_is_not_thought_silent(tmp_path: Path, run: Run) -> None:
    """Nobody asks it anything else where there is neither telemetry nor an audit."""

    async def body() -> None:
        async with net(tmp_path) as lab, controller(tmp_path) as it:
            assert (await it.core.wait_verified(WAIT))["verified"]
            it.fleet.workers["t1-p2-1"].silent = True  # as after a request that it did not answer
            await lab.switches["t1-p2-1"].stop()
            await until(lambda: it.fleet.workers["t1-p2-1"].state is SwitchState.CONNECTING, it)
            await lab.start("t1-p2-1")
            assert (await it.core.wait_verified(WAIT / 4))["verified"]

    run(body())


def test_a_route_is_misdirected_whatever_it_was_before(tmp_path: Path, run: Run) -> None:
    """As in virtual time: removed, removed again, misdirected although it is not there."""

    async def body() -> None:
        async with net(tmp_path), controller(tmp_path) as it:
            assert (await it.core.wait_verified(WAIT))["verified"]
            for to, wrong in ((0, "lacks"), (0, "lacks"), (3, "should hold"), (0, "lacks")):
                await it.core.misroute("t0-p1-1", 4, to)
                (complaint,) = (await it.fleet.audit()).wrong
                assert complaint.startswith(f"t0-p1-1 usid_fib {wrong} fcbb:bb00:1102::/48 by port 4")

    run(body())


def test_counts_of_evs_of_a_switch_that_answers_nonsense_are_left_out(tmp_path: Path, run: Run) -> None:
    async def body() -> None:
        async with net(tmp_path) as lab, controller(tmp_path) as it:
            assert (await it.core.wait_verified(WAIT))["verified"]
            await it.core.watch_ev(7)
            lab.switches["t1-p2-1"].fault_mode.invent = [unreadable("ev_watch")]
            counts = (await it.core.ev_counters())["evs"]["7"]
            assert set(counts) == {switch.name for switch in FABRIC.switches} - {"t1-p2-1"}
            assert "answered a read with an entry" in status_of(it)["by_switch"]["t1-p2-1"]["error"]

    run(body())
