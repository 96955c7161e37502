"""Ollama has no tool_choice: what it cannot be told is held by its format field or checked, and the receipt says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from engines.providers import QUICK, Answer, generated, ndjson
from engines.tools import TAGS, WEATHER, asked
from ferrule import FinishReason, ToolChoice, Usage
from ferrule.core.receipt import How
from ferrule.engines.chat.engine import ChatEngine, ChatOptions
from ferrule.engines.ollama import ollama

DONE = {"done": True, "done_reason": "stop", "prompt_eval_count": 20, "eval_count": 7}


def on(repairs: int = 1) -> Callable[[str], ChatEngine]:
    return lambda url: ollama("m", ChatOptions(repairs=repairs), url=url, deadlines=QUICK)


def said(*calls: Any, name: str = "get_weather") -> Answer:
    made = [{"function": {"name": name, "arguments": arguments}} for arguments in calls]
    return ndjson({"message": {"content": "", "tool_calls": made}, "done": False}, DONE)


def wrote(text: str, **last: Any) -> Answer:
    pieces = [{"message": {"content": text[at : at + 4]}, "done": False} for at in range(0, len(text), 4)]
    return ndjson(*pieces, {**DONE, **last})


def written(arguments: object) -> str:
    return json.dumps({"name": "get_weather", "arguments": arguments})


def test_a_call_of_its_own_accord_is_checked() -> None:
    reply, requests = generated(on(), [said({"city": "Paris"})], asked())
    assert (requests[0].path, requests[0].body["model"]) == ("/api/chat", "m")
    assert requests[0].body["options"]["num_predict"] == 512
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert (receipt.how, receipt.engine, receipt.notes) == (How.VALIDATED, "ollama", ())
    assert (reply.finish, reply.usage) == (FinishReason.TOOL_CALLS, Usage(20, 7))


@pytest.mark.parametrize("choice", [ToolChoice.required(), ToolChoice.one("get_weather")])
def test_a_demanded_call_is_held_by_the_format_field_and_the_receipt_says_so(choice: ToolChoice) -> None:
    request = asked(tools=(WEATHER, TAGS), choice=choice)
    reply, requests = generated(on(), [wrote(written({"city": "Paris"}))], request)
    assert "tools" not in requests[0].body
    assert "get_weather" in json.dumps(requests[0].body["format"])
    assert reply.calls[0].arguments == {"city": "Paris"}
    receipt = reply.calls[0].receipt
    assert receipt is not None
    assert "format field" in receipt.notes[0]


def test_a_repair_is_held_by_the_format_field() -> None:
    answers = [said({"city": "Paris", "days": 9}), wrote(written({"city": "Paris", "days": 2}))]
    reply, requests = generated(on(), [answers[0], replace(answers[1], chunks=(_whole(answers[1]),))], asked())
    assert reply.calls[0].arguments == {"city": "Paris", "days": 2}
    assert requests[1].body["format"]["properties"]["name"] == {"const": "get_weather"}
    assert requests[1].body["stream"] is False


def _whole(answer: Answer) -> bytes:
    """The one object that Ollama sends where it does not stream."""
    text = "".join(json.loads(chunk).get("message", {}).get("content", "") for chunk in answer.chunks)
    return json.dumps({"message": {"content": text}, **DONE}).encode()


def test_none_is_kept_by_offering_nothing_and_a_call_all_the_same_is_refused() -> None:
    reply, requests = generated(on(), [said({"city": "Paris"})], asked(choice=ToolChoice.none()))
    assert "tools" not in requests[0].body
    assert reply.calls == ()
    assert [found.code for found in reply.diagnostics] == ["not_offered"]


def test_one_call_only_is_kept_by_refusing_the_second() -> None:
    request = replace(asked(), parallel_tool_calls=False)
    reply, _ = generated(on(), [said({"city": "Paris"}, {"city": "Rome"})], request)
    assert [made.arguments["city"] for made in reply.calls] == ["Paris"]
    assert [found.code for found in reply.diagnostics] == ["one_call_only"]


def test_prose_where_a_call_was_demanded_is_asked_for_once_more_and_then_told() -> None:
    reply, requests = generated(on(), [wrote("Sure!"), wrote("Sure!")], asked(choice=ToolChoice.required()))
    assert len(requests) == 2
    assert [found.code for found in reply.diagnostics] == ["no_call", "no_call", "choice_not_honoured"]


def test_arguments_that_are_no_object_are_refused() -> None:
    for arguments in ("Paris", ["Paris"], None):
        reply, _ = generated(on(repairs=0), [said(arguments)], asked())
        assert reply.calls == ()
        assert [found.code for found in reply.diagnostics] == ["invalid_arguments"]


def test_a_forced_call_that_ran_out_of_tokens_is_refused() -> None:
    answer = wrote(written({"city": "Paris"})[:-8], done_reason="length")
    reply, requests = generated(on(), [answer], asked(choice=ToolChoice.required()))
    assert (reply.calls, reply.finish, len(requests)) == ((), FinishReason.LENGTH, 1)
