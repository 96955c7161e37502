"""Bodies and chunks as the clients of the API read them."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import (
    CallEnd,
    CallStart,
    DefinitionError,
    Event,
    FerruleError,
    Finish,
    FinishReason,
    FunctionCall,
    Reply,
    SchemaError,
    TextDelta,
    ToolCall,
    Usage,
)
from ferrule.core.call import How, Receipt
from ferrule.core.event import ArgumentsDelta
from ferrule.dialects.openai_chat.chunk_encoder import ChunkEncoder
from ferrule.dialects.openai_chat.response_body import body_of, error_body

HEAD: dict[str, Any] = {"id": "chat_1", "model": "m", "created": 7}
CALL: list[Event] = [CallStart(0, "c", "ping"), ArgumentsDelta(0, '{"a": 1'), ArgumentsDelta(0, "}")]


def chunks(events: list[Event], **options: Any) -> list[dict[str, Any]]:
    encoder = ChunkEncoder(**HEAD, **options)
    return [chunk for event in events for chunk in encoder.feed(event)] + encoder.close()


def deltas(events: list[Event], **options: Any) -> list[dict[str, Any]]:
    return [choice["delta"] for chunk in chunks(events, **options) for choice in chunk["choices"]]


def test_a_text_answer_has_the_fields_that_clients_read() -> None:
    body = body_of(Reply.of("Hi"), **HEAD)
    assert body == {
        **HEAD,
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hi", "refusal": None},
                "finish_reason": "stop",
                "logprobs": None,
            }
        ],
    }


def test_a_call_leaves_the_content_null() -> None:
    choice = body_of(Reply.of(ToolCall.of("ping", id="c")), **HEAD)["choices"][0]
    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"] == [ToolCall.of("ping", id="c").as_openai()]
    assert choice["finish_reason"] == "tool_calls"


def test_a_call_that_is_not_complete_is_in_the_extension_only() -> None:
    cut = ToolCall("c", FunctionCall("ping", "{}"), complete=False)
    body = body_of(Reply.of(cut), **HEAD)
    assert "tool_calls" not in body["choices"][0]["message"]
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["ferrule"]["incomplete"] == {"c": {"name": "ping", "arguments": "{}"}}


def test_a_receipt_rides_in_the_extension_of_chunk_and_body() -> None:
    receipt = Receipt(how=How.GRAMMAR, engine="e", path="p")
    message = {"receipts": {"c": receipt.as_dict()}}
    streamed = chunks([*CALL, CallEnd(0, receipt=receipt), Finish(FinishReason.STOP)])
    assert next(chunk["ferrule"] for chunk in streamed if "ferrule" in chunk) == message
    assert body_of(Reply.of(ToolCall("c", FunctionCall("ping"), receipt=receipt)), **HEAD)["ferrule"] == message


def join_arguments(events: list[Event], **options: Any) -> str:
    calls = [delta["tool_calls"][0]["function"] for delta in deltas(events, **options) if "tool_calls" in delta]
    return "".join(function["arguments"] for function in calls)


def test_a_call_is_not_begun_before_it_is_complete() -> None:
    for events in (CALL, [*CALL, CallEnd(0, complete=False)]):
        assert not any("tool_calls" in delta for delta in deltas(events))
    assert join_arguments([*CALL, CallEnd(0)]) == '{"a": 1}'


def test_the_last_brace_of_live_arguments_waits_until_the_call_is_known_to_be_complete() -> None:
    assert join_arguments(CALL, is_live=True) == '{"a": 1'
    assert join_arguments([*CALL, CallEnd(0)], is_live=True) == '{"a": 1}'
    assert join_arguments([*CALL, CallEnd(0, complete=False)], is_live=True) == '{"a": 1'


def test_usage_comes_in_a_chunk_without_choices_on_request() -> None:
    events: list[Event] = [TextDelta("Hi"), Finish(FinishReason.STOP, Usage(3, 4))]
    *before, last = chunks(events, include_usage=True)
    assert last["choices"] == []
    assert last["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    assert all(chunk["usage"] is None for chunk in before)
    assert not any("usage" in chunk for chunk in chunks(events))


def test_a_client_of_the_older_api_gets_one_function_call() -> None:
    second: list[Event] = [CallStart(1, "d", "ping"), ArgumentsDelta(1, "{}"), CallEnd(1)]
    events: list[Event] = [*CALL, CallEnd(0), *second, Finish(FinishReason.TOOL_CALLS)]
    message = [delta["function_call"] for delta in deltas(events, uses_functions=True) if "function_call" in delta]
    assert message[0]["name"] == "ping"
    assert "".join(piece["arguments"] for piece in message) == '{"a": 1}'
    assert chunks(events, uses_functions=True)[-1]["choices"][0]["finish_reason"] == "function_call"
    body = body_of(Reply.of(ToolCall.of("ping", {"a": 1})), **HEAD, uses_functions=True)
    assert body["choices"][0]["message"]["function_call"] == {"name": "ping", "arguments": '{"a": 1}'}


class Busy(FerruleError):
    """Too many at once."""

    code = "busy"
    status = 429


@pytest.mark.parametrize(
    "error, kind, param",
    [
        (DefinitionError("n: is odd", hint="Send 1."), "invalid_request_error", None),
        (SchemaError("is odd", path="/a"), "invalid_request_error", "/a"),
        (Busy("later"), "rate_limit_error", None),
        (FerruleError("broke"), "server_error", None),
    ],
)
def test_an_error_says_what_happened_and_what_to_do(error: FerruleError, kind: str, param: str | None) -> None:
    chunks = error_body(error)["error"]
    assert chunks == {
        "message": f"{error.message}. {error.hint}" if error.hint else error.message,
        "type": kind,
        "param": param,
        "code": error.code,
    }
