"""Uses the console in a real browser, on a gateway with a real model, MCP servers and a NATS worker."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError

import pytest
from playwright.sync_api import Browser, Page, expect

from live.console.browser import WatchedPages, watch_pages
from live.console.chat_page import ChatPage
from live.console.gateway_fixture import ConsoleGateway, start_gateway

pytestmark = pytest.mark.live
WEATHER = "every_get-structured-content"
HIDDEN = "\u202e\u2066\u200b\u200d\x00\x08\x1b[2J\u00ad\ufeff\U000e0041"
"""Text direction, zero width, backspace, a terminal escape, and a letter of the tag alphabet."""
HIDDEN_PATTERN = re.compile(
    "[\u202a-\u202e\u2066-\u2069\u200b-\u200f\x00-\x08\x0b-\x1f\x7f\u00ad\ufeff\U000e0000-\U000e007f]"
)
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleGateway]:
    with start_gateway(tmp_path_factory.mktemp("console")) as gateway:
        yield gateway


@pytest.fixture
def pages(browser: Browser, gateway: ConsoleGateway) -> Iterator[WatchedPages]:
    try:
        with watch_pages(browser, gateway.url) as pages:
            yield pages
    finally:
        for one in gateway.request("/v1/approvals?state=pending")["data"]:
            gateway.request(f"/v1/approvals/{one['id']}", {"approve": False})


def chat_of(pages: WatchedPages, gateway: ConsoleGateway, tool: str) -> ChatPage:
    chat = ChatPage(pages.page("/console/chat", gateway.ann))
    chat.offer(tool)
    return chat


def messages_of(gateway: ConsoleGateway, conversation: str) -> list[Any]:
    """Return a conversation's messages from the ledger."""
    return gateway.request(f"/v1/conversations/{conversation}")["messages"]


def test_a_call_is_streamed_in_the_chat_and_its_receipt_opens(pages: WatchedPages, gateway: ConsoleGateway) -> None:
    chat = chat_of(pages, gateway, WEATHER)
    turn = chat.send("What is the weather in Chicago?")
    # The first: this model may go on to a second call.
    call = turn.get_by_role("article", name=f"Call of {WEATHER}").first
    expect(call.locator(".field", has_text="location")).to_contain_text(re.compile("New York|Chicago|Los Angeles"))
    receipt = call.get_by_role("button", name="Receipt:")
    receipt.click()
    expect(receipt).to_have_attribute("aria-expanded", "true")
    expect(call.locator(".receipt-body")).to_contain_text(re.compile("Enforced while decoding.*enum.*required.*type"))
    # The server does not declare the tool as read-only, and is not marked as trusted.
    call.get_by_role("button", name="Approve", exact=True).click()
    expect(call.get_by_role("group", name="Result")).to_contain_text("temperature")
    expect(turn.locator(".turn-footer")).to_contain_text("smol")


def test_a_write_is_approved_in_the_page_and_runs_once(pages: WatchedPages, gateway: ConsoleGateway) -> None:
    chat = chat_of(pages, gateway, "switch")
    turn = chat.send("Switch on the lamp in the attic.")
    # The first: this model may go on to a second call, which its budget cuts off.
    call = turn.get_by_role("article", name="Call of switch").first
    expect(call.get_by_role("group", name="switch is waiting for approval")).to_be_visible()
    assert gateway.lines("switched.txt") == []
    # A double click is one decision.
    call.get_by_role("button", name="Approve", exact=True).dblclick()
    expect(call).to_contain_text(re.compile("(hall|attic) is (on|off)"))
    expect(turn.locator(".turn-footer")).to_be_visible()
    assert len(gateway.lines("switched.txt")) == 1


