"""Outside text: keeps what users, tools and servers wrote from becoming special tokens of the model.

**The problem.** A tokenizer reads the text `<|im_start|>` as the token that opens a turn, also if a user wrote it.
Messages, descriptions, schemas, arguments and results come from outside; only the template may open turns. But the
template mixes both into one text.

**The method.** Before the template runs, each special token's text inside of outside text is replaced by one private
character that the conversation does not contain. Nothing else is changed, so the template treats the text as before.
Afterwards each private character is replaced by the original text again, and a boundary is set inside of it. The prompt
is then a list of pieces (`Prompt`). Each piece is tokenized separately, so no token reaches across a boundary, and the
model reads the characters of the text as ordinary tokens. An engine that accepts only text gets the pieces joined by a
zero width space instead.

A conversation may contain more special texts than there are private characters that it does not contain. Those that are
left over get a zero width space behind each character at once. Every step is linear in the text, however many special
texts it contains.

A marker that the model's tokenizer does not know as a token is ordinary text anyway and stays as it is. Independent of
tokenizers: what is special is passed in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import getsizeof
from typing import Any, cast

from ferrule.core.byte_cache import ENTRY_BYTES, byte_cached
from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.json_text import dumps, loads
from ferrule.core.media import Media
from ferrule.core.message import ChatMessage, Part, Reasoning, Role, Text
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.wire.neutral_text import BREAK

# The private use area: characters without a meaning of their own, which templates copy like any other.
_FIRST_PRIVATE, _LAST_PRIVATE = 0xE000, 0xF8FF
# Deeper values cannot be written as JSON either.
_MAX_DEPTH = 200
_PRIVATE = re.compile(f"[{chr(_FIRST_PRIVATE)}-{chr(_LAST_PRIVATE)}]")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt in pieces that must be tokenized separately. Most prompts are one piece."""

    pieces: tuple[str, ...]

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def broken_text(self) -> str:
        """The text with a zero width space at each boundary, for a backend that does not accept token ids."""
        return BREAK.join(self.pieces)


@dataclass(frozen=True, slots=True)
class MarkedConversation:
    """A conversation and tools with private characters in place of special tokens' texts."""

    messages: tuple[ChatMessage, ...]
    tools: tuple[ToolDefinition, ...]
    originals: Mapping[str, str] = field(default_factory=dict[str, str])
    """The original text of each private character."""

    def prompt(self, rendered: str) -> Prompt:
        """Return the rendered conversation with the original texts, split so that none of them is a token."""
        if not self.originals:
            return Prompt((rendered,))
        texts = _TextFinder(self.originals.values())
        by_code = {ord(private): original for private, original in self.originals.items()}
        pieces: list[str] = []
        piece, at = "", 0
        for match in re.finditer(f"[{''.join(self.originals)}]", rendered):
            piece += rendered[at : match.start()]
            original, at = self.originals[match.group()], match.end()
            # Special texts may overlap: each that begins inside of the original gets its own boundary.
            following = rendered[at : at + len(original)].translate(by_code)
            start = 0
            while (found := texts.search(original + following, start)) and found[0] < len(original):
                cut = found[0] + 1
                pieces.append(piece + original[start:cut])
                piece, start = "", cut
            piece += original[start:]
        return Prompt((*pieces, piece + rendered[at:]))


