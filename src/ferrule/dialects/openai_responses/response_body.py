"""The body of a response that is not streamed. It contains only complete calls; the order of the parts is preserved."""

from __future__ import annotations

from typing import Any

from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.event import FinishReason, Usage
from ferrule.core.message import Reasoning, Text
from ferrule.core.reply import Reply, ReplyPart
from ferrule.core.request import ToolCallRequest, ToolChoice
from ferrule.dialects.engine_options import OF_RESPONSES, add_responses_options
from ferrule.dialects.extension import Extension
from ferrule.dialects.openai_error import error_body
from ferrule.dialects.openai_responses.responses_request import ResponsesRequest
from ferrule.dialects.openai_responses.tool_choice import choice_body, tool_body

__all__ = ["body_of", "count_body", "error_body", "head_of", "item_of", "response_of"]


_UNUSED: dict[str, Any] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "reasoning": {"effort": None, "summary": None},
    "service_tier": "default",
    "safety_identifier": None,
    "prompt_cache_key": None,
}
"""Fields that a response must have, also where the request says nothing of them: Open Responses requires each, and
null in a few only. The numbers are the API's defaults; an engine that gets none uses its own."""


def body_of(
    reply: Reply, *, id: str, model: str, created: int, request: ToolCallRequest | None = None
) -> dict[str, Any]:
    """Return the body. `request` is echoed, as in OpenAI's API: its tools and its choice."""
    parts = [part for part in reply.parts if not isinstance(part, ToolCall) or part.complete]
    output = [item_of(part, item_id(id, at, part)) for at, part in enumerate(parts)]
    head = head_of(id=id, model=model, created=created, request=request)
    return {**response_of(head, output, reply.finish_reason, reply.usage), **Extension.of(reply).as_field()}


def head_of(
    *,
    id: str,
    model: str,
    created: int,
    request: ToolCallRequest | None,
    responses_request: ResponsesRequest | None = None,
) -> dict[str, Any]:
    """Return the fields that are the same in every state of a response. `responses_request` is echoed."""
    if responses_request:
        tools = [*responses_request.declared_tools]
    else:
        tools = [tool_body(tool, strict=False) for tool in request.tools] if request else []
    hosted = [dict(server.declared) for server in responses_request.servers] if responses_request else []
    sampling = {"temperature": request.temperature, "top_p": request.top_p} if request else {}
    head: dict[str, Any] = {
        "id": id,
        "object": "response",
        "created_at": created,
        "completed_at": None,
        "model": model,
        "parallel_tool_calls": request.parallel_tool_calls if request else True,
        "tool_choice": responses_request.choice
        if responses_request
        else choice_body(request.tool_choice if request else ToolChoice.auto()),
        "tools": tools + hosted,
        "error": None,
        "incomplete_details": None,
        "instructions": responses_request.instructions if responses_request else None,
        "metadata": dict(responses_request.metadata) if responses_request else {},
        **_UNUSED,
        **{name: value for name, value in sampling.items() if value is not None},
        "max_output_tokens": request.max_tokens if request else None,
        "truncation": "disabled",
        "usage": None,
    }
    if responses_request is not None:
        head |= _echoed(responses_request)
    return _with_options(head, request) if request else head


def _with_options(head: dict[str, Any], request: ToolCallRequest) -> dict[str, Any]:
    """Return the head with the options that the engine is sent, in place of the defaults."""
    options = {name: value for name, value in request.engine_options.items() if name in OF_RESPONSES}
    head = {**head}
    add_responses_options(head, options)
    return head


def _echoed(responses_request: ResponsesRequest) -> dict[str, Any]:
    stored = {
        "previous_response_id": responses_request.previous_response_id,
        "background": responses_request.background,
        "store": responses_request.store,
    }
    labels = dict(responses_request.labels)
    text = dict(responses_request.text)
    return {**stored, **labels, "max_tool_calls": responses_request.max_tool_calls, "text": text}


def response_of(
    head: dict[str, Any], output: list[dict[str, Any]], finish: FinishReason, usage: Usage | None
) -> dict[str, Any]:
    is_cut = finish is FinishReason.LENGTH
    return {
        **head,
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "output": output,
        "usage": usage_body(usage) if usage else None,
    }


_ID_PREFIXES: dict[type[ReplyPart], str] = {Text: "msg", Reasoning: "rs", ToolCall: "fc"}


def item_id(response_id: str, at: int, part: ReplyPart) -> str:
    return f"{_ID_PREFIXES[part.__class__]}_{response_id}_{at}"


def item_of(part: ReplyPart, id: str, status: str = "completed") -> dict[str, Any]:
    match part:
        case Text(text):
            content = [text_part(text)]
            return {"id": id, "type": "message", "status": status, "role": "assistant", "content": content}
        case Reasoning(text):
            content = [reasoning_part(text)]
            return {"id": id, "type": "reasoning", "summary": [], "content": content, "status": status}
        case ToolCall(call_id, FunctionCall(name, arguments)):
            call = {"call_id": call_id, "name": name, "arguments": arguments}
            return {"id": id, "type": "function_call", "status": status, **call}


def text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def reasoning_part(text: str) -> dict[str, Any]:
    return {"type": "reasoning_text", "text": text}


def usage_body(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def count_body(prompt_tokens: int) -> dict[str, Any]:
    """Return the body of a token count."""
    return {"object": "response.input_tokens", "input_tokens": prompt_tokens}
