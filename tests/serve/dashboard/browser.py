"""Pages in Debian's chromium, driven by playwright."""

import os
import shutil
import time
from contextlib import contextmanager

import pytest

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"


@contextmanager
def chromium():
    """The browser; skips, saying why, where it is not there."""
    driver = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install -e '.[test-browser]'")
    if not os.path.exists(CHROMIUM):
        pytest.skip(f"needs chromium, there is none at {CHROMIUM}: apt install chromium (or set CHROMIUM)")
    with driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Looked:
    """A page somebody looks at, and all that it asked for and complained of."""

    def __init__(self, browser, width=1280, height=900, scheme="light", **options):
        view = {"width": width, "height": height}
        self.context = browser.new_context(viewport=view, color_scheme=scheme, **options)
        self.page = self.context.new_page()
        self.asked, self.complaints = list[str](), list[str]()
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text) if message.type != "log" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, url):
        self.page.goto(url)
        return self

    def until(self, script, seconds=30):
        """Until it is true in the page, whose policy allows no script that waits in it."""
        end = time.monotonic() + seconds
        while not self.page.evaluate(script):
            assert time.monotonic() < end, f"{script}\n{self.page.inner_text('body')}"
            self.page.wait_for_timeout(50)

    def state(self):
        return self.page.get_attribute("#state", "data-state")

    def value(self, key):
        """The number that a tile shows."""
        return float(self.page.get_attribute(f'[data-key="{key}"]', "data-value"))

    def text(self, key):
        return self.page.inner_text(f'[data-key="{key}"]')

    def close(self):
        self.context.close()
