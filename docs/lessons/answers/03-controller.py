"""A solution of lesson 3."""

import sys

import p4runtime_sh.shell as sh

SOCKET, P4INFO, JSON = sys.argv[1:]
LOCATOR = 0xFCBB_BB00


def insert(table, usid, action, **parameters):
    entry = sh.TableEntry(f"MrcIngress.{table}")(action=f"MrcIngress.{action}")
    entry.match["locator_usid"] = f"{LOCATOR << 16 | usid:#x}"
    for name, value in parameters.items():
        entry.action[name] = str(value)
    entry.insert()


sh.setup(
    device_id=1, grpc_addr=f"unix:{SOCKET}", election_id=(0, 1), config=sh.FwdPipeConfig(P4INFO, JSON), verbose=False
)
insert("usid_fib", 0x2101, "forward", port=1, src_mac="02:0b:01:02:00:01", dst_mac="02:0a:01:01:00:04")
insert("usid_fib", 0x2102, "forward", port=2, src_mac="02:0b:01:02:00:02", dst_mac="02:0a:01:02:00:04")
insert("my_usid", 0x1102, "shift_usid")
sh.teardown()
