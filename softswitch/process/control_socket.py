"""The `--control-socket`: lines of text with commands of simple_switch_CLI that P4Runtime does not cover.

`set_queue_rate <pps> [port] [priority]`, `set_queue_depth <packets> [port] [priority]`, `port_add <interface> <port>`,
`port_remove <port>`, `show_ports`, `register_read <name> [index …]`, `register_write <name> <index> <value>`, `help`;
`lateness`: the switch's longest latency since the last query, and its CPU time, in seconds; `stats`: counts as JSON.
An answer is one line, beginning with `ok` or `error`.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path

from mrclab.softswitch.objects.runtime_api import RuntimeApiError
from mrclab.softswitch.p4runtime.messages.address import check_address, private
from mrclab.softswitch.process.connections import Connections
from mrclab.softswitch.process.ports import PortError
from mrclab.softswitch.switch import SoftSwitch

MAX_LINE = 4096


class ControlSocket:
    """Listens on a Unix socket; everything runs in the data-plane thread."""

    def __init__(self, switch: SoftSwitch, path: Path) -> None:
        self._switch = switch
        self._path = path
        check_address(f"unix:{path}")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        with private(f"unix:{path}"):
            listener.bind(str(path))
        listener.listen()
        self._connections = Connections(switch, listener, self._take)
        self._commands: dict[str, Callable[..., object]] = {
            "set_queue_rate": lambda *numbers: switch.set_queue_rate(*map(int, numbers)),
            "set_queue_depth": lambda *numbers: switch.set_queue_depth(*map(int, numbers)),
            "port_add": lambda interface, port: switch.add_port(int(port), interface),
            "port_remove": lambda port: switch.remove_port(int(port)),
            "show_ports": lambda: " ".join(f"{number}@{name}" for number, name in sorted(switch.ports().items())),
            "register_read": self._register_read,
            "register_write": lambda name, index, value: switch.program().register_write(
                name, int(index), int(value, 0)
            ),
            "stats": self._stats,
            "lateness": lambda: f"{switch.take_lateness():.6f} {time.process_time():.6f}",
            "help": lambda: " ".join(sorted(self._commands)),
        }

    def _take(self, client: socket.socket, pending: bytearray) -> bool:
        while b"\n" in pending:
            line, _, rest = bytes(pending).partition(b"\n")
            pending[:] = rest
            client.sendall(self.answer(line.decode(errors="replace")).encode() + b"\n")
        return len(pending) <= MAX_LINE

    def answer(self, line: str) -> str:
        """Run one command line and return its answer."""
        words = line.split()
        if not words:
            return "error: empty line"
        command = self._commands.get(words[0])
        if command is None:
            return f"error: unknown command {words[0]}; try help"
        try:
            text = command(*words[1:])
        except (RuntimeApiError, PortError) as error:
            return f"error: {error}"
        except (ValueError, TypeError):
            return f"error: wrong arguments for {words[0]}"
        return "ok" if text is None else f"ok {text}".rstrip()

    def _register_read(self, name: str, *indices: str) -> str:
        """Return the requested cells, or all."""
        program = self._switch.program()
        cells = map(int, indices) if indices else range(len(program.registers.get(name, [0])))
        read = program.register_read
        return " ".join([str(read(name, number)) for number in cells])

    def _stats(self) -> str:
        """Return counts as JSON: per port frames received, sent and lost in the socket; per queue the tail drops."""
        switch = self._switch
        ports = {
            number: {
                "received": switch.port(number).received,
                "sent": switch.port(number).sent,
                "receive_drops": switch.port(number).drops(),
                "send_errors": switch.port(number).send_errors,
            }
            for number in switch.ports()
        }
        queues = {f"{port}/{priority}": count for (port, priority), count in switch.traffic.dropped().items()}
        return json.dumps({"ports": ports, "tail_drops": queues, "errors": switch.errors})

    def close(self) -> None:
        """Stop listening and remove the socket's file."""
        self._connections.close()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
