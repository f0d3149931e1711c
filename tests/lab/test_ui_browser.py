"""The page in a real browser on a real lab, in virtual time: a click takes a cable down, healing brings it back."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright (pip install playwright)")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium on the path")

MRCLAB = [sys.executable, "-c", "from mrclab.lab.command.cli import main; main()"]
CABLE = "t0-p1-1/t1-p1-2"
LOADED = f'.cable.busy[data-name="{CABLE}"], .cable.full[data-name="{CABLE}"]'
PATIENCE = 60_000  # milliseconds


class Lab:
    """A lab in virtual time with its prompt, and its page."""

    def __init__(self, place: Path) -> None:
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(place)}
        self.up = self.start("up", "--world", "sim")
        self.up.stdin.write("nodes\n")  # type: ignore[union-attr]
        self.up.stdin.flush()  # type: ignore[union-attr]
        while not self.up.stdout.readline().startswith("hosts"):  # type: ignore[union-attr]
            assert self.up.poll() is None
        self.ui = self.start("ui")
        self.address = re.search(r"http\S+", self.ui.stdout.readline()).group(0)  # type: ignore[union-attr]

    def start(self, *words: str) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return subprocess.Popen([*MRCLAB, *words], text=True, env=self.environment, **pipes)

    def word(self, *line: str) -> str:
        return subprocess.run([*MRCLAB, *line], text=True, env=self.environment, capture_output=True, check=True).stdout

    def close(self) -> None:
        for process in (self.ui, self.up):
            process.kill()
            process.wait()


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    yield made
    made.close()


@pytest.fixture
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def opened(browser: Any, address: str) -> tuple[Any, list[str]]:
    page, errors = browser.new_page(), []
    page.set_default_timeout(PATIENCE)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(address)
    page.wait_for_selector(".cable")
    return page, errors


def test_a_click_fails_a_cable_healing_brings_it_back_and_everybody_sees_it(lab, browser):
    page, errors = opened(browser, lab.address)
    other, _ = opened(browser, lab.address)
    lab.word("traffic", "stream", "from=h1", "to=h3", "size=16GiB")
    page.wait_for_selector(LOADED)
    page.locator(f'.cable[data-name="{CABLE}"]').focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Fail", exact=True).click()
    for each in (page, other):
        each.wait_for_selector(f'.cable.down[data-name="{CABLE}"]')
        each.wait_for_selector("#events .fault")
    assert f"{CABLE} down" in lab.word("faults")
    page.locator("body").press("h")
    for each in (page, other):
        each.wait_for_selector(".cable.down", state="detached")
    page.wait_for_selector(LOADED)  # the EV came back, probed
    lab.up.communicate("quit\n", timeout=60)
    page.wait_for_function("document.getElementById('state').textContent === 'the lab has ended'")
    assert errors == []


def test_a_wrong_token_is_refused(lab, browser):
    page = browser.new_page()
    assert page.goto(lab.address[:-3] + "xyz").status == 403
