"""The tools page with five thousand tools: a page of them at a time, searched by the gateway's own index."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import pytest
from playwright.sync_api import Browser, Page, expect

from ferrule.core.call import ToolCall
from ferrule.core.context import CallContext, Principal
from ferrule.core.outcome import Answered, Outcome
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.engines.fake import FakeEngine
from ferrule.run.conversation import ToolConversation
from ferrule.run.ledger.address import open_ledger
from ferrule.sources.fake import FakeSource
from live.console.browser import Scheme, serious_violations, watch_pages
from server.gateway_process import ANN, GatewayProcess, gateway_process

pytestmark = pytest.mark.live

MANY = 5_000
SUBJECTS = (
    "invoice",
    "customer",
    "shipment",
    "refund",
    "warehouse",
    "supplier",
    "ticket",
    "branch",
    "release",
    "meeting",
)
VERBS = ("List", "Create", "Read", "Update", "Delete")
USED = "shop_Update_shipment_0013"


def _document() -> dict[str, Any]:
    paths: dict[str, Any] = {}
    for number in range(MANY):
        verb, subject = VERBS[number % 5], SUBJECTS[number // 5 % 10]
        operation = {
            "operationId": f"{verb}_{subject}_{number:04}",
            "summary": f"{verb} a {subject} in region {number // 50}.",
            "parameters": [{"name": "id", "in": "query", "schema": {"type": "string"}}],
        }
        paths[f"/{subject}/{number}"] = {"get" if verb in ("List", "Read") else "post": operation}
    paths["/weather"] = {"get": {"operationId": "forecast", "summary": "Say whether it will rain tomorrow."}}
    return {"openapi": "3.1.0", "info": {"title": "Shop", "version": "1"}, "paths": paths}


def _answer(name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
    return Answered("no", is_error=True) if arguments["n"] == 3 else Answered("yes")


async def _write_usage(path: Path) -> None:
    async with await open_ledger(str(path)) as ledger:
        calls = [ToolCall.of(USED, {"n": number}, id=f"c{number}") for number in range(12)]
        talk = await ToolConversation.open(
            ledger,
            "talk",
            FakeEngine([Reply.of(*calls), Reply.of("Done.")]),
            FakeSource((ToolDefinition(USED), ToolDefinition("shop_forecast")), _answer),
            context=CallContext(principal=Principal(ANN, ANN)),
            request=ToolCallRequest(messages=()),
        )
        await talk.send_message("go")
        await talk.close()


@contextmanager
def shop_gateway(folder: Path) -> Generator[GatewayProcess]:
    (folder / "shop.json").write_text(json.dumps(_document()))
    (folder / "own.py").write_text("TOOLS = []\n")
    asyncio.run(_write_usage(folder / "ledger.db"))
    more = f'[openapi.shop]\ndocument = "{folder / "shop.json"}"\nserver = "http://127.0.0.1:1"'
    with gateway_process(folder, folder / "own.py", more=more) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Generator[GatewayProcess]:
    with shop_gateway(tmp_path_factory.mktemp("shop")) as gateway:
        yield gateway


def search(page: Page, text: str) -> None:
    page.get_by_label("Search tools").fill(text)
    expect(page.get_by_role("status").filter(has_text="the best first")).to_be_visible()


@pytest.mark.parametrize("scheme", get_args(Scheme))
@pytest.mark.parametrize("width", [1280, 360])
def test_five_thousand_tools_are_paged_searched_and_shown_with_their_usage(
    shop: GatewayProcess, browser: Browser, scheme: Scheme, width: int, tmp_path: Path
) -> None:
    with watch_pages(browser, shop.url) as pages:
        page = pages.page("/console/tools", ANN, scheme=scheme, width=width)
        rows = page.locator(".tool-table tbody tr")
        expect(rows).to_have_count(100)
        expect(page.get_by_text(f"{MANY + 1:,} tools").first).to_be_visible()
        page.get_by_role("button", name="100 more of 4,901").click()
        expect(rows).to_have_count(200)
        assert serious_violations(page) == []
        _picture(page, f"many-{width}-{scheme}")
        # A question, by the gateway's index; a part of a name, by its letters.
        search(page, "will it rain tomorrow?")
        expect(rows.first).to_contain_text("shop_forecast")
        search(page, "Update_shipment_0013")
        used = rows.filter(has_text=USED)
        expect(used).to_contain_text("12")
        assert [cell.inner_text() for cell in used.locator(".numeric").all()][:3] == ["2", "12", "1"]
        assert serious_violations(page) == []
        _picture(page, f"found-{width}-{scheme}")
        search(page, "xyzzy")
        expect(page.get_by_text("No matching tools")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "no page is wider than a phone"


def test_a_tool_is_found_and_opened_by_keyboard_alone_and_typing_asks_once(
    shop: GatewayProcess, browser: Browser
) -> None:
    with watch_pages(browser, shop.url) as pages:
        page = pages.page("/console/tools", ANN)
        page.get_by_label("Search tools").focus()
        page.keyboard.type("rain tomorrow", delay=5)
        first = page.locator(".tool-table tbody tr").first
        expect(first).to_contain_text("shop_forecast")
        asked = [url for url in pages.urls if "/v1/tools?text=" in url]
        assert len(asked) <= 3, asked
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "shop_forecast"
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="shop_forecast")).to_be_visible()


def _picture(page: Page, name: str) -> None:
    folder = os.environ.get("FERRULE_PICTURES")
    if folder:
        page.evaluate("scrollTo(0, 0)")
        page.screenshot(path=f"{folder}/{name}.png")
