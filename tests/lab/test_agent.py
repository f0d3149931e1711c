"""Host agents as real processes in real namespaces: transfers, carrier loss, the socket API, and a clean end."""

import json
import os
import select
import signal
import time

import pytest
from agents import SIZES, TIMEOUT_S, AgentPair, agent_pair, random_file

from mrclab.rpc.errors import RpcError
from mrclab.topo import linkcheck

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces")]


@pytest.fixture
def pair(tmp_path):
    with agent_pair(tmp_path) as pair:
        yield pair


@pytest.fixture(scope="module")
def lasting(tmp_path_factory):
    """A pair for all tests that leave it as it was: to start one takes a second."""
    with agent_pair(tmp_path_factory.mktemp("agents")) as pair:
        yield pair


@pytest.mark.parametrize("size", SIZES)
def test_a_file_arrives_bit_for_bit(lasting: AgentPair, tmp_path, size):
    lasting.check_delivery(tmp_path, size)


def test_several_files_complete_in_the_order_they_were_posted(pair: AgentPair, tmp_path):
    qp, _ = pair.connect()
    sources = [random_file(tmp_path / f"source{n}", 50_000 + n) for n in range(8)]
    for n, source in enumerate(sources):
        pair.post(qp, source, tmp_path / f"target{n}", wr_id=n)
    pair.wait_event("h1", lambda event: event["kind"] == "wr.done" and event["wr_id"] == 7)
    completions = pair.clients["h1"].call("poll_cq", qp=qp)["completions"]
    assert [completion["wr_id"] for completion in completions] == list(range(8))
    for n, source in enumerate(sources):
        assert (tmp_path / f"target{n}").read_bytes() == source.read_bytes()


def test_both_directions_at_once(pair: AgentPair, tmp_path):
    qps = pair.connect()
    done = []
    for near, far, qp in (("h1", "h2", qps[0]), ("h2", "h1", qps[1])):
        source = random_file(tmp_path / f"{near}-source", 400_000)
        local = pair.clients[near].call("reg_mr", path=str(source))
        target = tmp_path / f"{near}-target"
        remote = pair.clients[far].call("reg_mr", path=str(target), length=400_000, access="write")
        pair.clients[near].call(
            "post_send", qp=qp, wr_id=1, opcode="RDMA_WRITE",
            local={"lkey": local["lkey"], "length": 400_000}, remote={"va": remote["va"], "rkey": remote["rkey"]},
        )  # fmt: skip
        done.append((near, source, target))
    for near, source, target in done:
        pair.wait_event(near, lambda event: event["kind"] == "wr.done")
        assert target.read_bytes() == source.read_bytes()


def test_a_port_that_loses_carrier_costs_neither_bytes_nor_the_qp(pair: AgentPair, tmp_path):
    source = random_file(tmp_path / "source", 30_000_000)
    qp, _ = pair.connect()
    pair.post(qp, source, tmp_path / "target")
    h1 = pair.clients["h1"]
    pair.wait_event(
        "h1", lambda e: e["kind"] == "sample" and e["qps"] and e["qps"][0].get("acked_bytes", 0) > 2_000_000
    )
    pair.namespaces["h2"].ip("link", "set", "h2-p1", "down")
    down = pair.wait_event("h1", lambda event: event["kind"] == "port.state")
    assert (down["port"], down["up"]) == (1, False)
    quiet = pair.wait_event("h1", lambda event: event["kind"] == "sample" and not event["ports"][0]["up"])
    later = pair.wait_event(
        "h1", lambda e: e["kind"] == "sample" and e["qps"] and e["qps"][0].get("acked_bytes", 0) > 12_000_000
    )
    assert later["ports"][0]["tx_packets"] == quiet["ports"][0]["tx_packets"]
    assert later["ports"][1]["tx_packets"] > quiet["ports"][1]["tx_packets"]
    pair.namespaces["h2"].ip("link", "set", "h2-p1", "up")
    pair.wait_event("h1", lambda event: event["kind"] == "port.state" and event["up"])
    assert pair.completion()["status"] == "SUCCESS"
    assert h1.call("stats")["ports"][0]["tx_packets"] > later["ports"][0]["tx_packets"]
    assert (tmp_path / "target").read_bytes() == source.read_bytes()


def test_a_file_that_is_cut_short_while_it_is_received_costs_its_qp_and_not_the_agent(pair: AgentPair, tmp_path):
    source = random_file(tmp_path / "source", 30_000_000)
    qp, peer = pair.connect()
    target = tmp_path / "target"
    pair.post(qp, source, target)
    pair.wait_event("h1", lambda e: e["kind"] == "sample" and e["qps"] and e["qps"][0].get("acked_bytes", 0) > 1 << 20)
    os.truncate(target, 4096)
    ended = pair.wait_event("h2", lambda e: e["kind"] == "qp.state" and (e["qpn"], e["state"]) == (peer, "ERROR"))
    assert f"{target} was cut short" in ended["reason"]
    assert pair.completion()["status"] == "REM_OP_ERR"
    pair.check_delivery(tmp_path, 100_000)


