"""The whole lab in virtual time: nodes that come and go, the controller's operations, the history."""

import hashlib
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from mrclab.controller.metrics import names as metricnames
from mrclab.controller.provisioning import counters
from mrclab.rpc.errors import RpcError
from mrclab.sim.controller import TELEMETRY_S
from mrclab.sim.world import SimWorld
from mrclab.topo.cables.cablefaults import EVERY_PACKET, SeededLoss
from mrclab.topo.config.transport import TransportSpec
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec

STREAM = {"kind": "stream", "size": 1 << 20}


def world(path, seed=1, mapper=None, kind="mrc", **spec):
    fabric = Fabric(FabricSpec(**{"planes": 4, "t0s": 2, "t1s": 2, "hosts_per_t0": 2, **spec}))
    return SimWorld(fabric, seed=seed, transport=TransportSpec(kind=kind), mapper=mapper, files=path)


def write(made, source="h1", destination="h3", size=1 << 20):
    """A file from host to host; returns when it is there."""
    path = made.files / f"{source}.bin"
    path.write_bytes(bytes(range(256)) * (size >> 8))
    target = made.files / f"{destination}.copy"
    ends = {source: {"role": "send", "peer": destination, "path": str(path)}}
    ends[destination] = {"role": "recv", "peer": source, "path": str(target)}
    spec = {"kind": "write", "message": 1 << 18, "seed": "s", "size": size}
    infos = {}
    for host, end in ends.items():
        flow = {"name": "f", "qps": 1, "attributes": {}, **end}
        infos[host] = made.call(host, "prepare_workload", name="w", spec=spec, flows=[flow])["flows"]["f"]
    for host, end in ends.items():
        made.call(host, "connect_workload", name="w", flows={"f": infos[end["peer"]]})
    for host in ends:
        made.call(host, "start_workload", name="w", at=made.now + 0.001)
    return path, target


def test_counters_that_stand_still_are_not_summed_again(tmp_path, monkeypatch):
    made, seen = world(tmp_path), []
    whole = counters.totals
    monkeypatch.setattr(counters, "totals", lambda *given: seen.append(given) or whole(*given))
    first = made._controller.fleet.totals()
    made.run(1.0)
    seen.clear()
    assert made._controller.fleet.totals().keys() == first.keys()
    assert not seen
    write(made)
    made.run(2.0)
    assert made._controller.fleet.totals()["t0-p1-1"]["rx_packets"] > first["t0-p1-1"]["rx_packets"]


def until_done(made, limit=30.0):
    told = []
    while made.now < limit and not any(event["kind"] == "flow.done" for _, event in told):
        told += made.run(limit)
    return told


def test_it_is_up_and_verified_within_a_round_trip(tmp_path):
    made = world(tmp_path)
    assert made.call("controller", "status")["state"] == "verified"
    assert made.now < 0.02
    assert [port["up"] for port in made.call("h2", "hello")["ports"]] == [True] * 4


def test_what_a_node_refuses_is_an_answer_with_a_code(tmp_path):
    made = world(tmp_path)
    for node, op, arguments, text in (
        ("h9", "hello", {}, "h9 is not there"),
        ("h1", "dance", {}, "h1 has no operation 'dance'"),
        ("controller", "dance", {}, "no operation 'dance'"),
        ("controller", "deny", {"what": "t1-p9-1"}, "t1-p9-1"),
        ("controller", "deny", {"what": 3}, "what: text is expected here"),
        ("controller", "undrain", {"switch": "t1-p1-1"}, "is not drained"),
        ("controller", "drain", {"switch": "h1-p1"}, "is not a switch"),
        ("controller", "map", {}, "Clustermapper is off"),
    ):
        with pytest.raises(RpcError, match=text):
            made.call(node, op, **arguments)


def test_a_dead_cable_and_swapped_ones_are_found_and_found_healed(tmp_path):
    made = world(tmp_path)
    made.hold_down("cut", "t0-p1-1/t1-p1-1")
    answer = made.call("controller", "verify", timeout=1.0)
    assert not answer["verified"]
    assert answer["problems"] == [
        "t0-p1-1 port 3 should reach t1-p1-1 port 1, reaches nothing",
        "t1-p1-1 port 1 should reach t0-p1-1 port 3, reaches nothing",
    ]
    made.release("cut")
    assert made.call("controller", "wait_verified", timeout=1.0)["verified"]
    made.swap("h1-p2", "h2-p2")
    answer = made.call("controller", "verify", timeout=1.0)
    assert "t0-p2-1 port 1 should reach h1 port 2, reaches h2 port 2" in answer["problems"]
    made.swap("h1-p2", "h2-p2")
    assert made.call("controller", "verify", timeout=1.0)["verified"]


