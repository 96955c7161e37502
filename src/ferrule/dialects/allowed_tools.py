"""Offer an allowed subset of tools to APIs that have no field for one."""

from __future__ import annotations

from dataclasses import replace

from ferrule.core.request import ChoiceMode, ChoicePolicy, ToolCallRequest, ToolChoice


def narrow_tools(request: ToolCallRequest) -> ToolCallRequest:
    """Return the request with its policy applied and only the allowed tools offered. One required tool stays named too.

    If no call is allowed, all tools stay offered: a model reads its earlier calls better with their definitions.
    """
    choice = request.choice
    plain = replace(request, tool_choice=choice, tool_choice_policy=ChoicePolicy.AUTO)
    if choice.mode is ChoiceMode.NONE or choice.names is None:
        return plain
    tools = choice.select_tools(request.tools)
    if len(tools) == 1 and choice.mode is ChoiceMode.REQUIRED:
        return replace(plain, tools=tools)
    return replace(plain, tools=tools, tool_choice=ToolChoice(choice.mode))
