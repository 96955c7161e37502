"""Write a conversation with tools as plain messages, for models whose chat template does not support tools.

Tools are described in the system message; calls and results become text in the format's own syntax. The instruction on
how to call a tool is an example call that the format itself renders, so it always agrees with the parser.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from sys import getsizeof

from ferrule.core.byte_cache import ENTRY_BYTES, byte_cached
from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.json_text import dumps
from ferrule.core.media import Media
from ferrule.core.message import ChatMessage, Role
from ferrule.core.reply import Reply
from ferrule.core.tool import ToolDefinition
from ferrule.core.tool_cache import ToolCache
from ferrule.wire.format import Format
from ferrule.wire.history import own_ids, write_turn
from ferrule.wire.parser import parse
from ferrule.wire.renderer import render, render_results

_EXAMPLE_TOOL = ToolDefinition.build("example_tool").parameter("name", {"type": "string"}).done()


def format_with_tools(
    format: Format, messages: Sequence[ChatMessage], tools: Iterable[ToolDefinition]
) -> tuple[ChatMessage, ...]:
    """Return the conversation as system, user and assistant text only, with the tools described in the system message.

    Example:
        from ferrule import ChatMessage, ToolDefinition, format_with_tools
        from ferrule.formats import get_format

        tools = [ToolDefinition("ping", "Checks the service.")]
        messages = format_with_tools(get_format("generic_xml"), [ChatMessage.user("Is it up?")], tools)
    """
    return explained_conversation(format, messages, tools).messages


@dataclass(frozen=True, slots=True)
class PlainConversation:
    """A conversation as text only, and notes on what the format could not express as it was."""

    messages: tuple[ChatMessage, ...]
    notes: tuple[str, ...] = ()


def plain_conversation(
    format: Format, messages: Sequence[ChatMessage], tools: Iterable[ToolDefinition]
) -> PlainConversation:
    """Return the conversation with calls and results as text; consecutive results become one user message."""
    offered = (*(definitions := tuple(tools)), *_undeclared_tools(messages, definitions))
    plain: list[ChatMessage] = []
    messages, id_notes = own_ids(format, messages)
    notes = dict.fromkeys(id_notes)
    calls_before = 0
    for has_results, group in groupby(messages, key=lambda message: bool(message.results)):
        run = tuple(group)
        if has_results:
            results_text = render_results(format, [result for message in run for result in message.results])
            content = "".join(message.content for message in run)
            plain.append(ChatMessage.user(f"{results_text}\n{content}" if content else results_text))
            continue
        for message in run:
            text, turn_notes = _as_text(format, message, offered, calls_before)
            plain.append(text)
            notes |= dict.fromkeys(turn_notes)
            calls_before += len(message.tool_calls)
    return PlainConversation(tuple(plain), tuple(notes))


def explained_conversation(
    format: Format, messages: Sequence[ChatMessage], tools: Iterable[ToolDefinition]
) -> PlainConversation:
    """Return the plain conversation with the tools described in the system message."""
    definitions = tuple(tools)
    plain = plain_conversation(format, messages, definitions)
    return replace(plain, messages=_add_declaration(format, list(plain.messages), definitions))


def parse_tool_calls(format: Format, text: str, tools: Iterable[ToolDefinition] | None = None) -> tuple[ToolCall, ...]:
    """Return the complete calls in a model's output.

    Example:
        from ferrule import parse_tool_calls
        from ferrule.formats import get_format

        text = '<tool_call>{"name": "ping", "arguments": {}}</tool_call>'
        for call in parse_tool_calls(get_format("hermes"), text):
            print(call.name, call.arguments)
    """
    return parse(format, text, tools).calls


def has_native_support(format: Format, template: str) -> bool:
    """Return whether a chat template is written for this format: whether it contains every marker of the format.

    Example:
        from ferrule import has_native_support
        from ferrule.formats import get_format

        has_native_support(get_format("hermes"), "{{ messages }}")  # False
    """
    return bool(format.markers) and all(marker in template for marker in format.markers)


# The tools are the key. With them, an entry takes about ten times the text.
@byte_cached(lambda _, text: ENTRY_BYTES + 10 * getsizeof(text))
def declaration(format: Format, tools: tuple[ToolDefinition, ...]) -> str:
    """The text that describes the tools to the model, with an example call. Cached, because tools rarely change."""
    shape = format.declaration
    listing = shape.open + shape.sep.join(_tool_text(tool, shape.as_function) for tool in tools) + shape.close
    return f"These tools can be called:\n{listing}\nTo call one, write exactly in this way:\n{_example_call(format)}"


_TOOL_TEXTS: ToolCache[str] = ToolCache(
    lambda parameters, text: ENTRY_BYTES + getsizeof(text) + 10 * len(dumps(parameters))
)
"""The texts of recently described tools: if one tool of a set changes, only that tool is written again."""


def _tool_text(tool: ToolDefinition, as_function: bool) -> str:
    def text() -> str:
        whole = tool.as_function()
        return dumps(whole if as_function else whole["function"])

    return _TOOL_TEXTS.get(tool, text, (tool.description, as_function))


@lru_cache(maxsize=128)
def _example_call(format: Format) -> str:
    call = ToolCall.of(_EXAMPLE_TOOL.name, {"name": "value"}, id=format.ids.sample(_EXAMPLE_TOOL.name, 0))
    return render(format, Reply.of(call), (_EXAMPLE_TOOL,))


def _undeclared_tools(messages: Iterable[ChatMessage], offered: Iterable[ToolDefinition]) -> list[ToolDefinition]:
    """Tools that were called earlier but are not offered now. They are needed to render the calls in the history."""
    names = dict.fromkeys(call.name for message in messages for call in message.tool_calls)
    offered_names = {tool.name for tool in offered}
    return [ToolDefinition(name) for name in names if name not in offered_names]


def _as_text(
    format: Format, message: ChatMessage, tools: tuple[ToolDefinition, ...], calls_before: int
) -> tuple[ChatMessage, tuple[str, ...]]:
    if not message.tool_calls and not message.reasoning:
        return message, ()
    parts = tuple(part for part in message.parts if not isinstance(part, ToolResult | Media))
    text, notes = write_turn(format, parts, tools, calls_before)
    return ChatMessage.assistant(text), notes


def _add_declaration(
    format: Format, messages: list[ChatMessage], tools: tuple[ToolDefinition, ...]
) -> tuple[ChatMessage, ...]:
    if not tools:
        return tuple(messages)
    text = declaration(format, tools)
    if messages and messages[0].role is Role.SYSTEM:
        return (ChatMessage.system(f"{messages[0].content}\n\n{text}"), *messages[1:])
    return (ChatMessage.system(text), *messages)
