"""The controller against real switches, cables and host agents: what it brings up, keeps up, finds and takes over."""

import asyncio
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import pytest
from bmv2 import TARGETS
from controller_lab import ROOT, TIMEOUT, ControlledLab, controlled_lab

from mrclab.controller.__main__ import BUILD
from mrclab.controller.p4runtime.session import Role, SwitchSession
from mrclab.controller.provisioning import intent
from mrclab.controller.provisioning.program import PipelineConfig
from mrclab.controller.provisioning.reconcile import Change, UpdateKind
from mrclab.rpc.errors import RpcError
from mrclab.topo.config.nodeconfig import load

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces"),
]


@pytest.fixture(scope="module", params=TARGETS)
def lab(request: pytest.FixtureRequest) -> Iterator[ControlledLab]:
    """A verified fabric of two planes; every test leaves it as it found it."""
    with controlled_lab("-ctl", request.param) as it:
        it.start()
        yield it


@pytest.fixture(autouse=True)
def whole(lab: ControlledLab) -> Iterator[None]:
    """Fail a test that leaves the fabric other than verified; the next one finds it whole in any case."""
    try:
        yield
        assert lab.call("controller", "wait_verified", timeout=TIMEOUT)["verified"]
        assert lab.call("controller", "audit") == {"entries": [], "unread": {}}
        assert lab.call("controller", "status")["denied"] == []
    except (AssertionError, RpcError):
        lab.recover()
        raise


def counted(lab: ControlledLab) -> set[str]:
    """The switches that answer when they are asked for their counters."""
    return set(lab.call("controller", "counters")["switches"])


def test_switches_are_counted_and_nothing_was_dropped_on_the_way_up(lab: ControlledLab) -> None:
    lab.wait(lambda: counted(lab) == {switch.name for switch in lab.fabric.switches})
    told = lab.call("controller", "counters")["switches"]
    assert all(port["rx_packets"] > 0 for port in told["t0-p1-1"]["ports"].values())
    assert told["t0-p1-1"]["drops"]["usid_miss"] == 0


def test_a_killed_switch_is_provisioned_as_soon_as_it_answers_at_the_first_attempt(lab: ControlledLab) -> None:
    killed = lab.kill_switch("t1-p1-2")
    lab.wait_event("switch.down", killed, switch="t1-p1-2")
    lab.emulation.restart("t1-p1-2")
    ready = lab.wait_event("switch.ready", killed, switch="t1-p1-2")
    assert not ready["adopted"]
    assert ready["inserted"] == len(intent.entries(lab.fabric, lab.fabric.switch("t1-p1-2")))
    assert [e["switch"] for e in lab.events("switch.up", killed)] == ["t1-p1-2"]
    assert [e["switch"] for e in lab.events("switch.ready", killed)] == ["t1-p1-2"]
    assert lab.events("switch.error", killed) == []


def test_a_killed_controller_is_followed_by_one_that_writes_nothing(lab: ControlledLab) -> None:
    killed = lab.kill("controller")
    lab.start_controller()
    assert lab.call("controller", "wait_verified", timeout=20)["verified"]
    ready = lab.events("switch.ready", killed)
    assert len(ready) == len(lab.fabric.switches)
    assert all(e["adopted"] and not (e["inserted"] or e["modified"] or e["deleted"]) for e in ready)


def test_a_controller_killed_in_mid_provisioning_leaves_work_that_the_next_one_finishes(lab: ControlledLab) -> None:
    emptied = [switch.name for switch in lab.fabric.switches if switch.tier == "t1"]
    began = time.monotonic()
    for name in emptied:
        lab.emulation.restart(name)
    lab.wait_event("switch.up", began)  # of the first of them; the others are at any stage
    killed = lab.kill("controller")
    lab.start_controller()
    assert lab.call("controller", "wait_verified", timeout=TIMEOUT)["verified"]
    assert lab.call("controller", "audit") == {"entries": [], "unread": {}}
    untouched = [e for e in lab.events("switch.ready", killed) if e["switch"] not in emptied]
    assert untouched
    assert not any(e["inserted"] or e["modified"] or e["deleted"] for e in untouched)


def test_a_backup_takes_over_from_a_killed_primary(lab: ControlledLab) -> None:
    lab.start_controller("backup", "--election-id", "50")
    lab.wait(lambda: lab.call("backup", "status")["state"] == "backup")
    killed = lab.kill("controller")
    assert lab.call("backup", "wait_verified", timeout=20)["verified"]
    assert all(e["adopted"] and not e["inserted"] for e in lab.events("switch.ready", killed, "backup"))
    lab.start_controller()
    lab.wait(lambda: lab.call("controller", "status")["state"] == "backup")
    lab.kill("backup")


