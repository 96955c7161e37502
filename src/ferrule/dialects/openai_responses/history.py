"""Convert input items into messages. The items of one assistant turn become one message, in order.

Clients that resend everything also send what the gateway ran itself: a call with its output becomes a call and its
result, a denied call becomes a call and an error, and lists of tools are dropped, because the model does not need them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.message import ChatMessage, Part, Reasoning, Role, Text
from ferrule.dialects.field import Field
from ferrule.dialects.lenient_json import entries, mapping
from ferrule.dialects.lenient_json import text as text_or_nothing
from ferrule.dialects.openai_responses.hosted_tools import HostedTool, Hosts, model_name_of
from ferrule.dialects.openai_responses.responses_request import ApprovalAnswer

_ROLES = {"system": Role.SYSTEM, "developer": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT}
_TEXT_KINDS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")


@dataclass(slots=True)
class History:
    """Call `add_item` with every item, then `finish`.

    `answers` are the answers to approval requests that have had no effect yet. `names` are the names of the called
    functions, `requests` the calls that needed approval, both by id.
    """

    hosts: Hosts = field(default_factory=dict[str, tuple[HostedTool, ...]])
    answers: list[ApprovalAnswer] = field(default_factory=list[ApprovalAnswer])
    names: dict[str, str] = field(default_factory=dict[str, str])
    requests: dict[str, ToolCall] = field(default_factory=dict[str, ToolCall])
    _messages: list[ChatMessage] = field(default_factory=list[ChatMessage])
    _turn: list[Part] = field(default_factory=list[Part])
    _results: list[ToolResult] = field(default_factory=list[ToolResult])

    def add_item(self, item: Field) -> None:
        kind = item["type"].or_else(Field.string, "message")
        read = _READERS.get(kind)
        if read is None:
            raise item["type"].refusal(f"{kind[:60]!r} is not supported", _HINTS.get(kind, _HINT))
        read(self, item)

    def finish(self) -> tuple[ChatMessage, ...]:
        self._flush()
        return tuple(self._messages)

    def add_assistant_parts(self, *parts: Part) -> None:
        """Add text, reasoning or calls of the assistant."""
        self.apply_answers()
        if self._results:
            self._flush()
        self._turn += parts

    def add_hosted_call(self, call: ToolCall, result: ToolResult) -> None:
        """Add a call that the gateway ran. Consecutive ones are treated as parallel calls."""
        self.apply_answers()
        self._turn.append(call)
        self._results.append(result)

    def add(self, message: ChatMessage) -> None:
        """Add a message that is not the assistant's."""
        self._flush()
        self._messages.append(message)

    def apply_answers(self) -> None:
        """Apply the answers so far: assistant output follows, so they took effect. A denial reads as in the loop."""
        answers, self.answers = self.answers, []
        for answer in answers:
            call = self.requests.pop(answer.id, None)
            if call is not None and not answer.approve:
                message = f"denied: {answer.reason}" if answer.reason else "denied by the user"
                self.add_hosted_call(call, ToolResult(call.id, call.name, message, is_error=True))

    def _flush(self) -> None:
        if self._turn:
            self._messages.append(ChatMessage(Role.ASSISTANT, tuple(self._turn)))
            self._turn = []
        if self._results:
            self._messages.append(ChatMessage(Role.TOOL, tuple(self._results)))
            self._results = []


def _message(history: History, item: Field) -> None:
    role = item["role"].one_of(_ROLES)
    parts: list[Part] = [Text(text) for text in read_texts(item["content"])]
    if role is Role.ASSISTANT:
        history.add_assistant_parts(*parts)
    else:
        history.add(ChatMessage(role, tuple(parts)))


def _reasoning(history: History, item: Field) -> None:
    # The text itself if there is one, otherwise its summary.
    thoughts = read_texts(item["content"]) or read_texts(item["summary"])
    history.add_assistant_parts(*([Reasoning("".join(thoughts))] if thoughts else []))


def _call(history: History, item: Field) -> None:
    call = ToolCall(item["call_id"].string(), FunctionCall(item["name"].string(), item["arguments"].string()))
    history.names[call.id] = call.name
    history.add_assistant_parts(call)


def _output(history: History, item: Field) -> None:
    id = item["call_id"].string()
    if not item["output"].is_given:
        raise item["output"].refusal("is missing", "Send the result as a string or as a list of input_text.")
    result = ToolResult(id, history.names.get(id, ""), "".join(read_texts(item["output"])))
    history.add(ChatMessage(Role.TOOL, (result,)))


def _hosted_call(history: History, item: Field) -> None:
    call = _hosted_tool_call(history, item)
    output, error = item["output"].optional(Field.string), item["error"].value
    if error is not None:
        history.add_hosted_call(call, ToolResult(call.id, call.name, error_text(error), is_error=True))
    elif output is not None:
        history.add_hosted_call(call, ToolResult(call.id, call.name, output))
    else:
        # It was cut off. Like every incomplete call, it is not sent to the model again.
        history.apply_answers()


def _request(history: History, item: Field) -> None:
    history.apply_answers()
    call = _hosted_tool_call(history, item)
    history.requests[call.id] = call


def _answer(history: History, item: Field) -> None:
    id = item["approval_request_id"].string()
    if any(answer.id == id for answer in history.answers):
        raise item["approval_request_id"].refusal("is answered twice", "Answer each request once.")
    history.answers.append(ApprovalAnswer(id, item["approve"].boolean(), item["reason"].or_else(Field.string, "")))


def _list(history: History, item: Field) -> None:
    item["server_label"].string()
    item["tools"].items()


def _hosted_tool_call(history: History, item: Field) -> ToolCall:
    name = model_name_of(history.hosts, item["server_label"].string(), item["name"].string())
    return ToolCall(item["id"].string(), FunctionCall(name, item["arguments"].string()))


_READERS: dict[str, Callable[[History, Field], None]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _call,
    "function_call_output": _output,
    "mcp_call": _hosted_call,
    "mcp_approval_request": _request,
    "mcp_approval_response": _answer,
    "mcp_list_tools": _list,
}
_HINT = f"Send items of these types: {', '.join(_READERS)}."
_HINTS = {
    "item_reference": "Send the item itself, or leave it out and name its response in previous_response_id: "
    "all items of a stored response come with it.",
}


def read_texts(field: Field) -> list[str]:
    if isinstance(field.value, str):
        return [field.value]
    return [_read_part(part) for part in field.items()]


def _read_part(part: Field) -> str:
    kind = part["type"].string()
    if kind == "refusal":
        return part["refusal"].string()
    if kind not in _TEXT_KINDS:
        raise part["type"].refusal(
            f"{kind[:60]!r} is not supported", "Send text; images, audio and files are not supported."
        )
    return part["text"].string()


def error_text(error: object) -> str:
    """Return the message of an error in any of the API's shapes; in older versions it is a string."""
    if isinstance(error, str):
        return error
    fields = mapping(error)
    content = fields.get("content")
    parts = [{"text": content}] if isinstance(content, str) else entries(content)
    message = "".join(text_or_nothing(part.get("text")) for part in parts)
    return message or text_or_nothing(fields.get("message")) or "the tool failed"
