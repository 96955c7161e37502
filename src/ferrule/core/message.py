"""ChatMessage: a role and an ordered list of parts.

Order matters: models that think between calls, and channel formats, lose meaning when text, reasoning and calls are
sorted into separate fields. A plain string stays easy: `ChatMessage.user("hello")`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from ferrule.core.call import ToolCall, ToolResult


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Text:
    """What a reader sees."""

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """What a model wrote for itself."""

    text: str


Part: TypeAlias = Text | Reasoning | ToolCall | ToolResult


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn of a conversation."""

    role: Role
    parts: tuple[Part, ...] = ()

    @staticmethod
    def system(text: str) -> ChatMessage:
        return ChatMessage(Role.SYSTEM, (Text(text),))

    @staticmethod
    def user(text: str) -> ChatMessage:
        return ChatMessage(Role.USER, (Text(text),))

    @staticmethod
    def assistant(text: str = "", tool_calls: Iterable[ToolCall] = (), reasoning: str = "") -> ChatMessage:
        """Reasoning, then text, then calls: the order in which most families write them."""
        thought = (Reasoning(reasoning),) if reasoning else ()
        said = (Text(text),) if text else ()
        return ChatMessage(Role.ASSISTANT, (*thought, *said, *tool_calls))

    @staticmethod
    def tool(tool_call_id: str, content: Any, name: str = "", *, is_error: bool = False) -> ChatMessage:
        return ChatMessage(Role.TOOL, (ToolResult(tool_call_id, name, content, is_error),))

    @property
    def content(self) -> str:
        """The text parts, joined: what a reader sees."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def reasoning(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Reasoning))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolResult))

    @property
    def tool_call_id(self) -> str | None:
        """The id that a tool message answers; None for the other roles."""
        return self.results[0].tool_call_id if self.results else None
