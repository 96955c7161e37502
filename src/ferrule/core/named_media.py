"""Name the images, recordings and files that an engine cannot take, so that its model knows that they were there.

Each is replaced by one line of text, in its place: in a user's message as text, in a tool result after its content. The
line is outside text like every other, because names come from clients and tools. What was named is reported in a
diagnostic. Numbers count through the conversation, and a conversation only grows, so the prompt's beginning stays the
same from turn to turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from ferrule.core.call import ToolResult
from ferrule.core.event import Diagnostic
from ferrule.core.media import Media, MediaKind, media_line, name_media
from ferrule.core.message import ChatMessage, Part, Text
from ferrule.core.request import ToolCallRequest

MEDIA_NAMED = "media_named"
"""The code of the diagnostic that says how many parts were named in place of being sent."""
_NAMED = "the model reads the name of what this engine does not take: "

TakesMedia = Callable[[Media], bool]


def takes_none(media: Media) -> bool:
    """The answer of an engine that reads text only."""
    return False


def all_media(message: ChatMessage) -> Iterator[Media]:
    """The images, recordings and files of a message and of its results."""
    for part in message.parts:
        if isinstance(part, Media):
            yield part
        elif isinstance(part, ToolResult):
            yield from part.media


def without_data(message: ChatMessage) -> ChatMessage:
    """Return the message for a reader, such as a trace: each part is a line with its kind, name, type and size."""
    if not any(True for _ in all_media(message)):
        return message
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, Media):
            parts.append(Text(media_line(part)))
        elif isinstance(part, ToolResult) and part.media:
            content = "\n".join(filter(None, (part.text, *map(media_line, part.media))))
            parts.append(ToolResult(part.tool_call_id, part.name, content, part.is_error))
        else:
            parts.append(part)
    return ChatMessage(message.role, tuple(parts))


def has_media(request: ToolCallRequest) -> bool:
    return any(True for message in request.messages for _ in all_media(message))


def name_unsupported_media(
    request: ToolCallRequest, takes: TakesMedia = takes_none
) -> tuple[ToolCallRequest, tuple[Diagnostic, ...]]:
    """Return the request with a line for each part that the engine does not take, and a diagnostic if there is one."""
    if not has_media(request):
        return request, ()
    naming = _Naming(takes)
    messages = tuple(map(naming.message, request.messages))
    if not naming.named:
        return request, ()
    named = ", ".join(f"{count} {kind.value}{'s' if count > 1 else ''}" for kind, count in naming.named.items())
    return replace(request, messages=messages), (Diagnostic(MEDIA_NAMED, f"{_NAMED}{named}"),)


def named_kinds(message: str) -> str:
    """Return what the message of such a diagnostic counts, such as "2 images, 1 file"."""
    return message.removeprefix(_NAMED)


class _Naming:
    """Counts the parts of a conversation by kind, and those that were named."""

    def __init__(self, takes: TakesMedia) -> None:
        self._takes = takes
        self._counts: dict[MediaKind, int] = {}
        self.named: dict[MediaKind, int] = {}

    def message(self, message: ChatMessage) -> ChatMessage:
        if not any(True for _ in all_media(message)):
            return message
        parts: list[Part] = []
        follows_line = False
        for part in message.parts:
            line = self._line(part) if isinstance(part, Media) else ""
            if line:
                parts.append(Text(f"\n{line}" if parts and isinstance(parts[-1], Text) else line))
            elif isinstance(part, Text) and follows_line:
                # Templates join the texts of a message.
                parts.append(Text(f"\n{part.text}"))
            else:
                parts.append(self._result(part) if isinstance(part, ToolResult) else part)
            follows_line = bool(line)
        return ChatMessage(message.role, tuple(parts))

    def _result(self, result: ToolResult) -> ToolResult:
        lines = [(media, self._line(media)) for media in result.media]
        named = [line for _, line in lines if line]
        if not named:
            return result
        content = "\n".join(filter(None, (result.text, *named)))
        rest = tuple(media for media, line in lines if not line)
        return ToolResult(result.tool_call_id, result.name, content, result.is_error, media=rest)

    def _line(self, media: Media) -> str:
        """The line in place of the part; empty if the engine takes it."""
        number = self._counts[media.kind] = self._counts.get(media.kind, 0) + 1
        if self._takes(media):
            return ""
        self.named[media.kind] = self.named.get(media.kind, 0) + 1
        return name_media(media, number)
