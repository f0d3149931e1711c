"""Number of threads that a request passes through in a real softswitch that a fork server started."""

import os
import sys
import time
from pathlib import Path

import grpc
import pytest
from finsy.proto import p4r, p4r_grpc

from mrclab.topo.linux.forkserver.client import ForkServer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks as only Linux makes them")

REQUESTS = 200
TIMEOUT_S = 60  # only a failing test waits that long


def engine_waits(pid):
    """Number of waits of gRPC's event-engine threads."""
    count = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().startswith("event_engine"):
            lines = (task / "status").read_text().splitlines()
            count += int(next(line for line in lines if line.startswith("voluntary")).split()[1])
    return count


def test_requests_do_not_pass_through_the_threads_of_grpcs_event_engine(tmp_path):
    path, argv = tmp_path / "p4rt", [sys.executable, "-m", "mrclab.softswitch", "--no-p4"]
    argv += ["--grpc-server-addr", f"unix:{path}"]
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_EXPERIMENTS"}
    server = ForkServer({"mrclab.softswitch": ""}, environment, 0o022)
    try:
        with (tmp_path / "log").open("ab") as log:
            switch = server.start("t0", argv, None, log)
        assert switch is not None
        try:
            deadline = time.monotonic() + TIMEOUT_S
            while not path.exists():
                assert switch.poll() is None, (tmp_path / "log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.01)
            with grpc.insecure_channel(f"unix:{path}") as channel:
                stub = p4r_grpc.P4RuntimeStub(channel)
                stub.Capabilities(p4r.CapabilitiesRequest(), timeout=TIMEOUT_S, wait_for_ready=True)
                before = engine_waits(switch.pid)
                for _ in range(REQUESTS):
                    stub.Capabilities(p4r.CapabilitiesRequest(), timeout=TIMEOUT_S)
                assert engine_waits(switch.pid) - before < REQUESTS  # with the event engine some five for each
        finally:
            switch.kill()
            switch.wait()
    finally:
        server.close()
