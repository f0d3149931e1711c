"""The page in a real browser on a real lab, in virtual time: a click takes a cable down, `Clear` brings it back."""

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

MRCLAB = [sys.executable, "-m", "mrclab.lab.command"]
CABLE = "t0-p1-1/t1-p1-2"
LOADED = f'.cable.busy[data-name="{CABLE}"], .cable.full[data-name="{CABLE}"]'
TIMEOUT = 120_000  # milliseconds
RUN = """
name: seen
world: sim
traffic:
  - {name: file, kind: write, from: h1, to: h3, size: 8 MiB}
faults:
  - {name: cut, kind: link_down, link: t0-p1-1/t1-p1-2, at: 30% of file, until: 60% of file}
expect:
  - {kind: integrity}
  - {kind: lost, fault: cut, at_most: 0}
"""


class Lab:
    """A lab in virtual time with its prompt, and its page."""

    def __init__(self, place: Path) -> None:
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(place)}
        self.up = self.start("up", "--world", "sim", "--ui")
        self.address = address(self.up)

    def start(self, *words: str) -> subprocess.Popen[str]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        return subprocess.Popen([*MRCLAB, *words], text=True, env=self.environment, **pipes)

    def word(self, *line: str) -> str:
        return subprocess.run([*MRCLAB, *line], text=True, env=self.environment, capture_output=True, check=True).stdout

    def close(self) -> None:
        self.up.kill()
        self.up.wait()


def address(process: subprocess.Popen[str]) -> str:
    for line in process.stdout:  # type: ignore[union-attr]
        if found := re.search(r"http\S+", line):
            return found.group(0)
    raise AssertionError("no address was printed")


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
    page.set_default_timeout(TIMEOUT)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(address)
    page.wait_for_selector(".cable", state="attached")
    return page, errors


def totals(page: Any) -> str:
    return str(page.locator("#totals").inner_text()).partition("packets")[2]  # goodput is of the moment


def test_a_click_fails_a_cable_clearing_brings_it_back_and_everybody_sees_it(lab, browser):
    page, errors = opened(browser, lab.address)
    other, _ = opened(browser, lab.address)
    lab.word("traffic", "stream", "from=h1", "to=h3", "size=16GiB")
    page.wait_for_selector(LOADED)
    box = page.locator(f'.cable[data-name="{CABLE}"]').bounding_box()  # it rises to the right, and another crosses it
    page.mouse.click(box["x"] + box["width"] / 4, box["y"] + box["height"] * 3 / 4)
    page.get_by_role("button", name="Fail", exact=True).click()
    for each in (page, other):
        each.wait_for_selector(f'.cable.down[data-name="{CABLE}"]')
        each.wait_for_selector("#events .fault")
    assert f"{CABLE} down" in lab.word("faults")
    page.locator("#faults").get_by_role("button", name="Clear").click()
    for each in (page, other):
        each.wait_for_selector(".cable.down", state="detached")
    page.wait_for_selector(LOADED)  # the EV came back, probed
    lab.up.stdin.close()
    for each in (page, other):
        each.get_by_text("the lab has ended").wait_for()
    assert errors == []
    assert lab.up.wait(120) == 0


def test_the_keyboard_alone_suffices(lab, browser):
    page, errors = opened(browser, lab.address)
    keys = page.keyboard
    for name in ("h1", "h3"):
        keys.press("/")
        keys.type(name)
        keys.press("Enter")
    page.get_by_role("button", name="Send").focus()
    keys.press("Enter")
    page.wait_for_selector(LOADED)
    keys.press("/")
    keys.type(CABLE)
    keys.press("Enter")
    page.get_by_role("heading", name=f"cable {CABLE}").wait_for()
    keys.press("f")
    page.wait_for_selector(f'.cable.down[data-name="{CABLE}"]')
    keys.press("h")
    page.wait_for_selector(".cable.down", state="detached")
    keys.press("Home")
    page.get_by_role("button", name="Play").wait_for()
    assert page.locator("#time").input_value() == "0"
    keys.press("l")
    page.get_by_role("button", name="Pause").wait_for()
    keys.press("p")
    page.wait_for_selector(":root.projector")
    assert errors == []


def test_on_a_phone_a_cable_at_rest_is_a_pixel_wide_and_a_finger_beside_it_chooses_it(lab, browser):
    page, errors = opened(browser.new_context(viewport={"width": 400, "height": 800}), lab.address)
    name = "t0-p1-1/t1-p1-1"  # upright
    cable, svg = page.locator(f'.cable[data-name="{name}"]'), page.locator("#fabric svg").bounding_box()
    assert float(cable.get_attribute("stroke-width")) * svg["width"] / 1000 >= 1
    box = cable.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2 - 6, box["y"] + box["height"] / 4)
    page.get_by_role("heading", name=f"cable {name}").wait_for(timeout=10_000)
    assert errors == []


def test_a_wrong_token_is_refused(lab, browser):
    page = browser.new_page()
    assert page.goto(lab.address[:-3] + "xyz").status == 403


def test_the_editor_names_the_line_of_a_mistake_completes_and_runs_and_the_replay_shows_the_same(browser, tmp_path):
    results = tmp_path / "results"
    (tmp_path / "seen.yaml").write_text(RUN)
    ui = subprocess.Popen(
        [*MRCLAB, "ui", str(tmp_path / "seen.yaml"), "--results", str(results)], text=True, stdout=subprocess.PIPE
    )
    try:
        page, errors = opened(browser, address(ui))
        text = page.locator("#scenario")
        page.get_by_text("“seen”: no mistakes").wait_for(timeout=20_000)
        assert page.locator("#expectations").inner_text() == "No scenario running"
        text.fill(RUN.replace("link_down", "link_dwn"))
        page.get_by_text("line 7: faults[1]: kind 'link_dwn' is unknown; did you mean 'link_down'?").wait_for()
        text.fill(RUN.replace("kind: link_down", "kind: link_"))
        page.locator("#checked .line").wait_for()
        text.evaluate("(text) => { const at = text.value.indexOf('link_,') + 5; text.setSelectionRange(at, at); }")
        page.keyboard.press("Control+ ")
        page.get_by_role("option", name="link_down").click()
        page.get_by_text("“seen”: no mistakes").wait_for()
        page.get_by_role("button", name="Run", exact=True).click()
        page.get_by_text("the run has ended: failed").wait_for()
        states = [page.locator(f"#expectations .{state}").count() for state in ("passed", "failed")]
        assert states == [1, 1]
        seen = totals(page)
        page.locator(".cable").first.wait_for(state="attached")
        kept = next(results.glob("seen-*/result.json")).parent
        page.keyboard.press("Escape")  # leaves the editor
        page.get_by_role("button", name="Runs").click()
        page.get_by_role("button", name=kept.name).click()
        page.get_by_role("heading", name=kept.name).wait_for()
        page.get_by_text("failed", exact=True).first.wait_for()
        assert totals(page) == seen
        page.get_by_role("button", name="Back", exact=True).click()
        page.get_by_text("not run").wait_for()
        assert errors == []
    finally:
        ui.terminate()
        ui.wait()
    ui = subprocess.Popen([*MRCLAB, "ui", str(kept)], text=True, stdout=subprocess.PIPE)
    try:
        page, errors = opened(browser, address(ui))
        page.get_by_text("failed", exact=True).wait_for()
        assert totals(page) == seen
        assert [page.locator(f"#expectations .{state}").count() for state in ("passed", "failed")] == states
        page.keyboard.press("Home")
        page.locator("#expectations .open").first.wait_for()
        assert errors == []
    finally:
        ui.terminate()
        ui.wait()
