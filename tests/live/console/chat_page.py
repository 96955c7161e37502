"""The chat as a person uses it: a tool is picked, something is said, the answer is waited for."""

from __future__ import annotations

from dataclasses import dataclass

from playwright.sync_api import Locator, Page, expect


@dataclass(frozen=True, slots=True)
class ChatPage:
    page: Page

    def offer(self, tool: str) -> None:
        """This tool and no other, and the model must call it."""
        self.page.get_by_role("button", name="Tools:").click()
        picker = self.page.get_by_role("dialog")
        picker.get_by_role("button", name="None").click()
        picker.locator(".tool-choice", has=self.page.get_by_text(tool, exact=True)).get_by_role("checkbox").check()
        picker.get_by_role("button", name="Done").click()
        self.page.get_by_label("Must call").check()

    def say(self, text: str) -> Locator:
        """The turn that it begins."""
        self.page.get_by_label("Message").fill(text)
        # Not before it is known whom to ask.
        expect(self.page.get_by_role("button", name="Send")).to_be_enabled()
        self.page.keyboard.press("Enter")
        return self.page.locator(".turn").last

    def conversation(self, turn: Locator) -> str:
        """The id in the ledger, of a turn that is over."""
        link = turn.locator(".turn-foot a")
        return (link.get_attribute("href") or "").rsplit("/", 1)[-1]
