"""Count valid replies of an engine's own tool calling, over its OpenAI endpoint, without any repair."""

import json
from typing import Any

from ferrule.bench.bfcl_requests import Question
from ferrule.bench.validity_count import ReplyCounts, run_concurrently
from ferrule.core.request import ToolChoice
from ferrule.engines.http import HttpClient
from ferrule.errors import FerruleError


async def count_native_replies(
    http: HttpClient,
    questions: list[Question],
    choice: str,
    *,
    width: int = 8,
    max_tokens: int = 512,
    advance: Any = None,
) -> ReplyCounts:
    """Ask each question; replies are judged as they are, without any repair."""
    tally = ReplyCounts()

    async def ask(question: Question) -> None:
        try:
            answer = await http.post("/v1/chat/completions", native_body(question, choice, max_tokens))
        except FerruleError as refusal:
            tally.add_error(question, refusal.message)
        else:
            answer_choice = answer["choices"][0]
            calls = [_call(call) for call in answer_choice["message"].get("tool_calls") or ()]
            tally.add(question, calls, is_cut_off=answer_choice["finish_reason"] == "length")
            tally.tokens += answer["usage"]["completion_tokens"]
        if advance:
            advance()

    await run_concurrently(width, (ask(question) for question in questions))
    return tally


def native_body(question: Question, choice: str, max_tokens: int) -> dict[str, Any]:
    """The request as an OpenAI client sends it."""
    request = question.request(ToolChoice.auto())
    return {
        "model": "smol",
        "messages": [{"role": message.role.value, "content": message.content} for message in request.messages],
        "tools": [tool.as_function() for tool in request.tools],
        "tool_choice": choice,
        "parallel_tool_calls": request.parallel_tool_calls,
        "max_tokens": max_tokens,
        "temperature": 0,
        "seed": 1,
    }


def _call(call: Any) -> tuple[str, Any]:
    try:
        return call["function"]["name"], json.loads(call["function"]["arguments"])
    except ValueError:
        return call["function"]["name"], None
