"""Summary of the lab as a textual application: the picture of `watch`, with keys and a scrolling event log."""

from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, RichLog, Static

from mrclab.lab.prompt.watching import watch
from mrclab.lab.ui.sources import Source


class WatchApp(App[None]):
    """Frames of a source until `q`, Ctrl-C or the end of the lab."""

    CSS = """
    .part { height: auto; padding: 0 1; }
    #flows { height: auto; max-height: 40%; border: round $primary; border-title-color: $text; }
    #log { height: 1fr; border: round $primary; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q", "quit", "quit"),
        ("space", "pause", "pause, resume"),
        Binding("ctrl+c", "quit", show=False, priority=True),  # Textual's own tells how to quit
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, source: Source) -> None:
        super().__init__()
        self._source = source
        self._fabric_layout = source.layout
        self._seen = 0
        self._paused = False

    def compose(self) -> ComposeResult:
        """Goodput, QPs, state, log."""
        yield Static(classes="part", id="goodput")
        with VerticalScroll(id="flows") as flows:
            flows.border_title = "QPs that send, and their EVs"
            yield Static(id="qps")
        yield Static(classes="part", id="state")
        log = RichLog(id="log", max_lines=2000)
        log.border_title = "Events"
        yield log
        yield Footer()

    def on_mount(self) -> None:
        """Poll for frames."""
        self.set_interval(watch.PERIOD, self.poll)
        self.poll()

    def action_pause(self) -> None:
        """Pause, or show the frames since."""
        self._paused = not self._paused

    def poll(self) -> None:
        """Show new frames."""
        if self._paused:
            return
        seen, events = self._source.frame_log.events(self._seen)
        if seen > self._seen:
            self._show(self._source.frame_log.last, events)
        self._seen = seen
        if self._source.live and self._source.outcome is not None:
            self.exit()

    def _show(self, frame: dict[str, Any], events: list[dict[str, Any]]) -> None:
        self.query_one("#goodput", Static).update(watch.goodput(self._fabric_layout, frame))
        self.query_one("#qps", Static).update(watch.qps(frame))
        self.query_one("#state", Static).update(watch.state(frame))
        log = self.query_one("#log", RichLog)
        for each in events:
            log.write(watch.event(each))
