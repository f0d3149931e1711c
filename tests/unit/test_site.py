"""The lab in a browser tab, as `make site` built it: headless Chromium, a server of static files, no other host."""

import functools
import http.server
import shutil
import threading
from pathlib import Path

import pytest
from marionette import Firefox
from tab_scenario import TEXT

from mrclab.lab import history
from mrclab.lab.lessons.base import LESSONS
from mrclab.lab.run.runner import run_scenario
from mrclab.lab.scenario import scenario

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: sudo make browser")

SITE = Path(__file__).parents[2] / "build" / "site" / "try"
CHROMIUM, FIREFOX = shutil.which("chromium"), shutil.which("firefox-esr") or shutil.which("firefox")
AXE = SITE.parents[1] / "site-parts" / "node_modules" / "axe-core" / "axe.min.js"
PAGES = ("index.html", "cable.html", "p4.html#3", "teach.html#5")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update",
]  # fmt: skip
FAST = """\
name: fast
fabric: {planes: 2, t0s: 2, t1s: 2, hosts_per_t0: 2, link: {rate: 100 Gb/s, delay: 600ns}}
traffic:
  - {name: file, kind: write, from: h1, to: h3, size: 200 KiB}
expect:
  - {kind: integrity}
"""
TIMEOUT = 180_000  # milliseconds
READY = "() => performance.getEntriesByName('lab-ready').length"

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: sudo make browser"),
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="needs the site: make site"),
]


NARRATED = """async ([evs, goodput, events, lost, again]) => {
  const { narrate } = await import("./static/narrator.js"), qps = [["h1", 256, "h3", 0, 0.016, 9]];
  const frames = goodput.map((rate, n) => ({
    t: n / 10, qps, evs: { "h1/256": evs }, goodput: { 1: rate }, means: [16, 9],
    events: events.filter(({ t }) => t > (n - 1) / 10 && t <= n / 10),
    totals: { lost: n < 10 ? 0 : lost, retransmitted: n < 10 ? 0 : again },
  }));
  return narrate(frames, frames.length - 1);
}"""
GOOD, BAD = [[1, 1, 1, "GOOD"], [2, 1, 2, "GOOD"]], [[1, 1, 1, "GOOD"], [2, 1, 2, "ASSUMED_BAD"]]
CUT = {"t": 1.0, "kind": "fault.begin", "fault": "cut", "fault_kind": "link_down", "text": "cut"}
MENDED = {"t": 1.5, "kind": "fault.end", "fault": "cut", "text": "cut"}
BEGUN, STILL = [0.0] * 5, [0.0] * 7


def state(t, old, new):
    return {"t": t, "kind": "ev.state", "old": old, "new": new, "text": "EV"}


STORIES = [  # EVs, goodput of each tenth of a second, events, packets lost and retransmitted, what is said
    (BAD, [*BEGUN, *[8.0] * 14], [CUT, state(1.04, "GOOD", "ASSUMED_BAD")], 3, 3,
     "Cable cut. 3 packets lost, all retransmitted. Path out of use after 40 ms = 2.5 RTT. Goodput unchanged."),
    (BAD, [8.0] * 11, [CUT], 0, 0, "Cable cut. Senders have not detected it yet."),
    (BAD, [8.0] * 16, [CUT, MENDED], 3, 3, "Cable restored. Probes test whether the path works again."),
    (GOOD, [8.0] * 17, [CUT, MENDED, state(1.5, "PORT_DOWN", "GOOD")], 3, 3,
     "Cable restored. Path in use again at once."),
    ([], [*[8.0] * 11, *STILL], [CUT], 9, 9,
     "Cable cut. 9 packets lost, retransmitted and lost again. Goodput is zero."),
    ([], [*[8.0] * 11, *STILL], [CUT, MENDED], 9, 9, "Cable restored. The queue pair resumes at its next timeout."),
]  # fmt: skip


NO_PYTHON = "window.Worker = class { postMessage() {} terminate() {} };"
NO_FULL_SCREEN = "delete Element.prototype.requestFullscreen;"
TEXT_OF_PAGE = """() => [...document.querySelectorAll("#page > section")].map((section) => {
  const copy = section.cloneNode(true);
  for (const again of copy.querySelectorAll(".again")) again.remove();
  return copy.textContent;
}).join("").replace(/\\s/g, "")"""
DEALT = "(title) => document.title.startsWith(title) && /^1 of/.test(document.getElementById('place').textContent)"
CUT_SLIDES = """() => {
  const page = document.getElementById("page"), cut = [];
  const whole = (node) => node.scrollHeight <= node.clientHeight + 1 && node.scrollWidth <= node.clientWidth + 1;
  for (let n = 0; n < page.children.length; n++) {
    const slide = page.children[n];
    if (!slide.classList.contains("now")) cut.push(`slide ${n + 1} is not shown`);
    for (const answer of slide.querySelectorAll("details")) answer.open = true;
    const cuts = [page, ...slide.querySelectorAll("pre, table")].filter((node) => !whole(node));
    cut.push(...cuts.map(({ nodeName }) => `slide ${n + 1}: ${nodeName}`));
    document.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
  }
  return cut;
}"""
CUT_LISTINGS = """() => [...document.querySelectorAll("pre")].filter(
  (node) => node.clientHeight && node.scrollHeight > node.clientHeight + 1).length"""
