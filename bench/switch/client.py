"""P4Runtime client of the benchmark: becomes primary, loads the program, inserts entries."""

from __future__ import annotations

import queue
import time
from collections.abc import Sequence
from pathlib import Path

import grpc
from finsy.proto import p4r, p4r_grpc

from mrclab.lab.errors import RunError

TIMEOUT = 30.0  # seconds
RETRY = 0.002  # seconds
DEVICE_ID = 1


class P4RuntimeClient:
    """Context manager; waits until the switch answers its first RPC."""

    def __init__(self, path: Path) -> None:
        options = [(f"grpc.{name}_reconnect_backoff_ms", 10) for name in ("initial", "min", "max")]
        self._channel = grpc.insecure_channel(f"unix:{path}", options=options)
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        self.write_seconds: list[float] = []  # of each write request so far
        self._requests: queue.SimpleQueue[p4r.StreamMessageRequest | None] = queue.SimpleQueue()

    def __enter__(self) -> P4RuntimeClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._requests.put(None)
        self._channel.close()

    def wait(self, deadline: float) -> None:
        """Return when the switch has answered an RPC. Raises RunError after the deadline (monotonic seconds)."""
        while True:
            try:
                self._stub.Capabilities(p4r.CapabilitiesRequest(), timeout=TIMEOUT)
            except grpc.RpcError as error:
                if time.monotonic() > deadline:
                    raise RunError(f"P4Runtime does not answer: {error.details()}") from error
                time.sleep(RETRY)
            else:
                return

    def become_primary(self) -> None:
        """Win the arbitration."""
        request = p4r.StreamMessageRequest()
        request.arbitration.device_id = DEVICE_ID
        request.arbitration.election_id.low = 1
        self._requests.put(request)
        self._stream = self._stub.StreamChannel(iter(self._requests.get, None))  # a stream without a reference ends
        next(iter(self._stream))

    def load(self, config: p4r.ForwardingPipelineConfig) -> None:
        """Set a program."""
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=DEVICE_ID, election_id=p4r.Uint128(low=1), config=config
        )
        request.action = request.VERIFY_AND_COMMIT
        self._stub.SetForwardingPipelineConfig(request, timeout=TIMEOUT)

    def write(self, entries: Sequence[p4r.Entity], kind: int = p4r.Update.INSERT, batch: int | None = None) -> None:
        """Write entries, `batch` per RPC (None: all)."""
        step = batch or len(entries)
        for start in range(0, len(entries), step):
            request = p4r.WriteRequest(device_id=DEVICE_ID, election_id=p4r.Uint128(low=1))
            for entry in entries[start : start + step]:
                request.updates.add(type=kind, entity=entry)
            self.write_seconds.append(self._timed(request))

    def _timed(self, request: p4r.WriteRequest) -> float:
        begun = time.perf_counter()
        self._stub.Write(request, timeout=TIMEOUT)
        return time.perf_counter() - begun
