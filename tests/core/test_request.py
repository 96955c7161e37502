"""What a request says when nobody said otherwise."""

from __future__ import annotations

from dataclasses import fields

import pytest

from ferrule import ChatMessage, ToolCallRequest, ToolChoice, ToolDefinition

HELLO = (ChatMessage.user("hello"),)


def test_a_request_needs_messages_and_nothing_else() -> None:
    request = ToolCallRequest(messages=HELLO)
    assert request.messages == HELLO
    assert request.tools == ()
    assert request.tool_choice == ToolChoice.auto()
    assert request.parallel_tool_calls is True
    assert request.stop == ()


@pytest.mark.parametrize(
    "parameter", ["response_schema", "model", "max_tokens", "temperature", "top_p", "top_k", "seed"]
)
def test_a_generation_parameter_left_out_is_the_engines_own(parameter: str) -> None:
    assert getattr(ToolCallRequest(messages=HELLO), parameter) is None


def test_generation_parameters_stand_flat_beside_the_messages() -> None:
    request = ToolCallRequest(messages=HELLO, tools=(ToolDefinition("ping"),), temperature=0.0, max_tokens=5)
    assert (request.temperature, request.max_tokens, request.tools[0].name) == (0.0, 5, "ping")


def test_fields_are_given_by_name_only() -> None:
    assert all(field.kw_only for field in fields(ToolCallRequest))
