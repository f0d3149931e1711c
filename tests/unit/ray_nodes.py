"""A Ray cluster on this machine's loopback alone, until stdin ends: a node for each argument, CPUS or CPUS:PYTHONPATH.

Prints its address, then the process ids of its raylets, whose children the workers are. However it ends, and whatever
became of a part of it, no process of Ray's and no file is left: all of them are this one's descendants.
"""

import contextlib
import ctypes
import os
import signal
import socket
import sys
import tempfile
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h

# Before Ray is loaded, which reads them once. The second is Ray's switch for leaving 127.0.0.1 what it is; without the
# third a worker yields to whatever else runs here.
os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", RAY_worker_niceness="0")

# Left to choose, a raylet waits so many seconds for its agents to load and tell their ports, and no longer.
PORTS = ("metrics_agent_port", "metrics_export_port", "runtime_env_agent_port", "dashboard_agent_listen_port")


def free_ports():
    held = [socket.create_server(("127.0.0.1", 0)) for _ in PORTS]
    found = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return found


def serve(folder):
    """Bring the nodes up and wait to be killed."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415 - it starts threads, which no fork may meet

    cluster = Cluster(shutdown_at_exit=False)
    for place, (cpus, _, path) in enumerate(word.partition(":") for word in sys.argv[1:]):
        head = {} if place else {"include_dashboard": False, "no_monitor": True, "temp_dir": folder}
        cluster.add_node(
            num_cpus=int(cpus),
            node_ip_address="127.0.0.1",
            object_store_memory=80 << 20,
            include_log_monitor=False,
            env_vars={"PYTHONPATH": path} if path else {},
            **dict(zip(PORTS, free_ports(), strict=True)),
            **head,
        )
    raylets = [info.process.pid for node in cluster.list_all_nodes() for info in node.all_processes["raylet"]]
    sys.stdout.write(" ".join(map(str, [cluster.address, *raylets])) + "\n")
    sys.stdout.flush()
    signal.pause()


def end_children():
    """Kill all that descends from this process: whoever loses its parent becomes a child."""
    me = os.getpid()
    with contextlib.suppress(ChildProcessError):
        while True:
            for child in Path(f"/proc/{me}/task/{me}/children").read_text(encoding="ascii").split():
                os.kill(int(child), signal.SIGKILL)
            os.waitpid(-1, 0)


def main():
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:
        if not os.fork():
            try:
                serve(folder)
            finally:
                os._exit(1)
        os.close(1)  # so that it ends with the child that fails
        try:
            sys.stdin.read()
        finally:
            end_children()


main()
