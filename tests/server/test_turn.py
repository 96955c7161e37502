"""Which of the four rows a request is."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.core.choice import ChoiceMode
from ferrule.core.context import Principal
from ferrule.core.message import ChatMessage
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.server.answer.turn import ToolOwner, Turn, turn_of

TOOL = ToolDefinition("weather", "", {"type": "object"})


def turn(brings: bool, has: bool, said: Any = None) -> Turn:
    request = ToolCallRequest(messages=(ChatMessage.user("hi"),), tools=(TOOL,) if brings else ())
    return turn_of({} if said is None else {"ferrule": said}, request, Principal(), has_tools=has)


@pytest.mark.parametrize(
    "brings, has, whose",
    [
        (False, False, ToolOwner.NOBODY),
        (True, False, ToolOwner.CALLER),
        (True, True, ToolOwner.CALLER),
        (False, True, ToolOwner.GATEWAY),
    ],
)
def test_the_four_rows(brings: bool, has: bool, whose: ToolOwner) -> None:
    assert turn(brings, has).tool_owner is whose


def test_a_caller_says_which_he_wants() -> None:
    assert turn(False, True, {"tools": "none"}).tool_owner is ToolOwner.NOBODY
    assert turn(False, True, {"tools": ["weather"]}).names == ("weather",)
    assert turn(False, False, {"tools": "gateway"}).tool_owner is ToolOwner.GATEWAY
    assert turn(False, True, {"tools": "caller"}).tool_owner is ToolOwner.NOBODY


def test_tools_that_nobody_may_call_stay_for_the_model_to_read_its_history_by() -> None:
    made = turn(True, True, {"tools": "none"})
    assert made.request.tools == (TOOL,)
    assert made.request.tool_choice.mode is ChoiceMode.NONE


def test_to_resume_is_to_have_the_gateway_go_on() -> None:
    made = turn(False, False, {"resume": "conv_1"})
    assert (made.tool_owner, made.resumes) == (ToolOwner.GATEWAY, "conv_1")


@pytest.mark.parametrize("said", ["gateway", 1, {"tools": 5}, {"tools": "both"}, {"resume": 1}, {"tools": [1]}])
def test_a_wish_that_makes_no_sense_is_refused(said: Any) -> None:
    with pytest.raises(DefinitionError):
        turn(False, True, said)