def test_a_wrong_entry_is_audited_and_repaired(tmp_path):
    made = world(tmp_path)
    given = made.call("controller", "misroute", switch="t0-p1-1", port=3, to=4)
    assert given == {"entry": "t0-p1-1 now holds fcbb:bb00:1101::/48 by port 4 to t1-p1-2"}
    given = made.call("controller", "misroute", switch="t0-p1-1", port=1)
    assert given == {"entry": "t0-p1-1 no longer holds fcbb:bb00:3101::/48 by port 1 to h1"}
    assert made.call("controller", "audit")["entries"] == [
        "t0-p1-1 usid_fib lacks fcbb:bb00:3101::/48 by port 1 to h1",
        (
            "t0-p1-1 usid_fib should hold fcbb:bb00:1101::/48 by port 3 to t1-p1-1, holds fcbb:bb00:1101::/48 by port 4"
            " to t1-p1-2"
        ),
    ]
    assert not made.call("controller", "verify", timeout=1.0)["verified"]
    done = made.call("controller", "repair", switch="t0-p1-1")
    assert done["switches"] == {"t0-p1-1": {"inserted": 1, "modified": 1, "deleted": 0}}
    assert made.call("controller", "audit")["entries"] == []


def test_a_switch_that_dies_comes_back_empty_and_is_provisioned(tmp_path):
    made = world(tmp_path)
    _, target = write(made)
    made.run(0.2)
    made.kill("t1-p2-1")
    assert made.call("controller", "status")["by_switch"]["t1-p2-1"]["state"] == "connecting"
    assert "t1-p2-1" not in made.call("controller", "counters")["switches"]
    made.restart("t1-p2-1")
    assert made.call("controller", "status")["by_switch"]["t1-p2-1"]["state"] == "provisioning"
    until_done(made)
    assert made.call("controller", "wait_verified", timeout=2.0)["verified"]
    assert target.read_bytes() == (made.files / "h1.bin").read_bytes()


def test_a_switch_that_starts_twice_is_provisioned_0_2_s_after_its_last_start(tmp_path):
    made = world(tmp_path)
    for _ in range(2):
        made.kill("t1-p2-1")
        made.restart("t1-p2-1")
        pass_time(made, 0.15)
    assert made.sim.switches["t1-p2-1"].is_empty
    pass_time(made, 0.06)
    assert not made.sim.switches["t1-p2-1"].is_empty


def test_a_switch_that_freezes_before_it_is_provisioned_is_so_after_it_continues(tmp_path):
    made = world(tmp_path)
    made.kill("t1-p2-1")
    made.restart("t1-p2-1")
    made.freeze("t1-p2-1")
    pass_time(made, 1)
    assert made.sim.switches["t1-p2-1"].is_empty
    made.thaw("t1-p2-1")
    pass_time(made, 0.21)
    assert not made.sim.switches["t1-p2-1"].is_empty
    assert made.call("controller", "wait_verified", timeout=2.0)["verified"]


def test_a_switch_that_stands_still_is_named_and_nothing_is_read_into_it(tmp_path):
    made = world(tmp_path)
    made.freeze("t1-p2-1")
    status = made.call("controller", "status")
    assert (status["state"], status["switches_ready"]) == ("verifying", len(made.fabric.switches) - 1)
    assert status["by_switch"]["t1-p2-1"] == {"state": "ready", "silent": True, "error": "is stopped"}
    assert made.call("controller", "audit")["unread"] == {"t1-p2-1": "is stopped"}
    assert made.call("controller", "wait_verified", timeout=0.1)["not_ready"] == ["t1-p2-1"]
    checks = {check["name"]: check["detail"] for check in made.call("controller", "precheck", timeout=2)["checks"]}
    assert checks["switches"] == "not ready: t1-p2-1 is stopped"
    began = made.now
    told = made.call("controller", "drain", switch="t1-p2-1", timeout=0.5)
    assert (told["drained"], told["unread"]) == (False, "is stopped")
    assert made.now - began == pytest.approx(0.5)
    with pytest.raises(RpcError, match=r"t1-p2-1 stays drained: after 0\.5 s it still is stopped"):
        made.call("controller", "undrain", switch="t1-p2-1", timeout=0.5)
    made.thaw("t1-p2-1")
    assert made.call("controller", "undrain", switch="t1-p2-1", timeout=0.5)["undrained"]