def test_the_model_sees_a_denial_and_nothing_runs(pages: WatchedPages, gateway: ConsoleGateway) -> None:
    before = gateway.lines("switched.txt")
    chat = chat_of(pages, gateway, "switch")
    turn = chat.send("Switch on the lamp in the hall.")
    # The first: this model may go on to a second call, which its budget cuts off.
    call = turn.get_by_role("article", name="Call of switch").first
    call.get_by_role("button", name="Deny…").click()
    chat.page.keyboard.type("not before Monday")
    chat.page.keyboard.press("Enter")
    expect(call).to_contain_text("denied: not before Monday")
    expect(call.locator(".call-head")).to_contain_text("denied")
    expect(turn.locator(".turn-footer")).to_be_visible()
    assert gateway.lines("switched.txt") == before
    *_, result, budget, answer = messages_of(gateway, chat.conversation(turn))
    assert (result["role"], result["parts"][0]["content"]) == ("tool", "denied: not before Monday")
    assert (budget["role"], answer["role"]) == ("user", "assistant")


def test_an_edit_that_the_schema_refuses_cannot_be_approved_and_one_that_fits_runs(
    pages: WatchedPages, gateway: ConsoleGateway
) -> None:
    approval = request_note(gateway, "edited", text="milk", copies=1)
    page = pages.page(f"/console/approvals/{approval}", gateway.ann)
    page.get_by_role("button", name="Edit…").click()
    copies = page.get_by_role("textbox", name="copies")
    copies.fill("many")
    expect(copies).to_have_attribute("aria-invalid", "true")
    send = page.get_by_role("button", name="Approve with changes")
    expect(send).to_be_disabled()
    copies.fill("2.5")
    expect(page.locator(".form-faults", has_text="integer")).to_be_visible()
    expect(send).to_be_disabled()
    page.keyboard.press("Control+Enter")
    assert gateway.call_tool("note", "edited", text="milk", copies=1)["object"] == "tool.waiting"
    copies.fill("3")
    expect(page.get_by_text("✓ Valid")).to_be_visible()
    send.click()
    expect(page.get_by_role("status").filter(has_text="note")).to_be_visible()
    assert gateway.call_tool("note", "edited", text="milk", copies=1)["content"] == "noted"
    assert gateway.lines("noted.txt")[-1] == "milkmilkmilk"


def test_the_keyboard_alone_is_enough_to_approve(pages: WatchedPages, gateway: ConsoleGateway) -> None:
    before = gateway.lines("noted.txt")
    request_note(gateway, "by keys", text="bread")
    page = pages.page("/console/")
    page.get_by_label("Key").wait_for()
    page.keyboard.type(gateway.bob)
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Approvals")).to_contain_text("1")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent").startswith("Approvals"):
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("group", name="Arguments")).to_contain_text("bread")
    # Shortcuts are disabled right after an approval appears.
    page.wait_for_timeout(700)
    page.keyboard.press("a")
    expect(page.get_by_text("No pending approvals.")).to_be_visible()
    for _ in range(2):
        assert gateway.call_tool("note", "by keys", text="bread")["content"] == "noted"
    assert gateway.lines("noted.txt") == [*before, "bread"]


def test_a_trace_opens_by_its_permanent_link(pages: WatchedPages, gateway: ConsoleGateway) -> None:
    chat = chat_of(pages, gateway, "switch")
    turn = chat.send("Switch off the lamp in the attic.")
    turn.get_by_role("button", name="Approve", exact=True).click()
    turn.get_by_role("link", name="Trace").wait_for()
    link = f"/console/traces/{chat.conversation(turn)}"
    # In another browser, the link still opens after signing in.
    page = pages.page(link, gateway.ann)
    expect(page.get_by_role("heading", level=1)).to_have_text("Switch off the lamp in the attic.")
    assert page.url == gateway.url + link
    for kind in ("user", "model", "approval", "tool"):
        expect(page.locator(f'.entry[data-kind="{kind}"]').first).to_be_visible()
    expect(page.get_by_role("region", name="Audit log")).to_contain_text("verified")
    page.locator('.entry[data-kind="tool"] button').first.click()
    expect(page.locator(".entry-detail")).to_contain_text("lamp")
    # A principal who is not an admin sees only their own conversations.
    denied = pages.page(link, gateway.bob)
    expect(denied.locator(".problem")).to_be_visible()
    pages.errors.clear()


