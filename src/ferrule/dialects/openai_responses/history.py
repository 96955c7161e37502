"""Input items as messages. Items that belong to one turn of the assistant become one message, in their order.

What the gateway ran itself comes back from clients that resend everything: a call with its output is a call and its
result, a call that was not allowed is a call and a refusal, and a list of tools says nothing that a model has to read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.message import ChatMessage, Part, Reasoning, Role, Text
from ferrule.dialects.field import Field
from ferrule.dialects.lenient_json import entries, mapping
from ferrule.dialects.lenient_json import text as text_or_nothing
from ferrule.dialects.openai_responses.hosted_tools import HostedTool, Hosts, wire_name
from ferrule.dialects.openai_responses.responses_request import ApprovalAnswer

_ROLES = {"system": Role.SYSTEM, "developer": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT}
_TEXT_KINDS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")


@dataclass(slots=True)
class History:
    """`take` every item, then `ended`. `answers` are those to requests for leave that nothing has come of yet.

    `names` are those of the functions called, `requests` the calls that leave was asked for, both by id.
    """

    hosts: Hosts = field(default_factory=dict[str, tuple[HostedTool, ...]])
    answers: list[ApprovalAnswer] = field(default_factory=list[ApprovalAnswer])
    names: dict[str, str] = field(default_factory=dict[str, str])
    requests: dict[str, ToolCall] = field(default_factory=dict[str, ToolCall])
    _messages: list[ChatMessage] = field(default_factory=list[ChatMessage])
    _turn: list[Part] = field(default_factory=list[Part])
    _results: list[ToolResult] = field(default_factory=list[ToolResult])

    def take(self, item: Field) -> None:
        kind = item["type"].or_else(Field.string, "message")
        read = _READERS.get(kind)
        if read is None:
            raise item["type"].refusal(f"{kind[:60]!r} is not taken here", _HINTS.get(kind, _HINT))
        read(self, item)

    def ended(self) -> tuple[ChatMessage, ...]:
        self._settle()
        return tuple(self._messages)

    def say(self, *parts: Part) -> None:
        """The assistant says or calls something."""
        self.go_on()
        if self._results:
            self._settle()
        self._turn += parts

    def ran(self, call: ToolCall, result: ToolResult) -> None:
        """A call that was not the client's. Those that follow each other might as well have been made side by side."""
        self.go_on()
        self._turn.append(call)
        self._results.append(result)

    def add(self, message: ChatMessage) -> None:
        """Somebody else says something."""
        self._settle()
        self._messages.append(message)

    def go_on(self) -> None:
        """The assistant goes on after the answers so far, so they were heard; a denial is told as the loop tells it."""
        answers, self.answers = self.answers, []
        for answer in answers:
            call = self.requests.pop(answer.id, None)
            if call is not None and not answer.approve:
                words = f"denied: {answer.reason}" if answer.reason else "denied by the user"
                self.ran(call, ToolResult(call.id, call.name, words, is_error=True))

    def _settle(self) -> None:
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
        history.say(*parts)
    else:
        history.add(ChatMessage(role, tuple(parts)))


def _reasoning(history: History, item: Field) -> None:
    # The text itself where there is one, else what was told of it.
    thoughts = read_texts(item["content"]) or read_texts(item["summary"])
    history.say(*([Reasoning("".join(thoughts))] if thoughts else []))


def _call(history: History, item: Field) -> None:
    call = ToolCall(item["call_id"].string(), FunctionCall(item["name"].string(), item["arguments"].string()))
    history.names[call.id] = call.name
    history.say(call)


def _output(history: History, item: Field) -> None:
    id = item["call_id"].string()
    if not item["output"].is_given:
        raise item["output"].refusal("is missing", "Send the result as a string or as a list of input_text.")
    result = ToolResult(id, history.names.get(id, ""), "".join(read_texts(item["output"])))
    history.add(ChatMessage(Role.TOOL, (result,)))


def _hosted_call(history: History, item: Field) -> None:
    call = _hosted(history, item)
    output, error = item["output"].optional(Field.string), item["error"].value
    if error is not None:
        history.ran(call, ToolResult(call.id, call.name, error_text(error), is_error=True))
    elif output is not None:
        history.ran(call, ToolResult(call.id, call.name, output))
    else:
        # It was broken off. Like every call that is not complete, it does not go back to the model.
        history.go_on()


def _request(history: History, item: Field) -> None:
    history.go_on()
    call = _hosted(history, item)
    history.requests[call.id] = call


def _answer(history: History, item: Field) -> None:
    id = item["approval_request_id"].string()
    if any(answer.id == id for answer in history.answers):
        raise item["approval_request_id"].refusal("was answered before", "Answer each request once.")
    history.answers.append(ApprovalAnswer(id, item["approve"].boolean(), item["reason"].or_else(Field.string, "")))


def _list(history: History, item: Field) -> None:
    item["server_label"].string()
    item["tools"].items()


def _hosted(history: History, item: Field) -> ToolCall:
    name = wire_name(history.hosts, item["server_label"].string(), item["name"].string())
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
    "all items of a stored response are taken up with it.",
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
        raise part["type"].refusal(f"{kind[:60]!r} is not taken here", "Send text; images, audio and files are not.")
    return part["text"].string()


def error_text(error: object) -> str:
    """The words of an error in any of the API's spellings, of which older ones are a string."""
    if isinstance(error, str):
        return error
    told = mapping(error)
    content = told.get("content")
    parts = [{"text": content}] if isinstance(content, str) else entries(content)
    words = "".join(text_or_nothing(part.get("text")) for part in parts)
    return words or text_or_nothing(told.get("message")) or "the tool failed"
