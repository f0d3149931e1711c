"""The control interface of a real agent: profiles, EV states and events, congestion profiles, probes, ports."""

import os
from pathlib import Path
from typing import Any

import pytest
from agents import AgentPair, agent_pair

from mrclab.rpc.errors import RpcError
from mrclab.topo import srv6

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces")]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    with agent_pair(tmp_path_factory.mktemp("agents"), rate_pps=2000) as it:
        yield it


@pytest.fixture
def h1(pair: AgentPair):
    return pair.clients["h1"].call


def stev(plane: int, tag: int = 0) -> str:
    return srv6.ev(plane, 0, srv6.ev_tag(tag)).to_bytes(4, "big").hex()


def online(h1, *evs: tuple[int, str], **attributes: Any) -> int:
    number = h1("create_ev_profile", mode="EXPLICIT", format="STEV", ev_count=len(evs), ev_min_active=1, **attributes)
    number = number["profile"]
    for index, (port, value) in enumerate(evs):
        h1("replace_ev", profile=number, index=index, port=port, value=value)
    for state in ("OFFLINE", "ONLINE"):
        h1("modify_ev_profile", profile=number, state=state)
    return int(number)


def test_an_explicit_profile_decides_which_paths_a_transfer_takes(pair: AgentPair, h1, tmp_path: Path):
    number = online(h1, (2, stev(2)))
    told = h1("query_ev_profile", profile=number)
    assert (told["mode"], told["format"], told["state"], told["users"]) == ("EXPLICIT", "STEV", "ONLINE", 0)
    assert h1("query_ev_array", profile=number)["entries"] == [{"port": 2, "value": stev(2), "state": "GOOD"}]
    ends = (
        h1("create_qp", peer="h2", attributes={"ev_profile": number}),
        pair.clients["h2"].call("create_qp", peer="h1"),
    )
    h1("connect_qp", qp=ends[0]["qp"], remote=ends[1])
    pair.clients["h2"].call("connect_qp", qp=ends[1]["qp"], remote=ends[0])
    source = tmp_path / "source"
    source.write_bytes(os.urandom(400_000))
    pair.post(ends[0]["qp"], source, tmp_path / "target")
    assert pair.completion()["status"] == "SUCCESS"
    assert (tmp_path / "target").read_bytes() == source.read_bytes()
    sent = {p["plane"]: p["sent_packets"] for p in h1("stats")["paths"] if p["qp"] == ends[0]["qp"]}
    assert sent.keys() == {2}
    assert sent[2] in range(98, 108)  # 98 packets, and what is retransmitted where the machine is late
    with pytest.raises(RpcError) as busy:
        h1("destroy_ev_profile", profile=number)
    assert busy.value.code == "EBUSY"
    assert h1("query_ev_state", qp=ends[0]["qp"])["evs"] == [{"port": 2, "value": stev(2), "state": "GOOD"}]
    h1("destroy_qp", qp=ends[0]["qp"])
    h1("destroy_ev_profile", profile=number)


def test_a_denied_ev_is_left_and_its_return_makes_an_event(pair: AgentPair, h1, tmp_path: Path):
    number = online(h1, (1, stev(1)), (2, stev(2, 1)), events=["ASSUMED_BAD", "GOOD"])
    qp = h1("create_qp", peer="h2", attributes={"ev_profile": number})
    far = pair.clients["h2"].call("create_qp", peer="h1")
    h1("connect_qp", qp=qp["qp"], remote=far)
    pair.clients["h2"].call("connect_qp", qp=far["qp"], remote=qp)
    assert h1("modify_ev_state", profile=number, port=1, value=stev(1), state="DENIED") == {"changed": 1}
    states = {e["port"]: e["state"] for e in h1("query_ev_state", qp=qp["qp"])["evs"]}
    assert states == {1: "DENIED", 2: "GOOD"}
    source = tmp_path / "source"
    source.write_bytes(os.urandom(100_000))
    pair.post(qp["qp"], source, tmp_path / "target", wr_id=5)
    assert pair.completion(wr_id=5)["status"] == "SUCCESS"
    sent = {p["plane"]: p["sent_packets"] for p in h1("stats")["paths"] if p["qp"] == qp["qp"]}
    assert sent[1] == 0
    assert sent[2] >= 25  # a host that waits for the CPU may send a packet again
    h1("modify_ev_state", profile=number, port=1, value=stev(1), state="GOOD")
    assert h1("poll_ev_events", profile=number)["events"] == [
        {"profile": number, "port": 1, "value": stev(1), "state": "GOOD", "dropped": 0}
    ]
    h1("destroy_qp", qp=qp["qp"])


def test_generated_and_automatic_profiles_come_online_and_go_back(h1):
    plane = {"width": 4, "min": 1, "max": 2, "mask": 3}
    fields = [plane, {"width": 12}, {"width": 16, "init_val": 0x8000, "mask": 0xFF}]
    made = h1("create_ev_profile", mode="GENERATED", format="STEV", ev_count=8, ev_min_active=2, fields=fields)
    entries = h1("query_ev_array", profile=made["profile"])["entries"]
    assert len(entries) == 8
    assert all(entry["value"][0] in "12" and entry["value"][4:6] == "80" for entry in entries)
    auto = h1("create_ev_profile", mode="AUTO", format="UDP", ev_count=4, ev_min_active=1)["profile"]
    for state in ("OFFLINE", "ONLINE", "OFFLINE", "INIT"):
        h1("modify_ev_profile", profile=auto, state=state)
        assert h1("query_ev_profile", profile=auto)["state"] == state
    h1("destroy_ev_profile", profile=auto)


