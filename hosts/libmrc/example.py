"""A write with an immediate from one host to another: `python -m mrclab.hosts.libmrc.example listen PORT` on one host,
`… connect PORT ADDRESS` on the other; over PORT and ADDRESS, TCP's, they exchange QP numbers and keys.
"""

import argparse
import json
import socket
import sys
import time
from typing import TextIO

from mrclab.hosts.libmrc.mrc import CQ, MR, PD, QP, Address, Context

TIMEOUT = 60.0  # seconds in which the other side may start


def _connected(server: str, port: int) -> socket.socket:
    """A connection to the side that listens, which may start later than this one."""
    until = time.monotonic() + TIMEOUT
    while True:
        try:
            return socket.create_connection((server, port), TIMEOUT)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def _line(lines: TextIO) -> str:
    """The next line of the other side."""
    if line := lines.readline():
        return line
    raise ConnectionError("the other side has ended")


def _port(text: str) -> int:
    if text.isdecimal() and 0 < int(text) < 1 << 16:
        return int(text)
    raise argparse.ArgumentTypeError(f"invalid port {text!r}: expected a number from 1 to 65535")


def main() -> None:
    """Run one of the two sides; errors are one sentence."""
    parser = argparse.ArgumentParser(prog="python -m mrclab.hosts.libmrc.example")
    parser.add_argument("role", choices=["listen", "connect"])
    parser.add_argument("port", type=_port)
    parser.add_argument("server", nargs="?", default="", help="where the other side listens, e.g. 10.77.0.3")
    options = parser.parse_args()
    if options.role == "connect" and not options.server:
        parser.error("connect needs the address of the other side, e.g. 10.77.0.3")
    try:
        run(options.role, options.port, options.server)
    except OSError as error:
        sys.exit(f"{options.role}: {error}")


def run(role: str, port: int, server: str) -> None:
    """Exchange addresses, write, and print the completion."""
    with Context() as context:
        pd, cq = PD(context), CQ(context, 16)
        mr, qp = MR(pd, 1 << 20), QP(pd, cq)
        talk = socket.create_server(("", port)).accept()[0] if role == "listen" else _connected(server, port)
        with talk.makefile("rw") as lines:
            lines.write(json.dumps([qp.address.as_dict(), mr.addr, mr.rkey]) + "\n")
            lines.flush()
            peer, addr, rkey = json.loads(_line(lines))
            qp.connect(Address(**peer), 1024)
            qp.receive() if role == "listen" else mr.buf.__setitem__(slice(5), b"hello")
            lines.write("ready\n")
            lines.flush()
            _line(lines)
            if role == "connect":
                qp.write(mr, addr, rkey, imm=42)
            done = next(cq.wait())
            sys.stdout.write(f"{role}: {done.text}, {done.byte_len} bytes, {done.imm}, {bytes(mr.buf[:5])!r}\n")


if __name__ == "__main__":
    main()
