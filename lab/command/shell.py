"""The prompt of `mrclab up`: a few words that send files, cut cables and show how the lab is."""

import cmd
import shlex
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

from rich import box
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table

from mrclab.lab.command import operations, p4sh, views
from mrclab.lab.errors import LabError
from mrclab.lab.faults.live import LiveFaults
from mrclab.lab.run import programs
from mrclab.lab.run.session import Session
from mrclab.lab.run.transfer import Transfer, random_file
from mrclab.lab.scenario.units import parse_size, show_bytes, show_rate, show_seconds
from mrclab.topo.errors import TopoError
from mrclab.topo.model import Link, UnknownName

_DRAIN = 30.0  # seconds until traffic must be gone, or be back
_PRECHECK = 10.0

_WORDS = {
    "status": "switches, cables, hosts, denials",
    "map": "Clustermapper's map: health of every cable, and what is at fault (after mrclab up --mapper)",
    "deny WHAT": "keep all QPs off a switch, cable, plane or path, e.g. deny t1-p1-2, or deny h1 to h3 p2 u1",
    "undeny WHAT": "lift that",
    "drain SWITCH": "take a switch out of service without losing a packet",
    "undrain SWITCH": "let traffic back over it",
    "precheck": "whether a job may start",
    "links": "every cable and whether it is up",
    "down CABLE": "cut a cable, e.g. down t0-p1-1/t1-p1-2, or down h1-p2",
    "up CABLE": "bring it back",
    "fault KIND FIELD=…": "strike a fault, e.g. fault loss link=h1-p2 rate=5%, fault switch_freeze switch=t1-p1-1",
    "heal [NAME]": "heal a fault, or all of them, the last first",
    "faults": "what is in force; docs/faults.md lists every kind and its fields",
    "send SRC DST WHAT": "write a file, or so many random bytes, e.g. send h1 h3 16MiB",
    "evs HOST": "state of every EV of a host's QPs",
    "counters [SWITCH]": "packets dropped by switches, by reason; of one switch also by port",
    "run NODE COMMAND": "run a program in a node's namespace, e.g. run h1 ip -br link show h1-p1",
    "HOST COMMAND": "run a program on a host's NIC by lib_mrc.so, e.g. h1 ./mrc_example -d mrc0 (docs/ocp-api.md)",
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
        session.forgiving = True
        self._console = console
        self._faults = LiveFaults(session)
        self._sent = 0

    def preloop(self) -> None:
        """Say what can be typed."""
        self.do_help("")

    def cmdloop(self, intro: Any = None) -> None:
        """Read until the end, and heal what is in force then, Ctrl-C included."""
        try:
            super().cmdloop(intro)
        finally:
            self._faults.close()

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
        words = shlex.split(line)
        if len(words) > 1 and any(words[0] == host.name for host in self._session.fabric.hosts):
            programs.run(self._session, words[0], words[1:])
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
        self._show(views.status(operations.ask(self._session, "status")))
        self._console.print(f"cut       {', '.join(link.name for link in self._down()) or 'nothing'}")
        self._console.print(f"files     {self._session.run_dir}", soft_wrap=True)

    def do_map(self, arg: str) -> None:  # noqa: ARG002
        """Print Clustermapper's map."""
        self._show(views.link_map(operations.ask(self._session, "map")))

    def do_deny(self, arg: str) -> None:
        """Deny an element."""
        self._show(views.denied(operations.ask(self._session, "deny", what=_needed(arg, "deny"))))

    def do_undeny(self, arg: str) -> None:
        """Lift a denial."""
        told = operations.ask(self._session, "undeny", what=_needed(arg, "undeny"))
        self._show(views.denied(told, "allowed again"))

    def do_drain(self, arg: str) -> None:
        """Drain a switch."""
        switch = _needed(arg, "drain")
        with self._console.status(f"draining {switch}"):
            told = operations.ask(self._session, "drain", _DRAIN, switch=switch, timeout=_DRAIN)
        self._show(views.drained(told))

    def do_undrain(self, arg: str) -> None:
        """Undrain a switch."""
        told = operations.ask(self._session, "undrain", _DRAIN, switch=_needed(arg, "undrain"), timeout=_DRAIN)
        self._show(views.undrained(told))

    def do_precheck(self, arg: str) -> None:  # noqa: ARG002
        """Print whether a job may start."""
        self._show(views.precheck(operations.ask(self._session, "precheck", _PRECHECK, timeout=_PRECHECK)))

    def do_links(self, arg: str) -> None:  # noqa: ARG002
        """Print every cable."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("cable", "plane", "state"):
            table.add_column(column)
        down = self._down()
        for link in self._session.fabric.links:
            state = "[red]down[/]" if link in down else "up"
            table.add_row(link.name, str(link.plane), state)
        self._console.print(table)

    def do_down(self, arg: str) -> None:
        """Cut a cable."""
        link = self._session.fabric.link(_needed(arg, "down"))
        self._faults.strike("link_down", f"link={link.name} name={_cut_name(link)}")
        self._console.print(f"{link.name} is down")

    def do_up(self, arg: str) -> None:
        """Bring a cable back."""
        link = self._session.fabric.link(_needed(arg, "up"))
        if _cut_name(link) in self._faults.active:
            self._faults.heal(_cut_name(link))
        if link in self._down():
            raise LabError(f"{link.name} is still held down by a fault; `faults` says which, `heal NAME` ends it")
        self._console.print(f"{link.name} is up")

    def do_fault(self, arg: str) -> None:
        """Strike a fault."""
        kind, _, fields = _needed(arg, "fault").strip().partition(" ")
        self._console.print(escape(self._faults.strike(kind, fields)), highlight=False)

    def do_heal(self, arg: str) -> None:
        """Heal a fault, or all."""
        for phrase in self._faults.heal(arg.strip()) or ["nothing to heal"]:
            self._console.print(escape(phrase), highlight=False)

    def do_faults(self, arg: str) -> None:  # noqa: ARG002
        """Print what is in force."""
        active = self._faults.active
        for name, text in active.items():
            self._console.print(escape(f"{name}: {text}"), highlight=False)
        if trouble := self._faults.trouble:
            raise LabError(trouble)
        if not active:
            self._console.print("none")

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
            if not words[2][:1].isdigit():
                raise ValueError(f"there is no file {words[2]}; name one that is there, or a size such as 16MiB")
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
            raise ValueError("run needs a node and a command: run h1 ip -br link show h1-p1")
        pid = self._session.emulation.pid(self._session.fabric.node(words[0]).name)
        subprocess.run(["mnexec", "-a", str(pid), *words[1:]], check=False)

    def do_p4sh(self, arg: str) -> None:
        """Open p4runtime-shell on a switch."""
        p4sh.attach(self._session, _needed(arg, "p4sh"))

    def do_mininet(self, arg: str) -> None:  # noqa: ARG002
        """Open Mininet's prompt on the same network."""
        from mininet.cli import CLI  # noqa: PLC0415 - wanted by this one word only

        CLI(self._session.emulation.network)

    def do_quit(self, arg: str) -> bool:  # noqa: ARG002
        """End the lab."""
        return True

    def _down(self) -> list[Link]:
        """Cables without carrier."""
        return [link for link in self._session.fabric.links if not self._session.emulation.cables.is_up(link)]

    def _show(self, what: RenderableType) -> None:
        self._console.print(escape(what) if isinstance(what, str) else what, highlight=False)

    do_exit = do_quit

    def do_EOF(self, arg: str) -> bool:  # noqa: ARG002, N802
        """End of input ends the lab."""
        sys.stdout.write("\n")
        return True


def _cut_name(link: Link) -> str:
    """Name of the fault that `down` strikes."""
    return f"cut-{link.name.replace('/', '-')}"


def _needed(arg: str, word: str) -> str:
    """What follows a word that needs something; ValueError where nothing does."""
    if not arg.strip():
        meant = next(usage for usage in _WORDS if usage.split()[0] == word)
        raise ValueError(f"say what: {meant}")
    return arg.strip()
