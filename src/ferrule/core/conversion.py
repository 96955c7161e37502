"""Conversion: what a caller may write for messages, tools and options, and the values that it becomes.

Values call these functions when they are made, so a wrong argument raises a `DefinitionError` at the line that has it
and not somewhere inside an engine. A value that is already of its final type is returned as it is, never copied:
requests are made anew several times on their way to an engine.

This module must not know how a Python function becomes a definition. `ferrule.schema`, which knows, registers that with
`register_function_converter`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.json_text import dumps
from ferrule.core.media import Media
from ferrule.core.message import ChatMessage, Role
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError

_E = TypeVar("_E", bound=StrEnum)


@runtime_checkable
class HasDefinition(Protocol):
    """Anything that carries a tool definition, such as a function that is decorated with `@tool`."""

    @property
    def definition(self) -> ToolDefinition: ...


MessageInput: TypeAlias = ChatMessage | Mapping[str, Any]
MessagesInput: TypeAlias = str | Iterable[MessageInput]
"""A prompt, or messages: `ChatMessage` values or dicts with a role and content."""

ToolInput: TypeAlias = ToolDefinition | HasDefinition | Callable[..., Any]
ToolsInput: TypeAlias = Iterable[ToolInput]
"""Tools: functions, bound methods, `@tool` functions or definitions."""

_MESSAGE_HINT = 'Write "text", [{"role": "user", "content": "text"}] or [ChatMessage.user("text")].'
_TOOLS_HINT = "Write tools=[get_weather]: a list of functions, @tool functions or ToolDefinition values."
_ROLES = {**{role.value: role for role in Role}, "developer": Role.SYSTEM}
_MESSAGE_KEYS = frozenset({"role", "content", "reasoning", "tool_calls", "tool_call_id", "name"})

# A large tuple of tools is checked once, and not for each request that carries it. The tuples are kept, so that no
# other object can get the id of one.
_LARGE, _MAX_CHECKED = 16, 32
_checked_tools: dict[int, tuple[ToolDefinition, ...]] = {}

_function_converters: list[Callable[[Callable[..., Any]], ToolDefinition]] = []


def register_function_converter(convert: Callable[[Callable[..., Any]], ToolDefinition]) -> None:
    """Register what makes a definition from a plain function. The last one registered is used."""
    _function_converters.append(convert)


def to_messages(value: Any) -> tuple[ChatMessage, ...]:
    """Convert a prompt or a list of messages."""
    if type(value) is tuple and _are_all(cast("tuple[object, ...]", value), ChatMessage):
        return cast("tuple[ChatMessage, ...]", value)
    if isinstance(value, str):
        return (ChatMessage.user(value),)
    if isinstance(value, ChatMessage | Mapping) or not isinstance(value, Iterable):
        raise DefinitionError(
            f"messages must be a text or a list, not {_kind_of(cast('object', value))}", hint=_MESSAGE_HINT
        )
    return tuple(_to_message(each) for each in cast("Iterable[object]", value))


def to_tools(value: object) -> tuple[ToolDefinition, ...]:
    """Convert a list of tools. Two tools of one name are refused: a call could not say which of them it means."""
    checked = _checked_tools.get(id(value))
    if checked is not None and checked is value:
        return checked
    if type(value) is tuple and _are_all(cast("tuple[object, ...]", value), ToolDefinition):
        tools = cast("tuple[ToolDefinition, ...]", value)
    elif isinstance(value, str | Mapping | ToolDefinition | HasDefinition) or not isinstance(value, Iterable):
        raise DefinitionError(f"tools must be a list, not {_kind_of(cast('object', value))}", hint=_TOOLS_HINT)
    else:
        tools = tuple(to_tool(each) for each in cast("Iterable[object]", value))
    if len({tool.name for tool in tools}) != len(tools):
        counts = Counter(tool.name for tool in tools)
        repeated = [name for name, count in counts.items() if count > 1]
        raise DefinitionError(
            f"tools contain more than one tool named {', '.join(repeated)}",
            hint="Pass each tool once, and give different tools different names: @tool(name=...).",
        )
    if len(tools) > _LARGE:
        if len(_checked_tools) >= _MAX_CHECKED:
            _checked_tools.clear()
        _checked_tools[id(tools)] = tools
    return tools


def to_tool(value: object) -> ToolDefinition:
    """Convert one tool: a function, a bound method, a `@tool` function or a definition."""
    if isinstance(value, ToolDefinition):
        return value
    if isinstance(value, HasDefinition) and isinstance(cast("object", value.definition), ToolDefinition):
        return value.definition
    if callable(value) and not isinstance(value, type) and _function_converters:
        return _function_converters[-1](value)
    raise DefinitionError(f"{_kind_of(value)} is not a tool", hint=_TOOLS_HINT)


def to_enum(kind: type[_E], value: object, name: str) -> _E:
    """Convert the text of an enum's member, such as "required"."""
    try:
        return kind(cast("str", value))
    except ValueError:
        options = ", ".join(repr(member.value) for member in kind)
        raise DefinitionError(f"{name} cannot be {value!r}", hint=f"Write one of {options}.") from None


