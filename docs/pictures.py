"""Makes the pictures of the live page, of `mrclab watch` and of a report in docs/: `make pictures`.

Needs Chromium on the path, and playwright.
"""

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright
from rich.console import Console

from mrclab.lab.prompt.watching import watch
from mrclab.lab.ui.sources import Replay

DOCS = Path(__file__).parent
MRCLAB = [sys.executable, "-m", "mrclab.lab.command"]
CABLE = "t0-p1-1/t1-p1-2"
TIMEOUT = 300_000  # milliseconds
COLOURS = 256
FRAMES = "frames => Number(document.getElementById('time').max) >= frames"


def command(*line: str) -> None:
    """Run a command of the lab that is up."""
    subprocess.run([*MRCLAB, *line], check=True, stdout=subprocess.DEVNULL)


def address(process: subprocess.Popen[str]) -> str:
    """Return the address that a command printed."""
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"http\S+", line):
            return found.group(0)
    raise SystemExit("the page did not start")


def shoot(page: Page, name: str) -> None:
    """Take a screenshot of a page, with at most COLOURS colours."""
    keep(page.screenshot(), name)


def keep(png: bytes, name: str) -> None:
    """Save a PNG in docs/ with at most COLOURS colours; rare ones stay exact."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    small = picture.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(DOCS / f"{name}.png", optimize=True)


def frames_from_now(page: Page, count: int) -> None:
    """Wait until the live page has `count` more frames."""
    now = int(page.locator("#time").get_attribute("max") or 0)
    page.wait_for_function(FRAMES, arg=now + count)


def live(page: Page) -> None:
    """Take screenshots of the live page: idle, with a fault, and the same in projector mode."""
    frames_from_now(page, 20)
    shoot(page, "page-idle")
    command("traffic", "stream", "from=h1", "to=h3", "size=256MiB")
    page.wait_for_selector(".cable.full")
    frames_from_now(page, 40)
    command("down", CABLE)
    page.wait_for_selector(f'.cable.down[data-name="{CABLE}"]')
    for host in ("h1", "h3"):
        page.locator(f'.node[data-name="{host}"]').click()
    page.wait_for_selector("td.ASSUMED_BAD")
    frames_from_now(page, 30)
    page.mouse.move(640, 5)
    shoot(page, "page-fault")
    page.keyboard.press("p")
    frames_from_now(page, 3)
    shoot(page, "page-projector")


def replayed(page: Page) -> None:
    """Take a screenshot of a replay during its second fault."""
    page.locator("#time").evaluate("slider => { slider.value = 72; slider.dispatchEvent(new Event('input')); }")
    page.wait_for_selector("#expectations .open")
    shoot(page, "page-replay")


def watch_picture(page: Page, results: Path) -> None:
    """Draw what `mrclab watch` shows at the time of `replayed`."""
    source = Replay(results)
    frames = list(source.frame_log.frames())[:73]
    events = [event for frame in frames for event in frame["events"]][-12:]
    console = Console(record=True, width=100, file=io.StringIO())
    console.print(watch.picture(source.layout, frames[-1], events))
    page.set_content(console.export_svg(title="mrclab watch"))
    keep(page.locator("svg").first.screenshot(), "watch")


def main() -> None:
    """Start a lab in virtual time and a replay of a finished run, and take all pictures."""
    place = Path(tempfile.mkdtemp())
    os.environ["XDG_RUNTIME_DIR"] = str(place)
    scenario = DOCS.parent / "scenarios" / "link-failure.yaml"
    run = [*MRCLAB, "run", str(scenario), "--world", "sim", "--results", str(place / "results")]
    subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
    (results,) = (place / "results").iterdir()
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    up = subprocess.Popen([*MRCLAB, "up", "--world", "sim", "--ui"], **pipes)
    replay = subprocess.Popen([*MRCLAB, "ui", str(results)], **pipes)
    try:
        with sync_playwright() as browser:
            chromium = browser.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            context = chromium.new_context(viewport={"width": 1280, "height": 900}, bypass_csp=True)
            context.set_default_timeout(TIMEOUT)
            for process, show in ((replay, replayed), (up, live)):
                page = context.new_page()
                page.goto(address(process))
                page.wait_for_selector(".cable", state="attached")
                show(page)
                page.close()
            page = context.new_page()
            page.goto((results / "report.html").as_uri())
            shoot(page, "report")
            watch_picture(page, results)
            chromium.close()
    finally:
        replay.terminate()
        up.communicate(timeout=TIMEOUT / 1e3)
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