def test_samples_are_cumulative_and_add_up_to_the_file(pair: AgentPair, tmp_path):
    source = random_file(tmp_path / "source", 2_000_000)
    qp, _ = pair.connect()
    pair.post(qp, source, tmp_path / "target")
    pair.completion()
    pair.wait_event("h2", lambda e: e["kind"] == "sample" and e["qps"] and e["qps"][0].get("placed_bytes") == 2_000_000)
    pair.stop()
    for name in ("h1", "h2"):
        history = pair.history(name)
        assert [record["t"] for record in history] == sorted(record["t"] for record in history)
        assert {record["node"] for record in history} == {name}
        samples = [record for record in history if record["kind"] == "sample"]
        for field in ("tx_packets", "tx_bytes", "rx_packets", "rx_bytes"):
            for port in range(pair.planes):
                values = [sample["ports"][port][field] for sample in samples]
                assert values == sorted(values)
        assert samples[-1]["cpu"] > 0
        assert all(port["socket_drops"] == 0 for port in samples[-1]["ports"])
    told = [row["placed_bytes"] for sample in samples for row in sample["qps"] if "placed_bytes" in row]
    placed = told[-1]
    assert placed == 2_000_000
    assert sum(port["placed_bytes"] for port in samples[-1]["ports"]) == placed


def test_planes_carry_equal_shares(pair: AgentPair, tmp_path):
    source = random_file(tmp_path / "source", 4096 * 400)
    qp, _ = pair.connect()
    pair.post(qp, source, tmp_path / "target")
    pair.completion()
    paths = pair.clients["h1"].call("stats")["paths"]
    by_plane = {path["plane"]: path["sent_packets"] for path in paths}
    assert len(by_plane) == 2
    assert max(by_plane.values()) - min(by_plane.values()) <= 0.1 * sum(by_plane.values())


def test_verbs_step_by_step_with_own_domains_and_queues(pair: AgentPair, tmp_path):
    source = random_file(tmp_path / "source", 10_000)
    objects = {}
    for name, peer in (("h1", "h2"), ("h2", "h1")):
        call = pair.clients[name].call
        pd, cq = call("alloc_pd")["pd"], call("create_cq", depth=16)["cq"]
        objects[name] = {"pd": pd, "cq": cq, **call("create_qp", peer=peer, pd=pd, send_cq=cq, recv_cq=cq)}
    for name, peer in (("h1", "h2"), ("h2", "h1")):
        call, qp = pair.clients[name].call, objects[name]["qp"]
        call("modify_qp", qp=qp, state="INIT")
        remote = {key: objects[peer][key] for key in ("qpn", "psn", "mpr", "wimm")}
        call("modify_qp", qp=qp, state="RTR", attributes=remote)
        call("modify_qp", qp=qp, state="RTS", attributes={"psn": objects[name]["psn"]})
        assert call("query_qp", qp=qp)["state"] == "RTS"
    h1, h2 = pair.clients["h1"].call, pair.clients["h2"].call
    local = h1("reg_mr", path=str(source), pd=objects["h1"]["pd"])
    remote = h2(
        "reg_mr", path=str(tmp_path / "target"), length=10_000, access="write", pd=objects["h2"]["pd"]
    )  # fmt: skip
    h2("post_recv", qp=objects["h2"]["qp"], wr_id=9)
    h1(
        "post_send", qp=objects["h1"]["qp"], wr_id=1, opcode="RDMA_WRITE_WITH_IMM", imm=77,
        local={"lkey": local["lkey"], "length": 10_000}, remote={"va": remote["va"], "rkey": remote["rkey"]},
    )  # fmt: skip
    pair.wait_event("h1", lambda event: event["kind"] == "wr.done")
    (sent,) = h1("poll_cq", cq=objects["h1"]["cq"])["completions"]
    (received,) = h2("poll_cq", cq=objects["h2"]["cq"])["completions"]
    assert (sent["wr_id"], sent["status"]) == (1, "SUCCESS")
    assert (received["wr_id"], received["imm"], received["byte_len"]) == (9, 77, 10_000)
    assert (tmp_path / "target").read_bytes() == source.read_bytes()
    with pytest.raises(RpcError) as busy:
        h1("dealloc_pd", pd=objects["h1"]["pd"])
    assert busy.value.code == "EBUSY"
    h1("destroy_qp", qp=objects["h1"]["qp"])
    h1("dereg_mr", lkey=local["lkey"])
    h1("dealloc_pd", pd=objects["h1"]["pd"])
    h1("destroy_cq", cq=objects["h1"]["cq"])


