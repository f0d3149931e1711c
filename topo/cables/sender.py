"""Background sender: repeats one frame at a steady rate. A process in a host's namespace.

`python -m mrclab.topo.cables.sender` takes one JSON object (see `main`), says `ready` before it begins, and
on SIGTERM prints how many frames it sent, how many the interface refused and how late it was, and ends.
"""

import json
import select
import signal
import socket
import sys
import time
from typing import Any

from mrclab.topo.process.beat import Beat

_SO_SNDBUFFORCE = 32
_SEND_BUFFER = 4 << 20  # bytes
_MAX_AT_ONCE = 16  # frames sent in a row to catch up; older ones are dropped, as at a link's rate
_NUMBER_BYTES = 4


def main(argument: str) -> None:
    """Run until SIGTERM. `argument`: {"interface": …, "frame": hex, "rate_pps": …, "number_at": byte of a counter}."""
    settings = json.loads(argument)
    frame = bytearray.fromhex(settings["frame"])
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as opened:
        opened.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _SEND_BUFFER)
        opened.bind((settings["interface"], 0))
        wake, stop = socket.socketpair()
        signal.signal(signal.SIGTERM, lambda *_: stop.send(b"x"))
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        done = _send(opened, frame, settings["number_at"], 1 / settings["rate_pps"], wake)
    sys.stdout.write(json.dumps(done) + "\n")


def _send(
    opened: socket.socket, frame: bytearray, number_at: int, interval: float, wake: socket.socket
) -> dict[str, Any]:
    sent = refused = 0
    due = time.monotonic()
    beat = Beat(due)
    while True:
        now = time.monotonic()
        due = max(due, now - _MAX_AT_ONCE * interval)
        while due <= now:
            due += interval
            frame[number_at : number_at + _NUMBER_BYTES] = (sent & 0xFFFF_FFFF).to_bytes(_NUMBER_BYTES, "big")
            try:
                opened.send(frame)
                sent += 1
            except OSError:  # no carrier, as on any cable that was pulled
                refused += 1
        readable, _, _ = select.select([wake], [], [], beat.wait(due, time.monotonic()))
        beat.woken(time.monotonic())
        if readable:
            return {"sent": sent, "refused": refused, **beat.take()}


if __name__ == "__main__":
    main(sys.argv[1])
