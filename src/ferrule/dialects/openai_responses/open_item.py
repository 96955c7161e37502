"""OpenItem: one output item while it is streamed, and its events.

Creating an event changes nothing; only `apply` does. So an item is the same whether it is streamed here or rebuilt from
the events of another process.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ferrule.dialects.openai_responses.response_body import reasoning_part, text_part

Events = list[dict[str, Any]]
_CLOSERS = "} \t\r\n"


@dataclass(frozen=True, slots=True)
class _EventNames:
    """The names of the events of an item type, and its content part (a call has none)."""

    event: str
    key: str
    part: Callable[[str], dict[str, Any]] | None = None
    extra: dict[str, Any] = field(default_factory=dict[str, Any])


_EVENT_NAMES = {
    "message": _EventNames("response.output_text", "text", text_part, {"logprobs": []}),
    "reasoning": _EventNames("response.reasoning_text", "text", reasoning_part),
    "function_call": _EventNames("response.function_call_arguments", "arguments"),
    "custom_tool_call": _EventNames("response.custom_tool_call_input", "input"),
    "mcp_call": _EventNames("response.mcp_call_arguments", "arguments"),
}
_NO_EVENTS = _EventNames("", "")
"""Of items that are not streamed."""


class OpenItem:
    """`item` is the item as it began, and as it ended once it `is_done`."""

    __slots__ = ("_applied", "_names", "_pieces", "_position", "index", "is_done", "item")

    def __init__(self, item: dict[str, Any], index: int) -> None:
        self.item = item
        self.index = index
        self.is_done = False
        self._names = _EVENT_NAMES.get(item["type"], _NO_EVENTS)
        self._position: dict[str, Any] = {"item_id": item["id"], "output_index": index}
        self._pieces: list[str] = []
        self._applied: set[str] = set()

    @property
    def kind(self) -> str:
        return self.item["type"]

    def apply(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        if kind == "response.output_item.done":
            self.item, self.is_done = event["item"], True
        elif kind.endswith(".delta"):
            self._pieces.append(event["delta"])
        else:
            self._applied.add(kind)

    def begin_events(self) -> Events:
        event = {"type": "response.output_item.added", "output_index": self.index, "item": self.item}
        return [event, *self._part("added", "")]

    def delta(self, text: str) -> dict[str, Any]:
        names = self._names
        position = {**self._position, "content_index": 0} if names.part else self._position
        return {"type": f"{names.event}.delta", **position, "delta": text, **names.extra}

    def step(self, name: str) -> dict[str, Any]:
        """Return the event of a state of the item, such as `in_progress`."""
        return {"type": f"response.{self.kind}.{name}", **self._position}

    def done_events(self) -> Events:
        """Return the events for completed content, except those that were already applied."""
        names, text = self._names, "".join(self._pieces)
        if not names.event:
            return []
        position = {**self._position, "content_index": 0} if names.part else self._position
        # Versions of OpenAI's client before 3.0 need the name of the function here.
        function_name = {"name": self.item["name"]} if self.kind == "function_call" else {}
        done = {"type": f"{names.event}.done", **position, names.key: text, **function_name, **names.extra}
        events = [done, *self._part("done", text)]
        return [event for event in events if event["type"] not in self._applied]

    def end_events(self, status: str, **fields: Any) -> Events:
        """Return the last events of the item. The arguments of an incomplete call are never reported as done."""
        done = [] if status != "completed" and not self._names.part else self.done_events()
        missing_start = [event for event in self._part("added", "") if event["type"] not in self._applied]
        item = {**self.as_item(status), **fields}
        return [*missing_start, *done, {"type": "response.output_item.done", "output_index": self.index, "item": item}]

    def as_item(self, status: str = "") -> dict[str, Any]:
        """Return the item as of now. The arguments of a call that must not run are never a complete object."""
        if self.is_done:
            return self.item
        if not self._names.event:
            return {**self.item, "status": status} if status and "status" in self.item else self.item
        text = "".join(self._pieces)
        if self.kind == "function_call" and status != "completed":
            text = text.rstrip(_CLOSERS)
        if self.kind == "custom_tool_call" and status != "completed":
            # Every text is an input, so a prefix of it would be one too.
            text = ""
        make = self._names.part
        content = {self._names.key: text} if make is None else {"content": [make(text)]}
        return {**self.item, "status": status or self.item["status"], **content}

    def _part(self, step: str, text: str) -> Events:
        if self._names.part is None:
            return []
        position = {**self._position, "content_index": 0}
        return [{"type": f"response.content_part.{step}", **position, "part": self._names.part(text)}]
