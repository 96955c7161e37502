"""Prompt: a conversation with tools as plain messages, for models whose chat template knows nothing of tools.

Tools are shown in the system message; calls and results become text in the format's own spelling. How to call is shown
by a made-up call that the format itself renders, so the instruction cannot disagree with what will be parsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.json_text import dumps
from ferrule.core.message import ChatMessage, Role
from ferrule.core.reply import Reply
from ferrule.core.tool import ToolDefinition
from ferrule.wire.format import Format
from ferrule.wire.parser import parse
from ferrule.wire.part_order import arranged
from ferrule.wire.renderer import render, render_results

_EXAMPLE_TOOL = ToolDefinition.build("example_tool").parameter("name", {"type": "string"}).done()


def format_with_tools(
    format: Format, messages: Sequence[ChatMessage], tools: Iterable[ToolDefinition]
) -> tuple[ChatMessage, ...]:
    """The same conversation in system, user and assistant text alone, the tools told in the system message."""
    offered = tuple(tools)
    return _declared(format, as_plain_text(format, messages, offered), offered)


def as_plain_text(
    format: Format, messages: Sequence[ChatMessage], tools: Iterable[ToolDefinition]
) -> list[ChatMessage]:
    """The same conversation without calls and results as such; results in a row come in one user message."""
    offered = (*(given := tuple(tools)), *_offered_once(messages, given))
    plain: list[ChatMessage] = []
    calls_before = 0
    for has_results, group in groupby(messages, key=lambda message: bool(message.results)):
        run = tuple(group)
        if has_results:
            told = render_results(format, [result for message in run for result in message.results])
            said = "".join(message.content for message in run)
            plain.append(ChatMessage.user(f"{told}\n{said}" if said else told))
            continue
        for message in run:
            plain.append(_as_text(format, message, offered, calls_before))
            calls_before += len(message.tool_calls)
    return plain


def parse_tool_calls(format: Format, text: str, tools: Iterable[ToolDefinition] | None = None) -> tuple[ToolCall, ...]:
    """The calls in a model's output that may be handed on."""
    return parse(format, text, tools).calls


def has_native_support(format: Format, template: str) -> bool:
    """Whether a chat template is written for this format: it contains every mark of the family."""
    return bool(format.marks) and all(mark in template for mark in format.marks)


def declaration(format: Format, tools: Iterable[ToolDefinition]) -> str:
    """What a model is told about its tools."""
    shape = format.declaration
    shown = (tool.as_function() if shape.as_function else tool.as_function()["function"] for tool in tools)
    listed = shape.open + shape.sep.join(map(dumps, shown)) + shape.close
    call = ToolCall.of(_EXAMPLE_TOOL.name, {"name": "value"}, id=format.ids.sample(_EXAMPLE_TOOL.name, 0))
    example = render(format, Reply.of(call), (_EXAMPLE_TOOL,))
    return f"These tools can be called:\n{listed}\nTo call one, write exactly in this way:\n{example}"


def _offered_once(messages: Iterable[ChatMessage], offered: Iterable[ToolDefinition]) -> list[ToolDefinition]:
    """The tools that were called earlier and are not offered now: what was said with them stays as it was."""
    names = dict.fromkeys(call.name for message in messages for call in message.tool_calls)
    known = {tool.name for tool in offered}
    return [ToolDefinition(name) for name in names if name not in known]


def _as_text(format: Format, message: ChatMessage, tools: tuple[ToolDefinition, ...], calls_before: int) -> ChatMessage:
    if not message.tool_calls and not message.reasoning:
        return message
    parts = tuple(part for part in message.parts if not isinstance(part, ToolResult))
    text = render(format, arranged(format, Reply(parts)), tools, calls_before=calls_before)
    return ChatMessage.assistant(text)


def _declared(
    format: Format, messages: list[ChatMessage], tools: tuple[ToolDefinition, ...]
) -> tuple[ChatMessage, ...]:
    if not tools:
        return tuple(messages)
    told = declaration(format, tools)
    if messages and messages[0].role is Role.SYSTEM:
        return (ChatMessage.system(f"{messages[0].content}\n\n{told}"), *messages[1:])
    return (ChatMessage.system(told), *messages)
