"""Arbitration: who is primary, who is told, who may write."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from finsy.proto import p4r
from p4runtime_client import Client, RefusedError, StreamClient
from p4runtime_fixtures import NAMES, PROGRAM_JSON, Running, running

__all__ = ["running"]

OK, ALREADY_EXISTS = 0, 6


def open_stream(client: Client, election_id: int | None, role: str = "", device_id: int = 1) -> StreamClient:
    stream = StreamClient(client.stub)
    stream.arbitrate(election_id, device_id, role)
    return stream


def heard(stream: StreamClient) -> tuple[int, int]:
    """Status code and the primary's election id of the next arbitration message."""
    update = stream.next().arbitration
    return update.status.code, update.election_id.high << 64 | update.election_id.low


def test_the_highest_election_id_is_primary_and_everybody_hears_of_a_change(running: Running) -> None:
    with running.client() as client:
        low = open_stream(client, 5)
        assert heard(low) == (OK, 5)
        high = open_stream(client, (1 << 64) + 1)
        assert heard(high) == (OK, (1 << 64) + 1)
        assert heard(low) == (ALREADY_EXISTS, (1 << 64) + 1)
        lowest = open_stream(client, 4)
        assert heard(lowest) == (ALREADY_EXISTS, (1 << 64) + 1)
        high.hang_up()
        assert heard(low) == (OK, 5)
        assert heard(lowest) == (ALREADY_EXISTS, 5)


def test_a_primary_hands_over_by_lowering_its_election_id(running: Running) -> None:
    with running.client() as client:
        first = open_stream(client, 9)
        assert heard(first) == (OK, 9)
        second = open_stream(client, 8)
        assert heard(second) == (ALREADY_EXISTS, 9)
        first.arbitrate(7)
        assert heard(first) == (ALREADY_EXISTS, 8)
        assert heard(second) == (OK, 8)


def test_the_same_election_id_again_is_answered(running: Running) -> None:
    with running.client() as client:
        stream = open_stream(client, 3)
        assert heard(stream) == (OK, 3)
        stream.arbitrate(3)
        assert heard(stream) == (OK, 3)


@pytest.mark.parametrize("election_id", [0, None])
def test_no_election_id_counts_as_zero(running: Running, election_id: int | None) -> None:
    with running.client(0) as client:
        assert heard(open_stream(client, election_id)) == (OK, 0)
        client.set_pipeline(PROGRAM_JSON)
        assert heard(open_stream(client, 1)) == (OK, 1)
        with pytest.raises(RefusedError, match="PERMISSION_DENIED: Not primary"):
            client.set_pipeline(PROGRAM_JSON)


def test_an_election_id_in_use_ends_the_second_stream_only(running: Running) -> None:
    with running.client() as client:
        first = open_stream(client, 3)
        heard(first)
        with pytest.raises(RefusedError, match="INVALID_ARGUMENT: Election id already exists"):
            heard(open_stream(client, 3))
        other = open_stream(client, 2)
        heard(other)
        other.arbitrate(3)
        with pytest.raises(RefusedError, match="INVALID_ARGUMENT: New election id already exists"):
            heard(other)
        first.arbitrate(3)
        assert heard(first) == (OK, 3)


def test_another_device_is_not_found(running: Running) -> None:
    with running.client(device_id=2) as client:
        with pytest.raises(RefusedError, match="NOT_FOUND: No device 2 here: this switch is device 1"):
            heard(open_stream(client, 1, device_id=2))
        for call in (client.write, client.read, client.get_pipeline, lambda: client.set_pipeline(b"{}")):
            with pytest.raises(RefusedError, match="NOT_FOUND"):
                call()


def test_a_stream_keeps_its_device_and_role(running: Running) -> None:
    with running.client() as client:
        for change in ({"device_id": 2}, {"role": "other"}):
            stream = open_stream(client, 1)
            heard(stream)
            stream.arbitrate(1, **change)
            with pytest.raises(RefusedError, match="FAILED_PRECONDITION"):
                heard(stream)


def test_every_role_has_a_primary_of_its_own(running: Running) -> None:
    with running.client(1) as routing, running.client(1) as telemetry:
        routing.become_primary("routing").set_pipeline(PROGRAM_JSON)
        telemetry.become_primary("telemetry")
        entry = NAMES.entry("exact_table", {"hdr.ethernet.dst": 1}, NAMES.action("drop"))
        telemetry.insert(entry)
        newcomer = open_stream(routing, 2, "routing")
        update = newcomer.next().arbitration
        assert (update.role.name, update.status.code) == ("routing", OK)
        with pytest.raises(RefusedError, match="Not primary"):
            routing.delete(entry)
        telemetry.delete(entry)
        telemetry.role = "unanswered of"
        with pytest.raises(RefusedError, match="Not primary"):
            telemetry.insert(entry)


def test_without_controllers_a_write_needs_no_election_id_and_must_not_have_one(running: Running) -> None:
    with running.client() as client:
        with pytest.raises(RefusedError, match="PERMISSION_DENIED"):
            client.set_pipeline(PROGRAM_JSON)
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=1, action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
        )
        request.config.p4info.CopyFrom(NAMES.p4info)
        request.config.p4_device_config = PROGRAM_JSON
        client.stub.SetForwardingPipelineConfig(request)
        client.stub.Write(p4r.WriteRequest(device_id=1))
        assert running.switch.instance is not None


def test_the_seventeenth_controller_is_refused(running: Running) -> None:
    with running.client() as client:
        streams = []
        for k in range(16):
            streams.append(open_stream(client, 100 - k))
            assert heard(streams[-1]) == (ALREADY_EXISTS if k else OK, 100)
        with pytest.raises(RefusedError, match="RESOURCE_EXHAUSTED: Too many connections"):
            heard(open_stream(client, 1))
        streams[5].hang_up()
        assert heard(open_stream(client, 1)) == (ALREADY_EXISTS, 100)


def test_streams_that_never_introduce_themselves_cannot_crowd_out_other_rpcs(running: Running) -> None:
    with running.client() as client:
        idle = [StreamClient(client.stub) for _ in range(40)]
        refused = 0
        for stream in idle[32:]:
            with pytest.raises(RefusedError, match="RESOURCE_EXHAUSTED"):
                stream.next()
            refused += 1
        assert refused == 8
        assert client.stub.Capabilities(p4r.CapabilitiesRequest()).p4runtime_api_version == "1.3.0"


def test_a_client_that_vanishes_is_no_longer_primary(running: Running) -> None:
    with running.client() as backup:
        with running.client() as vanishing:
            heard(open_stream(vanishing, 9))
            waiting = open_stream(backup, 1)
            assert heard(waiting) == (ALREADY_EXISTS, 9)
        assert heard(waiting) == (OK, 1)


def test_a_write_that_waited_while_another_became_primary_is_refused(running: Running) -> None:
    waiting, go_on, lock = threading.Event(), threading.Event(), threading.Lock()

    class Busy:
        """The device's lock while something else holds it."""

        def __enter__(self) -> None:
            waiting.set()
            assert go_on.wait(60)
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()

    with running.client(1) as first, running.client(2) as second, ThreadPoolExecutor(1) as pool:
        first.become_primary().set_pipeline(PROGRAM_JSON)
        running.server.device._lock = Busy()  # type: ignore[assignment]
        written = pool.submit(first.write)
        assert waiting.wait(60)
        second.become_primary()
        go_on.set()
        with pytest.raises(RefusedError, match="PERMISSION_DENIED: Not primary"):
            written.result(60)