PLACES = """(said) => [...document.querySelectorAll(".told > p")].flatMap((story) => {
  const place = () => JSON.stringify(document.getElementById("fabric").getBoundingClientRect());
  story.textContent = "";
  const before = place();
  return said.map((text) => { story.textContent = text; return text; }).filter(() => place() !== before);
})"""
SIZES = [(1440, 900), (1920, 1080), (400, 800)]


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
        context.set_default_timeout(TIMEOUT)
        yield context, f"http://127.0.0.1:{server.server_port}/", server
        context.close()
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def site():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


def opened(context, address):
    page, mistakes = context.new_page(), []
    page.on("pageerror", lambda error: mistakes.append(str(error)))
    page.on("console", lambda told: mistakes.append(told.text) if told.type == "error" else None)
    page.goto(address)
    return page, mistakes


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
def test_a_figure_of_the_explanation_is_run_anew_where_its_handle_is_put_by_keyboard(browser, site):
    page = browser[0].new_page()
    page.emulate_media(reduced_motion="reduce")
    page.goto(f"{site}cable.html")
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


@pytest.mark.timeout(900)
def test_a_student_changes_a_table_entry_and_the_packet_goes_elsewhere(browser, site):
    page, mistakes = opened(browser[0], f"{site}p4.html#3")
    story = page.locator("#story")
    story.filter(has_text="1 of 4: t0-p1-1 sends it by port 4 to t1-p1-2.").wait_for()
    page.locator("#on").click()
    story.filter(has_text="2 of 4: t1-p1-2 sends it by port 2 to t0-p1-2.").wait_for()
    assert page.locator("ol.met li.hit b").all_inner_texts() == ["my_usid", "usid_fib", "classes", "trim_policy"]
    page.locator("#tables details[open] tr.used button", has_text="Edit").click()
    page.locator("#tables form input[name=port]").fill("1")
    page.locator("#tables form button", has_text="Modify").click()
    story.filter(has_text="2 of 3: t1-p1-2 sends it by port 1 to t0-p1-1.").wait_for()
    page.keyboard.press("Escape")
    page.locator("h1").click()
    page.keyboard.press("ArrowRight")
    story.filter(has_text="3 of 3: t0-p1-1 drops the packet").wait_for()
    assert mistakes == []
    page.close()


def test_the_page_of_one_packet_shows_lesson_headers_and_tables_before_python_runs(browser, site):
    page = browser[0].new_page()
    page.add_init_script(NO_PYTHON)
    page.goto(f"{site}p4.html#3")
    page.locator("#story", has_text="1 of 4: t0-p1-1 sends it by port 4 to t1-p1-2.").wait_for()
    page.locator("#on").click()
    page.locator("#story", has_text="2 of 4: t1-p1-2 sends it by port 2 to t0-p1-2.").wait_for()
    assert page.locator("ol.met li.hit b").all_inner_texts() == ["my_usid", "usid_fib", "classes", "trim_policy"]
    assert page.locator("#hop tr.changed").count() > 0
    assert page.locator("#tables tr.used").count() > 0
    assert "import" in page.locator(".lesson textarea").input_value()
    page.close()


@pytest.mark.parametrize("size", [*SIZES, (1024, 768)])
def test_each_slide_and_each_sheet_of_each_lesson_shows_all_that_it_has(browser, site, size):
    for number in LESSONS:
        page = browser[0].new_page()
        page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
        page.add_init_script(NO_FULL_SCREEN)
        page.goto(f"{site}teach.html#{number}")
        page.locator("#page > section").first.wait_for()
        text = page.evaluate(TEXT_OF_PAGE)
        page.keyboard.press("p")
        page.wait_for_function(DEALT, arg=f"Lesson {number}:", timeout=30_000)
        assert page.evaluate(CUT_SLIDES) == [], number
        assert page.evaluate(TEXT_OF_PAGE) == text, number
        page.keyboard.press("Escape")
        page.locator("header").wait_for()
        page.emulate_media(media="print")
        assert page.evaluate(CUT_LISTINGS) == 0, number
        page.close()


def test_a_scenario_ends_the_demo_and_tells_times_in_a_unit_of_its_size(browser, site):
    page = browser[0].new_page()
    page.goto(site)
    page.locator("#demo").click()
    page.locator("#story", has_text="h1 sends to h3").wait_for()
    page.locator("#editor summary").click()
    page.locator("#scenario").fill(FAST)
    page.locator("#editor button.run").click()
    page.locator("#state[title*=sha256]").wait_for(state="attached")
    assert page.locator("#demo").text_content() == "Start the demo"
    times = page.locator("#events time").all_text_contents()
    assert times
    assert [time for time in times if not time.endswith(" µs")] == []
    assert page.locator("#within").text_content().endswith(" µs")
    page.close()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("stage", ["", "p"])
