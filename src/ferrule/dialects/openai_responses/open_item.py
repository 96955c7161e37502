"""OpenItem: one output item while it is streamed, and the events that tell of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.message import Reasoning, Text
from ferrule.core.reply import ReplyPart
from ferrule.dialects.openai_responses.body import item_of, reasoning_part, text_part


@dataclass(frozen=True, slots=True)
class _Spelling:
    """How the events of a kind of item are called, and what its content part looks like (a call has none)."""

    event: str
    field: str
    part: Callable[[str], dict[str, Any]] | None
    extra: dict[str, Any]


_SPELLINGS: dict[type[ReplyPart], _Spelling] = {
    Text: _Spelling("response.output_text", "text", text_part, {"logprobs": []}),
    Reasoning: _Spelling("response.reasoning_text", "text", reasoning_part, {}),
    ToolCall: _Spelling("response.function_call_arguments", "arguments", None, {}),
}


class OpenItem:
    """`part` is what kind of item it is; its text is collected here."""

    def __init__(self, part: ReplyPart, at: int, id: str) -> None:
        self.part = part
        self._spelling = _SPELLINGS[part.__class__]
        self._place: dict[str, Any] = {"item_id": id, "output_index": at}
        self._pieces: list[str] = []
        self._id = id
        self._at = at
        if self._spelling.part:
            self._place["content_index"] = 0

    def started(self) -> list[dict[str, Any]]:
        item = item_of(self.part, self._id, "in_progress")
        if self._spelling.part:
            item["content"] = []
        added = {"type": "response.output_item.added", "output_index": self._at, "item": item}
        return [added, *self._part_event("added", "")]

    def delta(self, text: str) -> dict[str, Any]:
        self._pieces.append(text)
        return {"type": f"{self._spelling.event}.delta", **self._place, "delta": text, **self._spelling.extra}

    def ended(self, status: str) -> list[dict[str, Any]]:
        """A call that is not complete is never said to be done with its arguments."""
        text = "".join(self._pieces)
        done = {"type": f"{self._spelling.event}.done", **self._place, self._spelling.field: text}
        if isinstance(self.part, ToolCall):
            # Clients before 3.0 need the name here.
            done["name"] = self.part.name
        said = [] if isinstance(self.part, ToolCall) and status != "completed" else [{**done, **self._spelling.extra}]
        last = {"type": "response.output_item.done", "output_index": self._at, "item": self.whole(status)}
        return [*said, *self._part_event("done", text), last]

    def whole(self, status: str) -> dict[str, Any]:
        text = "".join(self._pieces)
        match self.part:
            case ToolCall(_, FunctionCall(name)):
                part: ReplyPart = replace(self.part, function=FunctionCall(name, text))
            case Text() | Reasoning():
                part = replace(self.part, text=text)
        return item_of(part, self._id, status)

    def _part_event(self, step: str, text: str) -> list[dict[str, Any]]:
        if self._spelling.part is None:
            return []
        return [{"type": f"response.content_part.{step}", **self._place, "part": self._spelling.part(text)}]
