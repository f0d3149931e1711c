"""Measures the built page in headless Chromium, and prints a table for docs/try.md; `--write` puts it there.

Bytes of a first visit, seconds until a click on a cable is carried out (empty cache, kept files), frames per second of
packets as dots, and virtual seconds per second of the demo's transfer; beside times the CPU seconds of all of
Chromium's processes, which other work on the machine changes less. Needs `make site` and `make browser`.
"""

import functools
import http.server
import os
import re
import shutil
import statistics
import sys
import tempfile
import threading
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, sync_playwright

import build  # beside this file
from mrclab.lab.run.wire.watch import cpu_seconds
from mrclab.rpc.peers import stat_fields

ROOT = Path(__file__).parents[2]
SITE, DOCS = ROOT / "build" / "site" / "try", ROOT / "docs" / "try.md"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu"]
CABLE = "t0-p1-1/t1-p1-2"
WARM = 3  # visits
AGAIN = 3  # runs after the first one, in which the browser still translates the code that runs most
REST = 1500  # milliseconds between two runs
TIMEOUT = 300_000  # milliseconds
CLICKED = """async (name) => {
  const cable = () => document.querySelector(`.cable[data-name="${name}"]`); // drawn again once Python runs
  cable().dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
  document.querySelector("#selection button.break").click();
  while (!cable()?.classList.contains("down")) await new Promise(requestAnimationFrame);
  return performance.now() / 1e3;
}"""
FRAMES = """async (seconds) => {
  const end = performance.now() + seconds * 1e3;
  let count = 0;
  while (performance.now() < end) { await new Promise(requestAnimationFrame); count++; }
  return count / seconds;
}"""
RUN = """name: pace
fabric: {planes: 4, t0s: 2, t1s: 2, hosts_per_t0: 2, path_mtu: 4096, link: {rate_pps: 400, delay: 6ms}}
traffic:
  - {name: stream, kind: stream, from: h1, to: h3, duration: 30s}
expect: []
"""
PASSED = """async ([text, seconds]) => {
  const { post } = await import("./static/server.js"), state = document.getElementById("state");
  const until = async (words) => {
    while (!words.test(state.textContent)) await new Promise((next) => setTimeout(next, 50));
  };
  await post("api/back", "{}");
  await until(/live/);
  const began = performance.now();
  const reply = await post("api/run", JSON.stringify({ text }));
  if (reply.error) throw new Error(reply.error);
  await until(/ended|passed/);
  return seconds / ((performance.now() - began) / 1e3);
}"""
LOCK = threading.Lock()


class Counting(http.server.SimpleHTTPRequestHandler):
    """Serves files, and counts their bytes."""

    sent = 0

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def copyfile(self, source: object, outputfile: object) -> None:
        """Count the bytes sent."""
        with LOCK:
            Counting.sent += Path(source.name).stat().st_size  # type: ignore[attr-defined]
        super().copyfile(source, outputfile)  # type: ignore[call-overload]


def visit(context: BrowserContext, address: str) -> tuple[Page, float]:
    """Open the page and click a cable as soon as there is one; seconds until it is seen to be cut."""
    page = context.new_page()
    page.set_default_timeout(TIMEOUT)
    page.goto(address)
    page.locator(f'.cable[data-name="{CABLE}"]').wait_for(state="attached")
    page.wait_for_function("() => document.querySelector('#fabric .cable')")
    return page, page.evaluate(CLICKED, CABLE)


def cpu() -> float:
    """CPU seconds so far of all processes below this one."""
    pids = {int(entry.name) for entry in Path("/proc").glob("[0-9]*")}
    parents = {pid: int(fields[1]) for pid in pids - {os.getpid()} if (fields := stat_fields(pid))}
    return sum(cpu_seconds(pid, with_children=True) or 0.0 for pid in parents if below(pid, parents))


def below(process: int, parents: dict[int, int]) -> bool:
    """Return True if a process descends from this one."""
    while process in parents:
        process = parents[process]
    return process == os.getpid()


def settled(page: Page) -> None:
    """Wait until everything that a visit keeps is kept."""
    page.evaluate("() => navigator.serviceWorker.ready.then(() => 1)")
    page.wait_for_function("() => performance.getEntriesByName('lab-kept').length")
    page.wait_for_timeout(1500)


def warm_visits(context: BrowserContext, address: str) -> list[tuple[float, float]]:
    """Visit the site with a warm cache; return (seconds, CPU seconds) of each visit."""
    visits = []
    for _ in range(WARM):
        begun = cpu()
        page, seconds = visit(context, address)
        visits.append((seconds, cpu() - begun))
        page.close()
    return visits


def demo(page: Page) -> tuple[float, list[tuple[float, float]]]:
    """Run the demo; return its frames per second, and (seconds, CPU seconds) of each run of 30 s of virtual time."""
    page.locator("#demo").click()
    page.locator("svg.slow").wait_for(state="attached")
    frames = page.evaluate(FRAMES, 4)
    page.locator("#demo").click()
    runs = []
    for _ in range(1 + AGAIN):
        begun = cpu()
        speed = page.evaluate(PASSED, [RUN, 30])
        runs.append((30 / speed, cpu() - begun))
        page.wait_for_timeout(REST)
    return frames, runs


def measured() -> list[tuple[str, str, str]]:
    """Visit the site with an empty cache, then several times with a warm one; return the rows of the table."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Counting, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    with tempfile.TemporaryDirectory() as profile, sync_playwright() as driver:
        chromium = shutil.which("chromium")
        context = driver.chromium.launch_persistent_context(profile, executable_path=chromium, args=FLAGS)
        begun = cpu()
        page, cold = visit(context, address)
        cold_cpu = cpu() - begun
        settled(page)
        sent = Counting.sent / 1e6
        page.close()
        warm = warm_visits(context, address)
        page, _ = visit(context, address)
        frames, runs = demo(page)
        context.close()
    server.shutdown()
    later, later_cpu = map(statistics.median, zip(*warm, strict=True))
    run, run_cpu = map(statistics.median, zip(*runs[1:], strict=True))
    return [
        (
            f"a first visit transfers, text as gzip ({sent:.1f} MB without)",
            f"{build.transferred(SITE) / 1e6:.1f} MB",
            "",
        ),
        ("first click carried out, empty cache", f"{cold:.1f} s", f"{cold_cpu:.1f} s"),
        (f"first click carried out, later visits (median of {WARM})", f"{later:.1f} s", f"{later_cpu:.1f} s"),
        ("frames per second while packets are dots", f"{frames:.0f}", ""),
        ("30 s of a stream at the demo's rates, 16 switches", f"{runs[0][0]:.1f} s", f"{runs[0][1]:.1f} s"),
        (f"the same, later runs (median of {AGAIN})", f"{run:.1f} s", f"{run_cpu:.1f} s"),
    ]


def main() -> None:
    """Measure and print, or write."""
    load = os.getloadavg()[0]
    rows = "".join(f"| {what} | {figure} | {spent} |\n" for what, figure, spent in measured())
    head = f"In headless Chromium, two cores, other work on them: load {load:.0f}"
    table = f"| {head} | | CPU |\n|---|---|---|\n{rows}"
    sys.stdout.write(table)
    if "--write" in sys.argv:
        text = DOCS.read_text(encoding="utf-8")
        place = re.compile(r"(?<=<!-- measured -->\n\n).*?(?=\n<!-- end -->)", re.DOTALL)
        DOCS.write_text(place.sub(lambda _: table, text), encoding="utf-8")


if __name__ == "__main__":
    main()
