"""Summaries of the prompt: a report of the session, help, progress, and the lab's state."""

import asyncio
import io
import json
import re

import pytest
from prompt_lab import CABLE, session, told
from rich.console import Console
from rich.progress import Progress

from mrclab.lab.command.display.progress import ProgressBar
from mrclab.lab.errors import LabError
from mrclab.lab.prompt import registry
from mrclab.lab.prompt.commands import reporting
from mrclab.lab.prompt.prompt import Prompt
from mrclab.lab.prompt.remote.turnlock import Caller, called_by
from mrclab.lab.prompt.session import LabSession
from mrclab.lab.prompt.watching import watch
from mrclab.lab.run import runner
from mrclab.lab.scenario import scenario
from mrclab.lab.ui import framestream, model

__all__ = ["session"]

DONE = (
    "fault loss link=h1-p2 rate=20% name=gray",
    "traffic write from=h1 to=h2 size=2MiB name=big",
    "wait 100ms",
    f"down {CABLE}",
    "wait 200ms",
    f"up {CABLE}",
    "clear gray",
)


def test_a_report_says_what_was_done_and_its_scenario_does_the_same_again(session, tmp_path):
    with pytest.raises(LabError, match="nothing has been sent since the lab came up"):
        registry.run(session, f"report {tmp_path}")
    for line in DONE:
        registry.run(session, line)
    early = reporting.as_scenario(session).scenario
    assert [each.kind for each in early.expect] == ["qp_errors", "health"]  # what runs is not judged yet
    registry.run(session, "wait big")
    answer = told(session, f"report {tmp_path}")
    json.dumps(answer)
    verdicts = {row["kind"]: row["ok"] for row in answer["verdicts"]}
    assert verdicts == {"integrity": True, "qp_errors": True, "health": True}
    faults = {row["fault"]: row for row in answer["faults"]}
    assert faults.keys() == {"gray", "cut-t0-p1-1-t1-p1-2"}
    assert faults["gray"]["lost"] > 0
    assert all(row["end"] > row["begin"] for row in faults.values())
    directory = tmp_path / answer["directory"].rpartition("/")[2]
    assert (directory / "report.html").is_file()
    assert (directory / "goodput.png").is_file()
    loaded = scenario.load(directory / "scenario.yaml")
    again = runner.run_scenario(loaded, tmp_path / "again", lambda *_: None, lambda _: None, report=False)
    assert again.ok
    assert again.measures.faults.keys() == faults.keys()
    assert told(session, "send h2 h1 1KiB")["state"] == "intact"  # the lab goes on


