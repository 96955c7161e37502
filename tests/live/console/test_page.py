"""What the console costs and keeps: bytes, storage, hosts, and the time that drawing takes. No model is asked."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect

from live.console.browser import Scheme, Visits, grave, visiting
from live.console.chat_page import ChatPage
from live.console.house import House, World, house
from live.console.long_talk import write_long_talk

pytestmark = pytest.mark.live
LONG = "long-talk"
EVENTS = 2_000
FIRST_LOAD = 150_000
STALL, BUSY = 5.0, 60.0
"""Times what the same browser takes for a thousand rows, which is about a twenty-fifth of a second."""
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
FAKE_SOCKET = Path(__file__).with_name("fake_socket.js").read_text(encoding="utf-8")
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    memory = Path("/dev/shm")
    # A ledger waits for the disk with each of its thousands of rows, and nothing is learnt from that here.
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        ledger = str(Path(folder) / "ledger.db")
        asyncio.run(write_long_talk(ledger, LONG, EVENTS // 2))
        with house(tmp_path_factory.mktemp("console"), World(engine="fake:It is sunny.", ledger=ledger)) as made:
            made.called("mail_turn", "turns")
            made.called("note", "waits", text="<b>hidden\u202e</b>", copies=2)
            made.called("note", "decided", text="bread")
            decided = next(one for one in made.asked("/v1/approvals")["data"] if one["call_id"] == "decided")
            made.asked(f"/v1/approvals/{decided['id']}", {"approve": False, "why": "not today"})
            yield made


@pytest.fixture
def visits(home: House, browser: Browser) -> Iterator[Visits]:
    with visiting(browser, home.url) as made:
        yield made


PAGES = {
    "/console/chat": ".composer",
    "/console/approvals": ".queue a",
    "/console/approvals?tab=decided": ".queue .badge",
    "/console/traces": ".trace-link",
    f"/console/traces/{LONG}": ".moment",
    "/console/tools": ".held",
    "/console/tools/note": ".chip",
    "/console/tools?view=picked": ".figure",
    "/console/engines": ".live-grid",
}
"""Every page, and what is there when it has been drawn."""


@pytest.mark.parametrize("scheme", get_args(Scheme))
def test_axe_finds_nothing_serious_on_any_page(visits: Visits, home: House, scheme: Scheme) -> None:
    page = visits.page("/console/", scheme=scheme)
    page.get_by_label("Key").wait_for()
    assert grave(page) == []
    page = visits.page("/console/chat", home.ann, scheme=scheme)
    for path, landmark in PAGES.items():
        walk(page, path)
        page.locator(landmark).first.wait_for()
        assert grave(page) == [], path


def test_axe_finds_nothing_serious_in_what_opens(visits: Visits, home: House) -> None:
    page = visits.page("/console/chat", home.ann)
    ChatPage(page).say("How is the weather?")
    page.locator(".turn-foot").wait_for()
    page.get_by_role("button", name="Tools:").click()
    page.get_by_role("dialog").wait_for()
    assert grave(page) == []
    page.keyboard.press("Escape")
    walk(page, "/console/approvals")
    page.get_by_role("button", name="Edit…").click()
    page.get_by_role("textbox", name="copies").fill("many")
    expect(page.get_by_role("button", name="Approve with these")).to_be_disabled()
    assert grave(page) == []
    walk(page, f"/console/traces/{LONG}")
    page.locator(".moment-line").nth(2).click()
    page.locator(".opened").wait_for()
    assert grave(page) == []


def test_nothing_is_fetched_from_another_host_and_no_page_is_wider_than_a_phone(visits: Visits, home: House) -> None:
    page = visits.page("/console/chat", home.ann, width=360)
    for path, landmark in PAGES.items():
        walk(page, path)
        page.locator(landmark).first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 360, path
    assert visits.strangers() == []
    assert len(visits.addresses) > len(PAGES)


def test_the_key_is_kept_nowhere_and_is_in_no_address(visits: Visits, home: House) -> None:
    page = visits.page("/console/chat", home.ann)
    ChatPage(page).say("Hello")
    page.locator(".turn-foot").wait_for()
    kept = page.evaluate(
        """async () => JSON.stringify({
            local: {...localStorage}, session: {...sessionStorage}, cookie: document.cookie,
            databases: await indexedDB.databases(), caches: await caches.keys(),
            history: history.state, name: window.name,
        })"""
    )
    nothing = {"local": {}, "session": {}, "cookie": "", "databases": [], "caches": [], "history": None, "name": ""}
    assert json.loads(kept) == nothing
    assert page.context.storage_state() == {"cookies": [], "origins": []}
    assert [one for one in visits.addresses if home.ann in one] == []
    page.reload()
    expect(page.get_by_label("Key")).to_have_value("")


def test_the_first_load_is_small(visits: Visits, home: House) -> None:
    page = visits.page("/console/")
    sent = sent_to(page)
    page.get_by_label("Key").fill(home.ann)
    page.keyboard.press("Enter")
    page.get_by_label("Message").wait_for()
    with_chat = sent_to(page)
    print(f"as sent: the door {sent} bytes, the chat {with_chat}")
    assert with_chat < FIRST_LOAD


def test_a_conversation_of_two_thousand_events_scrolls_without_a_stall(visits: Visits, home: House) -> None:
    page = visits.page(f"/console/traces/{LONG}", home.ann)
    page.locator(".moment").first.wait_for()
    expect(page.get_by_role("heading", name="Timeline")).to_contain_text("2,001 events")
    page.wait_for_timeout(500)
    busy = Busy(page)
    rows = [busy.drawing_rows()]
    steps: list[float] = []
    for way in (400, 3000, -1200):
        for _ in range(20):
            before = busy.seconds()
            page.evaluate(f"scrollBy(0, {way}); new Promise((ready) => requestAnimationFrame(() => setTimeout(ready)))")
            steps.append(busy.seconds() - before)
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    page.locator(f'[aria-posinset="{EVENTS}"]').wait_for()
    print(f"CPU of a step: {sum(steps) / len(steps) * 1000:.1f} ms, at most {max(steps) * 1000:.1f} ms")
    rows.append(busy.drawing_rows())
    assert max(steps) < STALL * max(rows)
    assert page.locator(".moment").count() < 300, "only what is near the window is drawn"


def test_a_thousand_deltas_a_second_are_drawn_without_falling_behind(visits: Visits, home: House) -> None:
    page = visits.page("/console/chat", home.ann, script=FAKE_SOCKET)
    busy = Busy(page)
    rows = [busy.drawing_rows()]
    before = busy.seconds()
    ChatPage(page).say("go")
    while not page.evaluate("measured.doneAt"):
        page.wait_for_timeout(20)
    used = busy.seconds() - before
    page.locator(".turn.done").wait_for()
    after = busy.seconds() - before - used
    measured: dict[str, Any] = page.evaluate("measured")
    print(
        f"CPU {used:.2f} s in 4 s, {measured['pictures']} pictures; then {after * 1000:.0f} ms until the end was drawn"
    )
    assert measured["sent"] == 4000
    rows.append(busy.drawing_rows())
    assert used < BUSY * max(rows)
    assert after < STALL * max(rows)
    expect(page.locator(".turn .text").first).to_contain_text("word1999")


class Busy:
    """How long the page's main thread has worked, by the processor's clock: other programs are not counted."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._session: CDPSession = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def seconds(self) -> float:
        found: list[dict[str, Any]] = self._session.send("Performance.getMetrics")["metrics"]
        return next(float(one["value"]) for one in found if one["name"] == "TaskDuration")

    def drawing_rows(self) -> float:
        """What this browser takes just now to lay out a thousand rows: what a page's own work is weighed against."""
        before = self.seconds()
        self._page.evaluate(ROWS)
        return self.seconds() - before


def sent_to(page: Page) -> int:
    """The bytes of everything that was fetched so far, headers and all, as they came."""
    return page.evaluate(
        """performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource"))
            .reduce((sum, one) => sum + one.transferSize, 0)"""
    )


def walk(page: Page, path: str) -> None:
    """Goes there as a link does: loading the page anew would forget the key."""
    page.evaluate(
        "(path) => { history.pushState(null, '', path); dispatchEvent(new PopStateEvent('popstate')); }", path
    )
