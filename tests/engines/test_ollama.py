"""Ollama has no tool_choice: its format field or a check enforces the choice, and the receipt says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from engines.providers import QUICK, CannedResponse, generate, ndjson
from engines.tools import TAGS, WEATHER, make_request
from ferrule import FinishReason, ToolChoice, Usage
from ferrule.core.call import How
from ferrule.engines.chat.engine import ChatEngine, ChatOptions
from ferrule.engines.ollama import ollama
from ferrule.errors import EngineError

DONE = {"done": True, "done_reason": "stop", "prompt_eval_count": 20, "eval_count": 7}


def engine_factory(repairs: int = 1) -> Callable[[str], ChatEngine]:
    return lambda url: ollama("m", ChatOptions(repairs=repairs), url=url, deadlines=QUICK)


def call_response(*calls: Any, name: str = "get_weather") -> CannedResponse:
    tool_calls = [{"function": {"name": name, "arguments": arguments}} for arguments in calls]
    return ndjson({"message": {"content": "", "tool_calls": tool_calls}, "done": False}, DONE)


def text_response(text: str, **last: Any) -> CannedResponse:
    pieces = [{"message": {"content": text[start : start + 4]}, "done": False} for start in range(0, len(text), 4)]
    return ndjson(*pieces, {**DONE, **last})


def forced_call(arguments: object) -> str:
    return json.dumps({"name": "get_weather", "arguments": arguments})


def test_an_optional_call_is_checked() -> None:
    reply, requests = generate(engine_factory(), [call_response({"city": "Paris"})], make_request())
    assert (requests[0].path, requests[0].body["model"]) == ("/api/chat", "m")
    assert requests[0].body["options"]["num_predict"] == 512
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert (receipt.how, receipt.engine, receipt.notes) == (How.VALIDATED, "ollama", ())
    assert (reply.finish, reply.usage) == (FinishReason.TOOL_CALLS, Usage(20, 7))


@pytest.mark.parametrize("choice", [ToolChoice.required(), ToolChoice.one("get_weather")])
def test_a_required_call_is_enforced_by_the_format_field_and_the_receipt_says_so(choice: ToolChoice) -> None:
    request = make_request(tools=(WEATHER, TAGS), choice=choice)
    reply, requests = generate(engine_factory(), [text_response(forced_call({"city": "Paris"}))], request)
    assert "tools" not in requests[0].body
    assert "get_weather" in json.dumps(requests[0].body["format"])
    assert reply.calls[0].arguments == {"city": "Paris"}
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert "format field" in receipt.notes[0]


def test_a_repair_is_enforced_by_the_format_field() -> None:
    answers = [call_response({"city": "Paris", "days": 9}), text_response(forced_call({"city": "Paris", "days": 2}))]
    reply, requests = generate(
        engine_factory(), [answers[0], replace(answers[1], chunks=(_single_object(answers[1]),))], make_request()
    )
    assert reply.calls[0].arguments == {"city": "Paris", "days": 2}
    assert requests[1].body["format"]["properties"]["name"] == {"const": "get_weather"}
    assert requests[1].body["stream"] is False


def _single_object(answer: CannedResponse) -> bytes:
    """The one object that Ollama sends where it does not stream."""
    text = "".join(json.loads(chunk).get("message", {}).get("content", "") for chunk in answer.chunks)
    return json.dumps({"message": {"content": text}, **DONE}).encode()


def test_none_offers_no_tools_and_a_call_is_still_refused() -> None:
    reply, requests = generate(
        engine_factory(), [call_response({"city": "Paris"})], make_request(choice=ToolChoice.none())
    )
    assert "tools" not in requests[0].body
    assert reply.calls == ()
    assert [diagnostic.code for diagnostic in reply.diagnostics] == ["not_offered"]


def test_one_call_only_refuses_the_second() -> None:
    request = replace(make_request(), parallel_tool_calls=False)
    reply, _ = generate(engine_factory(), [call_response({"city": "Paris"}, {"city": "Rome"})], request)
    assert [tool_calls.arguments["city"] for tool_calls in reply.calls] == ["Paris"]
    assert [diagnostic.code for diagnostic in reply.diagnostics] == ["one_call_only"]


def test_text_instead_of_a_required_call_is_retried_once_and_then_an_error() -> None:
    answers = [text_response("Sure!"), text_response("Sure!")]
    with pytest.raises(EngineError, match="the model made none") as missing:
        generate(engine_factory(), answers, make_request(choice=ToolChoice.required()))
    assert missing.value.code == "no_valid_call"


def test_arguments_that_are_no_object_are_refused() -> None:
    for arguments in ("Paris", ["Paris"], None):
        reply, _ = generate(engine_factory(repairs=0), [call_response(arguments)], make_request())
        assert reply.calls == ()
        assert [diagnostic.code for diagnostic in reply.diagnostics] == ["invalid_arguments"]


def test_a_forced_call_that_ran_out_of_tokens_is_refused() -> None:
    answer = text_response(forced_call({"city": "Paris"})[:-8], done_reason="length")
    reply, requests = generate(engine_factory(repairs=0), [answer], make_request(choice=ToolChoice.required()))
    assert (reply.calls, reply.finish, len(requests)) == ((), FinishReason.LENGTH, 1)
