"""Cost of an RPC that does nothing in grpc's own Python server, the lower bound for a switch in Python.

``python -m mrclab.bench.switch.rpcfloor SOCKET`` is such a server, scheduled and set as softswitch is.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

from mrclab.lab.errors import RunError
from mrclab.softswitch.__main__ import GRPC_EXPERIMENTS
from mrclab.softswitch.process.realtime import set_realtime_priority

_SERVICE, _METHOD = "bench.Floor", "Nothing"
_TIMEOUT = 30.0  # seconds
_THREADS = 8


def rpc_floor(directory: Path, cpu: int | None, rpcs: int) -> float:
    """Median seconds of empty RPCs, one after the other; the server on one CPU or (None) on all."""
    path = directory / "floor.sock"
    argv = [sys.executable, "-m", "mrclab.bench.switch.rpcfloor", str(path)]
    pin = {cpu} if cpu is not None else os.sched_getaffinity(0)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, env={**os.environ, **dict([GRPC_EXPERIMENTS])}) as server:
        os.sched_setaffinity(server.pid, pin)
        try:
            with grpc.insecure_channel(f"unix:{path}") as channel:
                call = channel.unary_unary(f"/{_SERVICE}/{_METHOD}", None, None)
                call(b"", wait_for_ready=True, timeout=_TIMEOUT)
                return statistics.median(_timed(call) for _ in range(rpcs))
        except grpc.RpcError as error:
            raise RunError(f"an empty gRPC server does not answer: {error}") from error
        finally:
            server.kill()


def _timed(call: grpc.UnaryUnaryMultiCallable[bytes, bytes]) -> float:
    begun = time.perf_counter()
    call(b"", timeout=_TIMEOUT)
    return time.perf_counter() - begun


def _serve(path: str) -> None:
    set_realtime_priority()
    server = grpc.server(ThreadPoolExecutor(_THREADS))
    handlers = {_METHOD: grpc.unary_unary_rpc_method_handler(lambda _request, _context: b"")}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
    server.add_insecure_port(f"unix:{path}")
    server.start()
    sys.stdin.read()  # until the benchmark is gone
    server.stop(None)


if __name__ == "__main__":
    _serve(sys.argv[1])
