"""Debian's Chromium, driven by Playwright, and pages that are watched: what they ask for, and what they complain of."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, WebSocket, sync_playwright

_CHROMIUM = Path("/usr/bin/chromium")
_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
_AXE = Path(__file__).parents[3] / "console" / "node_modules" / "axe-core" / "axe.min.js"
_PATIENCE = 60_000
_WITHOUT_A_KEY = "401 (Unauthorized)"
"""What Chromium writes of the first question, by which the page learns that a key is needed."""
Scheme = Literal["light", "dark"]


@contextmanager
def chromium() -> Generator[Browser]:
    """While it is open no event loop can be started in this thread: Playwright's own is running there."""
    assert _CHROMIUM.exists(), "there is no browser: run scripts/setup-browser"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass(slots=True)
class Visits:
    """Pages of one gateway. `faults` is what they wrote to the console, `addresses` what they asked for."""

    browser: Browser
    url: str
    faults: list[str] = field(default_factory=list[str])
    addresses: list[str] = field(default_factory=list[str])
    _pages: list[Page] = field(default_factory=list[Page])

    def page(self, path: str, key: str = "", *, script: str = "", scheme: Scheme = "light", width: int = 1280) -> Page:
        """One in a browser's profile of its own, with the key typed in where one is given."""
        height = 720 if width > 600 else 740
        context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        context.set_default_timeout(_PATIENCE)
        if script:
            context.add_init_script(script)
        page = context.new_page()
        self._pages.append(page)
        self._watch(page)
        page.goto(self.url + path)
        if key:
            page.get_by_label("Key").fill(key)
            page.keyboard.press("Enter")
            page.get_by_role("navigation", name="Pages").wait_for()
        return page

    def strangers(self) -> list[str]:
        """The addresses that are not the gateway's."""
        own = urlsplit(self.url).netloc
        return [one for one in self.addresses if urlsplit(one).netloc not in ("", own)]

    def close(self) -> None:
        for page in self._pages:
            page.context.close()

    def _watch(self, page: Page) -> None:
        def said(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning") and _WITHOUT_A_KEY not in message.text:
                self.faults.append(message.text)

        def asked(what: Request | WebSocket) -> None:
            self.addresses.append(what.url)

        page.on("console", said)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("request", asked)
        page.on("websocket", asked)


@contextmanager
def visiting(browser: Browser, url: str) -> Generator[Visits]:
    """Pages that are put away afterwards, and of which none has complained or asked elsewhere."""
    made = Visits(browser, url)
    try:
        yield made
    finally:
        made.close()
    assert made.faults == []
    assert made.strangers() == []


def grave(page: Page) -> list[str]:
    """What axe finds wrong with a page and calls serious or critical."""
    page.evaluate(_AXE.read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = page.evaluate("axe.run().then((found) => found.violations)")
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found if one["impact"] in ("serious", "critical")
    ]
