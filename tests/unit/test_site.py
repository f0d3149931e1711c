"""The lab in a browser tab, as `make site` built it: headless Chromium, a server of static files, no other host."""

import functools
import http.server
import shutil
import threading
from pathlib import Path

import pytest

from mrclab.lab import history
from mrclab.lab.run.runner import run_scenario
from mrclab.lab.scenario import scenario

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: sudo make browser")

SITE = Path(__file__).parents[2] / "build" / "site" / "try"
CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip
TEXT = """\
name: in-the-tab
traffic:
  - {name: file, kind: write, from: h1, to: h3, size: 200 KiB}
faults:
  - {name: cut, kind: link_down, link: t0-p1-1/t1-p1-2, at: 30% of file, until: 60% of file}
expect:
  - {kind: integrity}
"""
PATIENCE = 180_000  # milliseconds

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: sudo make browser"),
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="needs the site: make site"),
]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with playwright.sync_playwright() as driver:
        context = driver.chromium.launch_persistent_context(
            str(tmp_path_factory.mktemp("profile")), executable_path=CHROMIUM, args=FLAGS
        )
        context.set_default_timeout(PATIENCE)
        yield context, f"http://127.0.0.1:{server.server_port}/", server
        context.close()
    server.shutdown()
    server.server_close()


@pytest.mark.timeout(900)
def test_a_run_in_the_tab_has_the_history_of_the_terminal_and_asks_no_other_host_and_works_offline(browser, tmp_path):
    context, address, server = browser
    hosts, mistakes = set(), []
    context.on("request", lambda request: hosts.add(request.url.split("/")[2]))
    page = context.new_page()
    page.on("pageerror", lambda error: mistakes.append(str(error)))
    page.goto(address)
    page.locator("#fabric .cable").first.wait_for(state="attached")

    # A click fails a cable.
    box = page.locator(
        '.cable[data-name="t0-p1-1/t1-p1-2"]'
    ).bounding_box()  # it rises to the right, and another crosses
    page.mouse.click(box["x"] + box["width"] / 4, box["y"] + box["height"] * 3 / 4)
    page.locator("#selection button.break").first.click()
    page.locator('.cable.down[data-name="t0-p1-1/t1-p1-2"]').wait_for(state="attached")
    page.locator("#story", has_text="Cable cut.").wait_for()

    # A scenario has the history that it has in a terminal.
    page.locator("#editor summary").click()
    page.locator("#scenario").fill(TEXT)
    page.locator("#editor button.run").click()
    page.locator("#state[title*=sha256]").wait_for(state="attached")
    loaded = scenario.in_world(scenario.loads(TEXT, "scenario.yaml"), "sim")
    outcome = run_scenario(loaded, tmp_path, lambda *_: None, lambda _: None, report=False)
    digest = history.digest(outcome.directory / "history.jsonl")
    assert digest in page.locator("#state").get_attribute("title")
    assert page.locator("#expectations .passed").count() == 1

    # Its address shows it again, also without a network.
    page.evaluate("() => navigator.serviceWorker.ready.then(() => 1)")
    page.locator("#share").click()
    page.wait_for_url("**#s=*")
    server.shutdown()
    page.reload()
    page.locator("#state[title*=sha256]").wait_for(state="attached")
    assert digest in page.locator("#state").get_attribute("title")
    assert hosts <= {address.split("/")[2], ""}
    assert not mistakes


@pytest.mark.timeout(900)
def test_a_figure_of_the_explanation_is_run_anew_where_its_handle_is_put_by_keyboard(browser):
    context, _, _ = browser
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    page = context.new_page()
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"http://127.0.0.1:{server.server_port}/cable.html")
    told = page.locator("#spraying .sum")
    told.filter(has_text="arrived").wait_for()  # before Python runs
    before = told.inner_text()
    page.locator("#spraying-handle").focus()
    page.keyboard.press("Home")
    page.wait_for_function("(text) => document.querySelector('#spraying .sum').textContent !== text", arg=before)
    assert page.locator("#spraying output").inner_text().startswith("1")
    assert "no path was retired" in told.inner_text()
    assert page.locator("#spraying td", has_text="in use").count() == 1
    page.close()
    server.shutdown()
    server.server_close()
