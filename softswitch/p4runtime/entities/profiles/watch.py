"""Watch ports: a group member that takes traffic only while its port is up."""

from __future__ import annotations

from mrclab.softswitch.p4runtime.messages.stubs import p4r

MAX_PORT_BYTES = 4


def watch_port(message: p4r.ActionProfileGroup.Member | p4r.ActionProfileAction) -> int | None:
    """Return the port to watch, None for "always in use"; as in PI, a port that is 0 or too long counts as none."""
    if message.WhichOneof("watch_kind") == "watch_port":
        data = message.watch_port
        port = int.from_bytes(data, "big") if len(data) <= MAX_PORT_BYTES else 0
        return port if 0 < port < 1 << 31 else None
    return message.watch if message.watch > 0 else None
