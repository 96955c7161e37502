"""Size, storage, foreign hosts, accessibility and rendering time of the console. Uses no model."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect

from live.console.browser import Scheme, WatchedPages, serious_violations, watch_pages
from live.console.chat_page import ChatPage
from live.console.gateway_fixture import ConsoleGateway, GatewaySetup, start_gateway
from live.console.long_conversation import write_long_conversation

pytestmark = pytest.mark.live
LONG = "long-conversation"
EVENTS = 2_000
FIRST_LOAD = 150_000
STALL, BUSY = 5.0, 60.0
"""Multiples of the time that the same browser needs for a thousand rows, which is about 40 ms."""
ROWS = """() => {
    const box = document.createElement("div");
    for (let row = 0; row < 1000; row++) {
        const line = box.appendChild(document.createElement("p"));
        line.textContent = `row ${row} of a table that nobody reads`;
    }
    document.body.append(box);
    box.getBoundingClientRect();
    box.remove();
}"""
LINK_ROWS = """() => new Set([...document.querySelectorAll(".nav a")].map((link) => link.offsetTop)).size"""
FAKE_SOCKET = Path(__file__).with_name("fake_socket.js").read_text(encoding="utf-8")
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleGateway]:
    memory = Path("/dev/shm")
    # A ledger syncs each of its thousands of rows to disk; in memory this is faster.
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        ledger = str(Path(folder) / "ledger.db")
        asyncio.run(write_long_conversation(ledger, LONG, EVENTS // 2))
        with start_gateway(
            tmp_path_factory.mktemp("console"), GatewaySetup(engine="fake:It is sunny.", ledger=ledger)
        ) as gateway:
            gateway.call_tool("mail_turn", "turns")
            gateway.call_tool("note", "waits", text="<b>hidden\u202e</b>", copies=2)
            gateway.call_tool("note", "decided", text="bread")
            decided = next(one for one in gateway.request("/v1/approvals")["data"] if one["call_id"] == "decided")
            gateway.request(f"/v1/approvals/{decided['id']}", {"approve": False, "why": "not today"})
            yield gateway


@pytest.fixture
def pages(gateway: ConsoleGateway, browser: Browser) -> Iterator[WatchedPages]:
    with watch_pages(browser, gateway.url) as pages:
        yield pages


PAGES = {
    "/console/chat": ".composer",
    "/console/approvals": ".queue a",
    "/console/approvals?tab=decided": ".queue .badge",
    "/console/traces": ".trace-link",
    f"/console/traces/{LONG}": ".entry",
    "/console/tools": ".quarantined",
    "/console/tools/note": ".chip",
    "/console/tools?view=usage": ".numeric",
    "/console/engines": ".metric-grid",
    "/console/keys": ".empty-action",
    "/console/limits": ".quota-example",
}
"""Every page, and an element that is there when the page has been rendered."""


@pytest.mark.parametrize("scheme", get_args(Scheme))
def test_axe_finds_nothing_serious_on_any_page(pages: WatchedPages, gateway: ConsoleGateway, scheme: Scheme) -> None:
    page = pages.page("/console/", scheme=scheme)
    page.get_by_label("Key").wait_for()
    assert serious_violations(page) == []
    page = pages.page("/console/chat", gateway.ann, scheme=scheme)
    for path, landmark in PAGES.items():
        navigate(page, path)
        page.locator(landmark).first.wait_for()
        assert serious_violations(page) == [], path


def test_axe_finds_nothing_serious_in_what_opens(pages: WatchedPages, gateway: ConsoleGateway) -> None:
    page = pages.page("/console/chat", gateway.ann)
    ChatPage(page).send("How is the weather?")
    page.locator(".turn-footer").wait_for()
    page.get_by_role("button", name="Tools:").click()
    page.get_by_role("dialog").wait_for()
    assert serious_violations(page) == []
    page.keyboard.press("Escape")
    navigate(page, "/console/approvals")
    page.get_by_role("button", name="Edit…").click()
    page.get_by_role("textbox", name="copies").fill("many")
    expect(page.get_by_role("button", name="Approve with changes")).to_be_disabled()
    assert serious_violations(page) == []
    navigate(page, f"/console/traces/{LONG}")
    page.locator(".entry-row").nth(2).click()
    page.locator(".entry-detail").wait_for()
    assert serious_violations(page) == []


def test_nothing_is_fetched_from_another_host_and_no_page_is_wider_than_a_phone(
    pages: WatchedPages, gateway: ConsoleGateway
) -> None:
    page = pages.page("/console/chat", gateway.ann, width=360)
    for path, landmark in PAGES.items():
        navigate(page, path)
        page.locator(landmark).first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 360, path
        assert page.evaluate(LINK_ROWS) == 1, path
    assert pages.foreign_urls() == []
    assert len(pages.urls) > len(PAGES)


def test_the_key_is_kept_nowhere_and_is_in_no_address(pages: WatchedPages, gateway: ConsoleGateway) -> None:
    page = pages.page("/console/chat", gateway.ann)
    ChatPage(page).send("Hello")
    page.locator(".turn-footer").wait_for()
    stored = page.evaluate(
        """async () => JSON.stringify({
            local: {...localStorage}, session: {...sessionStorage}, cookie: document.cookie,
            databases: await indexedDB.databases(), caches: await caches.keys(),
            history: history.state, name: window.name,
        })"""
    )
    nothing = {"local": {}, "session": {}, "cookie": "", "databases": [], "caches": [], "history": None, "name": ""}
    assert json.loads(stored) == nothing
    assert page.context.storage_state() == {"cookies": [], "origins": []}
    assert [one for one in pages.urls if gateway.ann in one] == []
    page.reload()
    expect(page.get_by_label("Key")).to_have_value("")


def test_the_first_load_is_small(pages: WatchedPages, gateway: ConsoleGateway) -> None:
    page = pages.page("/console/")
    sign_in_bytes = bytes_received(page)
    page.get_by_label("Key").fill(gateway.ann)
    page.keyboard.press("Enter")
    page.get_by_label("Message").wait_for()
    chat_bytes = bytes_received(page)
    print(f"transferred: {sign_in_bytes} bytes for the sign-in page, {chat_bytes} with the chat")
    assert chat_bytes < FIRST_LOAD


def test_a_conversation_of_two_thousand_events_scrolls_without_a_stall(
    pages: WatchedPages, gateway: ConsoleGateway
) -> None:
    page = pages.page(f"/console/traces/{LONG}", gateway.ann)
    page.locator(".entry").first.wait_for()
    expect(page.get_by_role("heading", name="Timeline")).to_contain_text("2,001 events")
    page.wait_for_timeout(500)
    meter = CpuMeter(page)
    rows = [meter.measure_rows()]
    steps: list[float] = []
    for way in (400, 3000, -1200):
        for _ in range(20):
            before = meter.seconds()
            page.evaluate(f"scrollBy(0, {way}); new Promise((ready) => requestAnimationFrame(() => setTimeout(ready)))")
            steps.append(meter.seconds() - before)
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    page.locator(f'[aria-posinset="{EVENTS}"]').wait_for()
    print(f"CPU of a step: {sum(steps) / len(steps) * 1000:.1f} ms, at most {max(steps) * 1000:.1f} ms")
    rows.append(meter.measure_rows())
    assert max(steps) < STALL * max(rows)
    assert page.locator(".entry").count() < 300, "only rows near the viewport are rendered"


def test_a_thousand_deltas_a_second_are_rendered_without_falling_behind(
    pages: WatchedPages, gateway: ConsoleGateway
) -> None:
    page = pages.page("/console/chat", gateway.ann, script=FAKE_SOCKET)
    meter = CpuMeter(page)
    rows = [meter.measure_rows()]
    before = meter.seconds()
    ChatPage(page).send("go")
    while not page.evaluate("stats.doneAt"):
        page.wait_for_timeout(20)
    used = meter.seconds() - before
    page.locator(".turn.done").wait_for()
    after = meter.seconds() - before - used
    stats: dict[str, Any] = page.evaluate("stats")
    print(f"CPU {used:.2f} s in 4 s, {stats['paints']} paints; then {after * 1000:.0f} ms until the end was rendered")
    assert stats["sent"] == 4000
    rows.append(meter.measure_rows())
    assert used < BUSY * max(rows)
    assert after < STALL * max(rows)
    expect(page.locator(".turn .text").first).to_contain_text("word1999")


class CpuMeter:
    """Measures the CPU time of the page's main thread, so that other programs do not count."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._session: CDPSession = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def seconds(self) -> float:
        metrics: list[dict[str, Any]] = self._session.send("Performance.getMetrics")["metrics"]
        return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")

    def measure_rows(self) -> float:
        """Measure the layout of a thousand rows, as a reference for the machine's current speed."""
        before = self.seconds()
        self._page.evaluate(ROWS)
        return self.seconds() - before


def bytes_received(page: Page) -> int:
    """Return the bytes of everything fetched so far, including headers."""
    return page.evaluate(
        """performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource"))
            .reduce((sum, one) => sum + one.transferSize, 0)"""
    )


def navigate(page: Page, path: str) -> None:
    """Navigate like a link does: a reload would discard the key."""
    page.evaluate(
        "(path) => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }", path
    )
