"""The prompt of `mrclab up`: a few words that send files, cut cables and show how the lab is."""

import cmd
import shlex
import subprocess
import sys
from pathlib import Path
from typing import IO

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lab.errors import LabError
from lab.session import Session
from lab.traffic import Transfer, random_file
from lab.units import parse_size, show_bytes, show_rate, show_seconds
from topo.errors import TopoError
from topo.model import UnknownName

P4SH_PYTHON = Path(__file__).resolve().parent.parent / ".venv-p4sh" / "bin" / "python"

_WORDS = {
    "status": "switches, cables, hosts",
    "links": "every cable and whether it is up",
    "down CABLE": "cut a cable, e.g. down t0-p1-1/t1-p1-2, or down h1-p2",
    "up CABLE": "bring it back",
    "send SRC DST WHAT": "write a file, or so many random bytes, e.g. send h1 h3 16MiB",
    "evs HOST": "state of every EV of a host's QPs",
    "counters [SWITCH]": "packets dropped by switches, by reason; of one switch also by port",
    "run NODE COMMAND": "run a program in a node's namespace, e.g. run h1 ip -s link",
    "p4sh SWITCH": "p4runtime-shell on a switch, as a backup controller: it may read everything and write nothing",
    "mininet": "Mininet's own prompt",
    "quit": "take the lab down",
}


