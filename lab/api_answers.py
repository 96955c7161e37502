"""Ask an engine, or a gateway in this process in one of its APIs, and read the calls of the answer.

The streams are read here, event by event, and not by the package under test.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ferrule.core.message import ChatMessage
from ferrule.core.request import ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.engines.engine import Engine
from ferrule.errors import FerruleError

_MODES: Final = ("auto", "required")


@dataclass(frozen=True, slots=True)
class Answer:
    """The calls as names and arguments, why the answer ended, and the code of an error."""

    calls: Sequence[tuple[str, Any]]
    finish: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """A request in no particular API. `choice` is "auto", "required" or the name of a tool."""

    text: str
    tools: Sequence[ToolDefinition]
    choice: str
    max_tokens: int
    is_one_call: bool = False
    """Whether at most one call may be made."""


async def ask_engine(engine: Engine, question: Question) -> Answer:
    choices = {"auto": ToolChoice.auto(), "required": ToolChoice.required()}
    request = ToolCallRequest(
        messages=(ChatMessage.user(question.text),),
        tools=tuple(question.tools),
        tool_choice=choices.get(question.choice) or ToolChoice.one(question.choice),
        max_tokens=question.max_tokens,
        parallel_tool_calls=not question.is_one_call,
    )
    try:
        reply = await engine.generate_with_tools(request)
    except FerruleError as error:
        return Answer([], "error", error.code)
    calls = [(call.name, json.loads(call.function.arguments)) for call in reply.calls]
    return Answer(calls, reply.finish_reason.value)


async def ask_api(client: Any, api: str, question: Question, *, is_streamed: bool) -> Answer:
    """Ask a gateway in this process; the client is that of the server's tests."""
    facts = APIS[api]
    response = await client.post(facts.path, {"model": "m", "stream": is_streamed, **facts.body(question)})
    if response.status != 200:
        return Answer([], "error", _code(response.json()) or str(response.status))
    return facts.read_events(response.events()) if is_streamed else facts.read_body(response.json())


def _chat_request(question: Question) -> dict[str, Any]:
    is_named = question.choice not in _MODES
    return {
        "messages": [{"role": "user", "content": question.text}],
        "tools": [{"type": "function", "function": _function(tool, "parameters")} for tool in question.tools],
        "tool_choice": {"type": "function", "function": {"name": question.choice}} if is_named else question.choice,
        "parallel_tool_calls": not question.is_one_call,
        "max_tokens": question.max_tokens,
    }


def _responses_request(question: Question) -> dict[str, Any]:
    is_named = question.choice not in _MODES
    return {
        "input": question.text,
        "tools": [{"type": "function", "strict": False, **_function(tool, "parameters")} for tool in question.tools],
        "tool_choice": {"type": "function", "name": question.choice} if is_named else question.choice,
        "parallel_tool_calls": not question.is_one_call,
        "max_output_tokens": question.max_tokens,
    }


def _messages_request(question: Question) -> dict[str, Any]:
    modes = {"auto": {"type": "auto"}, "required": {"type": "any"}}
    choice = modes.get(question.choice) or {"type": "tool", "name": question.choice}
    return {
        "messages": [{"role": "user", "content": question.text}],
        "tools": [_function(tool, "input_schema") for tool in question.tools],
        "tool_choice": {**choice, "disable_parallel_tool_use": question.is_one_call},
        "max_tokens": question.max_tokens,
    }


def _function(tool: ToolDefinition, key: str) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, key: tool.parameters}


def _read_chat(events: Sequence[Mapping[str, Any]]) -> Answer:
    calls: dict[int, list[str]] = {}
    finish, error = "", ""
    for event in events:
        error = error or _code(event)
        for choice in event.get("choices", ()):
            finish = choice.get("finish_reason") or finish
            for delta in choice["delta"].get("tool_calls") or ():
                call = calls.setdefault(delta["index"], ["", ""])
                call[0] += delta["function"].get("name") or ""
                call[1] += delta["function"].get("arguments") or ""
    return Answer([(name, json.loads(text)) for name, text in calls.values()], finish, error)


def _read_responses(events: Sequence[Mapping[str, Any]]) -> Answer:
    """Items that a client would run: those that are done, whatever their status."""
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    calls = [(item["name"], json.loads(item["arguments"])) for item in done if item["type"] == "function_call"]
    last = events[-1].get("response", {})
    return Answer(calls, _responses_finish(last), _code(last))


def _read_messages(events: Sequence[Mapping[str, Any]]) -> Answer:
    blocks: dict[int, list[str]] = {}
    finish, error = "", ""
    for event in events:
        match event["type"]:
            case "content_block_start" if event["content_block"]["type"] == "tool_use":
                blocks[event["index"]] = [event["content_block"]["name"], ""]
            case "content_block_delta" if event["delta"]["type"] == "input_json_delta":
                blocks[event["index"]][1] += event["delta"]["partial_json"]
            case "message_delta":
                finish = event["delta"]["stop_reason"]
            case "error":
                error = _code(event)
            case _:
                pass
    reason = "length" if finish == "max_tokens" else finish
    return Answer([(name, json.loads(text or "{}")) for name, text in blocks.values()], reason, error)


def _chat_answer(body: Mapping[str, Any]) -> Answer:
    (choice,) = body["choices"]
    functions = [call["function"] for call in choice["message"].get("tool_calls") or ()]
    return Answer([(one["name"], json.loads(one["arguments"])) for one in functions], choice["finish_reason"])


def _responses_answer(body: Mapping[str, Any]) -> Answer:
    items = [item for item in body["output"] if item["type"] == "function_call"]
    calls = [(item["name"], json.loads(item["arguments"])) for item in items]
    return Answer(calls, _responses_finish(body), _code(body))


def _responses_finish(response: Mapping[str, Any]) -> str:
    details: dict[str, Any] = response.get("incomplete_details") or {}
    return "length" if details.get("reason") == "max_output_tokens" else response.get("status", "")


def _messages_answer(body: Mapping[str, Any]) -> Answer:
    calls = [(block["name"], block["input"]) for block in body["content"] if block["type"] == "tool_use"]
    return Answer(calls, "length" if body["stop_reason"] == "max_tokens" else body["stop_reason"])


@dataclass(frozen=True, slots=True)
class _Api:
    path: str
    body: Callable[[Question], dict[str, Any]]
    read_events: Callable[[Sequence[Mapping[str, Any]]], Answer]
    read_body: Callable[[Mapping[str, Any]], Answer]


APIS: Final[Mapping[str, _Api]] = {
    "chat": _Api("/v1/chat/completions", _chat_request, _read_chat, _chat_answer),
    "responses": _Api("/v1/responses", _responses_request, _read_responses, _responses_answer),
    "messages": _Api("/v1/messages", _messages_request, _read_messages, _messages_answer),
}


def _code(body: Mapping[str, Any]) -> str:
    """The code of an error. Messages has no codes, and Responses only its own: there it is in the extension."""
    error: dict[str, Any] = body.get("error") or {}
    ours: dict[str, Any] = body.get("ferrule") or {}
    return str(ours.get("error", error).get("code") or "error") if error else ""
