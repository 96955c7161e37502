"""A conversation is repaired before a model reads it; what is well-formed stays as it is."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.event import Diagnostic
from ferrule.core.history import CODE, MAX_DEPTH, readable_request
from ferrule.core.message import ChatMessage, Reasoning, Role, Text
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition, is_tool_name

TEXTS = st.text(st.characters(categories=("L", "N", "P", "Cs", "Cc", "So")), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def request(*parts: object, role: Role = Role.ASSISTANT) -> ToolCallRequest:
    return ToolCallRequest(messages=(ChatMessage(role, parts),))  # pyright: ignore[reportArgumentType]


def repaired(arguments: str, name: str = "get_weather") -> tuple[ToolCall, tuple[Diagnostic, ...]]:
    result, notes = readable_request(request(ToolCall("c1", FunctionCall(name, arguments))))
    return result.messages[0].tool_calls[0], notes


@pytest.mark.parametrize(
    "arguments",
    [
        *(
            '{"a":',
            "not JSON",
            "[1, 2]",
            "null",
            "1",
            '"text"',
            '{"a": NaN}',
            '{"a": 1e999}',
            '{"a": 1, "a": 2}',
            '{"a": 1,}',
        ),
        *(
            '{"a": ' + "9" * 5_000 + "}",
            '{"a": ' + "[" * 900 + "]" * 900 + "}",
            '{"a":' * 30_000,
            '{"a": ' + "[" * 64 + "]" * 64 + "}",
        ),
    ],
)
def test_arguments_that_are_not_one_readable_object_are_read_as_text(arguments: str) -> None:
    call, (note,) = repaired(arguments)
    assert call.arguments == {"INVALID_JSON": arguments}
    assert note.code == CODE
    assert "get_weather" in note.message


def test_empty_arguments_are_an_empty_object() -> None:
    for arguments in ("", " \n"):
        call, notes = repaired(arguments)
        assert (call.function.arguments, len(notes)) == ("{}", 1)


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=4), st.text(max_size=30))
def test_a_conversation_without_a_fault_is_the_same_object(arguments: dict[str, object], text: str) -> None:
    json_text = json.dumps(arguments)
    has_half = any(0xD800 <= ord(char) <= 0xDFFF for char in json.dumps(arguments, ensure_ascii=False))
    given_request = request(Text(text), ToolCall("c1", FunctionCall("get_weather", json_text)))
    result, notes = readable_request(given_request)
    assert (result is given_request) == (not has_half) == (not notes)


@given(TEXTS, TEXTS, TEXTS, st.one_of(TEXTS, VALUES.map(json.dumps)))
def test_whatever_a_client_resends_can_be_encoded_and_rendered(text: str, id: str, name: str, arguments: str) -> None:
    call = ToolCall(id, FunctionCall(name, arguments))
    messages = (
        ChatMessage(Role.USER, (Text(text),)),
        ChatMessage(Role.ASSISTANT, (Reasoning(text), call)),
        ChatMessage(Role.TOOL, (ToolResult(id, name, text),)),
    )
    tools = (ToolDefinition("t", text),)
    result, _ = readable_request(ToolCallRequest(messages=messages, tools=tools))
    repaired_call = result.messages[1].tool_calls[0]
    assert is_tool_name(repaired_call.name)
    json.dumps(repaired_call.arguments, ensure_ascii=False, allow_nan=False).encode()
    for part in (*result.messages[0].parts, result.messages[1].parts[0]):
        part.text.encode()  # pyright: ignore[reportAttributeAccessIssue]
    results = result.messages[2].results[0]
    f"{results.text}{results.tool_call_id}{results.name}{repaired_call.id}{result.tools[0].description}".encode()
    # A call and its result still belong together.
    assert results.tool_call_id == repaired_call.id
    assert readable_request(result) == (result, ())


def test_a_name_that_no_tool_can_have_is_written_in_allowed_characters() -> None:
    for name, readable in (("", "_"), ("a b", "a_b"), ("1a", "_1a"), ("a" * 200, "a" * 128), ("é\n", "__")):
        call, notes = repaired("{}", name)
        assert (call.name, len(notes)) == (readable, 1)


def test_arguments_may_nest_as_deeply_as_a_request_body() -> None:
    arguments = '{"a": ' + "[" * (MAX_DEPTH - 2) + "]" * (MAX_DEPTH - 2) + "}"
    call, notes = repaired(arguments)
    assert (call.function.arguments, notes) == (arguments, ())


def test_an_incomplete_call_stays_because_no_model_reads_it() -> None:
    given_request = request(ToolCall("c1", FunctionCall("x", '{"a":'), complete=False))
    assert readable_request(given_request) == (given_request, ())


def test_a_signature_that_cannot_be_encoded_is_left_out_with_a_note() -> None:
    for reasoning in (Reasoning("So.", "\ud800"), Reasoning("So.", "", "\ud800")):
        result, notes = readable_request(request(reasoning))
        assert (result.messages[0].parts, len(notes)) == ((Reasoning("So."),), 1)


def test_many_repairs_are_counted_and_not_listed() -> None:
    calls = [ToolCall(f"c{at}", FunctionCall(f"t{at}", "{")) for at in range(100)]
    _, notes = readable_request(request(*calls))
    assert len(notes) == 17
    assert notes[-1].message.startswith("84 more")