@pytest.mark.parametrize(("op", "more"), [("repair", {}), ("misroute", {"port": 1})])
def test_a_switch_that_is_gone_cannot_be_written(op, more, tmp_path):
    made = world(tmp_path)
    made.kill("t1-p2-1")
    with pytest.raises(RpcError, match="t1-p2-1: is not ready but connecting; wait for it"):
        made.call("controller", op, switch="t1-p2-1", **more)


def test_a_host_that_dies_is_told_of_and_another_takes_its_place(tmp_path):
    made = world(tmp_path)
    write(made)
    made.run(0.1)
    made.kill("h3")
    assert [(host, event["kind"]) for host, event in made.run(0.1)] == [("h3", "agent.gone")]
    with pytest.raises(RpcError, match="the agent of h3 is down"):
        made.call("h3", "hello")
    made.run(1.0)
    made.restart("h3")
    made.restart("h3")
    _, target = write(made, "h2", "h3")
    until_done(made)
    assert target.read_bytes() == (made.files / "h2.bin").read_bytes()


def test_a_drained_switch_carries_nothing_until_it_is_undrained(tmp_path):
    made = world(tmp_path)
    _, target = write(made, size=8 << 20)
    made.run(0.2)
    answer = made.call("controller", "drain", switch="t1-p1-1", timeout=2.0)
    assert answer["drained"]
    before = made.call("controller", "counters")["switches"]["t1-p1-1"]["ports"]
    made.run(made.now + 0.3)
    assert made.call("controller", "counters")["switches"]["t1-p1-1"]["ports"] == before
    assert made.call("controller", "undrain", switch="t1-p1-1")["undrained"]
    made.run(made.now + 0.5)
    assert made.call("controller", "counters")["switches"]["t1-p1-1"]["ports"] != before
    until_done(made)
    assert target.read_bytes() == (made.files / "h1.bin").read_bytes()


def test_a_drain_on_fast_links_takes_as_many_round_trips(tmp_path):
    made = world(tmp_path, planes=2, hosts_per_t0=1, link={"rate": 100e9, "delay": 600e-9})
    answer = made.call("controller", "drain", switch="t1-p1-1", timeout=2.0)
    assert answer["drained"]
    assert answer["seconds"] < 1e-3


def test_clustermapper_finds_a_lossy_nic_cable_and_has_it_denied(tmp_path):
    made = world(tmp_path, mapper={"cycle": 0.1, "deny": True})
    made.inject([("h2-p3", SeededLoss(0.3, "gray"))], match=EVERY_PACKET, direction="both")
    made.run(1.05)
    [verdict] = made.call("controller", "map")["verdicts"]
    assert verdict["element"] == "h2-p3/t0-p3-1"
    assert [entry["element"] for entry in made.call("controller", "status")["denied"]] == ["h2-p3/t0-p3-1"]
    assert made.call("h2", "hello")["config_version"] > 1


def test_clustermapper_lifts_its_denial_after_as_many_round_trips_on_fast_links(tmp_path):
    link = {"rate": 100e9, "delay": 600e-9}
    made = world(tmp_path, mapper={"cycle": 100e-6, "deny": True}, planes=2, hosts_per_t0=1, link=link)
    fault = made.inject([("h2-p2", SeededLoss(0.5, "gray"))], match=EVERY_PACKET, direction="both")
    pass_time(made, 2e-3)
    assert made.call("controller", "status")["denied"]
    fault.clear()
    hold_down = 30 * made.fabric.spec.time_scale
    pass_time(made, 0.9 * hold_down)
    assert made.call("controller", "status")["denied"]
    pass_time(made, 0.2 * hold_down)
    assert not made.call("controller", "status")["denied"]


def test_a_watched_ev_is_counted_at_exactly_the_switches_of_its_path(tmp_path):
    made = world(tmp_path)
    write(made)
    pass_time(made, 0.01)
    path = made.call("h1", "stats")["paths"][0]
    assert made.call("controller", "watch_ev", ev=path["ev"]) == {"ev": path["ev"], "changed": True}
    assert not made.call("controller", "watch_ev", ev=path["ev"])["changed"]
    sent = sum(p["sent_packets"] for p in made.call("h1", "stats")["paths"] if p["ev"] == path["ev"])
    until_done(made)
    pass_time(made, 1)
    sent = sum(p["sent_packets"] for p in made.call("h1", "stats")["paths"] if p["ev"] == path["ev"]) - sent
    told = made.call("controller", "ev_counters")
    counted = told["evs"][str(path["ev"])]
    plane = path["plane"]
    assert told["t"] == made.now
    assert set(counted) == {switch.name for switch in made.fabric.switches}
    carried = {switch for switch, cell in counted.items() if cell["packets"]}
    assert carried == {f"t0-p{plane}-1", f"t1-p{plane}-{path['uplink']}", f"t0-p{plane}-2"}
    assert counted[f"t0-p{plane}-1"]["packets"] >= sent > 0
    made.call("controller", "unwatch_ev", ev=path["ev"])
    assert made.call("controller", "ev_counters")["evs"] == {}