def test_swapped_cables_are_named_by_both_ends(lab: ControlledLab) -> None:
    cables = lab.emulation.cables
    cables.swap("t0-p1-1/t1-p1-1", "t0-p1-1/t1-p1-2")
    try:
        outcome = lab.call("controller", "verify", timeout=3)
        assert sorted(outcome["failed"]) == ["t0-p1-1/t1-p1-1", "t0-p1-1/t1-p1-2"]
        assert set(outcome["problems"]) == {
            "t0-p1-1 port 2 should reach t1-p1-1 port 1, reaches t1-p1-2 port 1",
            "t1-p1-1 port 1 should reach t0-p1-1 port 2, reaches t0-p1-1 port 3",
            "t0-p1-1 port 3 should reach t1-p1-2 port 1, reaches t1-p1-1 port 1",
            "t1-p1-2 port 1 should reach t0-p1-1 port 3, reaches t0-p1-1 port 2",
        }
    finally:
        cables.swap("t0-p1-1/t1-p1-1", "t0-p1-1/t1-p1-2")


@pytest.mark.parametrize(
    ("to", "complaint"),
    [
        (
            2,
            "usid_fib should hold fcbb:bb00:1102::/48 by port 3 to t1-p1-2,"  # noqa: ISC004
            " holds fcbb:bb00:1102::/48 by port 2 to t1-p1-1",
        ),
        (0, "usid_fib lacks fcbb:bb00:1102::/48 by port 3 to t1-p1-2"),
    ],
)
def test_a_wrong_or_missing_entry_is_named_by_the_audit_and_mended_on_request(
    lab: ControlledLab, to: int, complaint: str
) -> None:
    began = time.monotonic()
    lab.call("controller", "misroute", switch="t0-p1-1", port=3, to=to)
    assert lab.call("controller", "verify", timeout=20)["entries"] == [f"t0-p1-1 {complaint}"]
    assert lab.wait_event("entries.wrong", began)["entries"] == [f"t0-p1-1 {complaint}"]
    assert list(lab.call("controller", "repair")["switches"]) == ["t0-p1-1"]
    lab.wait_event("entries.right", began)


def test_what_another_primary_did_is_mended_when_it_leaves(lab: ControlledLab) -> None:
    began = time.monotonic()
    asyncio.run(take_over_and_delete(lab, "t0-p1-1"))
    lab.wait_event("switch.ready", began, switch="t0-p1-1", inserted=1)
    assert [e["switch"] for e in lab.events("switch.demoted", began)] == ["t0-p1-1"]


async def take_over_and_delete(lab: ControlledLab, name: str) -> None:
    """As primary with a higher election id, delete the route to the second T1."""
    switch = lab.fabric.switch(name)
    program = PipelineConfig(BUILD / "mrc.p4info.txtpb", BUILD / "mrc.json")
    address = f"unix:{lab.run_dir}/{name}.p4rt.sock"
    intruder = SwitchSession(name, address, switch.device_id, program, 1000, lambda _port, _frame: None)
    await intruder.open()
    await intruder.until_role(Role.PRIMARY)
    await intruder.write([Change(UpdateKind.DELETE, intent.usid_route(switch.port(3)))])
    await intruder.close()


def test_a_cable_that_is_down_is_named_and_the_precheck_says_so(lab: ControlledLab) -> None:
    lab.emulation.cables.down("h1-p2/t0-p2-1")
    try:
        outcome = lab.call("controller", "precheck", timeout=2)
        failed = {check["name"]: check["detail"] for check in outcome["checks"] if not check["ok"]}
        assert failed == {
            "cables": "t0-p2-1 port 1 should reach h1 port 2, reaches nothing",
            "h1": "ports down: h1-p2",
        }
    finally:
        lab.emulation.cables.up("h1-p2/t0-p2-1")
    assert lab.call("controller", "precheck", timeout=20)["ok"]