def test_a_congestion_profile_serves_qps_until_it_goes(h1):
    number = h1("create_cc_profile", algorithm="uet-1.0-nscc", parameters={"gamma": 0.5, "disable_qa": True})["profile"]
    qp = h1("create_qp", peer="h2", attributes={"cc_profile": number})["qp"]
    assert h1("query_qp", qp=qp)["cc_profile"] == "uet-1.0-nscc"
    told = h1("query_cc_profile", profile=number)
    assert (told["algorithm"], told["parameters"]["gamma"], told["users"]) == ("uet-1.0-nscc", 0.5, 1)
    with pytest.raises(RpcError) as busy:
        h1("destroy_cc_profile", profile=number)
    assert busy.value.code == "EBUSY"
    h1("destroy_qp", qp=qp)
    h1("destroy_cc_profile", profile=number)


@pytest.mark.parametrize("dscp", ["NO_TRIM", "CONTROL"])
def test_probes_measure_every_path_and_name_the_dead_one(pair: AgentPair, h1, dscp: str):
    evs = [srv6.ev(plane, 0, srv6.ev_tag(0)) for plane in (1, 2)]
    batch = h1("probe_evs", peer="h2", evs=evs, timeout=2.0, dscp=dscp)["batch"]
    event = pair.wait_event("h1", lambda e: e["kind"] == "ev.probes" and e["batch"] == batch)
    results = h1("poll_probes", batch=batch)["results"]
    assert results == event["results"]
    assert [(r["ev"], r["port"], r["adj_svc_time"]) for r in results] == [(evs[0], 1, True), (evs[1], 2, True)]
    assert all(0.001 <= r["rtt"] < 2.0 for r in results), "two crossings of half a millisecond each"
    with pytest.raises(RpcError) as gone:
        h1("poll_probes", batch=batch)
    assert gone.value.code == "EINVAL"


def test_a_disabled_port_carries_nothing_and_the_peer_hears_of_it(pair: AgentPair, h1):
    qps = pair.connect()
    h1("set_port_admin", port=1, enabled=False)
    assert h1("query_port", port=1) == {"port": 1, "enabled": False, "carrier": True, "up": False}
    told = pair.wait_event("h2", lambda event: event["kind"] == "peer.ports")
    assert told["mask"] == 0b10
    batch = h1("probe_evs", peer="h2", evs=[srv6.ev(1, 0, srv6.ev_tag(0))], timeout=0.05)["batch"]
    event = pair.wait_event("h1", lambda e: e["kind"] == "ev.probes" and e["batch"] == batch)
    assert event["results"][0]["rtt"] is None
    h1("set_port_admin", port=1, enabled=True)
    assert pair.wait_event("h2", lambda event: event["kind"] == "peer.ports")["mask"] == 0b11
    h1("destroy_qp", qp=qps[0])


@pytest.mark.parametrize(
    ("op", "arguments", "code", "message"),
    [
        ("create_ev_profile", {"mode": "MANUAL", "format": "STEV", "ev_count": 1, "ev_min_active": 1},
         "EINVAL", "mode 'MANUAL' is unknown; it is one of AUTO, EXPLICIT, GENERATED"),
        ("create_ev_profile", {"mode": "AUTO", "format": "STEV", "ev_count": 257, "ev_min_active": 1},
         "E2BIG", "ev_count 257"),
        ("create_ev_profile", {"mode": "GENERATED", "format": "UDP", "ev_count": 1, "ev_min_active": 1,
                               "fields": [{"width": 16, "colour": 1}]}, "EINVAL", "fields[0].colour is unknown"),
        ("modify_ev_profile", {"profile": 999, "state": "OFFLINE"}, "EINVAL", "there is no EV profile 999"),
        ("replace_ev", {"profile": 999, "index": 0, "port": 1, "value": "xyz"}, "EINVAL", "not hexadecimal text"),
        ("query_ev_state", {"qp": 7}, "EINVAL", "there is no QP 7"),
        ("create_cc_profile", {"algorithm": "cubic"}, "EINVAL", "'cubic'"),
        ("create_cc_profile", {"algorithm": "uet-1.0-nscc", "parameters": {"gamma": "much"}}, "EINVAL", "gamma"),
        ("create_cc_profile", {"algorithm": "uet-1.0-nscc", "parameters": {"max_md_jump": 2.0}},
         "EINVAL", "max_md_jump"),
        ("probe_evs", {"peer": "h2", "evs": [], "timeout": 1.0}, "E2BIG", "1…256 probes"),
        ("probe_evs", {"peer": "h2", "evs": [1 << 28 | 0x8000], "timeout": 1.0, "dscp": "EF"}, "EINVAL", "dscp 'EF'"),
        ("poll_probes", {"batch": 999}, "EINVAL", "no batch 999"),
        ("set_port_admin", {"port": 9, "enabled": False}, "EINVAL", "no port 9"),
    ],
)  # fmt: skip
def test_bad_calls_are_refused_with_code_and_sentence(h1, op, arguments, code, message):
    with pytest.raises(RpcError) as caught:
        h1(op, **arguments)
    assert caught.value.code == code
    assert message in caught.value.message
