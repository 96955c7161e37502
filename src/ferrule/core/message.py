"""ChatMessage: a role and an ordered list of parts.

Order matters: models that think between calls, and channel formats, lose meaning when text, reasoning and calls are
sorted into separate fields. A plain string stays easy: `ChatMessage.user("hello")`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias, cast

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.media import Media
from ferrule.errors import DefinitionError


class Role(StrEnum):
    """Who wrote a message.

    Example:
        [message for message in messages if message.role is Role.USER]
    """

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Text:
    """Visible text.

    Example:
        ChatMessage(Role.USER, (Text("hello"),))
    """

    text: str


@dataclass(frozen=True, slots=True)
class Reasoning:
    """Text of a model's reasoning.

    A provider that checks reasoning which is sent back adds a `signature`, or sends it `encrypted` and without a text.
    Both are opaque: they go back to the same provider byte for byte, and to nobody else.

    Example:
        thoughts = [part.text for part in reply.parts if isinstance(part, Reasoning)]
    """

    text: str
    signature: str = ""
    encrypted: str = ""


Part: TypeAlias = Text | Reasoning | ToolCall | ToolResult | Media
_FUNCTION = "function"
"""The type of most calls, which is not saved."""
_PARTS = frozenset({Text, Reasoning, ToolCall, ToolResult, Media})


@dataclass(frozen=True, slots=True, init=False)
class ChatMessage:
    """One message of a conversation: a role and its parts in order.

    Instead of `parts` you can give the fields that the chat APIs have: `content`, `tool_calls`, `tool_call_id`.

    Example:
        messages = [
            ChatMessage.system("Be brief."),
            ChatMessage.user("How is the weather in Rome?"),
            ChatMessage.assistant(tool_calls=[call]),
            ChatMessage.tool(call.id, {"temperature": 21}),
            ChatMessage("user", ["And what does this show?", Media("image", "image/png", data=chart)]),
        ]
    """

    role: Role
    parts: tuple[Part, ...]

    def __init__(
        self,
        role: Role | str,
        parts: str | Iterable[Part | str] = (),
        *,
        content: str | None = None,
        tool_calls: Iterable[ToolCall] | None = None,
        tool_call_id: str | None = None,
    ) -> None:
        if tool_call_id is not None:
            parts = (ToolResult(tool_call_id, content=content or ""),)
        elif content or tool_calls:
            parts = (*_to_parts(parts), *_to_parts(content or ()), *(tool_calls or ()))
        given = cast("tuple[object, ...]", parts)
        is_plain = type(given) is tuple and _PARTS.issuperset(map(type, given))
        object.__setattr__(self, "role", role if type(role) is Role else _to_role(role))
        object.__setattr__(self, "parts", given if is_plain else _to_parts(given))

    @staticmethod
    def system(text: str) -> ChatMessage:
        return ChatMessage(Role.SYSTEM, (Text(text),))

    @staticmethod
    def user(text: str) -> ChatMessage:
        return ChatMessage(Role.USER, (Text(text),))

    @staticmethod
    def assistant(text: str = "", tool_calls: Iterable[ToolCall] = (), reasoning: str = "") -> ChatMessage:
        """Create an assistant message: reasoning, then text, then calls, the order in which most models write them."""
        reasoning_parts = (Reasoning(reasoning),) if reasoning else ()
        text_parts = (Text(text),) if text else ()
        return ChatMessage(Role.ASSISTANT, (*reasoning_parts, *text_parts, *tool_calls))

    @staticmethod
    def tool(tool_call_id: str, content: Any, name: str = "", *, is_error: bool = False) -> ChatMessage:
        return ChatMessage(Role.TOOL, (ToolResult(tool_call_id, name, content, is_error),))

    @property
    def content(self) -> str:
        """The visible text: the text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def reasoning(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, Reasoning))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolResult))

    @property
    def media(self) -> tuple[Media, ...]:
        """The images, recordings and files of the message itself; those of its results are in the results."""
        return tuple(part for part in self.parts if isinstance(part, Media))

    @property
    def tool_call_id(self) -> str | None:
        """The id that a tool message answers; None for the other roles."""
        return self.results[0].tool_call_id if self.results else None


def _to_role(value: object) -> Role:
    try:
        return Role(cast("str", value))
    except ValueError:
        roles = ", ".join(repr(role.value) for role in Role)
        raise DefinitionError(f"a message has the role {value!r}", hint=f"Write one of {roles}.") from None


def _to_parts(value: object) -> tuple[Part, ...]:
    """Convert one text or a list of texts and parts."""
    items = (value,) if isinstance(value, str) or not isinstance(value, Iterable) else cast("Iterable[object]", value)
    parts = tuple(Text(item) if isinstance(item, str) else item for item in items)
    for part in parts:
        if not isinstance(part, Text | Reasoning | ToolCall | ToolResult | Media):
            raise DefinitionError(
                f"{part!r:.60} is not a part of a message",
                hint="Write a text, or a list of Text, Media, Reasoning, ToolCall and ToolResult values.",
            )
    return cast("tuple[Part, ...]", parts)


# Messages as JSON and back, without loss: for saved conversations, and for other processes.
#
# This is Ferrule's own format, which preserves the order of parts; the formats of the APIs are in `dialects`.


def messages_as_json(messages: Iterable[ChatMessage]) -> list[dict[str, Any]]:
    return [{"role": message.role.value, "parts": [_part(part) for part in message.parts]} for message in messages]


def messages_from_json(data: Iterable[Mapping[str, Any]]) -> tuple[ChatMessage, ...]:
    try:
        return tuple(ChatMessage(Role(one["role"]), tuple(_read(part) for part in one["parts"])) for one in data)
    except (KeyError, TypeError, ValueError) as damage:
        raise DefinitionError(
            f"not saved messages: {damage!r}", hint="Pass what `save` returned, unchanged."
        ) from damage


def _part(part: Part) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"kind": "text", "text": text}
        case Reasoning(text):
            return {"kind": "reasoning", "text": text, **_seals(part)}
        case ToolCall():
            identity = {"id": part.id, "name": part.name, "arguments": part.function.arguments}
            kind = {} if part.type == _FUNCTION else {"type": part.type}
            return {"kind": "call", **identity, "complete": part.complete, **kind}
        case ToolResult(call_id, name, content, is_error):
            media = {"media": [one.as_dict() for one in part.media]} if part.media else {}
            return {"kind": "result", "id": call_id, "name": name, "content": content, "is_error": is_error, **media}
        case Media():
            return {"kind": "media", **part.as_dict()}


def _seals(part: Reasoning) -> dict[str, str]:
    seals = {"signature": part.signature, "encrypted": part.encrypted}
    return {name: value for name, value in seals.items() if value}


def _read(data: Mapping[str, Any]) -> Part:
    match data["kind"]:
        case "text":
            return Text(data["text"])
        case "reasoning":
            return Reasoning(data["text"], data.get("signature", ""), data.get("encrypted", ""))
        case "call":
            function = FunctionCall(data["name"], data["arguments"])
            return ToolCall(data["id"], function, data.get("type", _FUNCTION), data["complete"])
        case "result":
            media = map(Media.from_dict, data.get("media", ()))
            return ToolResult(data["id"], data["name"], data["content"], data["is_error"], media=media)
        case "media":
            return Media.from_dict(data)
        case kind:
            raise ValueError(f"unknown kind of part {kind!r}")
