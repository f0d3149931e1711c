"""The controller's operations on a fabric whose switches are not there: what they answer and what they refuse."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from mrclab.controller.errors import SwitchError
from mrclab.controller.history import ControllerHistory
from mrclab.controller.operations import by_name
from mrclab.controller.p4runtime import worker
from mrclab.controller.p4runtime.session import Role
from mrclab.controller.provisioning.intent import IntendedEntry, ev_counter
from mrclab.controller.provisioning.program import PipelineConfig
from mrclab.controller.provisioning.provision import Provisioned
from mrclab.controller.provisioning.reconcile import Change, UpdateKind
from mrclab.controller.wire.app import Controller
from mrclab.rpc.errors import RpcError
from mrclab.topo.config import nodeconfig
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

BUILD = Path(__file__).resolve().parents[2] / "p4src" / "build"
PROGRAM = PipelineConfig(BUILD / "mrc.p4info.txtpb", BUILD / "mrc.json")
FABRIC = Fabric(FabricSpec(planes=2, t0s=2, t1s=2, hosts_per_t0=1))

Ask = Callable[..., Coroutine[Any, Any, dict[str, Any]]]


def with_api(directory: Path, body: Callable[[Ask], Coroutine[Any, Any, None]], **options: Any) -> None:
    """Run `body` with a function that calls operations of a controller that is not running."""

    async def main() -> None:
        history = ControllerHistory(directory / "history.jsonl")
        api = by_name(Controller(FABRIC, directory, PROGRAM, history, 100, **options).core, asynchronous=True)

        async def ask(op: str, **arguments: Any) -> dict[str, Any]:
            return dict(await api[op](**arguments))

        await body(ask)
        history.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("op", "arguments", "code", "complaint"),
    [
        (
            "deny",
            {"what": "t9-p1-1"},
            "EINVAL",
            "no switch, cable or plane is called 't9-p1-1'; did you mean 't",
        ),
        ("deny", {"what": 7}, "EINVAL", "operation deny: what: text is expected here"),
        ("deny", {"what": "plane 1", "colour": "red"}, "EINVAL", "operation deny: colour"),
        (
            "wait_verified",
            {"timeout": "soon"},
            "EINVAL",
            "operation wait_verified: timeout: a number is expected here",
        ),
        ("verify", {"timeout": -1}, "EINVAL", "timeout: this must be at least 0"),
        ("verify", {"links": ["h7-p1"], "timeout": 0}, "EINVAL", "no cable is called 'h7-p1'"),
        ("drain", {"switch": "h1-p1"}, "EPERM", "h1-p1/t0-p1-1 is not a switch; only a T0 or T1 can be drained"),
        ("undrain", {"switch": "t1-p1-1"}, "EPERM", "t1-p1-1 is not drained; drain it first"),
        ("watch_ev", {"ev": 1 << 32}, "EINVAL", "ev: this must be at most"),
        ("unwatch_ev", {"ev": 1}, "EPERM", "EV 0x00000001 is not watched"),
        ("map", {}, "ENOTSUP", "Clustermapper is off; give the scenario a mapper section"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(
    tmp_path: Path, op: str, arguments: dict[str, Any], code: str, complaint: str
) -> None:
    async def body(ask: Ask) -> None:
        with pytest.raises(RpcError) as caught:
            await ask(op, **arguments)
        assert caught.value.code == code
        assert complaint in caught.value.message
        assert "\n" not in caught.value.message

    with_api(tmp_path, body)


def test_status_tells_of_switches_that_are_not_there(tmp_path: Path) -> None:
    async def body(ask: Ask) -> None:
        status = await ask("status")
        assert (status["state"], status["switches_ready"], status["links_verified"]) == ("connecting", 0, 0)
        assert status["agents"] == {"h1": 0, "h2": 0}
        outcome = await ask("wait_verified", timeout=0)
        assert not outcome["verified"]
        assert len(outcome["not_ready"]) == len(FABRIC.switches)
        assert (await ask("counters"))["switches"] == {}

    with_api(tmp_path, body)


def test_a_denial_is_in_the_files_before_any_agent_is_there(tmp_path: Path) -> None:
    async def body(ask: Ask) -> None:
        answer = await ask("deny", what="t1-p2-1", reason="noisy")
        assert answer == {"element": "t1-p2-1", "kind": "t1", "changed": True, "version": 2, "unnotified": {}}
        assert not (await ask("deny", what="t1-p2-1"))["changed"]
        config = nodeconfig.load(tmp_path / "node" / "h1.json")
        assert config.denied(2, 1, FABRIC.host("h2").address)
        assert (await ask("status"))["denied"] == [
            {"element": "t1-p2-1", "kind": "t1", "reason": "noisy", "source": "operator"}
        ]
        assert (await ask("undeny", what="t1-p2-1"))["changed"]
        assert not nodeconfig.load(tmp_path / "node" / "h1.json").denylist

    with_api(tmp_path, body)


def test_with_clustermapper_every_link_is_unknown_at_first_and_hosts_are_told_to_probe(tmp_path: Path) -> None:
    async def body(ask: Ask) -> None:
        told = await ask("map")
        assert {link["state"] for link in told["links"].values()} == {"unknown"}
        await ask("deny", what="plane 1")
        mapper = nodeconfig.load(tmp_path / "node" / "h2.json").mapper
        assert mapper is not None
        assert mapper.cycle == 0.5

    with_api(tmp_path, body, mapper_cycle=0.5)


def test_no_more_evs_are_watched_than_the_table_holds(tmp_path: Path) -> None:
    async def body(ask: Ask) -> None:
        for ev in range(1024):
            assert (await ask("watch_ev", ev=ev))["changed"]
        assert not (await ask("watch_ev", ev=5))["changed"]
        with pytest.raises(RpcError, match="1024 EVs are watched already; unwatch one first") as caught:
            await ask("watch_ev", ev=1024)
        assert caught.value.code == "EPERM"
        await ask("unwatch_ev", ev=5)
        assert (await ask("watch_ev", ev=1024))["changed"]

    with_api(tmp_path, body)


class PrimarySession:
    """A session in which this controller is primary, until the switch is provisioned."""

    is_open, role = True, Role.PRIMARY

    def __init__(self) -> None:
        self.changes: list[Change] = []

    async def until_role(self, role: Role) -> None:
        raise SwitchError("t0-p1-1", f"ended before {role}")

    async def write(self, changes: Sequence[Change]) -> None:
        self.changes.extend(changes)


@pytest.mark.parametrize("on", [True, False])
def test_an_ev_that_is_watched_or_unwatched_while_a_switch_is_provisioned_is_so_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on: bool
) -> None:
    async def main() -> None:
        history = ControllerHistory(tmp_path / "history.jsonl")
        fleet = Controller(FABRIC, tmp_path, PROGRAM, history, 100).fleet
        first, session = fleet.workers["t0-p1-1"], PrimarySession()
        if not on:
            await fleet.watch(7, True)
        before, written = first.intended, []

        async def provision(_session: object, _program: object, intended: tuple[IntendedEntry, ...]) -> Provisioned:
            written.append(intended)
            if len(written) == 1:
                await fleet.watch(7, on)
            return Provisioned(False, True, len(intended), 0, 0, 0.1)

        monkeypatch.setattr(worker, "provision", provision)
        with pytest.raises(SwitchError):
            await first._serve(session)  # type: ignore[arg-type]
        assert written == [before, first.intended]
        assert (ev_counter(7) in first.intended) is on
        assert session.changes == ([] if on else [Change(UpdateKind.DELETE, ev_counter(7))])
        history.close()

    asyncio.run(main())
