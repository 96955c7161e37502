"""ToolCallRequest: everything that one generation needs, the same for every engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ferrule.core.choice import ChoiceMode, ChoicePolicy, ToolChoice
from ferrule.core.message import ChatMessage, Role
from ferrule.core.tool import ToolDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRequest:
    """One request to a model. Generation parameters that are None use the engine's default.

    Example:
        request = ToolCallRequest(
            messages=(ChatMessage.user("How is the weather in Rome?"),),
            tools=(get_weather.definition,),
            tool_choice=ToolChoice.required(),
            max_tokens=200,
        )
        reply = engine.generate(request)
    """

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
    """Whether the events include the rule and the raw model output (`RuleShown`, `WireText`)."""

    @property
    def choice(self) -> ToolChoice:
        """The choice with the policy applied, which engines use. NONE and REQUIRED are never weakened."""
        is_open = self.tool_choice.mode is ChoiceMode.AUTO and self.tools
        if not is_open or self.tool_choice_policy is ChoicePolicy.AUTO:
            return self.tool_choice
        if self.tool_choice_policy is ChoicePolicy.REQUIRED_FIRST_HOP and self._has_result():
            return self.tool_choice
        return replace(self.tool_choice, mode=ChoiceMode.REQUIRED)

    def _has_result(self) -> bool:
        """Whether there is a result after the last user message."""
        for message in reversed(self.messages):
            if message.results:
                return True
            if message.role is Role.USER:
                return False
        return False
