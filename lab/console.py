"""Consoles of the command line: text from files, sockets and scenarios cannot control the terminal.

Control characters are shown escaped, as `\\x1b`, wherever they come from; colours and cursor movements of the lab's own
are no text to rich, and pass. A word between colons, such as `:link:`, stays one.
"""

import sys
from typing import Any

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.segment import Segment

from mrclab.lab.width import WITHOUT_TERMINAL

_BIDI = (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))  # they reorder the text around them
_BREAKS = (0x2028, 0x2029)
_ESCAPED = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (*range(0x20), *range(0x7F, 0xA0), *_BIDI, *_BREAKS)
    if chr(code) not in "\n\t"
}


def printable(text: str) -> str:
    """Return a text with its control characters escaped; newlines and tabs stay."""
    return text.translate(_ESCAPED)


class _Printable:
    """Something to print, whose text is escaped once it is laid out."""

    def __init__(self, inner: ConsoleRenderable) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._inner, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


class _Hook(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Return the same, escaped."""
        return [_Printable(each) for each in renderables]


def console(**options: Any) -> Console:
    """Return a console, made with rich's options, that escapes control characters and draws no emoji."""
    made = Console(emoji=False, **options)
    made.push_render_hook(_Hook())
    return made


def standard(**options: Any) -> Console:
    """Return a console on standard output: as wide as the terminal, or of a fixed width where none shows it."""
    return console(width=None if sys.stdout.isatty() else WITHOUT_TERMINAL, **options)


def plain(to: Console, text: str) -> None:
    """Print a text as it is: without markup, highlighting, and line breaks at the terminal's width."""
    to.print(text, soft_wrap=True, highlight=False, markup=False)
