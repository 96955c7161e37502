"""ToolCallRequest: everything that one generation needs, the same for every engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ferrule.core.choice import ToolChoice
from ferrule.core.message import ChatMessage
from ferrule.core.tool import ToolDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRequest:
    """Messages, tools, the choice, and the generation parameters flat beside them (None is the engine's default)."""

    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: ToolChoice = ToolChoice.auto()
    parallel_tool_calls: bool = True
    response_schema: dict[str, Any] | None = None
    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
