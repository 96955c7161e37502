"""OpenItem: one output item while it is streamed, and the events that tell of it.

Making an event changes nothing; taking it does. So an item is the same whether it was streamed here or is rebuilt from
events that somebody else had told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ferrule.dialects.openai_responses.response_body import reasoning_part, text_part

Told = list[dict[str, Any]]
_CLOSERS = "} \t\r\n"


@dataclass(frozen=True, slots=True)
class _Spelling:
    """How the events of a kind of item are called, and what its content part looks like (a call has none)."""

    event: str
    key: str
    part: Callable[[str], dict[str, Any]] | None = None
    extra: dict[str, Any] = field(default_factory=dict[str, Any])


_SPELLINGS = {
    "message": _Spelling("response.output_text", "text", text_part, {"logprobs": []}),
    "reasoning": _Spelling("response.reasoning_text", "text", reasoning_part),
    "function_call": _Spelling("response.function_call_arguments", "arguments"),
    "mcp_call": _Spelling("response.mcp_call_arguments", "arguments"),
}
_WHOLE = _Spelling("", "")
"""Of items that come at once."""


class OpenItem:
    """`item` is as it was begun, and once it `is_done` as it ended."""

    __slots__ = ("_pieces", "_place", "_seen", "_spelling", "at", "is_done", "item")

    def __init__(self, item: dict[str, Any], at: int) -> None:
        self.item = item
        self.at = at
        self.is_done = False
        self._spelling = _SPELLINGS.get(item["type"], _WHOLE)
        self._place: dict[str, Any] = {"item_id": item["id"], "output_index": at}
        self._pieces: list[str] = []
        self._seen: set[str] = set()

    @property
    def kind(self) -> str:
        return self.item["type"]

    def take(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        if kind == "response.output_item.done":
            self.item, self.is_done = event["item"], True
        elif kind.endswith(".delta"):
            self._pieces.append(event["delta"])
        else:
            self._seen.add(kind)

    def begun(self) -> Told:
        added = {"type": "response.output_item.added", "output_index": self.at, "item": self.item}
        return [added, *self._part("added", "")]

    def delta(self, text: str) -> dict[str, Any]:
        spelling = self._spelling
        place = {**self._place, "content_index": 0} if spelling.part else self._place
        return {"type": f"{spelling.event}.delta", **place, "delta": text, **spelling.extra}

    def step(self, name: str) -> dict[str, Any]:
        """A step in the item's life, such as that its tool runs."""
        return {"type": f"response.{self.kind}.{name}", **self._place}

    def said(self) -> Told:
        """That everything has been said; what was told before a process died is not told again."""
        spelling, text = self._spelling, "".join(self._pieces)
        if not spelling.event:
            return []
        place = {**self._place, "content_index": 0} if spelling.part else self._place
        # Clients before 3.0 need the name of the function here.
        named = {"name": self.item["name"]} if self.kind == "function_call" else {}
        done = {"type": f"{spelling.event}.done", **place, spelling.key: text, **named, **spelling.extra}
        told = [done, *self._part("done", text)]
        return [event for event in told if event["type"] not in self._seen]

    def ended(self, status: str, **fields: Any) -> Told:
        """A call that is not complete is never said to be done with its arguments."""
        said = [] if status != "completed" and not self._spelling.part else self.said()
        begun = [event for event in self._part("added", "") if event["type"] not in self._seen]
        item = {**self.whole(status), **fields}
        return [*begun, *said, {"type": "response.output_item.done", "output_index": self.at, "item": item}]

    def whole(self, status: str = "") -> dict[str, Any]:
        """The item as it stands. No arguments can be read out of a client's call that must not be run."""
        if self.is_done or not self._spelling.event:
            return self.item
        text = "".join(self._pieces)
        if self.kind == "function_call" and status != "completed":
            text = text.rstrip(_CLOSERS)
        make = self._spelling.part
        said = {self._spelling.key: text} if make is None else {"content": [make(text)]}
        return {**self.item, "status": status or self.item["status"], **said}

    def _part(self, step: str, text: str) -> Told:
        if self._spelling.part is None:
            return []
        place = {**self._place, "content_index": 0}
        return [{"type": f"response.content_part.{step}", **place, "part": self._spelling.part(text)}]
