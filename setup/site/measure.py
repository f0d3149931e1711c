"""Measures the built page in headless Chromium: bytes of a first visit, seconds to the first click, cold and warm.

python setup/site/measure.py; needs `make site` and `make browser`. Prints how far each part of the start had come, too.
"""

import functools
import http.server
import json
import shutil
import sys
import tempfile
import threading
from pathlib import Path

from playwright.sync_api import BrowserContext, sync_playwright

SITE = Path(__file__).parents[2] / "build" / "site" / "try"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu"]
LAPS = """() => Object.fromEntries(performance.getEntriesByType('mark')
    .map(each => [each.name, Math.round(each.startTime)]))"""


LOCK = threading.Lock()


class Counting(http.server.SimpleHTTPRequestHandler):
    """Serves files, and counts their bytes."""

    sent = 0

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def copyfile(self, source: object, outputfile: object) -> None:
        """Count what goes out."""
        with LOCK:
            Counting.sent += Path(source.name).stat().st_size  # type: ignore[attr-defined]
        super().copyfile(source, outputfile)  # type: ignore[call-overload]


def visit(context: BrowserContext, address: str) -> dict[str, float]:
    """Open the page, wait until a cable can be clicked; milliseconds of its laps."""
    page = context.new_page()
    page.goto(address)
    page.locator("#fabric .cable").first.wait_for(state="attached", timeout=120_000)
    page.evaluate("() => performance.mark('fabric')")
    page.wait_for_function("() => performance.getEntriesByName('lab-ready').length", timeout=120_000)
    found: dict[str, float] = page.evaluate(LAPS)
    page.evaluate("() => navigator.serviceWorker.ready.then(() => 1)")
    page.wait_for_timeout(1500)
    page.close()
    return found


def main() -> None:
    """Visit it once with nothing kept, and twice afterwards."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Counting, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    with tempfile.TemporaryDirectory() as profile, sync_playwright() as driver:
        chromium = shutil.which("chromium")
        context = driver.chromium.launch_persistent_context(profile, executable_path=chromium, args=FLAGS)
        for name in ("cold", "warm", "warm", "warm"):
            before = Counting.sent
            laps = visit(context, address)
            sys.stdout.write(f"{name}: {(Counting.sent - before) / 1e6:.2f} MB as served; ms: {json.dumps(laps)}\n")
        context.close()
    server.shutdown()


if __name__ == "__main__":
    main()
