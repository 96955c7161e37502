"""Takes screenshots of every console page, light and dark, wide and narrow. Run it with scripts/console-screenshots."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from playwright.sync_api import Browser, Page, expect

from ferrule.cli.function_option import read_functions
from ferrule.core.tool import ToolDefinition
from live.console.browser import Scheme, WatchedPages, chromium
from live.console.chat_page import ChatPage
from live.console.gateway_fixture import ConsoleGateway, GatewaySetup, start_gateway
from live.console.screenshot_data import (
    EXTRA_CONFIG,
    FUNCTIONS,
    PENDING_CALLS,
    TOOL_CALLS,
    TRACE,
    write_conversations,
    write_keys,
    write_profile,
)
from live.console.small_png import small_png

OUT = Path(__file__).parents[3] / "docs" / "images" / "console"
WIDTHS = {"wide": 1280, "narrow": 360}
_MAIL = Path(__file__).with_name("screenshot_mail_server.py")
_EXPECTED = frozenset({"get_weather", "switch", "mail_inbox"})


def _sign_in(page: Page, gateway: ConsoleGateway) -> None:
    page.get_by_label("Key").wait_for()


def _chat(page: Page, gateway: ConsoleGateway) -> None:
    chat = ChatPage(page)
    chat.offer("get_weather")
    turn = chat.send("What is the weather in Bern?")
    turn.get_by_role("button", name="Receipt:").click()
    turn.locator(".turn-footer").wait_for()
    page.locator(".transcript").evaluate("(element) => { element.scrollTop = 0; }")
    page.wait_for_timeout(300)


def _approval_prompt(page: Page, gateway: ConsoleGateway) -> None:
    chat = ChatPage(page)
    chat.offer("switch")
    chat.send("Switch on the lamp in the hall.").locator(".approval-prompt").wait_for()
    page.wait_for_timeout(300)


def _approval(page: Page, gateway: ConsoleGateway) -> None:
    page.get_by_role("link", name="pay").first.click()
    page.locator(".decision-bar").wait_for()


def _edit(page: Page, gateway: ConsoleGateway) -> None:
    page.get_by_role("link", name="book_table").first.click()
    page.get_by_role("button", name="Edit…").click()
    page.get_by_role("textbox", name="guests").fill("14")
    page.locator(".form-faults", has_text="12").wait_for()


def _quarantined(page: Page, gateway: ConsoleGateway) -> None:
    page.get_by_role("region", name="Quarantined: mail_send").get_by_role("button", name="Show changes").click()


def _trace(page: Page, gateway: ConsoleGateway) -> None:
    page.locator(".entry").first.wait_for()


def _failed_trace(page: Page, gateway: ConsoleGateway) -> None:
    page.locator('[data-status="failed"]').first.wait_for()


def _traces(page: Page, gateway: ConsoleGateway) -> None:
    page.locator(".trace-link").first.wait_for()


def _tool(page: Page, gateway: ConsoleGateway) -> None:
    page.locator(".chip").first.wait_for()


def _engines(page: Page, gateway: ConsoleGateway) -> None:
    """Send requests for a minute, so that there is something to plot. Some are for the engine that is down."""
    page.locator(".metric-grid").wait_for()
    for number in range(20):
        messages = [{"role": "user", "content": "Say something about the sea."}]
        body = {
            "model": ("smol", "qwen3-8b")[number % 5 == 3],
            "messages": messages,
            "max_tokens": 8 + 5 * (number % 6),
        }
        gateway.request("/v1/chat/completions", {**body, "ferrule": {"tools": "none"}})
        page.wait_for_timeout(1500)
    page.wait_for_timeout(6000)


def _keys(page: Page, gateway: ConsoleGateway) -> None:
    """Wait until the last use of a key has been written, which happens every ten seconds."""
    gateway.wait_for("/v1/keys", lambda keys: any(key["last_used_at"] for key in keys["data"]))
    page.get_by_role("button", name="Refresh").click()
    page.locator(".key-table time", has_text="ago").first.wait_for()
    page.wait_for_timeout(300)


def _key_issued(page: Page, gateway: ConsoleGateway) -> None:
    page.get_by_role("button", name="Create a key").click()
    page.get_by_label("Name").fill("newsletter")
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Copy the key now").wait_for()


def _limits(page: Page, gateway: ConsoleGateway) -> None:
    """Call a tool until one of the quotas is nearly used up."""
    quotas = {one["name"]: one for one in gateway.request("/v1/me")["quotas"]}
    for number in range(int(quotas["tool-calls"]["used"]), TOOL_CALLS - 5):
        gateway.call_tool("get_weather", f"forecast-{number}", city="Bern")
    page.get_by_role("button", name="Refresh").click()
    page.locator(".quota .warn").first.wait_for()


def _usage(page: Page, gateway: ConsoleGateway) -> None:
    page.locator("canvas").first.wait_for()
    page.wait_for_timeout(500)


Prepare = Callable[[Page, ConsoleGateway], None]
# The chat comes last, because its conversations and approvals would appear on the other pages.
SCREENSHOTS: dict[str, tuple[str, Prepare]] = {
    "sign-in": ("/console/", _sign_in),
    "approvals": ("/console/approvals", _approval),
    "edit": ("/console/approvals", _edit),
    "traces": ("/console/traces", _traces),
    "trace": (f"/console/traces/{TRACE}", _trace),
    "failed-trace": ("/console/traces/trace_a1", _failed_trace),
    "tools": ("/console/tools", _quarantined),
    "tool": ("/console/tools/book_table", _tool),
    "usage": ("/console/tools?view=usage", _usage),
    "engines": ("/console/engines", _engines),
    "keys": ("/console/keys", _keys),
    "key-issued": ("/console/keys", _key_issued),
    "limits": ("/console/limits", _limits),
    "chat": ("/console/chat", _chat),
    "approval-prompt": ("/console/chat", _approval_prompt),
}
FULL_HEIGHT = {"engines"}
"""Pages whose wide screenshot has their full height, because the lower half matters too."""


@contextmanager
def prepared_gateway(folder: Path) -> Generator[ConsoleGateway]:
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    write_profile()
    (folder / "own_tools.py").write_text(FUNCTIONS)
    definitions = tuple(_definition(function) for function in read_functions(f"{folder / 'own_tools.py'}:TOOLS"))
    asyncio.run(write_conversations(folder / "ledger.db", definitions))
    setup = GatewaySetup(
        functions=FUNCTIONS, servers=_servers("before"), expected=_EXPECTED | {"mail_send"}, rounds=3, more=EXTRA_CONFIG
    )
    with start_gateway(folder, setup):
        pass  # The first start pins the server's tool definitions.
    with start_gateway(folder, replace(setup, servers=_servers("after"), expected=_EXPECTED)) as running:
        # The model is loaded with its first request; before that, its constraints are unknown.
        hello = {"model": "smol", "messages": [{"role": "user", "content": "Hello."}], "max_tokens": 4}
        running.request("/v1/chat/completions", {**hello, "ferrule": {"tools": "none"}})
        for name, arguments in PENDING_CALLS:
            running.request(
                "/v1/tools/call", {"name": name, "arguments": arguments, "call_id": f"{name}-1"}, running.bob
            )
        write_keys(running.request)
        yield running


def _definition(function: Any) -> ToolDefinition:
    return function if isinstance(function, ToolDefinition) else function.definition


def _servers(state: str) -> dict[str, Any]:
    return {"mail": {"command": sys.executable, "args": [str(_MAIL)], "env": {"MAIL": state}, "trusted": True}}


def take(browser: Browser, gateway: ConsoleGateway, out: Path, names: list[str]) -> None:
    for name in names or SCREENSHOTS:
        path, prepare = SCREENSHOTS[name]
        for width_name, width in WIDTHS.items():
            pages = WatchedPages(browser, gateway.url)
            page = pages.page(path, "" if name == "sign-in" else gateway.ann, width=width)
            prepare(page, gateway)
            if name in FULL_HEIGHT and width > WIDTHS["narrow"]:
                page.set_viewport_size(
                    {"width": width, "height": page.evaluate("document.documentElement.scrollHeight")}
                )
            for scheme in get_args(Scheme):
                page.emulate_media(color_scheme=scheme)
                page.wait_for_timeout(300)
                file = out / f"{name}-{width_name}-{scheme}.png"
                file.write_bytes(small_png(page.screenshot(animations="disabled", caret="hide")))
                print(f"{file.stat().st_size / 1000:6.1f} kB  {file.name}", flush=True)
            pages.close()
            assert not pages.errors, pages.errors


def main() -> None:
    out, names = (Path(sys.argv[1]) if len(sys.argv) > 1 else OUT), sys.argv[2:]
    out.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=60_000)
    with tempfile.TemporaryDirectory() as folder, prepared_gateway(Path(folder)) as gateway, chromium() as browser:
        take(browser, gateway, out, names)


if __name__ == "__main__":
    main()
