"""A write with an immediate from one host to another: `python -m mrclab.hosts.libmrc.example listen PORT` on one host,
`… connect PORT ADDRESS` on the other; PORT and ADDRESS are TCP's, for what the two must know of each other.
"""

import json
import socket
import sys

from mrclab.hosts.libmrc.mrc import CQ, MR, PD, QP, Address, Context


def main() -> None:
    """Run one of the two sides."""
    role, port, *server = sys.argv[1:]
    with Context() as context:
        pd, cq = PD(context), CQ(context, 16)
        mr, qp = MR(pd, 1 << 20), QP(pd, cq)
        where = ("", int(port)) if role == "listen" else (server[0], int(port))
        talk = socket.create_server(where).accept()[0] if role == "listen" else socket.create_connection(where)
        with talk.makefile("rw") as lines:
            lines.write(json.dumps([qp.address.as_dict(), mr.addr, mr.rkey]) + "\n")
            lines.flush()
            peer, addr, rkey = json.loads(lines.readline())
            qp.connect(Address(**peer), 1024)
            qp.receive() if role == "listen" else mr.buf.__setitem__(slice(5), b"hello")
            lines.write("ready\n")
            lines.flush()
            lines.readline()
            if role == "connect":
                qp.write(mr, addr, rkey, imm=42)
            done = next(cq.wait())
            sys.stdout.write(f"{role}: {done.text}, {done.byte_len} bytes, {done.imm}, {bytes(mr.buf[:5])!r}\n")


if __name__ == "__main__":
    main()