class Shell(cmd.Cmd):
    """Reads words until `quit` or end of input. Mistakes are answered with a sentence."""

    prompt = "mrclab> "

    def __init__(self, session: Session, console: Console, stdin: IO[str] | None = None) -> None:
        super().__init__(stdin=stdin)
        self._session = session
        self._console = console
        self._cut: set[str] = set()
        self._sent = 0

    def preloop(self) -> None:
        """Say what can be typed."""
        self.do_help("")

    def onecmd(self, line: str) -> bool:
        """Run one line; what goes wrong is said, and the prompt comes back."""
        try:
            return bool(super().onecmd(line))
        except (LabError, TopoError, UnknownName, ValueError) as error:
            self._console.print(f"[red]{escape(str(error))}[/]")
        return False

    def emptyline(self) -> bool:
        """An empty line does nothing."""
        return False

    def default(self, line: str) -> None:
        """A word that is none of ours."""
        if line == "EOF":
            return
        self._console.print(f"[red]no such word: {escape(line.split(maxsplit=1)[0])}; type help[/]")

    def do_help(self, arg: str) -> None:  # noqa: ARG002
        """Print all words."""
        table = Table(box=None, pad_edge=False)
        for word, meaning in _WORDS.items():
            table.add_row(f"[bold]{word}[/]", meaning)
        self._console.print(table)

    def do_status(self, arg: str) -> None:  # noqa: ARG002
        """Print the state of everything."""
        status = self._session.call("controller", "status")
        down = ", ".join(sorted(self._cut)) or "none"
        self._console.print(
            f"{status['switches_ready']} of {status['switches']} switches ready, {status['links_verified']} of"
            f" {status['links']} cables verified, cut: {down}; files in {self._session.run_dir}",
            soft_wrap=True,
        )

    def do_links(self, arg: str) -> None:  # noqa: ARG002
        """Print every cable."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("cable", "plane", "state"):
            table.add_column(column)
        for link in self._session.fabric.links:
            state = "[red]down[/]" if link.name in self._cut else "up"
            table.add_row(link.name, str(link.plane), state)
        self._console.print(table)

    def do_down(self, arg: str) -> None:
        """Cut a cable."""
        link = self._session.fabric.link(arg)
        at = self._session.emulation.cables.down(link)
        self._session.record("fault.begin", at, fault=link.name, fault_kind="link_down", link=link.name)
        self._cut.add(link.name)
        self._console.print(f"{link.name} is down")

    def do_up(self, arg: str) -> None:
        """Bring a cable back."""
        link = self._session.fabric.link(arg)
        at = self._session.emulation.cables.up(link)
        self._session.record("fault.end", at, fault=link.name, fault_kind="link_down", link=link.name)
        self._cut.discard(link.name)
        self._console.print(f"{link.name} is up")

    def do_send(self, arg: str) -> None:
        """Write a file or random bytes from host to host."""
        words = shlex.split(arg)
        if len(words) != 3:
            raise ValueError("send needs a source, a destination and a file or size: send h1 h3 16MiB")
        source, destination = (self._session.fabric.host(word).name for word in words[:2])
        self._sent += 1
        name = f"shell-{self._sent}"
        path = Path(words[2])
        if not path.exists():
            size = int(str(parse_size(words[2])))
            path = random_file(self._session.files / source / name, size, name)
        transfer = Transfer(self._session, name, source, destination, path)
        with self._console.status(f"{source} → {destination}") as status:
            outcome = transfer.run(lambda share: status.update(f"{source} → {destination} {share * 100:.0f}%"), 3600)
        verdict = "intact" if outcome.intact else "[red]NOT INTACT[/]"
        rate = show_rate(transfer.size / outcome.seconds) if outcome.seconds else "–"
        self._console.print(f"{show_bytes(transfer.size)} in {show_seconds(outcome.seconds)} ({rate}), {verdict}")

    def do_evs(self, arg: str) -> None:
        """Print the EVs of a host."""
        host = self._session.fabric.host(arg.strip()).name
        rows = self._session.call(host, "stats").get("paths", [])
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("QP", "EV", "plane", "uplink", "state", "sent", "lost"):
            table.add_column(column)
        for row in rows:
            counts = (str(row["sent_packets"]), str(row["lost_packets"]))
            table.add_row(
                str(row["qp"]), f"{row['ev']:08x}", str(row["plane"]), str(row["uplink"]), row["state"], *counts
            )
        self._console.print(table if rows else f"{host} has no QP now; its EVs live as long as a transfer")

    def do_counters(self, arg: str) -> None:
        """Print switch counters."""
        switches = self._session.call("controller", "counters")["switches"]
        names = [self._session.fabric.switch(arg.strip()).name] if arg.strip() else list(switches)
        for name in names:
            drops = {reason: n for reason, n in switches[name].get("drops", {}).items() if n}
            said = ", ".join(f"{reason} {n}" for reason, n in drops.items()) or "nothing dropped"
            self._console.print(f"{name}: {said}")
            for number, port in switches[name].get("ports", {}).items() if arg.strip() else ():
                self._console.print(f"  port {number}: in {port['rx_packets']}, out {port['tx_packets']} packets")

    def do_run(self, arg: str) -> None:
        """Run a program inside a node's namespace."""
        words = shlex.split(arg)
        if len(words) < 2:
            raise ValueError("run needs a node and a command: run h1 ip -s link")
        pid = self._session.emulation.pid(self._session.fabric.node(words[0]).name)
        subprocess.run(["mnexec", "-a", str(pid), *words[1:]], check=False)

    def do_p4sh(self, arg: str) -> None:
        """Open p4runtime-shell on a switch."""
        switch = self._session.fabric.switch(arg.strip())
        if not P4SH_PYTHON.exists():
            raise ValueError("p4runtime-shell is not set up; run `sudo make setup`")
        socket = self._session.run_dir / f"{switch.name}.p4rt.sock"
        words = ["--grpc-addr", f"unix:{socket}", "--device-id", str(switch.device_id), "--election-id", "0,1"]
        subprocess.run([str(P4SH_PYTHON), "-m", "p4runtime_sh", *words], check=False)

    def do_mininet(self, arg: str) -> None:  # noqa: ARG002
        """Open Mininet's prompt on the same network."""
        from mininet.cli import CLI  # noqa: PLC0415 - wanted by this one word only

        CLI(self._session.emulation.network)

    def do_quit(self, arg: str) -> bool:  # noqa: ARG002
        """End the lab."""
        return True

    do_exit = do_quit

    def do_EOF(self, arg: str) -> bool:  # noqa: ARG002, N802
        """End of input ends the lab."""
        sys.stdout.write("\n")
        return True
