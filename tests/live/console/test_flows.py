"""The console as people use it, in a real browser: on a real model, MCP servers and a worker on NATS."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from live.console.browser import Visits
from live.console.chat_page import ChatPage
from live.console.house import House, house

pytestmark = pytest.mark.live
WEATHER = "every_get-structured-content"
HIDDEN = "\u202e\u2066\u200b\u200d\x00\x08\x1b[2J\u00ad\ufeff\U000e0041"
"""Turns text around, has no width, rubs out, clears a terminal, and a letter of the tag alphabet."""
UNSEEN = re.compile("[\u202a-\u202e\u2066-\u2069\u200b-\u200f\x00-\x08\x0b-\x1f\x7f\u00ad\ufeff\U000e0000-\U000e007f]")
PATIENCE = 120_000
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("console")) as made:
        yield made


@pytest.fixture
def visits(browser: Browser, home: House) -> Iterator[Visits]:
    made = Visits(browser, home.url)
    try:
        yield made
    finally:
        made.close()
    assert made.faults == []
    assert made.strangers() == []


def chat_of(visits: Visits, home: House, tool: str) -> ChatPage:
    chat = ChatPage(visits.page("/console/chat", home.ann))
    chat.offer(tool)
    return chat


def told(home: House, conversation: str) -> list[Any]:
    """What the model has read and written, as the ledger has it."""
    return home.asked(f"/v1/conversations/{conversation}")["messages"]


def made_of_it(page: Page) -> int:
    """The elements that came out of somebody's text."""
    return page.locator("#poison").count()


def test_a_call_forms_in_the_chat_and_its_receipt_opens(visits: Visits, home: House) -> None:
    chat = chat_of(visits, home, WEATHER)
    turn = chat.say("What is the weather in Chicago?")
    call = turn.get_by_role("article", name=f"Call of {WEATHER}")
    expect(call.locator(".field", has_text="location")).to_contain_text(re.compile("New York|Chicago|Los Angeles"))
    seal = call.get_by_role("button", name="Receipt:")
    seal.click()
    expect(seal).to_have_attribute("aria-expanded", "true")
    expect(call.locator(".seal-body")).to_contain_text(re.compile("Enforced while writing.*enum.*required.*type"))
    # The server does not say that it only reads, and nobody has said to trust it.
    call.get_by_role("button", name="Approve", exact=True).click()
    expect(call.get_by_role("group", name="Result")).to_contain_text("temperature")
    expect(turn.locator(".turn-foot")).to_contain_text("smol")


def test_a_write_is_approved_in_the_page_and_happens_once(visits: Visits, home: House) -> None:
    chat = chat_of(visits, home, "switch")
    turn = chat.say("Switch on the lamp in the attic.")
    call = turn.get_by_role("article", name="Call of switch")
    expect(call.get_by_role("group", name="switch waits for leave")).to_be_visible()
    assert home.lines("switched.txt") == []
    # Two quick presses are one word.
    call.get_by_role("button", name="Approve", exact=True).dblclick()
    expect(call).to_contain_text(re.compile("(hall|attic) is (on|off)"))
    expect(turn.locator(".turn-foot")).to_be_visible()
    assert len(home.lines("switched.txt")) == 1


def test_the_model_hears_of_a_denial_and_nothing_happens(visits: Visits, home: House) -> None:
    before = home.lines("switched.txt")
    chat = chat_of(visits, home, "switch")
    turn = chat.say("Switch on the lamp in the hall.")
    call = turn.get_by_role("article", name="Call of switch")
    call.get_by_role("button", name="Deny…").click()
    chat.page.keyboard.type("not before Monday")
    chat.page.keyboard.press("Enter")
    expect(call).to_contain_text("denied: not before Monday")
    expect(call.locator(".call-head")).to_contain_text("no leave")
    expect(turn.locator(".turn-foot")).to_be_visible()
    assert home.lines("switched.txt") == before
    messages = told(home, chat.conversation(turn))
    print(messages)
    assert messages
