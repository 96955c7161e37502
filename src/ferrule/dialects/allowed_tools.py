"""Narrowing: an allowed subset of tools, for APIs that have no word for one."""

from __future__ import annotations

from dataclasses import replace

from ferrule.core.choice import ChoiceMode, ChoicePolicy, ToolChoice
from ferrule.core.request import ToolCallRequest


def narrowed(request: ToolCallRequest) -> ToolCallRequest:
    """The same demand, policy applied, said by offering only the allowed tools. One required tool stays named as well.

    Where nothing may be called, everything stays on offer: a model reads its earlier calls better with their tools.
    """
    choice = request.choice
    plain = replace(request, tool_choice=choice, tool_choice_policy=ChoicePolicy.AUTO)
    if choice.mode is ChoiceMode.NONE or choice.names is None:
        return plain
    tools = choice.offered(request.tools)
    if len(tools) == 1 and choice.mode is ChoiceMode.REQUIRED:
        return replace(plain, tools=tools)
    return replace(plain, tools=tools, tool_choice=ToolChoice(choice.mode))
