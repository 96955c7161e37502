"""Convert input items into messages. The items of one assistant turn become one message, in order.

Clients that resend everything also send what the gateway ran itself: a call with its output becomes a call and its
result, a denied call becomes a call and an error, and lists of tools are dropped, because the model does not need them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.event import ToolSearch
from ferrule.core.json_text import dumps
from ferrule.core.media import Media
from ferrule.core.message import ChatMessage, Part, Reasoning, Role, Text
from ferrule.core.tool_search import read_search
from ferrule.dialects.field import Field
from ferrule.dialects.lenient_json import entries, mapping
from ferrule.dialects.lenient_json import text as text_or_nothing
from ferrule.dialects.openai_responses.client_tools import (
    ClientTool,
    ClientToolKind,
    OfferedTools,
    custom_arguments,
)
from ferrule.dialects.openai_responses.compaction import open_summary
from ferrule.dialects.openai_responses.hosted_tools import HostedTool, Hosts, model_name_of
from ferrule.dialects.openai_responses.media import KINDS, read_media
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
    tools: OfferedTools = field(default_factory=OfferedTools)
    answers: list[ApprovalAnswer] = field(default_factory=list[ApprovalAnswer])
    names: dict[str, str] = field(default_factory=dict[str, str])
    requests: dict[str, ToolCall] = field(default_factory=dict[str, ToolCall])
    server_search: Field | None = None
    """The latest search of the server, before its output."""
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

    def add_search(self, search: ToolSearch) -> None:
        """Add a search of the assistant with its result. Calls that it wrote before follow, as in the live answer."""
        self.apply_answers()
        if self._results:
            self._flush()
        first = next((at for at, part in enumerate(self._turn) if isinstance(part, ToolCall)), len(self._turn))
        self._messages.append(ChatMessage(Role.ASSISTANT, (*self._turn[:first], search.call)))
        self._messages.append(ChatMessage(Role.TOOL, (search.result,)))
        self._turn = self._turn[first:]

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
    parts: list[Part] = (
        [*read_parts(item["content"])] if role is Role.USER else [Text(text) for text in read_texts(item["content"])]
    )
    if role is Role.ASSISTANT:
        history.add_assistant_parts(*parts)
    else:
        history.add(ChatMessage(role, tuple(parts)))


def _reasoning(history: History, item: Field) -> None:
    # The text itself if there is one, otherwise its summary.
    thoughts = read_texts(item["content"]) or read_texts(item["summary"])
    history.add_assistant_parts(*([Reasoning("".join(thoughts))] if thoughts else []))


def _call(history: History, item: Field) -> None:
    _add_call(history, item, ClientToolKind.FUNCTION, item["arguments"].string())


def _custom_call(history: History, item: Field) -> None:
    _add_call(history, item, ClientToolKind.CUSTOM, dumps(custom_arguments(item["input"].string())))


def _add_call(history: History, item: Field, kind: ClientToolKind, arguments: str) -> None:
    tool = ClientTool(item["name"].string(), item["namespace"].or_else(Field.string, ""), kind)
    call = ToolCall(item["call_id"].string(), FunctionCall(history.tools.model_name(tool), arguments))
    history.names[call.id] = call.name
    history.add_assistant_parts(call)


def _search_call(history: History, item: Field) -> None:
    arguments = item["arguments"]
    arguments.object()
    item["execution"].optional(Field.string)
    if not item["call_id"].is_given:
        # The server ran the search.
        history.server_search = item
        return
    call = ToolCall(
        item["call_id"].string(), FunctionCall(history.tools.search_name or "tool_search", arguments.json())
    )
    history.names[call.id] = call.name
    history.add_assistant_parts(call)


def _search_output(history: History, item: Field) -> None:
    item["execution"].optional(Field.string)
    if not item["call_id"].is_given:
        _server_search_output(history, item)
        return
    found = history.tools.add(item["tools"], is_found=True)
    if item["call_id"].is_given:
        id = item["call_id"].string()
        text = f"Found these tools, which you can call now: {', '.join(found)}." if found else "Found no tools."
        history.add(ChatMessage(Role.TOOL, (ToolResult(id, history.names.get(id, ""), text),)))


def _server_search_output(history: History, item: Field) -> None:
    call, history.server_search = history.server_search, None
    declared = history.tools.search
    found = history.tools.found(item)
    if call is None or declared is None:
        # Another service ran the search, or the request declares none: only what was found matters.
        return
    id, arguments = call["id"].or_else(Field.string, ""), call["arguments"]
    query = arguments["query"].value
    known = tuple(name for name in found if name in declared.deferred)
    text = query if isinstance(query, str) else ""
    history.add_search(read_search(declared.name, id or f"search_{len(history.names)}", arguments.json(), text, known))


def _additional_tools(history: History, item: Field) -> None:
    item["role"].optional(Field.string)
    history.tools.add(item["tools"], is_found=False)


def _compaction(history: History, item: Field) -> None:
    text = open_summary(item["encrypted_content"].string())
    if text is None:
        # Only the service that made it can read it.
        item["encrypted_content"].leave_out("compaction")
    history.add_assistant_parts(*([Text(text)] if text is not None else []))


def _output(history: History, item: Field) -> None:
    id = item["call_id"].string()
    if not item["output"].is_given:
        raise item["output"].refusal("is missing", "Send the result as a string or as a list of input_text.")
    parts = read_parts(item["output"])
    text = "".join(part.text for part in parts if isinstance(part, Text))
    media = [part for part in parts if isinstance(part, Media)]
    result = ToolResult(id, history.names.get(id, ""), text, media=media)
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
    "custom_tool_call": _custom_call,
    "custom_tool_call_output": _output,
    "tool_search_call": _search_call,
    "tool_search_output": _search_output,
    "additional_tools": _additional_tools,
    "compaction": _compaction,
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


def read_parts(field: Field) -> list[Text | Media]:
    """Read what a user or a tool may send: text, images, recordings and files."""
    if isinstance(field.value, str):
        return [Text(field.value)]
    return [
        read_media(part, kind) if (kind := part["type"].string()) in KINDS else Text(_read_part(part))
        for part in field.items()
    ]


def _read_part(part: Field) -> str:
    kind = part["type"].string()
    if kind == "refusal":
        return part["refusal"].string()
    if kind not in _TEXT_KINDS:
        raise part["type"].refusal(
            f"{kind[:60]!r} is not supported",
            f"Send text. A user's message and the output of a call may also have {', '.join(KINDS)}.",
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
