"""Lesson 3's checks of the forwarding of a switch that a learner programmed."""

import struct
from collections.abc import Callable

from mrclab.lab.lessons.base import Check
from mrclab.lab.lessons.parts import SwitchPart
from mrclab.topo import srv6
from mrclab.topo.model import Fabric, Switch
from mrclab.topo.spec import FabricSpec

Answer = Callable[[int, bytes], list[tuple[int, bytes]]]
"""Injects a frame at a port and returns the frames sent: port and bytes of each."""

_DOWNLINK = 0x3101
_DESTINATION = slice(38, 54)  # of the outer IPv6 header


def frame(to: int, hops: int = 64) -> bytes:
    """An Ethernet frame with an IPv6 packet to this address and IPv6, without payload, inside."""
    inner = struct.pack(">IHBB", 6 << 28, 0, 59, 64) + bytes(32)
    outer = struct.pack(">IHBB", 6 << 28, len(inner), 41, hops) + bytes(16) + to.to_bytes(16, "big")
    return bytes(12) + b"\x86\xdd" + outer + inner


def address(*usids: int) -> int:
    """An IPv6 address of the locator and these uSIDs."""
    area = b"".join(usid.to_bytes(2, "big") for usid in usids).ljust(12, b"\0")
    return int.from_bytes(srv6.LOCATOR.to_bytes(4, "big") + area, "big")


def destination(data: bytes) -> int:
    """The outer destination address of a frame."""
    return int.from_bytes(data[_DESTINATION], "big")


def checks(part: SwitchPart, answer: Answer | None) -> list[Check]:
    """All checks on the switch of a learner's part; `answer` is None where it has no program."""
    program = Check(answer is not None, f"{part.switch} has the program", "hand `config` to sh.setup")
    if answer is None:
        return [program]
    switch = Fabric(FabricSpec()).switch(part.switch)
    return [program, _forwards(answer, switch, 1, 2), _forwards(answer, switch, 2, 1), _drops(answer, switch, part)]


def _forwards(answer: Answer, switch: Switch, entered: int, left: int) -> Check:
    port = switch.port(left)
    sent = address(switch.usid, port.usid, _DOWNLINK)
    expected = f"what comes in at port {entered} for {srv6.text(sent)} goes to {port.peer.node}"
    out = answer(entered, frame(sent))
    if not out:
        return Check(False, expected, "it was dropped: my_usid needs its own uSID, usid_fib the one that is next")
    number, data = out[0]
    peer = bytes.fromhex(port.peer.mac.replace(":", ""))
    if number != left:
        return Check(False, expected, f"it left by port {number}, which leads to {_neighbour(switch, number)}")
    if destination(data) != srv6.shift_usid(sent):
        return Check(False, expected, f"it left for {srv6.text(destination(data))}")
    return Check(data[:6] == peer, expected, f"its destination MAC is {data[:6].hex(':')} and not {port.peer.mac}")


def _neighbour(switch: Switch, number: int) -> str:
    return switch.port(number).peer.node if 1 <= number <= len(switch.ports) else "nothing"


def _drops(answer: Answer, switch: Switch, part: SwitchPart) -> Check:
    out = answer(1, frame(address(part.other, switch.port(2).usid, _DOWNLINK)))
    expected = "a list that begins with another switch's uSID is dropped"
    return Check(not out, expected, "my_usid takes what is not its own")
