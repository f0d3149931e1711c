"""Memory of a QP by its number of EVs, measured as the objects of its host's transport.

In a process of its own, on plain sources: the objects of compiled modules cannot be counted separately.
"""

import os
import subprocess
import sys
import tempfile
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mrclab import compiled
from mrclab.sim.nic import SimNic
from mrclab.sim.world import SimWorld
from mrclab.topo.config.transport import TransportSpec
from mrclab.topo.linux import paths
from mrclab.topo.model import Fabric
from mrclab.topo.spec import load

_FABRIC = {"planes": 8, "t0s": 2, "t1s": 32, "hosts_per_t0": 1, "link": {"rate": "100 Gb/s", "delay": "600ns"}}
_QPS = 8
_BYTES = 2 << 20  # that each QP sends: twice as many packets as it can have EVs
_TRANSPORT = (tracemalloc.Filter(True, "*/hosts/mrc/*"), tracemalloc.Filter(True, "*/hosts/rdma/*"))
_FIELD = "transport.ev_profile.active_per_plane"


def qp_memory(values: Mapping[str, Any]) -> float:
    """KiB of a QP and its EVs at one end, the mean of both ends, after it has used all active EVs."""
    path = os.pathsep.join([str(compiled.TREE), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, compiled.VARIABLE: "0", "PYTHONPATH": path}
    argv = [sys.executable, "-m", __name__, str(values[_FIELD])]
    return float(subprocess.run(argv, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout)


def _measure(active: int) -> float:
    profile = {"active_per_plane": active, "backup_per_plane": 0, "ev_min_active": 1}
    with tempfile.TemporaryDirectory(prefix=paths.folder_prefix()) as folder:
        fabric = Fabric(load(_FABRIC))
        transport = TransportSpec.model_validate({"ev_profile": profile})
        world = SimWorld(fabric, seed=1, transport=transport, mapper=None, files=Path(folder))
        addresses = world.call("h2", "hello")["address"], world.call("h1", "hello")["address"]
        ends = [world.hosts[host].transport for host in ("h1", "h2")]
        sent, received = ends[0].verbs.reg_mr(bytearray(_BYTES)), ends[1].verbs.reg_mr(bytearray(_BYTES))
        tracemalloc.start()
        try:
            for _ in range(_QPS):
                one, other = (end.verbs.create_qp(address, 0.0) for end, address in zip(ends, addresses, strict=True))
                ends[0].verbs.connect(one, ends[1].verbs.local_info(other), 0.0)
                ends[1].verbs.connect(other, ends[0].verbs.local_info(one), 0.0)
                ends[0].verbs.post_send(
                    one, 0, "RDMA_WRITE", sent.lkey, 0, _BYTES, received.va, received.rkey, None, 0.0
                )
            nic = world.hosts["h1"].nic
            assert isinstance(nic, SimNic)
            nic.serve()
            world.run(until=0.001)
            traces = tracemalloc.take_snapshot().filter_traces(_TRANSPORT).traces
        finally:
            tracemalloc.stop()
    return sum(trace.size for trace in traces) / (2 * _QPS) / 1024


if __name__ == "__main__":
    sys.stdout.write(f"{_measure(int(sys.argv[1]))}\n")
