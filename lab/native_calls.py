"""An engine's own tool calling, asked over its OpenAI endpoint as any client would ask it, and judged as it answers."""

import json
from typing import Any

from ferrule.bench.bfcl_requests import Question
from ferrule.bench.validity_count import Tally, in_width
from ferrule.core.choice import ToolChoice
from ferrule.engines.http import Http
from ferrule.errors import FerruleError


async def tally_native(
    http: Http, asked: list[Question], choice: str, *, width: int = 8, max_tokens: int = 512, advance: Any = None
) -> Tally:
    """Ask each question; what comes back is read to the letter, with nothing mended."""
    tally = Tally()

    async def ask(question: Question) -> None:
        try:
            answer = await http.post("/v1/chat/completions", _body(question, choice, max_tokens))
        except FerruleError as refusal:
            tally.failed(question, refusal.message)
        else:
            said = answer["choices"][0]
            calls = [_call(call) for call in said["message"].get("tool_calls") or ()]
            tally.add(question, calls, is_cut_off=said["finish_reason"] == "length")
            tally.tokens += answer["usage"]["completion_tokens"]
        if advance:
            advance()

    await in_width(width, (ask(question) for question in asked))
    return tally


def _body(question: Question, choice: str, max_tokens: int) -> dict[str, Any]:
    request = question.request(ToolChoice.auto())
    return {
        "model": "smol",
        "messages": [{"role": said.role.value, "content": said.content} for said in request.messages],
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
