"""Fixtures of the P4Runtime server's unit tests: a switch without ports, its server on a Unix socket, a primary."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from finsy.proto import p4i
from google.protobuf import text_format
from p4runtime_client import Client, Names

from mrclab.softswitch.objects.runtime_api import TableEntry
from mrclab.softswitch.p4runtime.server import P4RuntimeServer
from mrclab.softswitch.switch import SoftSwitch

PROGRAM_DIR = Path(__file__).parents[1] / "switch" / "p4runtime"
PROGRAM_JSON = (PROGRAM_DIR / "everything.json").read_bytes()
P4INFO = text_format.Parse((PROGRAM_DIR / "everything.p4info.txtpb").read_text(), p4i.P4Info())
NAMES = Names(P4INFO)
CPU_PORT = 510


class ProbedSwitch(SoftSwitch):
    """A switch that also remembers what the control plane handed it."""

    def __init__(self) -> None:
        super().__init__(CPU_PORT)
        self.packets: list[bytes] = []
        self.acks: list[tuple[str, int]] = []

    def packet_out(self, data: bytes) -> None:
        self.packets.append(data)
        super().packet_out(data)

    def commit(self, pipeline: Any) -> None:
        super().commit(pipeline)
        digests = self.program().digests
        take = digests.ack

        def ack(name: str, list_id: int) -> None:
            self.acks.append((name, list_id))
            take(name, list_id)

        digests.ack = ack  # type: ignore[method-assign]


class Running:
    """A server with a switch behind it that forwards in a thread of its own."""

    def __init__(self, path: Path) -> None:
        self.switch = ProbedSwitch()
        self._thread = threading.Thread(target=self.switch.loop)
        self._thread.start()
        self.address = f"unix:{path}"
        self.server: P4RuntimeServer = P4RuntimeServer(self.switch, self.address, device_id=1)

    def client(self, election_id: int = 1, device_id: int = 1) -> Client:
        """A client that has not introduced itself yet."""
        return Client(self.address, NAMES, device_id, election_id)

    def entries(self, table: str) -> list[TableEntry]:
        """State of the data plane."""
        return self.switch.run(lambda: self.switch.table(table).entries())

    def inject(self, port: int, frame: bytes) -> None:
        """Let the switch receive a frame."""
        self.switch.run(lambda: self.switch.inject(port, frame))

    def stop(self) -> None:
        self.server.stop()
        self.switch.stop()
        self._thread.join()
        self.switch.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """A server without a pipeline."""
    it = Running(tmp_path / "p4rt.sock")
    yield it
    it.stop()


@pytest.fixture
def primary(running: Running) -> Iterator[Client]:
    """The primary controller of a server that runs the test program."""
    with running.client() as client:
        client.become_primary().set_pipeline(PROGRAM_JSON)
        yield client
