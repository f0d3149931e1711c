"""The benchmark's entries by p4runtime-sh's client, for one switch. Runs in that tool's own environment.

Arguments: gRPC address, directory of the compiled program, number of entries. Prints the seconds it took.
"""

import sys
import time

import p4runtime_sh.shell as sh  # type: ignore[import-not-found]


def main(address: str, build: str, count: int) -> None:
    """Connect, set the pipeline, insert entries one by one as the shell does, read them back."""
    begun = time.monotonic()
    config = sh.FwdPipeConfig(f"{build}/mrc.p4info.txtpb", f"{build}/mrc.json")
    sh.setup(device_id=1, grpc_addr=address, election_id=(0, 100), config=config, verbose=False)
    for number in range(1, count):
        entry = sh.TableEntry("usid_fib")(action="forward")
        entry.match["locator_usid"] = hex(0xFCBBBB000000 | number)
        entry.action["port"], entry.action["src_mac"], entry.action["dst_mac"] = "1", "2", "3"
        entry.insert()
    own = sh.TableEntry("my_usid")(action="shift_usid")
    own.match["locator_usid"] = hex(0xFCBBBB002101)
    own.insert()
    found = sum(1 for _entry in sh.TableEntry("usid_fib").read())
    assert found == count - 1, f"{found} entries read back"
    sh.teardown()
    print(time.monotonic() - begun)  # noqa: T201 - the caller reads it


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