class _TextFinder:
    """Finds texts, the longest first, in a time that does not depend on how many there are.

    A regex of ten thousand alternatives tries them all at every place.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = frozenset(texts)
        lengths: dict[str, set[int]] = {}
        for text in self._texts:
            lengths.setdefault(text[:2], set()).add(len(text))
        self._lengths = {start: sorted(found, reverse=True) for start, found in lengths.items()}
        first, second = ("".join(map(re.escape, {start[at] for start in lengths})) for at in (0, 1))
        self._starts = re.compile(f"[{first}](?=[{second}])")

    def search(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """The place of the next text: where it begins and where it ends."""
        for match in self._starts.finditer(text, start):
            at = match.start()
            for length in self._lengths.get(text[at : at + 2], ()):
                if text[at : at + length] in self._texts:
                    return at, at + length
        return None

    def replace(self, text: str, replacements: Mapping[str, str]) -> str:
        """The text with the replacement of each text in it."""
        pieces: list[str] = []
        at = 0
        while (found := self.search(text, at)) is not None:
            pieces += (text[at : found[0]], replacements[text[found[0] : found[1]]])
            at = found[1]
        return "".join((*pieces, text[at:])) if pieces else text


def outside_texts(messages: Iterable[ChatMessage], tools: Iterable[ToolDefinition]) -> Iterator[str]:
    """Yield every text of a conversation and its tools that does not come from the template."""
    for message in messages:
        yield from message_texts(message)
    for tool in tools:
        yield from tool_texts(tool)


def message_texts(message: ChatMessage) -> Iterator[str]:
    # A template joins the text parts of a message, so that a special text may span two of them.
    yield message.content
    for part in message.parts:
        match part:
            case Text():
                pass
            case Reasoning(text):
                yield text
            case ToolCall():
                yield from (part.id, part.name, part.function.arguments)
                yield from _strings(_escaped_value(part.function.arguments))
            case ToolResult():
                yield from (part.tool_call_id, part.name)
                yield from _strings(part.content)
            case Media():
                # Engines that read text replace it by a text before they come here.
                pass


# Measured: the tool, which is the key, and its texts take six times the texts.
@byte_cached(lambda _, texts: ENTRY_BYTES + 6 * sum(map(getsizeof, texts)))
def tool_texts(tool: ToolDefinition) -> tuple[str, ...]:
    """The texts of a tool. Cached, because tools rarely change and every request offers them again."""
    return (tool.description, *_strings(tool.parameters))


def mark(
    messages: Sequence[ChatMessage],
    tools: Sequence[ToolDefinition],
    special_texts: frozenset[str],
    reasoning_tags: tuple[str, str] | None = None,
) -> MarkedConversation:
    """Replace the special texts in a conversation and its tools by private characters.

    `reasoning_tags` stay around the reasoning that an assistant's text begins with: templates remove it by them.
    """
    found = sorted({text for text in special_texts if len(text) > 1}, key=len, reverse=True)
    if not found:
        return MarkedConversation(tuple(messages), tuple(tools))
    used = {char for text in outside_texts(messages, tools) for char in _PRIVATE.findall(text)}
    free = (chr(code) for code in range(_FIRST_PRIVATE, _LAST_PRIVATE + 1) if chr(code) not in used)
    private = dict(zip(found, free, strict=False))
    # A conversation can use up the private characters, on purpose too.
    broken = {text: BREAK.join(text) + BREAK for text in found[len(private) :]}
    replace_all = _replacer(private | broken)
    replace_spoken = _except_reasoning_tags(replace_all, reasoning_tags) if reasoning_tags else replace_all
    return MarkedConversation(
        tuple(
            _mark_message(message, replace_spoken if message.role is Role.ASSISTANT else replace_all, replace_all)
            for message in messages
        ),
        tuple(_mark_tool(tool, replace_all) for tool in tools),
        {char: text for text, char in private.items()},
    )


_Replace = Callable[[str], str]


def _replacer(replacements: Mapping[str, str]) -> _Replace:
    finder = _TextFinder(replacements)
    return lambda text: finder.replace(text, replacements)


def _except_reasoning_tags(replace_all: _Replace, tags: tuple[str, str]) -> _Replace:
    opening, closing = map(re.escape, tags)
    head = re.compile(rf"(\s*{opening})(.*?)({closing})(.*)", re.DOTALL)

    def replace_spoken(text: str) -> str:
        match = head.fullmatch(text)
        if match is None:
            return replace_all(text)
        before, reasoning, after, rest = match.groups()
        return before + replace_all(reasoning) + after + replace_all(rest)

    return replace_spoken


def _mark_message(message: ChatMessage, replace_visible: _Replace, replace_all: _Replace) -> ChatMessage:
    texts = [replace_visible(part.text) for part in message.parts if isinstance(part, Text)]
    content = replace_visible(message.content)
    if content != "".join(texts):
        # A special text spans two parts, which templates join.
        texts = [content, *([""] * (len(texts) - 1))]
    visible = iter(texts)
    parts: list[Part] = []
    for part in message.parts:
        match part:
            case Text():
                parts.append(Text(next(visible)))
            case Reasoning(text):
                parts.append(Reasoning(replace_all(text)))
            case ToolCall():
                function = FunctionCall(replace_all(part.name), _mark_arguments(part.function.arguments, replace_all))
                parts.append(replace(part, id=replace_all(part.id), function=function))
            case ToolResult(call_id, name, content, is_error):
                names = replace_all(call_id), replace_all(name)
                parts.append(ToolResult(*names, _map_strings(content, replace_all), is_error, media=part.media))
            case Media():
                parts.append(part)
    return ChatMessage(message.role, tuple(part for part in parts if part != Text("")))


def _mark_arguments(arguments: str, replace_all: _Replace) -> str:
    value = _escaped_value(arguments)
    marked = _map_strings(value, replace_all)
    # Written again only if it must be: the text of a number may be more exact than its value.
    return replace_all(arguments) if marked == value else dumps(marked)


def _escaped_value(arguments: str) -> Any:
    """The value of arguments with an escape: only then do its strings contain what the JSON text does not."""
    if "\\" not in arguments:
        return None
    try:
        return loads(arguments)
    except (ValueError, RecursionError):
        # Not JSON: then a template sees no more than the text.
        return None


def _mark_tool(tool: ToolDefinition, replace_all: _Replace) -> ToolDefinition:
    description, parameters = replace_all(tool.description), _map_strings(tool.parameters, replace_all)
    if description == tool.description and parameters == tool.parameters:
        return tool
    return replace(tool, description=description, parameters=parameters)


def _strings(value: Any) -> Iterator[str]:
    """Yield every string of a JSON value, names included."""
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting += cast("dict[Any, Any]", one).keys()
            waiting += cast("dict[Any, Any]", one).values()
        elif isinstance(one, list | tuple):
            waiting += cast("Sequence[Any]", one)


def _map_strings(value: Any, change: _Replace, depth: int = 0) -> Any:
    if depth > _MAX_DEPTH:
        raise DefinitionError(
            f"a value in the conversation is nested more than {_MAX_DEPTH} deep",
            code="too_deep",
            hint="Send flatter arguments and results.",
        )
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value).items()
        return {
            change(name) if isinstance(name, str) else name: _map_strings(member, change, depth + 1)
            for name, member in members
        }
    if isinstance(value, list | tuple):
        return [_map_strings(item, change, depth + 1) for item in cast("Sequence[Any]", value)]
    return value