def test_each_word_and_each_kind_has_help(session):
    assert told(session, "help trace")["usage"] == "trace HOST HOST [EV]"
    assert told(session, "trace --help") == told(session, "help trace")
    assert told(session, "help watch")["meaning"].startswith("summary of the lab")
    console = Console(file=io.StringIO(), width=120)
    console.print(registry.run(session, "help traffic incast").shown)
    lines = console.file.getvalue().splitlines()
    assert [line.split()[2] for line in lines if line.startswith((" from", " to "))] == ["needed"] * 2
    loss = {row["name"]: row for row in told(session, "help fault loss")["fields"]}
    assert loss["link"]["needed"]
    assert loss["direction"]["value"] == "`both`, `up`, `down`"
    assert "at" not in loss  # at a prompt it is now
    assert "message" in {row["name"] for row in told(session, "help traffic incast")["fields"]}
    with pytest.raises(ValueError, match="no kind of fault is called 'los'; did you mean 'loss'"):
        registry.run(session, "help fault los")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("gradee 1", "gradee: no such command; did you mean grade?"),
        ("h11 ip link", "h11: no such command; did you mean h1?"),
        ("link t0-p1-1 t1-p1-2 down", "did you mean down?"),
        ("dump", "did you mean net?"),
        ("iperf h1 h2", "did you mean traffic?"),
        ("watch", "watch needs a terminal of its own; type there: mrclab watch"),
        ("h1 ip link", "h1 is a node"),
    ],
)
def test_who_comes_from_elsewhere_or_another_terminal_is_told_the_word(session, line, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        registry.run(session, line)


def test_who_waits_is_told_how_far_it_is(session):
    seen: list[tuple[str, int, int]] = []
    with called_by(Caller(lambda *stage: seen.append(stage))):
        registry.run(session, "send h1 h2 256KiB")
    shares = [done for _, done, _ in seen]
    assert {stage for stage, *_ in seen} == {"send-1"}
    assert shares == sorted(shares)
    assert len(set(shares)) > 2
    seen.clear()
    with called_by(Caller(lambda *stage: seen.append(stage))):
        registry.run(session, "wait 100ms")
    assert (seen[0], seen[-1]) == (("wait 100ms", 0, 1000), ("wait 100ms", 1000, 1000))


def test_time_left_follows_from_what_a_stage_took():
    now = 100.0
    bar = Progress(disable=True)
    show = ProgressBar(bar, lambda: now)
    show("first", 0, 10)
    now = 110.0
    show("first", 5, 10)
    assert bar.tasks[0].fields["left"] == "10 s left"
    show("second", 0, 1000)
    assert bar.tasks[0].fields["left"] == ""
    now = 120.0
    show("second", 10, 1000)
    assert bar.tasks[0].fields["left"] == "16 min left"
    show("third", 3, 0)
    assert bar.tasks[0].fields["left"] == ""


class Frames:
    """A source with the frames of a session's history, and no end."""

    live = True
    title = "a lab"
    outcome: dict[str, object] | None = None

    def __init__(self, session: LabSession) -> None:
        fabric = session.world.fabric
        records = list(scenario_history(session))
        page = model.PageModel(fabric)
        self.layout = page.layout()
        self.frame_log = framestream.FrameLog()
        for frame in framestream.frames(page, records, fabric.spec.sample_interval):
            self.frame_log.add(frame)


def scenario_history(session):
    from mrclab.lab.history import History, parse  # noqa: PLC0415

    return History(parse(session.world.history_since(0))).records


def test_the_lab_at_a_glance_goes_into_a_pipe_once(session, capsys):
    for line in DONE[:5]:
        registry.run(session, line)
    out = io.StringIO()
    watch.watch(Frames(session), Console(file=out, width=120))  # type: ignore[arg-type]
    assert "faults: gray, cut-t0-p1-1-t1-p1-2" in out.getvalue()
    assert "ASSUMED_BAD" in out.getvalue()
    watch.watch(Frames(session), Console(file=out), as_json=True)  # type: ignore[arg-type]
    frame = json.loads(capsys.readouterr().out)
    assert set(frame["faults"]) == {"gray", "cut-t0-p1-1-t1-p1-2"}
    assert sum(frame["goodput"].values()) > 0


def test_the_lab_at_a_glance_shows_it_pauses_and_leaves(session):
    watchapp = pytest.importorskip("mrclab.lab.prompt.watching.watchapp")
    for line in DONE[:5]:
        registry.run(session, line)
    source = Frames(session)
    app = watchapp.WatchApp(source)

    async def use() -> str:
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.pause()
            picture = app.export_screenshot()
            await pilot.press("space")
            source.outcome = {"state": "ended", "expectations": []}
            app.poll()
            assert app.is_running  # it is paused
            await pilot.press("space")
            app.poll()
            return picture

    picture = asyncio.run(use()).replace("&#160;", " ")
    for text in ("plane 1", "ASSUMED_BAD", "gray", "Events", "big starts"):
        assert text in picture
    assert not app.is_running


@pytest.mark.parametrize("key", ["q", "ctrl+c"])
def test_the_lab_at_a_glance_ends_at_its_keys(session, key):
    watchapp = pytest.importorskip("mrclab.lab.prompt.watching.watchapp")
    app = watchapp.WatchApp(Frames(session))

    async def use() -> bool:
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.press(key)
            await pilot.pause()
            return app.is_running

    assert not asyncio.run(use())


def test_a_script_shows_no_bar_and_leaves_the_words(session, capsys):
    Prompt(session, Console(width=120), {}).script(["send h1 h2 8KiB --json"])
    out, err = capsys.readouterr()
    assert json.loads(out.splitlines()[1])["state"] == "intact"
    assert err == ""