def test_nothing_moves_when_the_story_changes(browser, site, size, stage):
    page = browser[0].new_page()
    page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
    page.add_init_script(NO_FULL_SCREEN + NO_PYTHON)
    page.goto(site)
    page.locator("#fabric .cable").first.wait_for(state="attached")
    if stage:
        page.keyboard.press(stage)
    assert page.evaluate(PLACES, [said for *_, said in STORIES]) == []
    page.evaluate("() => document.body.classList.add('beside')")
    assert page.evaluate(PLACES, [said for *_, said in STORIES]) == []
    page.close()


def test_keys_are_of_what_has_the_focus_first_and_of_the_page_only_where_no_dialog_is_open(browser, site):
    page = browser[0].new_page()
    page.add_init_script(NO_PYTHON)
    page.goto(site)
    page.locator("#fabric .cable").first.wait_for(state="attached")
    units = page.locator("#units").text_content()
    page.locator("#keys").click()
    page.keyboard.press("u")
    assert page.locator("#units").text_content() == units
    page.keyboard.press("Escape")
    page.locator("#help").wait_for(state="hidden", timeout=10_000)
    for focused in ("#time", "#slowly input"):
        page.locator(focused).focus()
        page.keyboard.press("u")
        assert page.locator("#units").text_content() != units
        page.keyboard.press("u")
    page.locator("#slowly input").press(" ")
    assert not page.locator("#slowly input").is_checked()
    page.locator("#editor summary").press(" ")
    page.locator("#scenario").wait_for(timeout=10_000)
    page.keyboard.press("u")
    page.locator("#scenario").press("u")
    assert page.locator("#units").text_content() != units
    page.close()


@pytest.mark.timeout(900)
def test_lessons_are_graded_in_the_page_a_wrong_answer_refused_and_what_is_done_is_kept(browser, site):
    page, mistakes = opened(browser[0], f"{site}p4.html#2")
    page.locator("#story", has_text="1 of 4").wait_for()
    file, check = page.locator(".lesson textarea"), page.locator(".lesson button", has_text="Check it")
    check.click()
    page.locator(".lesson [role=status]", has_text="3 of 3 missing.").wait_for()
    hint = page.locator(".lesson li.failed").first
    assert not hint.locator("details span").is_visible()
    hint.locator("summary").click()
    assert "it became" in hint.locator("details span").inner_text()
    file.fill(file.input_value().replace("= hdr.ipv6.dst;", "= hdr.ipv6.dst[127:96] ++ hdr.ipv6.dst[79:0] ++ 16w0;"))
    check.click()
    page.locator(".lesson .passed", has_text="Done.").wait_for()
    page.reload()
    page.locator(".lesson .progress", has_text="1 of 7 done").wait_for()
    assert "16w0" in page.locator(".lesson textarea").input_value()
    assert mistakes == []
    page.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_violation_of_axe_and_none_is_wider_than_a_phone(browser, site, scheme):
    for address in PAGES:
        page, mistakes = opened(browser[0], f"{site}{address}")
        page.emulate_media(color_scheme=scheme)
        page.locator("header button").last.wait_for()
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found = page.evaluate("async () => (await axe.run()).violations.map(({ id, nodes }) => [id, nodes[0].html])")
        assert found == [], address
        page.set_viewport_size({"width": 400, "height": 800})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 400, address
        assert mistakes == []
        page.close()


@pytest.mark.timeout(900)
def test_roce_beside_mrc_stops_at_the_cut_that_mrc_gets_over(browser, site):
    page, mistakes = opened(browser[0], site)
    page.wait_for_function(READY)
    page.locator("body").press("b")
    page.locator("#rival-fabric .cable").first.wait_for(state="attached")
    page.locator("#demo").click()
    page.locator("#rival-fabric .cable.down").wait_for(state="attached")
    page.locator("#rival-story", has_text="retransmitted and lost again. Goodput is zero.").wait_for()
    page.locator("#fabric .cable.down").wait_for(state="attached")
    assert mistakes == []
    page.close()


@pytest.mark.timeout(900)
@pytest.mark.skipif(FIREFOX is None, reason="needs Firefox: apt-get install firefox-esr")
def test_a_cable_is_cut_in_firefox(site, tmp_path):
    firefox = Firefox(FIREFOX, tmp_path)
    try:
        firefox.open(site)
        said = firefox.script("""
            const until = async (found) => { while (!found()) await new Promise((next) => setTimeout(next, 200)); };
            await until(() => performance.getEntriesByName("lab-ready").length);
            const cable = document.querySelector('.cable[data-name="t0-p1-1/t1-p1-2"]');
            cable.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
            document.querySelector("#selection button.break").click();
            await until(() => document.querySelector('.cable.down[data-name="t0-p1-1/t1-p1-2"]'));
            return document.getElementById("faults").textContent;
        """)
        assert "t0-p1-1/t1-p1-2 down" in said
    finally:
        firefox.close()


def test_the_story_of_a_fault_counts_no_start_and_says_of_one_path_what_is_true_of_it(browser):
    context, address, _ = browser
    page, mistakes = opened(context, address + "cable.html")
    for *frames, said in STORIES:
        assert page.evaluate(NARRATED, frames) == said
    assert mistakes == []
    page.close()
