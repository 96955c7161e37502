"""Uses the chat page like a person: selects tools and sends messages."""

from __future__ import annotations

from dataclasses import dataclass

from playwright.sync_api import Locator, Page, expect


@dataclass(frozen=True, slots=True)
class ChatPage:
    page: Page

    def offer(self, tool: str) -> None:
        """Offer only this tool, and require a call of it."""
        self.page.get_by_role("button", name="Tools:").click()
        picker = self.page.get_by_role("dialog")
        picker.get_by_role("button", name="None").click()
        picker.locator(".tool-choice", has=self.page.get_by_text(tool, exact=True)).get_by_role("checkbox").check()
        picker.get_by_role("button", name="Done").click()
        self.page.get_by_label("Require a call").check()

    def send(self, text: str) -> Locator:
        """Send a message and return its turn."""
        self.page.get_by_label("Message").fill(text)
        # Sending works only after the list of models has been loaded.
        expect(self.page.get_by_role("button", name="Send")).to_be_enabled()
        self.page.keyboard.press("Enter")
        return self.page.locator(".turn").last

    def conversation(self, turn: Locator) -> str:
        """Return the conversation's id in the ledger, after the turn has ended."""
        link = turn.locator(".turn-footer a")
        return (link.get_attribute("href") or "").rsplit("/", 1)[-1]