def test_a_conversation_that_failed_is_found_by_its_status_and_shows_what_happened(
    pages: WatchedPages, gateway: ConsoleGateway
) -> None:
    question = "Which <b>lamp</b> is on?"
    for _ in range(2):
        body = {"model": "smol", "messages": [{"role": "user", "content": question}], "max_tokens": 10**9}
        with pytest.raises(HTTPError):
            gateway.request("/v1/chat/completions", body)
    gateway.wait_for("/v1/traces?status=failed", lambda traces: "lamp" in str(traces["data"]))
    page = pages.page("/console/traces", gateway.ann)
    page.get_by_label("Status").select_option("failed")
    page.get_by_label("Text").fill("Which <b>lamp")
    page.get_by_role("button", name="Search").click()
    row = page.get_by_role("row", name=re.compile("Which <b>lamp"))
    expect(row).to_have_count(1)
    expect(row).to_contain_text("2 errors")
    row.get_by_role("link").first.click()
    failed = page.locator('.request[data-status="failed"]')
    expect(failed).to_have_count(2)
    expect(failed.first).to_contain_text("max_tokens")
    expect(page.get_by_role("heading", level=1)).to_have_text(question)


def test_a_tool_whose_description_was_poisoned_later_is_quarantined_and_shown_harmlessly(
    pages: WatchedPages, gateway: ConsoleGateway
) -> None:
    gateway.call_tool("mail_turn", "turns")
    gateway.wait_for("/v1/sources", lambda sources: "mail_send" in str(sources["data"]))
    page = pages.page("/console/tools", gateway.ann)
    quarantined = page.get_by_role("region", name="Quarantined: mail_send")
    quarantined.get_by_role("button", name="Show changes").click()
    expect(quarantined).to_contain_text("eve@evil.example")
    expect(quarantined).to_contain_text('<img id="poison"')
    expect(quarantined.get_by_title("U+202E right-to-left override").first).to_be_visible()
    check_harmless(page)
    page.get_by_role("link", name="mail_inbox").click()
    expect(page.get_by_title("U+200B zero-width space").first).to_be_visible()
    expect(page.locator(".tool-description")).to_contain_text('<b id="poison">')
    check_harmless(page)


def test_an_argument_full_of_control_characters_is_shown_harmlessly(
    pages: WatchedPages, gateway: ConsoleGateway
) -> None:
    text = f'<b id="poison">{HIDDEN}</b>'
    approval = request_note(gateway, "hidden", text=text)
    page = pages.page(f"/console/approvals/{approval}", gateway.ann)
    arguments = page.get_by_role("group", name="Arguments")
    expect(arguments).to_contain_text('<b id="poison">')
    text_shown = arguments.inner_text()
    assert [code for code in codes(HIDDEN) if code not in text_shown] == []
    expect(page.locator(".warning")).to_contain_text(re.compile("The arguments contain \\d+ hidden characters"))
    check_harmless(page)
    page.get_by_role("link", name="conversation").click()
    page.locator('.entry[data-kind="approval"] button').first.click()
    expect(page.locator(".entry-detail .hidden-marker").first).to_be_visible()
    check_harmless(page)


def request_note(gateway: ConsoleGateway, call_id: str, **arguments: Any) -> str:
    """Call `note` like a program does, and return the id of its approval."""
    return gateway.call_tool("note", call_id, **arguments)["approval"]["id"]


def codes(text: str) -> list[str]:
    return [f"U+{ord(one):04X}" for one in text if HIDDEN_PATTERN.match(one)]


def check_harmless(page: Page) -> None:
    """Check that untrusted text became no element, no script ran, and no hidden character is in the DOM."""
    assert page.locator("#poison").count() == 0
    assert page.title() != "poisoned"
    assert HIDDEN_PATTERN.findall(page.evaluate("document.documentElement.outerHTML")) == []
