"""The other end of the page that shows one packet in P4 switches: switches in this interpreter, no sockets.

Requests are answered as JSON; `error` is a sentence on a wrong one.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from mrclab.lab.errors import LabError
from mrclab.lab.lessons.p4 import shift
from mrclab.lab.p4 import shell, text, walk
from mrclab.lab.p4.inside import MrcSwitch
from mrclab.lab.ui.browser import learning
from mrclab.lab.ui.model import PageModel
from mrclab.topo.errors import TopoError
from mrclab.topo.model import Fabric
from mrclab.topo.spec import FabricSpec


class P4Tab:
    """The demo's fabric with a P4 switch for each of its switches, made when it is first needed."""

    def __init__(self) -> None:
        self._fabric = Fabric(FabricSpec())
        self._program: str | None = None  # the learner's, in place of the lab's
        self._switches: dict[str, MrcSwitch] = {}
        self._requests: Mapping[str, Callable[[dict[str, Any]], Any]] = {
            "api/p4/layout": lambda _: PageModel(self._fabric).layout(),
            "api/p4/walk": self._walk,
            "api/p4/tables": lambda request: text.tables(self._switch(str(request["switch"]))),
            "api/p4/write": self._write,
            "api/p4/register": self._register,
            "api/p4/program": self._program_all,
            "api/p4/controller": self._controller,
            "api/p4/reset": self._reset,
            "api/grade": lambda request: learning.graded(int(request["number"]), str(request.get("text", "")), ()),
        }

    def request(self, path: str, body: str = "") -> str:
        """Answer a request of the page."""
        try:
            return json.dumps(self._requests[path](json.loads(body or "{}")))
        except (LabError, TopoError, ValueError, TypeError, KeyError) as error:
            return json.dumps({"error": str(error)})

    def _switch(self, name: str) -> MrcSwitch:
        if name not in self._switches:
            self._fabric.switch(name)  # or it is unknown
            made = MrcSwitch(self._program)
            made.provision(self._fabric, name)
            self._switches[name] = made
        return self._switches[name]

    def _walk(self, request: dict[str, Any]) -> dict[str, Any]:
        source, target = str(request["from"]), str(request["to"])
        plane, uplink = int(request["plane"]), int(request["uplink"])
        if source == target:
            raise LabError(f"{source} sends to itself by no switch; choose another host")
        if self._fabric.host(source).group == self._fabric.host(target).group:
            uplink = 0
        frame = walk.packet(self._fabric, source, target, plane, uplink)
        return {"hops": list(walk.walk(self._fabric, self._switch, frame, source, plane))}

    def _write(self, request: dict[str, Any]) -> dict[str, str]:
        kind, table, key = (str(request[name]) for name in ("kind", "table", "key"))
        action, params = str(request.get("action", "")), dict(request.get("params", {}))
        return {"message": text.write(self._switch(str(request["switch"])), kind, table, key, action, params)}

    def _register(self, request: dict[str, Any]) -> dict[str, str]:
        name, index, value = str(request["name"]), int(request["index"]), int(request["value"])
        self._switch(str(request["switch"])).runtime.program().register_write(name, index, value)
        return {"message": f"{name}[{index}] = {value}"}

    def _program_all(self, request: dict[str, Any]) -> dict[str, str]:
        """Give all switches the lab's program with the learner's action in it, and the controller's entries again."""
        self._program = shift.with_action(str(request["text"]))
        self._switches.clear()
        return {"message": "all switches run your action"}

    def _controller(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run a learner's controller on an empty switch of the fabric, which has its entries from then on."""
        name, device = str(request["switch"]), shell.ShellDevice()
        self._fabric.switch(name)
        printed, error = shell.run(str(request["text"]), device)
        if device.programmed is not None:
            self._switches[name] = device.programmed
        return {"printed": printed, "failure": error, "programmed": device.programmed is not None}

    def _reset(self, _: dict[str, Any]) -> dict[str, str]:
        self._program = None
        self._switches.clear()
        return {"message": "all switches have the lab's program and the controller's entries"}
