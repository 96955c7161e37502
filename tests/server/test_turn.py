"""Who runs the calls of a turn."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.core.context import Principal
from ferrule.core.message import ChatMessage
from ferrule.core.request import ChoiceMode, ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.server.answer.plan import ToolOwner, Turn, turn_of

TOOL = ToolDefinition("weather", "", {"type": "object"})


def turn(sends_tools: bool, has_tools: bool, extension: Any = None) -> Turn:
    request = ToolCallRequest(messages=(ChatMessage.user("hi"),), tools=(TOOL,) if sends_tools else ())
    return turn_of({} if extension is None else {"ferrule": extension}, request, Principal(), has_tools=has_tools)


@pytest.mark.parametrize(
    "sends_tools, has_tools, whose",
    [
        (False, False, ToolOwner.NOBODY),
        (True, False, ToolOwner.CALLER),
        (True, True, ToolOwner.CALLER),
        (False, True, ToolOwner.GATEWAY),
    ],
)
def test_the_four_rows(sends_tools: bool, has_tools: bool, whose: ToolOwner) -> None:
    assert turn(sends_tools, has_tools).tool_owner is whose


def test_a_caller_chooses_who_runs_the_calls() -> None:
    assert turn(False, True, {"tools": "none"}).tool_owner is ToolOwner.NOBODY
    assert turn(False, True, {"tools": ["weather"]}).tool_names == ("weather",)
    assert turn(False, False, {"tools": "gateway"}).tool_owner is ToolOwner.GATEWAY
    assert turn(False, True, {"tools": "caller"}).tool_owner is ToolOwner.NOBODY


def test_tools_that_must_not_be_called_stay_offered_for_the_history() -> None:
    built = turn(True, True, {"tools": "none"})
    assert built.request.tools == (TOOL,)
    assert built.request.tool_choice.mode is ChoiceMode.NONE


def test_resuming_means_that_the_gateway_runs_the_calls() -> None:
    built = turn(False, False, {"resume": "conv_1"})
    assert (built.tool_owner, built.resumes) == (ToolOwner.GATEWAY, "conv_1")


@pytest.mark.parametrize("extension", ["gateway", 1, {"tools": 5}, {"tools": "both"}, {"resume": 1}, {"tools": [1]}])
def test_an_invalid_extension_is_refused(extension: Any) -> None:
    with pytest.raises(DefinitionError):
        turn(False, True, extension)