def to_texts(value: object, name: str) -> tuple[str, ...]:
    """Convert one text or a list of texts."""
    if isinstance(value, str):
        return (value,)
    texts = tuple(cast("Iterable[object]", value)) if isinstance(value, Iterable) else (None,)
    if not all(isinstance(text, str) for text in texts):
        raise DefinitionError(f"{name} must be a list of texts, not {value!r:.60}", hint=f'Write {name}=["text"].')
    return cast("tuple[str, ...]", texts)


def _are_all(values: tuple[object, ...], kind: type) -> bool:
    return {kind}.issuperset(map(type, values))


def _to_message(value: object) -> ChatMessage:
    if isinstance(value, ChatMessage):
        return value
    if isinstance(value, Mapping):
        # Keys without a value are what SDKs leave in a message when they write it as JSON.
        given = {key: item for key, item in cast("Mapping[str, Any]", value).items() if item is not None}
        return _message_of(given)
    raise DefinitionError(f"{_kind_of(value)} is not a message", hint=_MESSAGE_HINT)


def _message_of(given: Mapping[str, Any]) -> ChatMessage:
    role = _ROLES.get(given.get("role", ""))
    if role is None:
        raise DefinitionError(
            f"a message has the role {given.get('role')!r}", hint=f"Write one of {', '.join(map(repr, _ROLES))}."
        )
    unknown = sorted(given.keys() - _MESSAGE_KEYS)
    if unknown:
        raise DefinitionError(
            f"a message has unknown keys: {', '.join(unknown)}", hint=f"It may have {', '.join(sorted(_MESSAGE_KEYS))}."
        )
    if role is Role.TOOL:
        if "tool_call_id" not in given:
            raise DefinitionError(
                "a tool message needs the id of its call",
                hint='Write {"role": "tool", "tool_call_id": call.id, "content": result}.',
            )
        return ChatMessage.tool(given["tool_call_id"], given.get("content", ""), given.get("name", ""))
    content = given.get("content", "")
    if role is Role.USER and isinstance(content, list) and Media in map(type, cast("list[object]", content)):
        items = cast("list[object]", content)
        return ChatMessage(role, [one if isinstance(one, Media) else _text_of(one) for one in items])
    text = _text_of(content)
    if role is Role.ASSISTANT:
        return ChatMessage.assistant(text, map(_to_call, given.get("tool_calls", ())), given.get("reasoning", ""))
    return ChatMessage.system(text) if role is Role.SYSTEM else ChatMessage.user(text)


def _text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = cast("list[Any]", content) if isinstance(content, list) else [content]
    texts = [cast("dict[str, Any]", part).get("text") if isinstance(part, dict) else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise DefinitionError(
            f"a message's content must be text, not {_kind_of(cast('object', content))}",
            hint='Write a text, or a list of {"type": "text", "text": ...}. For an image, put a Media into the list.',
        )
    return "".join(cast("list[str]", texts))


def _to_call(value: object) -> ToolCall:
    if isinstance(value, ToolCall):
        return value
    try:
        data = cast("Mapping[str, Any]", value)
        arguments = data["function"].get("arguments", "{}")
        function = FunctionCall(
            str(data["function"]["name"]), arguments if isinstance(arguments, str) else dumps(arguments)
        )
        return ToolCall(str(data.get("id", "")), function)
    except (AttributeError, KeyError, TypeError) as damage:
        raise DefinitionError(
            f"{value!r:.80} is not a tool call",
            hint='Write {"id": ..., "function": {"name": ..., "arguments": ...}} or ToolCall.of(name, arguments, id).',
        ) from damage


def _kind_of(value: object) -> str:
    """A value for an error message: its type, and the value itself if it is short."""
    name = value.__name__ if isinstance(value, type) else type(value).__name__
    return f"the type {name}" if isinstance(value, type) else f"{name} {value!r:.40}"