def test_a_switch_that_is_stopped_counts_evs_that_are_watched_meanwhile_when_it_continues(tmp_path):
    made = world(tmp_path)
    path = busy(made)[0]
    switch = f"t0-p{path['plane']}-1"
    made.freeze(switch)
    made.call("controller", "watch_ev", ev=path["ev"])
    made.thaw(switch)
    until_done(made)
    assert made.call("controller", "ev_counters")["evs"][str(path["ev"])][switch]["packets"] > 0


def test_a_switch_that_comes_back_counts_watched_evs_from_zero_and_so_does_no_other(tmp_path):
    made = world(tmp_path)
    evs = sorted({path["ev"] for path in busy(made)})
    for ev in evs:
        made.call("controller", "watch_ev", ev=ev)
    pass_time(made, 0.2)
    gone, stays = "t1-p1-1", "t0-p1-1"

    def counted(switch):
        found = made.call("controller", "ev_counters")["evs"].values()
        return sum(cells[switch]["packets"] for cells in found if switch in cells)

    before = counted(gone), counted(stays)
    assert min(before) > 0
    made.kill(gone)
    assert counted(gone) == 0
    made.restart(gone)
    made.call("controller", "wait_verified")
    assert set(made.call("controller", "ev_counters")["evs"][str(evs[0])]) == {s.name for s in made.fabric.switches}
    assert counted(gone) < before[0]
    assert counted(stays) >= before[1]


def pass_time(made, seconds):
    """Also where somebody tells something meanwhile."""
    until = made.now + seconds
    while made.now < until:
        made.run(until)


def busy(made):
    """Paths of a QP that has something to send for some seconds."""
    write(made, size=1 << 24)
    pass_time(made, 0.05)
    return made.call("h1", "stats")["paths"]


def test_a_precheck_names_what_a_job_must_not_meet(tmp_path):
    made = world(tmp_path)
    told = made.call("controller", "precheck", timeout=2)
    assert told["ok"]
    assert [(check["name"], check["detail"]) for check in told["checks"]] == [
        ("switches", "16 ready"),
        ("entries", "all as they should be"),
        ("cables", "32 verified both ways"),
        *((f"h{number}", "4 NIC ports up") for number in range(1, 5)),
        ("denylist", "empty"),
    ]
    made.hold_down("cut", "h1-p2")
    made.call("controller", "misroute", switch="t0-p1-1", port=3)
    made.call("controller", "deny", what="t1-p2-1")
    made.kill("h4")
    made.kill("t1-p3-1")
    told = made.call("controller", "precheck", timeout=1)
    wrong = {check["name"]: check["detail"] for check in told["checks"] if not check["ok"]}
    assert not told["ok"]
    assert set(wrong) == {"switches", "entries", "cables", "h1", "h4", "denylist"}
    assert wrong["switches"] == "not ready: t1-p3-1"
    assert wrong["h1"] == "ports down: h1-p2"
    assert wrong["h4"] == "it has ended"
    assert wrong["denylist"] == "denied: t1-p2-1"


@pytest.mark.parametrize("kind", ["mrc", "roce"])
def test_every_metric_of_a_lab_stands_in_the_reference_with_its_type_and_labels(kind, tmp_path):
    made = world(tmp_path, kind=kind)
    path = busy(made)[0]
    made.call("controller", "watch_ev", ev=path["ev"])
    if kind == "mrc":
        made.call("controller", "deny", what="t1-p2-1")
    with urllib.request.urlopen(made.call("controller", "metrics")["url"]) as answer:
        text = answer.read().decode()
    made.kill("controller")
    page = metricnames.FILE.read_text(encoding="utf-8")
    types = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    assert len(types) > 50
    for name, type_ in types:
        labels = re.findall(r'(\w+)="', re.search(rf"^{name}{{(.*)}}", text, re.MULTILINE)[1])
        told = ", ".join(f"`{label}`" for label in labels)
        assert f"| `{name}` | {type_} | {told} |" in page


