"""Lesson 3: the learner's controller, run against a switch without a program, which then has to forward."""

import subprocess
import tempfile
from pathlib import Path

from mrclab.lab.command.live.p4sh import PYTHON
from mrclab.lab.command.p4build import P4_INFO, P4_JSON
from mrclab.lab.errors import Refused
from mrclab.lab.lessons import bench
from mrclab.lab.lessons.base import Check, read
from mrclab.lab.lessons.parts import SwitchPart
from mrclab.topo import srv6
from mrclab.topo.linux import killed
from mrclab.topo.model import Fabric, Switch
from mrclab.topo.spec import FabricSpec

_DOWNLINK = 0x3101
_LONGEST = 60.0  # seconds that a controller may take


def grade(path: Path, seed: int | None = None) -> list[Check]:
    """Program the switch of the lesson with the learner's controller, then send frames through it."""
    read(path)
    part = SwitchPart.drawn(seed)
    if not PYTHON.exists():
        raise Refused("p4runtime-shell is not set up; run `make setup`")
    with tempfile.TemporaryDirectory(prefix=killed.folder_prefix()) as place:
        socket = Path(place) / "p4rt.sock"
        with bench.served(socket) as device:
            said = _run(path, socket, place)
            if said:
                return [Check(False, "the controller runs to its end", said)]
            if device.run(lambda: device.info is None):
                return [Check(False, f"{part.switch} has the program", "hand `config` to sh.setup")]
            switch = Fabric(FabricSpec()).switch(part.switch)
            routes = [_forwards(device, switch, 1, 2), _forwards(device, switch, 2, 1)]
            return [Check(True, f"{part.switch} has the program"), *routes, _drops(device, switch, part.other)]


def _forwards(device: bench.Bench, switch: Switch, entered: int, left: int) -> Check:
    port = switch.port(left)
    sent = bench.address(switch.usid, port.usid, _DOWNLINK)
    wanted = f"what comes in at port {entered} for {srv6.text(sent)} goes to {port.peer.node}"
    out = device.run(lambda: device.answer(entered, bench.frame(sent)))
    if not out:
        return Check(False, wanted, "it was dropped: my_usid needs its own uSID, usid_fib the one that is next")
    number, data = out[0]
    peer = bytes.fromhex(port.peer.mac.replace(":", ""))
    if number != left:
        return Check(False, wanted, f"it left by port {number}, which leads to {switch.port(number).peer.node}")
    if bench.destination(data) != srv6.shift_usid(sent):
        return Check(False, wanted, f"it left for {srv6.text(bench.destination(data))}")
    return Check(data[:6] == peer, wanted, f"its destination MAC is {data[:6].hex(':')} and not {port.peer.mac}")


def _drops(device: bench.Bench, switch: Switch, other: int) -> Check:
    foreign = bench.address(other, switch.port(2).usid, _DOWNLINK)
    out = device.run(lambda: device.answer(1, bench.frame(foreign)))
    return Check(
        not out, "a list that begins with another switch's uSID is dropped", "my_usid takes what is not its own"
    )


def _run(path: Path, socket: Path, place: str) -> str:
    """Run the learner's controller; what it said last where it failed."""
    words = [str(PYTHON), str(path.absolute()), str(socket), str(P4_INFO), str(P4_JSON)]
    try:
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=_LONGEST, cwd=place)
    except subprocess.TimeoutExpired:
        return f"it took more than {_LONGEST:g} s; a write that a switch refuses hangs p4runtime-sh"
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return "" if done.returncode == 0 else said[-1] if said else f"exit status {done.returncode}"
