"""An approver's whole path in a real browser, with a key that may do nothing but approve, while the caller is gone."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from ferrule.cli.keys import hash_of, new_key
from lab.gateway_process import gateway_process
from lab.scripted_chat_server import TEXT, scripted_chat_server
from live.console.browser import WatchedPages, serious_violations, watch_pages
from waiting import PATIENCE

pytestmark = pytest.mark.live
expect.set_options(timeout=60_000)
_TOOLS = """
from pathlib import Path

from ferrule import tool


@tool(side_effects=True)
def send_letter(name: str, text: str) -> str:
    \"\"\"Sends a letter.\"\"\"
    with Path("sent.txt").open("a") as file:
        file.write(f"{name}: {text}\\n")
    return "sent"


TOOLS = [send_letter]
"""
_CONFIG = """
[server]
ledger = "ledger.db"
drain_seconds = 1

[engines.scripted]
use = "openai:smol?url={url}/v1&key=none"

[sources]
functions = ["own_tools.py:TOOLS"]

[approvals.second_person]
tools = ["send_letter"]
four_eyes = true

[[keys]]
name = "caller"
sha256 = "{caller}"
tools = ["*"]

[[keys]]
name = "approver"
sha256 = "{approver}"
models = []
approve = true
rate = 30
"""


@dataclass(frozen=True, slots=True)
class LetterGateway:
    url: str
    folder: Path
    caller: str
    approver: str

    def request(self, path: str, body: Any = None) -> Any:
        """Ask as the caller."""
        headers = {"authorization": f"Bearer {self.caller}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers), timeout=60) as response:
            return json.load(response)

    def ask(self, text: str) -> str:
        """Ask, and go away. Return the conversation that waits."""
        answer = self.request("/v1/chat/completions", {"messages": [{"role": "user", "content": text}]})
        return next(one["waiting"]["conversation"] for one in answer["ferrule"]["events"] if "waiting" in one)

    def result(self, conversation: str) -> Any:
        until = time.monotonic() + PATIENCE
        while (view := self.request(f"/v1/conversations/{conversation}/result"))["status"] != "completed":
            assert time.monotonic() < until, view
            time.sleep(0.1)
        return view

    def sent(self) -> list[str]:
        path = self.folder / "sent.txt"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@contextmanager
def start_gateway(folder: Path) -> Generator[LetterGateway]:
    caller, approver = new_key(), new_key()
    (folder / "own_tools.py").write_text(_TOOLS)
    with scripted_chat_server() as url:
        config = _CONFIG.format(url=url, caller=hash_of(caller), approver=hash_of(approver))
        (folder / "ferrule.toml").write_text(config)
        with gateway_process(engine=None, prefix=["env", "-C", str(folder)]) as process:
            yield LetterGateway(process.url, folder, caller, approver)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LetterGateway]:
    with start_gateway(tmp_path_factory.mktemp("approver")) as gateway:
        yield gateway


@pytest.fixture
def pages(browser: Browser, gateway: LetterGateway) -> Iterator[WatchedPages]:
    with watch_pages(browser, gateway.url) as pages:
        yield pages


def open_approvals(pages: WatchedPages, gateway: LetterGateway) -> Page:
    page = pages.page("/console/approvals", gateway.approver)
    expect(page.get_by_role("heading", name="Approvals")).to_be_visible()
    return page


def test_an_approver_sees_what_was_asked_decides_and_the_caller_gets_the_answer(
    pages: WatchedPages, gateway: LetterGateway, tmp_path: Path
) -> None:
    page = open_approvals(pages, gateway)
    expect(page.get_by_text("Nothing is waiting for approval")).to_be_visible()
    # It appears by itself.
    conversation = gateway.ask("Write to Rome\u202e, politely.")
    row = page.get_by_role("list", name="Calls waiting for approval").get_by_role("link")
    expect(row).to_contain_text("send_letter")
    asked = page.get_by_role("region", name="What was asked")
    expect(asked).to_contain_text("Write to Rome\\u202e, politely.")
    expect(page.get_by_role("group", name="Arguments")).to_contain_text("hello")
    assert serious_violations(page) == []
    page.screenshot(path=tmp_path / "approval.png")
    # The conversation of what waits is open to the approver.
    page.get_by_role("link", name="conversation").click()
    expect(page.get_by_role("main")).to_contain_text("send_letter")
    page.go_back()
    page.get_by_role("button", name="Approve", exact=False).first.click()
    expect(page.get_by_role("status").filter(has_text="Approved")).to_be_visible()
    expect(page.get_by_text("Nothing is waiting for approval")).to_be_visible()
    result = gateway.result(conversation)
    assert (result["text"], result["calls"][0]["content"]) == (TEXT, "sent")
    assert gateway.sent() == ["Rome: hello"]


def test_several_are_filtered_ticked_and_denied_together(pages: WatchedPages, gateway: LetterGateway) -> None:
    before = gateway.sent()
    conversations = [gateway.ask(f"Letter {number}.") for number in range(3)]
    page = open_approvals(pages, gateway)
    ticks = page.get_by_role("checkbox")
    expect(ticks).to_have_count(3)
    page.get_by_role("searchbox", name="Filter approvals").fill("nothing like this")
    expect(page.get_by_text("None of them matches the filter.")).to_be_visible()
    page.get_by_role("searchbox", name="Filter approvals").fill("LETTER")
    for number in range(3):
        ticks.nth(number).check()
    page.get_by_role("button", name="Deny 3").click()
    expect(page.get_by_role("status").filter(has_text="Denied 3 of 3")).to_be_visible()
    expect(ticks).to_have_count(0)
    for conversation in conversations:
        assert gateway.result(conversation)["calls"][0]["content"] == "denied by the user"
    assert gateway.sent() == before


def test_watching_costs_the_key_one_request_however_long_it_lasts(pages: WatchedPages, gateway: LetterGateway) -> None:
    page = open_approvals(pages, gateway)
    expect(page.get_by_text("Nothing is waiting for approval")).to_be_visible()
    page.wait_for_timeout(6_000)
    polls = [url for url in pages.urls if url.endswith("/v1/approvals/events") or "/v1/approvals?" in url]
    assert [url.rpartition("/v1")[2] for url in polls] == ["/approvals/events"]
