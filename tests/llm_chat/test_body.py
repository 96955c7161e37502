"""The body of llm.chat@2.0: OpenAI's, and the specification's spelling of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.replies import through_json
from dialects.requests import requests
from ferrule import ChatMessage, Role, ToolCallRequest, ToolChoice
from ferrule.errors import DefinitionError
from ferrule.llm_chat.body import decode_body, encode_body

PARAMETERS = {
    "temperature": st.none() | st.floats(0, 2),
    "top_k": st.none() | st.integers(1, 99),
    "seed": st.none() | st.integers(0, 99),
    "stop": st.lists(st.text(min_size=1), max_size=2).map(tuple),
    "shows_wire": st.booleans(),
}


@given(requests(reasoning=True, parameters=PARAMETERS))
def test_a_request_comes_back_as_it_was(request: ToolCallRequest) -> None:
    assert decode_body(through_json(encode_body(request))) == request


def test_the_specification_s_spelling_means_the_same() -> None:
    request = decode_body(
        {
            "messages": [
                {"role": "user", "content": "What is new?"},
                {
                    "role": "assistant",
                    "content": "I'll search ",
                    "tool_calls": [{"id": "tc_1", "name": "rag.query", "arguments": {"query": "new"}}],
                },
                {"role": "tool", "tool_call_id": "tc_1", "content": "nothing"},
            ],
            "tools": [
                {"name": "rag.query", "description": "Searches.", "parameters_schema": {"type": "object"}},
                {"name": "ping", "parameters": {"type": "object"}},
            ],
            "tool_choice": {"name": "rag.query"},
        }
    )
    _, answer, result = request.messages
    assert [(call.id, call.name, call.arguments) for call in answer.tool_calls] == [
        ("tc_1", "rag.query", {"query": "new"})
    ]
    assert (result.role, result.results[0].name) == (Role.TOOL, "rag.query")
    assert [tool.name for tool in request.tools] == ["rag.query", "ping"]
    assert request.tool_choice == ToolChoice.one("rag.query")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": []},
        {"messages": "hello"},
        {"messages": [{"role": "user", "content": "x"}], "tools": [{"name": 1}]},
        {"messages": [{"role": "user", "content": "x"}], "tool_choice": {"name": "nobody"}},
        {"messages": [{"role": "assistant", "tool_calls": [{"name": "x", "arguments": 3}]}]},
    ],
)
def test_what_is_no_request_is_refused_with_its_field(body: dict[str, object]) -> None:
    with pytest.raises(DefinitionError):
        decode_body(body)


def test_a_model_is_named_only_if_the_request_names_one() -> None:
    request = ToolCallRequest(messages=(ChatMessage.user("x"),))
    assert "model" not in encode_body(request)
    assert encode_body(replace(request, model="smol"))["model"] == "smol"
