"""Makes the pictures of the live page in docs/: `make pictures`. Needs Chromium on the path, and playwright."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

DOCS = Path(__file__).parent
MRCLAB = [sys.executable, "-c", "from mrclab.lab.command.cli import main; main()"]
CABLE = "t0-p1-1/t1-p1-2"


def words(*line: str) -> None:
    """A word at the prompt that holds the lab."""
    subprocess.run([*MRCLAB, *line], check=True, stdout=subprocess.DEVNULL)


def address(process: subprocess.Popen[str]) -> str:
    """What `mrclab ui` printed."""
    assert process.stdout is not None
    found = re.search(r"http\S+", process.stdout.readline())
    assert found is not None
    return found.group(0)


def live(page: Page) -> None:
    """Idle, a fault in force, and the same in large type."""
    page.screenshot(path=DOCS / "page-idle.png")
    words("traffic", "stream", "from=h1", "to=h3", "size=4GiB")
    time.sleep(6)
    words("down", CABLE)
    page.wait_for_selector(f'.cable.down[data-name="{CABLE}"]')
    for host in ("h1", "h3"):
        page.locator(f'.node[data-name="{host}"]').click()
    time.sleep(6)
    page.screenshot(path=DOCS / "page-fault.png")
    page.keyboard.press("p")
    time.sleep(1)
    page.screenshot(path=DOCS / "page-projector.png")


def main() -> None:
    """A lab in virtual time, a finished run, and a browser on both."""
    place = Path(tempfile.mkdtemp())
    os.environ["XDG_RUNTIME_DIR"] = str(place)
    up = subprocess.Popen(
        [*MRCLAB, "up", "--world", "sim"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    scenario = DOCS.parent / "scenarios" / "link-failure.yaml"
    run = [*MRCLAB, "run", str(scenario), "--world", "sim", "--results", str(place / "results")]
    subprocess.run(run, check=True, stdout=subprocess.DEVNULL)
    (results,) = (place / "results").iterdir()
    servers = [
        subprocess.Popen([*MRCLAB, "ui", *more], stdout=subprocess.PIPE, text=True) for more in ([], [str(results)])
    ]
    try:
        with sync_playwright() as browser:
            chromium = browser.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            pages = [chromium.new_page(viewport={"width": 1280, "height": 900}) for _ in servers]
            for page, server in zip(pages, servers, strict=True):
                page.goto(address(server))
                page.wait_for_selector(".cable")
                time.sleep(2)
            live(pages[0])
            pages[1].locator("#time").fill("300")
            time.sleep(1)
            pages[1].screenshot(path=DOCS / "page-replay.png")
            chromium.close()
    finally:
        for server in servers:
            server.terminate()
        up.communicate("quit\n", timeout=60)
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