def test_prometheus_reads_the_page_of_a_lab_in_virtual_time_until_its_controller_ends(tmp_path):
    made = world(tmp_path)
    path = busy(made)[0]
    made.call("controller", "watch_ev", ev=path["ev"])
    pass_time(made, 0.05)

    def page():
        with urllib.request.urlopen(url) as answer:
            return answer.read().decode()

    def sent():
        return float(re.search(r'mrclab_qp_sent_packets_total{host="h1".*} (.*)', page())[1])

    url = made.call("controller", "metrics")["url"]
    assert url.startswith("http://127.0.0.1:")
    assert made.call("controller", "metrics")["url"] == url
    text = page()
    assert 'mrclab_switch_ready{switch="t1-p2-2"} 1' in text
    assert 'mrclab_switch_dropped_packets_total{switch="t0-p1-1",reason="usid_miss"} 0' in text
    assert f'mrclab_ev_packets_total{{ev="{path["ev"]:#010x}",switch="t0-p{path["plane"]}-1"}}' in text
    before = sent()
    pass_time(made, 1.5 * TELEMETRY_S * made.fabric.spec.time_scale)  # telemetry renews it
    assert sent() > before
    made.kill("controller")
    with pytest.raises(urllib.error.URLError):
        page()


@pytest.mark.parametrize(
    ("op", "arguments", "code", "text"),
    [
        ("watch_ev", {"ev": 1 << 32}, "EINVAL", "operation watch_ev: ev: this must be at most"),
        ("unwatch_ev", {"ev": 1}, "EPERM", "EV 0x00000001 is not watched"),
        (
            "precheck",
            {"timeout": -1},
            "EINVAL",
            "precheck: timeout: this must be at least 0",
        ),
        ("drain", {"switch": "h1-p1"}, "EPERM", "h1-p1/t0-p1-1 is not a switch; only a T0 or T1 can be drained"),
        ("undrain", {"switch": "t1-p1-1"}, "EPERM", "t1-p1-1 is not drained; drain it first"),
        ("verify", {"links": ["h7-p1"]}, "EINVAL", "no cable is called 'h7-p1'"),
    ],
)
def test_the_controller_refuses_in_the_words_of_the_wire(tmp_path, op, arguments, code, text):
    with pytest.raises(RpcError, match=re.escape(text)) as caught:
        world(tmp_path).call("controller", op, **arguments)
    assert caught.value.code == code


def test_without_a_controller_nothing_is_written_and_nothing_stops(tmp_path):
    made = world(tmp_path, mapper={"cycle": 0.1})
    made.kill("controller")
    with pytest.raises(RpcError, match="the controller is down"):
        made.call("controller", "status")
    made.kill("t1-p1-1")
    made.restart("t1-p1-1")
    _, target = write(made)
    until_done(made)
    assert target.read_bytes() == (made.files / "h1.bin").read_bytes()
    made.restart("controller")
    assert made.call("controller", "wait_verified", timeout=2.0)["verified"]


RUN = """
import sys, pathlib
sys.path.insert(0, "tests/unit")
from test_sim_world import history
print(history(pathlib.Path(sys.argv[1]), int(sys.argv[2])))
"""


def history(path, seed):
    """The digest of a run with traffic, faults and Clustermapper."""
    made = world(path, seed, {"cycle": 0.2})
    write(made, size=4 << 20)
    made.run(0.1)
    made.inject([("h2-p3", SeededLoss(0.3, "gray"))], match=EVERY_PACKET, direction="both")
    made.hold_down("cut", "h1-p1", "t0-p2-2/t1-p2-1")
    until_done(made)
    made.kill("t1-p1-1")
    made.release("cut")
    made.run(made.now + 1.0)
    made.stop()
    made.collect(path)
    return hashlib.sha256((path / "history.jsonl").read_bytes()).hexdigest()


def test_the_history_is_the_same_byte_for_byte_whatever_the_hash_seed(tmp_path):
    digests = []
    for number, hash_seed in enumerate(("0", "1", "random")):
        folder = tmp_path / str(number)
        folder.mkdir()
        env = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", RUN, str(folder), "7"], capture_output=True, text=True, check=True, env=env
        )
        digests.append(done.stdout.strip())
    assert len(set(digests)) == 1
    other = tmp_path / "other"
    other.mkdir()
    assert history(other, 8) != digests[0]


def test_nothing_of_it_needs_linux():
    blocked = ("fcntl", "resource", "mininet", "grpc", "finsy", "psutil", "scapy", "matplotlib")
    code = f"import sys\nfor name in {blocked!r}: sys.modules[name] = None\nimport mrclab.sim.world"
    subprocess.run([sys.executable, "-c", code], check=True)
