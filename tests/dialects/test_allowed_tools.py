"""A subset of tools, and a policy, for APIs that have no field for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.replies import TOOLS
from dialects.requests import requests
from ferrule import ChatMessage, DefinitionError, ToolCall, ToolCallRequest, ToolChoice
from ferrule.core.request import ChoicePolicy
from ferrule.dialects.allowed_tools import narrow_tools
from ferrule.dialects.anthropic import request_decoder as anthropic_reading
from ferrule.dialects.anthropic import request_encoder as anthropic_request
from ferrule.dialects.openai_chat import request_decoder as chat_reading
from ferrule.dialects.openai_chat import request_encoder as chat_request
from ferrule.dialects.openai_responses import request_decoder as responses_reading
from ferrule.dialects.openai_responses import request_encoder as responses_request

ASKED = ChatMessage.user("Hello")
ANSWERED = (ASKED, ChatMessage.assistant(tool_calls=[ToolCall.of("ping", id="c")]), ChatMessage.tool("c", "pong"))
CLIENTS: list[Any] = [chat_request, responses_request, anthropic_request]
SERVERS: list[Any] = [chat_reading, responses_reading, anthropic_reading]


@given(requests(), st.sampled_from(ChoicePolicy))
def test_narrowing_twice_is_narrowing_once(request: ToolCallRequest, policy: ChoicePolicy) -> None:
    request = replace(request, tool_choice_policy=policy)
    once = narrow_tools(request)
    assert narrow_tools(once) == once
    assert once.choice.mode is request.choice.mode


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "policy, messages, is_forced",
    [
        (ChoicePolicy.AUTO, (ASKED,), False),
        (ChoicePolicy.REQUIRED_FIRST_HOP, (ASKED,), True),
        (ChoicePolicy.REQUIRED_FIRST_HOP, ANSWERED, False),
        (ChoicePolicy.REQUIRED_ALWAYS, ANSWERED, True),
    ],
)
def test_an_engine_gets_the_choice_with_the_policy_applied(
    client: Any, policy: ChoicePolicy, messages: tuple[ChatMessage, ...], is_forced: bool
) -> None:
    request = ToolCallRequest(messages=messages, tools=TOOLS, tool_choice_policy=policy)
    assert ("tool_choice" in client.request_body(request, model="m", stream=False)) is is_forced


@pytest.mark.parametrize("server", SERVERS)
def test_a_client_may_send_a_policy(server: Any) -> None:
    body = {"messages": [{"role": "user", "content": "x"}], "input": "x", "tool_choice_policy": "required_always"}
    assert server.read_request(body).tool_choice_policy is ChoicePolicy.REQUIRED_ALWAYS
    with pytest.raises(DefinitionError, match="tool_choice_policy"):
        server.read_request({**body, "tool_choice_policy": "sometimes"})


def test_a_name_that_is_not_offered_is_refused() -> None:
    with pytest.raises(DefinitionError):
        narrow_tools(ToolCallRequest(messages=(ASKED,), tools=TOOLS, tool_choice=ToolChoice.one("pong")))
