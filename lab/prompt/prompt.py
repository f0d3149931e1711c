"""The prompt itself: lines from a terminal with completion and history, from a file, or from a pipe."""

import json
import os
import select
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.markup import escape

from mrclab.lab import console
from mrclab.lab.command.display import progress
from mrclab.lab.errors import LabError, plain
from mrclab.lab.prompt import registry
from mrclab.lab.prompt.commands import changes, views
from mrclab.lab.prompt.remote.turnlock import Caller, called_by
from mrclab.lab.prompt.session import ClientGone, LabSession
from mrclab.lab.run.interrupts import redirected
from mrclab.topo.errors import TopoError

HISTORY = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "mrclab" / "history"
_LOOK = 0.2  # seconds between two checks for an interrupt
_REFUSALS = (LabError, TopoError, ValueError, OSError)  # of a command; the lab goes on
_INTERRUPTED = "interrupted; the lab stays up"
_PARTS = (views, changes)  # importing them registers their commands


class Prompt:
    """Reads lines until `quit` or their end. Mistakes are answered with a sentence; a script ends at the first."""

    def __init__(
        self, session: LabSession, console: Console, tools: dict[str, Callable[[Sequence[str]], None]]
    ) -> None:
        self._session = session
        self._console = console
        self._tools = tools  # commands that need this terminal
        self._typing = False  # at a terminal, where Ctrl-C ends a command and not the lab
        self._nodes = {node.name for node in registry.all_nodes(session.world.fabric)}

    def interact(self) -> None:
        """Read from standard input: a terminal with completion and history, else line by line."""
        self._typing = sys.stdin.isatty()
        lines = self._typed() if self._typing else piped(sys.stdin, self._session)
        if self._typing:
            self._console.print("[dim]help lists all commands; Tab completes, quit takes the lab down[/]")
        for line in lines:
            if not self.line(line):
                return

    def script(self, lines: Iterable[str]) -> None:
        """Carry out the lines of a file; LabError names the first that failed, with its number."""
        for number, line in enumerate(lines, 1):
            text = line.split("#", 1)[0].strip()
            if text:
                self._console.print(f"[bold]mrclab> {escape(text)}[/]")
                try:
                    if not self.carry_out(text):
                        return
                except _REFUSALS as error:
                    raise LabError(f"line {number} of the script, {text!r}: {plain(error)}") from None

    def line(self, text: str) -> bool:
        """Execute one line and print its error; return False where it was the last."""
        try:
            return self.carry_out(text)
        except _REFUSALS as error:
            self._console.print(f"[red]{escape(plain(error))}[/]")
        return True

    def carry_out(self, text: str) -> bool:
        """Execute one line; errors are raised."""
        parts = text.split()
        if not parts or parts[0].startswith("#"):
            return True
        name, rest = parts[0], text.strip()[len(parts[0]) :].strip()
        if name in {"quit", "exit"}:
            return False
        if name in self._tools:
            self._tool(name, rest)
        elif name in self._nodes or name == "run":
            self._tool("run", text if name in self._nodes else rest)
        else:
            self._command(text)
        return True

    def _tool(self, name: str, rest: str) -> None:
        try:
            with self._on_interrupt(_raise):
                self._tools[name](shlex.split(rest))
        except KeyboardInterrupt:
            if not self._typing:
                raise
            raise LabError(_INTERRUPTED) from None

    def _on_interrupt(self, act: Callable[[], bool]) -> AbstractContextManager[None]:
        return redirected(act) if self._typing else nullcontext()

    def _command(self, text: str) -> None:
        as_json = text.rsplit(maxsplit=1)[-1] == "--json"
        with progress.shown(console.console(stderr=True), at_once=False) as bar:
            requester = Caller(bar)
            with called_by(requester), self._on_interrupt(requester.leave):
                try:
                    answer = registry.run(self._session, text.strip().removesuffix("--json") if as_json else text)
                except ClientGone:
                    raise LabError(_INTERRUPTED) from None
        if as_json:
            self._console.out(json.dumps(answer.data, default=str), highlight=False)
        else:
            self._console.print(answer.shown, highlight=False)

    def _typed(self) -> Iterator[str]:
        from prompt_toolkit import PromptSession  # noqa: PLC0415 - a terminal's, not a script's
        from prompt_toolkit.history import FileHistory  # noqa: PLC0415
        from prompt_toolkit.patch_stdout import patch_stdout  # noqa: PLC0415
        from prompt_toolkit.shortcuts import CompleteStyle  # noqa: PLC0415

        from mrclab.lab.prompt.completion import WordCompleter  # noqa: PLC0415

        HISTORY.parent.mkdir(parents=True, exist_ok=True)
        completer = WordCompleter(self._session, [*self._tools, "quit", *sorted(self._nodes)])
        session: PromptSession[str] = PromptSession(
            history=FileHistory(str(HISTORY)),
            completer=completer,
            complete_style=CompleteStyle.READLINE_LIKE,  # Tab writes what all candidates share, and lists them
            complete_while_typing=False,
        )
        while True:
            try:
                with patch_stdout(raw=True):  # output appears above the line
                    line = session.prompt("mrclab> ")
                yield line
            except KeyboardInterrupt:  # the line is given up, the lab stays
                continue
            except EOFError:
                return


def _raise() -> bool:
    raise KeyboardInterrupt


def piped(source: TextIO, session: LabSession) -> Iterator[str]:
    """Read lines of a pipe until its end or until the lab is interrupted."""
    while not session.interrupted:
        try:
            ready, _, _ = select.select([source], (), (), _LOOK)
        except (OSError, ValueError):  # no descriptor to wait for
            ready = [source]
        if ready:
            line = source.readline()
            if not line:
                return
            yield line
