"""Takes the console's pictures: every page, light and dark, wide and narrow; scripts/console-screenshots runs it."""

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
from live.console.browser import Scheme, Visits, chromium
from live.console.chat_page import ChatPage
from live.console.house import House, World, house
from live.console.picture_world import FUNCTIONS, MORE, TRACE, WAITING, write_past, write_profile
from live.console.small_png import small_png

OUT = Path(__file__).parents[3] / "docs" / "images" / "console"
WIDTHS = {"wide": 1280, "narrow": 360}
_MAIL = Path(__file__).with_name("picture_mail.py")
_EXPECTED = frozenset({"get_weather", "switch", "mail_inbox"})


def _door(page: Page, home: House) -> None:
    page.get_by_label("Key").wait_for()


def _chat(page: Page, home: House) -> None:
    chat = ChatPage(page)
    chat.offer("get_weather")
    turn = chat.say("What is the weather in Bern?")
    turn.get_by_role("button", name="Receipt:").click()
    turn.locator(".turn-foot").wait_for()
    page.locator(".transcript").evaluate("(one) => { one.scrollTop = 0; }")
    page.wait_for_timeout(300)


def _leave(page: Page, home: House) -> None:
    chat = ChatPage(page)
    chat.offer("switch")
    chat.say("Switch on the lamp in the hall.").locator(".leave").wait_for()
    page.wait_for_timeout(300)


def _approval(page: Page, home: House) -> None:
    page.get_by_role("link", name="pay").first.click()
    page.locator(".decide").wait_for()


def _edit(page: Page, home: House) -> None:
    page.get_by_role("link", name="book_table").first.click()
    page.get_by_role("button", name="Edit…").click()
    page.get_by_role("textbox", name="guests").fill("14")
    page.locator(".form-faults", has_text="12").wait_for()


def _held(page: Page, home: House) -> None:
    page.get_by_role("region", name="Held back: mail_send").get_by_role("button", name="What changed").click()


def _trace(page: Page, home: House) -> None:
    page.locator(".moment").first.wait_for()


def _listed(page: Page, home: House) -> None:
    page.locator(".trace-link").first.wait_for()


def _tool(page: Page, home: House) -> None:
    page.locator(".chip").first.wait_for()


def _engines(page: Page, home: House) -> None:
    """With something to plot: a minute of questions, of which some are for the engine that is down."""
    page.locator(".live-grid").wait_for()
    for number in range(20):
        words = [{"role": "user", "content": "Say something about the sea."}]
        body = {"model": ("smol", "qwen3-8b")[number % 5 == 3], "messages": words, "max_tokens": 8 + 5 * (number % 6)}
        home.asked("/v1/chat/completions", {**body, "ferrule": {"tools": "none"}})
        page.wait_for_timeout(1500)
    page.wait_for_timeout(6000)


def _plots(page: Page, home: House) -> None:
    page.locator("canvas").first.wait_for()
    page.wait_for_timeout(500)


Prepare = Callable[[Page, House], None]
# The chat comes last: what it asks for is seen on the other pages.
PICTURES: dict[str, tuple[str, Prepare]] = {
    "door": ("/console/", _door),
    "approvals": ("/console/approvals", _approval),
    "edit": ("/console/approvals", _edit),
    "traces": ("/console/traces", _listed),
    "trace": (f"/console/traces/{TRACE}", _trace),
    "tools": ("/console/tools", _held),
    "tool": ("/console/tools/book_table", _tool),
    "picked": ("/console/tools?view=picked", _plots),
    "engines": ("/console/engines", _engines),
    "chat": ("/console/chat", _chat),
    "leave": ("/console/chat", _leave),
}
WHOLE = {"engines"}
"""Taken as high as they are, where there is room: the lower half shows something else."""


@contextmanager
def gateway(folder: Path) -> Generator[House]:
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    write_profile()
    (folder / "own_tools.py").write_text(FUNCTIONS)
    definitions = tuple(_definition(one) for one in read_functions(f"{folder / 'own_tools.py'}:TOOLS"))
    asyncio.run(write_past(folder / "ledger.db", definitions))
    world = World(
        functions=FUNCTIONS, servers=_servers("before"), expected=_EXPECTED | {"mail_send"}, rounds=3, more=MORE
    )
    with house(folder, world):
        pass  # so that what the server says of itself is agreed to
    with house(folder, replace(world, servers=_servers("after"), expected=_EXPECTED)) as made:
        # A model that nobody has asked yet is not loaded, and nothing is known of how it can be held.
        hello = {"model": "smol", "messages": [{"role": "user", "content": "Hello."}], "max_tokens": 4}
        made.asked("/v1/chat/completions", {**hello, "ferrule": {"tools": "none"}})
        for name, arguments in WAITING:
            made.asked("/v1/tools/call", {"name": name, "arguments": arguments, "call_id": f"{name}-1"}, made.bob)
        yield made


def _definition(one: Any) -> ToolDefinition:
    return one if isinstance(one, ToolDefinition) else one.definition


def _servers(state: str) -> dict[str, Any]:
    return {"mail": {"command": sys.executable, "args": [str(_MAIL)], "env": {"MAIL": state}, "trusted": True}}


def take(browser: Browser, home: House, out: Path, names: list[str]) -> None:
    for name in names or PICTURES:
        path, prepare = PICTURES[name]
        for width_name, width in WIDTHS.items():
            visits = Visits(browser, home.url)
            page = visits.page(path, "" if name == "door" else home.ann, width=width)
            prepare(page, home)
            if name in WHOLE and width > WIDTHS["narrow"]:
                page.set_viewport_size(
                    {"width": width, "height": page.evaluate("document.documentElement.scrollHeight")}
                )
            for scheme in get_args(Scheme):
                page.emulate_media(color_scheme=scheme)
                page.wait_for_timeout(300)
                file = out / f"{name}-{width_name}-{scheme}.png"
                file.write_bytes(small_png(page.screenshot(animations="disabled", caret="hide")))
                print(f"{file.stat().st_size / 1000:6.1f} kB  {file.name}", flush=True)
            visits.close()
            assert not visits.faults, visits.faults


def main() -> None:
    out, names = (Path(sys.argv[1]) if len(sys.argv) > 1 else OUT), sys.argv[2:]
    out.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=60_000)
    with tempfile.TemporaryDirectory() as folder, gateway(Path(folder)) as home, chromium() as browser:
        take(browser, home, out, names)


if __name__ == "__main__":
    main()