def test_a_denial_reaches_files_and_agents_and_survives_the_controller(lab: ControlledLab) -> None:
    lab.wait(lambda: all(lab.call("controller", "status")["agents"].values()))
    version = lab.call("controller", "deny", what="h1-p2", reason="5 % loss")["version"]
    h1, h2 = (lab.fabric.host(name).address for name in ("h1", "h2"))
    config = load(lab.run_dir / "node" / "h2.json")
    assert config.version == version
    assert config.denied(2, 1, h1)
    assert not config.denied(1, 1, h1)
    assert {lab.call(host.name, "hello")["config_version"] for host in lab.fabric.hosts} == {version}
    with pytest.raises(RpcError, match=r"denying plane 1 would leave no path from h1 to h2"):
        lab.call("controller", "deny", what="plane 1")
    lab.kill("controller")
    lab.start_controller()
    status = lab.call("controller", "status")
    assert [denial["element"] for denial in status["denied"]] == ["h1-p2/t0-p2-1"]
    assert status["version"] == version
    assert lab.call("controller", "undeny", what="h1-p2")["changed"]
    assert not load(lab.run_dir / "node" / "h1.json").denied(2, 1, h2)


def versions(lab: ControlledLab) -> dict[str, int]:
    """Node config version that each agent uses, as the agent says itself."""
    return {host.name: lab.call(host.name, "hello")["config_version"] for host in lab.fabric.hosts}


def test_an_agent_that_was_dead_during_a_change_comes_back_with_it_and_is_told_the_next(lab: ControlledLab) -> None:
    killed = lab.kill("h1")
    lab.wait_event("agent.down", killed, host="h1")
    version = lab.call("controller", "deny", what="t1-p2-2")["version"]
    lab.start_agent("h1")
    lab.wait_event("agent.up", killed, host="h1", version=version)
    assert versions(lab) == {"h1": version, "h2": version}
    assert lab.events("agent.updated", killed) == [e for e in lab.events("agent.updated", killed) if e["host"] == "h2"]
    version = lab.call("controller", "undeny", what="t1-p2-2")["version"]
    assert versions(lab) == {"h1": version, "h2": version}
    assert lab.call("controller", "status")["agents"] == {"h1": version, "h2": version}


def test_a_corrupt_node_config_is_said_and_every_agent_converges_on_the_new_one(lab: ControlledLab) -> None:
    before = lab.call("controller", "status")["version"]
    killed = lab.kill("controller")
    damaged = lab.run_dir / "node" / "h1.json"
    damaged.write_text('{"version": 7, "host"')
    agent = [
        sys.executable,
        "-m",
        "mrclab.hosts.agent",
        "--node-config",
        damaged,
        "--socket",
        "/x",
        "--history",
        os.devnull,
    ]
    refused = subprocess.run(agent, capture_output=True, text=True, check=False, cwd=ROOT)
    assert refused.returncode == 1
    assert f"{damaged}: Invalid JSON" in refused.stderr
    lab.start_controller()
    assert lab.wait_event("node.damaged", killed)["host"] == "h1"
    assert load(damaged).version == before + 1
    lab.wait(lambda: versions(lab) == {"h1": before + 1, "h2": before + 1})


def test_a_drained_switch_may_be_rebooted_and_undrained_when_it_is_back(lab: ControlledLab) -> None:
    assert lab.call("controller", "drain", switch="t1-p2-1", timeout=10)["drained"]
    killed = lab.kill_switch("t1-p2-1")
    lab.wait_event("switch.down", killed, switch="t1-p2-1")
    with pytest.raises(RpcError, match="t1-p2-1 stays drained"):
        lab.call("controller", "undrain", switch="t1-p2-1", timeout=0)
    lab.emulation.restart("t1-p2-1")
    assert lab.call("controller", "undrain", switch="t1-p2-1", timeout=20)["undrained"]
    assert lab.call("controller", "status")["denied"] == []


def test_a_frozen_switch_holds_up_nobody_else(lab: ControlledLab) -> None:
    lab.emulation.freeze("t1-p1-1")
    try:
        lab.wait(lambda: counted(lab) == {switch.name for switch in lab.fabric.switches} - {"t1-p1-1"})
    finally:
        lab.emulation.thaw("t1-p1-1")


def test_prometheus_reads_ports_drops_and_states(lab: ControlledLab) -> None:
    url = lab.call("controller", "metrics")["url"]
    assert url.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(url) as answer:
        page = answer.read().decode()
    assert 'mrclab_switch_ready{switch="t1-p2-2"} 1' in page
    assert 'mrclab_switch_dropped_packets_total{switch="t0-p1-1",reason="usid_miss"} 0' in page
    assert page.count("# TYPE mrclab_switch_tx_packets_total counter") == 1
