"""The console as people use it, in a real browser: on a real model, MCP servers and a worker on NATS."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from live.console.browser import Visits, visiting
from live.console.chat_page import ChatPage
from live.console.house import House, house

pytestmark = pytest.mark.live
WEATHER = "every_get-structured-content"
HIDDEN = "\u202e\u2066\u200b\u200d\x00\x08\x1b[2J\u00ad\ufeff\U000e0041"
"""Turns text around, has no width, rubs out, clears a terminal, and a letter of the tag alphabet."""
UNSEEN = re.compile("[\u202a-\u202e\u2066-\u2069\u200b-\u200f\x00-\x08\x0b-\x1f\x7f\u00ad\ufeff\U000e0000-\U000e007f]")
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house(tmp_path_factory.mktemp("console")) as made:
        yield made


@pytest.fixture
def visits(browser: Browser, home: House) -> Iterator[Visits]:
    try:
        with visiting(browser, home.url) as made:
            yield made
    finally:
        for one in home.asked("/v1/approvals?state=pending")["data"]:
            home.asked(f"/v1/approvals/{one['id']}", {"approve": False})


def chat_of(visits: Visits, home: House, tool: str) -> ChatPage:
    chat = ChatPage(visits.page("/console/chat", home.ann))
    chat.offer(tool)
    return chat


def told(home: House, conversation: str) -> list[Any]:
    """What the model has read and written, as the ledger has it."""
    return home.asked(f"/v1/conversations/{conversation}")["messages"]


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
    *_, result, budget, answer = told(home, chat.conversation(turn))
    assert (result["role"], result["parts"][0]["content"]) == ("tool", "denied: not before Monday")
    assert (budget["role"], answer["role"]) == ("user", "assistant")


def test_an_edit_that_the_schema_refuses_cannot_be_approved_and_one_that_fits_runs(visits: Visits, home: House) -> None:
    approval = waiting(home, "edited", text="milk", copies=1)
    page = visits.page(f"/console/approvals/{approval}", home.ann)
    page.get_by_role("button", name="Edit…").click()
    copies = page.get_by_role("textbox", name="copies")
    copies.fill("many")
    expect(copies).to_have_attribute("aria-invalid", "true")
    send = page.get_by_role("button", name="Approve with these")
    expect(send).to_be_disabled()
    copies.fill("2.5")
    expect(page.locator(".form-faults", has_text="integer")).to_be_visible()
    expect(send).to_be_disabled()
    page.keyboard.press("Control+Enter")
    assert home.called("note", "edited", text="milk", copies=1)["object"] == "tool.waiting"
    copies.fill("3")
    expect(page.get_by_text("Fits the schema")).to_be_visible()
    send.click()
    expect(page.get_by_role("status").filter(has_text="note")).to_be_visible()
    assert home.called("note", "edited", text="milk", copies=1)["content"] == "noted"
    assert home.lines("noted.txt")[-1] == "milkmilkmilk"


def test_the_keyboard_alone_is_enough_to_approve(visits: Visits, home: House) -> None:
    before = home.lines("noted.txt")
    waiting(home, "by keys", text="bread")
    page = visits.page("/console/")
    page.get_by_label("Key").wait_for()
    page.keyboard.type(home.bob)
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Approvals")).to_contain_text("1")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent").startswith("Approvals"):
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("group", name="Arguments")).to_contain_text("bread")
    # No key decides on what has only just come up.
    page.wait_for_timeout(700)
    page.keyboard.press("a")
    expect(page.get_by_text("Nothing waits.")).to_be_visible()
    for _ in range(2):
        assert home.called("note", "by keys", text="bread")["content"] == "noted"
    assert home.lines("noted.txt") == [*before, "bread"]


def test_a_trace_opens_by_its_permanent_link(visits: Visits, home: House) -> None:
    chat = chat_of(visits, home, "switch")
    turn = chat.say("Switch off the lamp in the attic.")
    turn.get_by_role("button", name="Approve", exact=True).click()
    turn.get_by_role("link", name="Trace").wait_for()
    link = f"/console/traces/{chat.conversation(turn)}"
    # Somebody else's browser: the link outlives the asking for a key.
    page = visits.page(link, home.ann)
    expect(page.get_by_role("heading", level=1)).to_have_text("Switch off the lamp in the attic.")
    assert page.url == home.url + link
    for kind in ("user", "model", "approval", "tool"):
        expect(page.locator(f'.moment[data-kind="{kind}"]').first).to_be_visible()
    expect(page.get_by_role("region", name="The record")).to_contain_text("holds")
    page.locator('.moment[data-kind="tool"] button').first.click()
    expect(page.locator(".opened")).to_contain_text("lamp")
    # One who is no admin sees his own, and this is not.
    theirs = visits.page(link, home.bob)
    expect(theirs.locator(".problem")).to_be_visible()
    visits.faults.clear()


def test_a_description_that_was_poisoned_later_is_held_back_and_shown_harmlessly(visits: Visits, home: House) -> None:
    home.called("mail_turn", "turns")
    home.awaited("/v1/sources", lambda found: "mail_send" in str(found["data"]))
    page = visits.page("/console/tools", home.ann)
    held = page.get_by_role("region", name="Held back: mail_send")
    held.get_by_role("button", name="What changed").click()
    expect(held).to_contain_text("eve@evil.example")
    expect(held).to_contain_text('<img id="poison"')
    expect(held.get_by_title("U+202E right-to-left override").first).to_be_visible()
    check_harmless(page)
    page.get_by_role("link", name="mail_inbox").click()
    expect(page.get_by_title("U+200B zero-width space").first).to_be_visible()
    expect(page.locator(".tool-description")).to_contain_text('<b id="poison">')
    check_harmless(page)


def test_an_argument_full_of_control_characters_is_shown_harmlessly(visits: Visits, home: House) -> None:
    text = f'<b id="poison">{HIDDEN}</b>'
    approval = waiting(home, "hidden", text=text)
    page = visits.page(f"/console/approvals/{approval}", home.ann)
    arguments = page.get_by_role("group", name="Arguments")
    expect(arguments).to_contain_text('<b id="poison">')
    shown = arguments.inner_text()
    assert [code for code in codes(HIDDEN) if code not in shown] == []
    expect(page.locator(".warning")).to_contain_text("hidden characters are in the arguments")
    check_harmless(page)
    page.get_by_role("link", name="the conversation").click()
    page.locator('.moment[data-kind="approval"] button').first.click()
    expect(page.locator(".opened .hidden-mark").first).to_be_visible()
    check_harmless(page)


def waiting(home: House, call_id: str, **arguments: Any) -> str:
    """The approval of a program's call of `note`."""
    return home.called("note", call_id, **arguments)["approval"]["id"]


def codes(text: str) -> list[str]:
    return [f"U+{ord(one):04X}" for one in text if UNSEEN.match(one)]


def check_harmless(page: Page) -> None:
    """No element was made of somebody's text, nothing of it ran, and no character of it is where it cannot be seen."""
    assert page.locator("#poison").count() == 0
    assert page.title() != "poisoned"
    assert UNSEEN.findall(page.evaluate("document.documentElement.outerHTML")) == []
