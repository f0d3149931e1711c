"""Lesson 3: a controller for t1-p1-2. Run by `mrclab grade 3 FILE` with the arguments SOCKET P4INFO JSON."""

import sys

import p4runtime_sh.shell as sh

SOCKET, P4INFO, JSON = sys.argv[1:]
LOCATOR = 0xFCBB_BB00

sh.setup(
    device_id=1, grpc_addr=f"unix:{SOCKET}", election_id=(0, 1), config=sh.FwdPipeConfig(P4INFO, JSON), verbose=False
)
sh.teardown()
