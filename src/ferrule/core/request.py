"""ToolCallRequest: everything that one generation needs, the same for every engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ferrule.core.choice import ChoiceMode, ChoicePolicy, ToolChoice
from ferrule.core.message import ChatMessage, Role
from ferrule.core.tool import ToolDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRequest:
    """Messages, tools, the choice, and the generation parameters flat beside them (None is the engine's default)."""

    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolDefinition, ...] = ()
    tool_choice: ToolChoice = ToolChoice.auto()
    tool_choice_policy: ChoicePolicy = ChoicePolicy.AUTO
    parallel_tool_calls: bool = True
    response_schema: dict[str, Any] | None = None
    model: str | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    shows_wire: bool = False
    """Whether the rule and the text as it was written are among the events too (`RuleShown`, `WireText`)."""

    @property
    def choice(self) -> ToolChoice:
        """The choice with the policy applied: what engines go by. NONE and REQUIRED are never weakened."""
        is_open = self.tool_choice.mode is ChoiceMode.AUTO and self.tools
        if not is_open or self.tool_choice_policy is ChoicePolicy.AUTO:
            return self.tool_choice
        if self.tool_choice_policy is ChoicePolicy.REQUIRED_FIRST_HOP and self._has_result():
            return self.tool_choice
        return replace(self.tool_choice, mode=ChoiceMode.REQUIRED)

    def _has_result(self) -> bool:
        """Whether a result has come back since the user last spoke."""
        for message in reversed(self.messages):
            if message.results:
                return True
            if message.role is Role.USER:
                return False
        return False
