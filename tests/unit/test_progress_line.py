"""Lines on standard error where it is no terminal."""

import pytest

from mrclab.lab import console
from mrclab.lab.command.display import progress


@pytest.mark.parametrize(
    "text", ["h1 · [red]no markup[/] :link:", "x" * 300 + "   ", "a\tb\rc\x1b[1m\x07", "two\nlines", ""]
)
def test_line_is_what_rich_would_print(text, capsys, monkeypatch):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    monkeypatch.delenv("TTY_COMPATIBLE", raising=False)
    console.plain(console.console(stderr=True), text)
    by_rich = capsys.readouterr().err
    with progress.shown() as bar:
        bar("stage", 1, 2)
        bar.notify(text)
    assert isinstance(bar, progress.NoBar)
    assert capsys.readouterr().err == by_rich
