"""Debian's Chromium, driven by Playwright, with pages whose requests and console errors are recorded."""

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
_AXE_SCRIPT = Path(__file__).parents[3] / "console" / "node_modules" / "axe-core" / "axe.min.js"
_TIMEOUT = 60_000
_EXPECTED_401 = "401 (Unauthorized)"
"""Chromium logs this for the first request, from which the page learns that a key is required."""
Scheme = Literal["light", "dark"]


@contextmanager
def chromium() -> Generator[Browser]:
    """Start the browser. While it is open, this thread cannot start an event loop, because Playwright runs its own."""
    assert _CHROMIUM.exists(), "Chromium is not installed: run scripts/setup-browser"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@dataclass(slots=True)
class WatchedPages:
    """Pages of one gateway. `errors` has what they wrote to the browser's console, `urls` what they requested."""

    browser: Browser
    url: str
    errors: list[str] = field(default_factory=list[str])
    urls: list[str] = field(default_factory=list[str])
    _pages: list[Page] = field(default_factory=list[Page])

    def page(self, path: str, key: str = "", *, script: str = "", scheme: Scheme = "light", width: int = 1280) -> Page:
        """Open a page in its own browser context, and sign in if a key is given."""
        height = 720 if width > 600 else 740
        context = self.browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        context.set_default_timeout(_TIMEOUT)
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

    def foreign_urls(self) -> list[str]:
        """Return the requested URLs of other hosts."""
        own = urlsplit(self.url).netloc
        return [one for one in self.urls if urlsplit(one).netloc not in ("", own)]

    def close(self) -> None:
        for page in self._pages:
            page.context.close()

    def _watch(self, page: Page) -> None:
        def on_console(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning") and _EXPECTED_401 not in message.text:
                self.errors.append(message.text)

        def on_request(request: Request | WebSocket) -> None:
            self.urls.append(request.url)

        page.on("console", on_console)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", on_request)
        page.on("websocket", on_request)


@contextmanager
def watch_pages(browser: Browser, url: str) -> Generator[WatchedPages]:
    """Yield pages, close them afterwards, and fail if one had errors or requested another host."""
    pages = WatchedPages(browser, url)
    try:
        yield pages
    finally:
        pages.close()
    assert pages.errors == []
    assert pages.foreign_urls() == []


def serious_violations(page: Page) -> list[str]:
    """Return what axe reports about a page as serious or critical."""
    page.evaluate(_AXE_SCRIPT.read_text(encoding="utf-8"))
    violations: list[dict[str, Any]] = page.evaluate("axe.run().then((results) => results.violations)")
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in violations
        if one["impact"] in ("serious", "critical")
    ]
