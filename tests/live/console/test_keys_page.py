"""The pages for keys and quotas, with keys in a SQLite ledger, and what every page says before there is data."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from live.console.browser import Scheme, WatchedPages, serious_violations, watch_pages
from server.gateway_process import ANN, EVE, GatewayProcess, gateway_process, gateway_with_config

pytestmark = pytest.mark.live
_TOOLS = '''
from ferrule import tool


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return "sunny"


@tool
def search_notes(words: str) -> str:
    """Finds notes."""
    return "none"


TOOLS = [get_weather, search_notes]
'''
_QUOTAS = f"""
[quotas.requests-of-a-key]
counts = "requests"
most = 4
per = "day"
keys = ["{ANN}"]

[quotas.spending]
counts = "money"
most = 12.5
per = "day"
each = "tenant"
tenants = ["{ANN}"]
"""
HOSTILE = """<img id="poison" src=x onerror="document.title='poisoned'">"""
CHAT = {"model": "e0", "messages": [{"role": "user", "content": "Hi"}]}
_ACCESSIBLE_NAME = """() => {
    const focused = document.activeElement;
    return focused.getAttribute("aria-label") ?? focused.labels?.[0]?.textContent ?? focused.textContent;
}"""
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("keys")
    (folder / "own.py").write_text(_TOOLS)
    with gateway_process(folder, folder / "own.py", more=_QUOTAS) as gateway:
        yield gateway


@pytest.fixture
def pages(browser: Browser, gateway: GatewayProcess) -> Iterator[WatchedPages]:
    with watch_pages(browser, gateway.url) as pages:
        yield pages


def create(gateway: GatewayProcess, name: str, **body: Any) -> Any:
    status, issued = gateway.request("POST", "/v1/keys", {"name": name, **body})
    assert status == 201, issued
    return issued


def tab_to(page: Page, name: str, key: str = "Tab") -> None:
    """Press Tab until the element with this name has the focus."""
    for _ in range(80):
        page.keyboard.press(key)
        if page.evaluate(_ACCESSIBLE_NAME).startswith(name):
            return
    raise AssertionError(f"{name!r} cannot be reached with {key}")


def press(page: Page, name: str) -> None:
    tab_to(page, name)
    page.keyboard.press("Enter")


def copied_key(page: Page) -> str:
    """Copy the key that is shown, with the button that has the focus, and close the dialog."""
    dialog = page.get_by_role("dialog", name="Copy the key now")
    expect(dialog).to_contain_text("It cannot be shown again")
    expect(dialog.get_by_role("button", name="Copy the key")).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("status")).to_have_text("Copied.")
    text = page.evaluate("navigator.clipboard.readText()")
    assert text == dialog.get_by_label("Key").input_value()
    press(page, "Done")
    expect(dialog).to_have_count(0)
    return text


def row_of(page: Page, id: str) -> Locator:
    return page.locator(".key-table tbody tr", has_text=id)


def test_a_key_is_created_rotated_and_revoked_by_keyboard_alone(pages: WatchedPages, gateway: GatewayProcess) -> None:
    page = pages.page("/console/")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_label("Key").wait_for()
    page.keyboard.type(ANN)
    page.keyboard.press("Enter")
    page.get_by_role("navigation", name="Pages").wait_for()
    press(page, "Keys")
    expect(page.get_by_role("heading", level=1)).to_have_text("Keys")

    press(page, "Create a key")
    expect(page.get_by_label("Name")).to_be_focused()
    page.keyboard.type(HOSTILE)
    tab_to(page, "Tools")
    page.keyboard.type("get_*")
    page.keyboard.press("Enter")
    old_text = copied_key(page)
    expect(page.get_by_role("status").filter(has_text="was created")).to_contain_text(HOSTILE)
    (old,) = [one for one in gateway.request("GET", "/v1/keys")[1]["data"] if one["name"] == HOSTILE]
    assert (old["tools"], old["admin"], old["approve"]) == (["get_*"], False, False)
    assert old["expires_at"] is not None
    tools = gateway.request("GET", "/v1/tools", who=old_text)[1]["data"]
    assert [one["name"] for one in tools] == ["get_weather"]
    expect(row_of(page, old["id"])).to_contain_text(HOSTILE)
    expect(row_of(page, old["id"])).to_contain_text("active")

    press(page, f"Rotate {HOSTILE}, {old['id']}")
    expect(page.get_by_label("Overlap")).to_be_focused()
    press(page, "Rotate")
    new_text = copied_key(page)
    assert new_text != old_text
    new_id = gateway.request("GET", f"/v1/keys/{old['id']}")[1]["replaced_by"]
    expect(row_of(page, old["id"])).to_contain_text("replaced")
    for text in (old_text, new_text):
        assert gateway.request("GET", "/v1/me", who=text)[0] == 200

    press(page, f"Revoke {HOSTILE}, {new_id}")
    dialog = page.get_by_role("dialog", name="Revoke")
    expect(dialog).to_contain_text("This ends:")
    expect(dialog).to_contain_text("Another key")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    tab_to(page, "Revoke the key", "Shift+Tab")
    page.keyboard.press("Enter")
    expect(row_of(page, new_id)).to_contain_text("revoked")
    assert page.evaluate("document.activeElement !== document.body"), "the focus is still in the page"
    refused = gateway.request("GET", "/v1/me", who=new_text)
    assert (refused[0], refused[1]["error"]["code"]) == (401, "key_revoked")
    assert gateway.request("GET", "/v1/me", who=old_text)[0] == 200

    # The name stayed text, and the page has kept neither key.
    assert page.locator("#poison").count() == 0
    assert "poisoned" not in page.title()
    html = page.evaluate("document.documentElement.outerHTML")
    assert old_text not in html
    assert new_text not in html
    assert [url for url in pages.urls if old_text in url or new_text in url] == []


def test_a_revocation_can_be_cancelled_and_a_key_that_was_not_copied_is_not_closed_at_once(
    pages: WatchedPages, gateway: GatewayProcess
) -> None:
    kept = create(gateway, "kept")
    page = pages.page("/console/keys", ANN)
    page.get_by_role("button", name=f"Revoke kept, {kept['id']}").click()
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert gateway.request("GET", "/v1/me", who=kept["key"])[0] == 200

    page.get_by_role("button", name="Create a key").click()
    expect(page.get_by_label("Name")).to_be_focused()
    page.keyboard.type("uncopied")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Copy the key now")
    dialog.wait_for()
    page.keyboard.press("Escape")
    expect(dialog.get_by_role("alert")).to_contain_text("You have not copied the key")
    expect(dialog.get_by_label("Key")).to_have_value(re.compile("fk_"))
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("row", name="uncopied")).to_be_visible()


def test_without_a_clipboard_the_key_is_selected_and_copied_by_hand(
    pages: WatchedPages, gateway: GatewayProcess
) -> None:
    # As in browsers on a page that has come over HTTP from another machine.
    script = 'Object.defineProperty(Navigator.prototype, "clipboard", { value: undefined });'
    page = pages.page("/console/keys", ANN, script=script)
    page.get_by_role("button", name="Create a key").click()
    expect(page.get_by_label("Name")).to_be_focused()
    page.keyboard.type("by hand")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Copy the key now")
    dialog.get_by_role("button", name="Copy the key").click()
    expect(dialog.get_by_role("status")).to_contain_text("Ctrl+C")
    key = dialog.get_by_label("Key").input_value()
    assert page.evaluate("document.activeElement.selectionEnd - document.activeElement.selectionStart") == len(key)
    page.keyboard.press("Control+c")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_refused_key_keeps_the_form_and_says_why(pages: WatchedPages, gateway: GatewayProcess) -> None:
    page = pages.page("/console/keys", ANN)
    page.get_by_role("button", name="Create a key").click()
    page.get_by_label("Name").fill("too strong")
    page.get_by_label("Sources").fill("\u202e")
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("is not a pattern")
    expect(page.get_by_label("Name")).to_have_value("too strong")
    assert "too strong" not in str(gateway.request("GET", "/v1/keys")[1])
    pages.errors.clear()


def test_a_key_without_the_admin_right_reads_why_and_what_to_do(pages: WatchedPages, gateway: GatewayProcess) -> None:
    plain = create(gateway, "plain")
    page = pages.page("/console/keys", plain["key"])
    expect(page.get_by_text("Your key cannot manage keys")).to_be_visible()
    expect(page.get_by_text("Ask an admin")).to_be_visible()
    expect(page.get_by_role("navigation", name="Pages").get_by_role("link", name="Keys")).to_have_count(0)
    assert serious_violations(page) == []


def test_an_admin_whose_own_key_is_revoked_is_asked_for_another_one(
    pages: WatchedPages, gateway: GatewayProcess
) -> None:
    own = create(gateway, "leaving", admin=True)
    page = pages.page("/console/keys", own["key"])
    page.get_by_role("button", name=f"Revoke leaving, {own['id']}").click()
    expect(page.get_by_role("dialog")).to_contain_text("This key has your name")
    page.get_by_role("button", name="Revoke the key").click()
    expect(page.get_by_role("alert")).to_contain_text("was revoked")
    expect(page.get_by_label("Key")).to_be_visible()


def test_the_first_key_of_a_gateway_without_keys_is_an_admins_and_the_page_continues_with_it(
    browser: Browser, tmp_path: Path
) -> None:
    text = '[engines.e0]\nuse = "fake:Hello."\n[server]\nport = 0\n'
    with gateway_with_config(tmp_path, text) as gateway, watch_pages(browser, gateway.url) as pages:
        page = pages.page("/console/keys")
        expect(page.get_by_text("This gateway needs no key yet")).to_be_visible()
        expect(page.get_by_text("The ledger of this gateway is temporary")).to_be_visible()
        assert serious_violations(page) == []
        page.get_by_role("button", name="Create a key").click()
        expect(page.get_by_label("Name")).to_be_focused()
        page.keyboard.type("ann")
        expect(page.get_by_role("dialog").get_by_label("admin")).to_be_checked()
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name="Copy the key now")
        key = dialog.get_by_label("Key").input_value()
        assert gateway.request("GET", "/v1/keys", who="")[0] == 401
        dialog.get_by_role("button", name="Sign in with it").click()
        expect(dialog.get_by_role("status")).to_contain_text("now uses the key")
        # Copied by hand, as on a page that may not use the clipboard.
        dialog.get_by_label("Key").focus()
        page.keyboard.press("Control+c")
        dialog.get_by_role("button", name="Done").click()
        expect(page.get_by_role("row", name="ann")).to_contain_text("active")
        expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        assert gateway.request("GET", "/v1/me", who=key)[1]["name"] == "ann"
        # What was in flight when the gateway began to require a key.
        pages.errors = [one for one in pages.errors if "401" not in one]


def test_quotas_show_what_is_used_and_when_they_begin_again(pages: WatchedPages, gateway: GatewayProcess) -> None:
    page = pages.page("/console/limits", ANN)
    requests = page.get_by_role("listitem").filter(has_text="requests-of-a-key")
    expect(requests).to_contain_text("0 of 4 requests used")
    expect(requests).to_contain_text(re.compile(r"resets in \d+ (h|min|s)"))
    expect(requests).to_contain_text("requests per day, counted for your key alone")
    expect(page.get_by_role("listitem").filter(has_text="spending")).to_contain_text("0 of 12.5 used")
    for _ in range(4):
        assert gateway.request("POST", "/v1/chat/completions", CHAT)[0] == 200
    assert gateway.request("POST", "/v1/chat/completions", CHAT)[0] == 429
    page.get_by_role("button", name="Refresh").focus()
    page.keyboard.press("Enter")
    expect(requests).to_contain_text("4 of 4 requests used · 0 left")
    expect(requests).to_contain_text("used up")
    bar = requests.locator(".quota-bar")
    fill = requests.locator(".quota-fill")
    assert fill.evaluate("(one) => one.offsetWidth") == bar.evaluate("(one) => one.clientWidth")


def test_a_key_without_quotas_reads_how_to_set_one(pages: WatchedPages) -> None:
    page = pages.page("/console/limits", EVE)
    expect(page.get_by_text("No quota limits your key")).to_be_visible()
    expect(page.get_by_text("[quotas.tokens-of-a-key]")).to_be_visible()
    assert serious_violations(page) == []


@pytest.mark.parametrize("scheme", get_args(Scheme))
@pytest.mark.parametrize("width", [1280, 360])
def test_axe_finds_nothing_serious_and_nothing_is_wider_than_the_screen(
    pages: WatchedPages, gateway: GatewayProcess, scheme: Scheme, width: int
) -> None:
    create(gateway, "reports of the night shift", tools=["get_*", "search_notes"], models=["e0"], expires_in=86_400)
    page = pages.page("/console/limits", ANN, scheme=scheme, width=width)
    page.locator(".quota").first.wait_for()
    _check(page, f"limits-{width}-{scheme}")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Keys").click()
    page.locator(".key-table").wait_for()
    _check(page, f"keys-{width}-{scheme}")
    page.get_by_role("button", name="Create a key").click()
    expect(page.get_by_label("Name")).to_be_focused()
    _check(page, f"create-{width}-{scheme}")
    page.keyboard.type(f"{scheme} {width}")
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Copy the key now").wait_for()
    page.keyboard.press("Escape")
    _check(page, f"issued-{width}-{scheme}")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Rotate").first.click()
    _check(page, f"rotate-{width}-{scheme}")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Revoke").first.click()
    _check(page, f"revoke-{width}-{scheme}")


def test_pages_without_data_say_what_to_do_next(browser: Browser, tmp_path: Path) -> None:
    text = '[engines.e0]\nuse = "fake:Hello."\n[server]\nport = 0\n'
    hints = {
        "chat": "Ask for something",
        "approvals": "@tool(side_effects=True)",
        "approvals?tab=decided": "What you approve or deny under Pending",
        "traces": "Start one in the chat",
        "tools": "--tools tools.py:TOOLS",
        "tools?view=usage": "Start a chat",
        "keys": "Begin with an admin's key",
        "limits": "add it to ferrule.toml",
    }
    with gateway_with_config(tmp_path, text) as gateway, watch_pages(browser, gateway.url) as pages:
        for path, hint in hints.items():
            page = pages.page(f"/console/{path}")
            expect(page.locator("main")).to_contain_text(hint)
            assert serious_violations(page) == [], path


def _check(page: Page, name: str) -> None:
    assert serious_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    folder = os.environ.get("FERRULE_PICTURES")
    if folder:
        page.screenshot(path=f"{folder}/{name}.png", animations="disabled")