@pytest.mark.parametrize(
    ("op", "arguments", "code", "message"),
    [
        ("create_qp", {"peer": "h9"}, "EINVAL", "peer 'h9' is neither a known host nor an IPv6 address; known: h1, h2"),
        ("create_qp", {"peer": 1}, "EINVAL", "operation create_qp: peer: text is expected here"),
        ("create_qp", {}, "EINVAL", "missing a required argument: 'peer'"),
        ("destroy_qp", {"qp": 77}, "EINVAL", "there is no QP 77"),
        ("reg_mr", {"path": "/no/such/file"}, "ENOENT", "cannot read /no/such/file"),
        ("reg_mr", {"path": "/etc/hosts", "access": "execute"}, "EINVAL", "access"),
        ("dereg_mr", {"lkey": 5}, "EINVAL", "0x5"),
        ("post_send", {"qp": 1, "wr_id": 1, "opcode": "RDMA_WRITE", "local": {"lkey": 1}, "remote": {}},
         "EINVAL", "local.length is missing"),
        ("configure", {"path": "/no/such/config"}, "EINVAL", "No such file"),
        ("fly", {}, "ENOSYS", "no operation 'fly'"),
    ],
)  # fmt: skip
def test_bad_calls_are_refused_with_code_and_sentence_and_do_no_harm(lasting: AgentPair, op, arguments, code, message):
    with pytest.raises(RpcError) as caught:
        lasting.clients["h1"].call(op, **arguments)
    assert caught.value.code == code
    assert message in caught.value.message
    assert lasting.clients["h1"].call("hello")["host"] == "h1"


def test_a_changed_node_config_is_taken_while_running(pair: AgentPair, tmp_path):
    config = json.loads(pair.config_path("h1").read_text())
    config["version"] = 2
    config["link"]["delay"] = 0.001
    pair.config_path("h1").write_text(json.dumps(config))
    assert pair.clients["h1"].call("configure") == {"version": 2}
    assert pair.clients["h1"].call("hello")["config_version"] == 2
    source = random_file(tmp_path / "source", 10_000)
    qp, _ = pair.connect()
    pair.post(qp, source, tmp_path / "target")
    pair.completion()
    assert (tmp_path / "target").read_bytes() == source.read_bytes()


def test_a_broken_node_config_leaves_the_old_one_in_force(pair: AgentPair):
    pair.config_path("h1").write_text('{"version": 2}')
    with pytest.raises(RpcError, match=r"h1\.json: "):
        pair.clients["h1"].call("configure")
    assert pair.clients["h1"].call("hello")["config_version"] == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_agent_cleanly(pair: AgentPair, number):
    for process in pair.processes.values():
        process.send_signal(number)
    for name, process in pair.processes.items():
        _, errors = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, errors
        assert "Traceback" not in errors
        assert not (pair.directory / f"{name}.sock").exists()
        assert pair.history(name)[0]["kind"] == "agent.start"
        assert pair.history(name)[-1]["kind"] == "agent.stop"


def test_shutdown_is_answered_and_done(pair: AgentPair):
    assert pair.clients["h2"].call("shutdown") == {}
    assert pair.processes["h2"].wait(timeout=TIMEOUT_S) == 0


def test_a_killed_agent_can_be_started_again(pair: AgentPair, tmp_path):
    pair.processes["h2"].kill()
    pair.processes["h2"].communicate()
    pair.clients["h1"].close()
    pair.processes["h1"].kill()
    pair.processes["h1"].communicate()
    pair.start()
    source = random_file(tmp_path / "source", 10_000)
    qp, _ = pair.connect()
    pair.post(qp, source, tmp_path / "target")
    pair.completion()
    assert (tmp_path / "target").read_bytes() == source.read_bytes()


def test_without_a_node_config_the_agent_says_so_and_ends(pair: AgentPair):
    pair.stop()
    pair.config_path("h1").unlink()
    process = pair.start_one("h1")
    _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 1
    assert "h1.json: No such file or directory; is the controller running?" in errors
    assert "Traceback" not in errors


def test_link_checks_are_answered_by_a_running_agent(pair: AgentPair):
    from mrclab.hosts.nic.packetsocket import PacketSocket  # noqa: PLC0415 - opened inside the namespace

    pair.stop()
    pair.start_one("h1")
    with pair.namespaces["h2"].entered():
        wire = PacketSocket("h2-p2", 4352)
    deadline = time.monotonic() + TIMEOUT_S
    answers = []
    while not answers and time.monotonic() < deadline:
        wire.send(linkcheck.probe("t0-p2-1", 1, nonce=5, source_mac=bytes(6)))
        select.select([wire], [], [], 0.1)
        answers = [linkcheck.parse(frame) for _, frame in wire.frames(100)]
    wire.close()
    assert (answers[0].answer_name, answers[0].answer_port, answers[0].nonce) == ("h1", 2, 5)
