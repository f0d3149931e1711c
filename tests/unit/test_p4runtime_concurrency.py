"""Many requests at once: writers, readers, new pipelines and packets do not get into each other's way."""

import threading
from collections.abc import Callable

from finsy.proto import p4r
from p4runtime_client import Client, SetRequest
from p4runtime_fixtures import NAMES, PROGRAM_JSON, Running, primary, running

__all__ = ["primary", "running"]

ROUNDS = 15
JOIN_TIMEOUT_S = 120
FRAME = bytes.fromhex("0000000000ff0000000000551234") + bytes(50)


def entry(mac: int) -> p4r.TableEntry:
    return NAMES.entry("exact_table", {"hdr.ethernet.dst": mac}, NAMES.action("count_exact", 1))


def at_once(*jobs: Callable[[], None]) -> None:
    """Run jobs in threads; the first exception of any is raised."""
    failures: list[BaseException] = []

    def guarded(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(JOIN_TIMEOUT_S)
        assert not thread.is_alive()
    if failures:
        raise failures[0]


def test_writers_readers_packets_and_reconciling_pipelines(primary: Client, running: Running) -> None:
    primary.insert(NAMES.entry("exact_table", {"hdr.ethernet.dst": 0xFF}, NAMES.action("to_cpu", 1)))

    def writer(base: int) -> Callable[[], None]:
        def write() -> None:
            for _ in range(ROUNDS):
                entries = [entry(base + n) for n in range(8)]
                primary.insert(*entries)
                assert len(primary.read(*entries)) == 8
                primary.delete(*entries[1:])
                primary.delete(entries[0])

        return write

    def read() -> None:
        for _ in range(ROUNDS):
            assert 1 <= len(primary.read(p4r.TableEntry(table_id=NAMES.id("exact_table")))) <= 33
            primary.read(p4r.CounterEntry(), p4r.TableEntry(is_default_action=True))

    def reload() -> None:
        for _ in range(ROUNDS // 3):
            primary.set_pipeline(PROGRAM_JSON, SetRequest.RECONCILE_AND_COMMIT)

    def packets() -> None:
        assert primary.stream is not None
        for number in range(ROUNDS * 4):
            primary.packet_out(number.to_bytes(6, "big") + FRAME[6:], m1=b"\1", m2=b"\1")
            running.inject(2, FRAME)
            assert primary.stream.next().packet.payload == FRAME

    at_once(writer(0x100), writer(0x200), writer(0x300), writer(0x400), read, reload, packets)
    assert [e.match for e in running.entries("IngressImpl.exact_table")] == [(0xFF,)]
    assert len(running.switch.packets) == ROUNDS * 4
