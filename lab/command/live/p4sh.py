"""p4runtime-shell on a switch of the running lab, as a backup controller: it reads everything and writes nothing.

The shell has an environment of its own (requirements-p4sh.txt), since it needs an older protobuf.
"""

import os
import sys
import tempfile

from mrclab import HOME
from mrclab.lab.errors import Refused, RunError
from mrclab.lab.run.wire.attach import LabClients
from mrclab.lab.run.wire.programs import foreground
from mrclab.topo.linux import paths

PYTHON = HOME / ".venv-p4sh" / "bin" / "python"
_IDS = 90  # election ids from 1 up to this, far below the controller's 100; a switch refuses two alike


def attach(lab: LabClients, name: str) -> int:
    """Open the shell on the switch `name`, on this terminal or with piped input; returns its exit status.

    UnknownName where there is no such switch, Refused where the shell is not installed, RunError where the switch's
    process is not there.
    """
    switch = lab.fabric.switch(name.strip())
    if not PYTHON.exists():
        raise Refused("p4runtime-shell is not set up; run `sudo make setup`")
    socket = lab.run_dir / f"{switch.name}.p4rt.sock"
    if not socket.exists():
        raise RunError(f"{switch.name} is not running: it has no socket {socket}")
    election = 1 + os.getpid() % _IDS
    words = ["--grpc-addr", f"unix:{socket}", "--device-id", str(switch.device_id), "--election-id", f"0,{election}"]
    with tempfile.TemporaryDirectory(prefix=paths.folder_prefix()) as home:  # IPython's profile: not the user's own
        environment = {**os.environ, "IPYTHONDIR": home}
        if not sys.stdin.isatty():
            environment["TERM"] = "dumb"  # what is piped in gets no terminal title back
        command = [str(PYTHON), "-u", "-m", "p4runtime_sh", *words]
        return foreground(command, environment)
