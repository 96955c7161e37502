"""PromptHistory: finds what a request changed in the prompt of the request before it, and who changed it.

An engine keeps the prompt that it read last and reads only what follows the part that stayed the same. So one changed
character near the beginning costs the whole prompt again. Each request is compared with the request before it in the
same run, in three steps: what the client sent, what the gateway made of it, and the text that the engine rendered.
The first step that differs names who changed it.

No text is kept. Of each piece of a prompt there is a checksum for every 256 bytes, in the cache budget of the process.
A run is found as its trace is (see `run.history_key`), or by the calls of its last reply where the client has edited
what was before. Requests that other processes answered are not known here.
"""

from __future__ import annotations

import zlib
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

from ferrule.core.byte_cache import ENTRY_BYTES, ByteCache
from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.context import Principal
from ferrule.core.json_text import digest, dumps
from ferrule.core.media import Media
from ferrule.core.message import ChatMessage, Part, Reasoning, Role, Text
from ferrule.core.tool import ToolDefinition
from ferrule.run.history_key import TRY, HistoryKeys, history_keys
from ferrule.run.ledger.trace import ChangedBy, PromptPrefix

_SYSTEM = "the system message"
_TEMPLATE = (ChangedBy.TEMPLATE, "the chat template writes them in another way, or it was another engine's")
_HIDDEN_ROUNDS = (ChangedBy.GATEWAY, "calls that the gateway ran before are not in the client's history")
_BLOCK = 256
_CHECKSUM = 4
_TAIL_BLOCKS = 2
"""The end of a prompt opens the reply, and is written otherwise when the reply is there: these blocks may differ."""
_PIECE_BYTES = 200
"""What a piece takes besides its checksums, as measured."""
_MAX_REPLIES = 8
"""How many replies with calls are looked up, the last first."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A tool or a message: its name for people, its size in bytes, and a checksum for every block."""

    name: str
    size: int
    checksums: bytes

    @staticmethod
    def of(name: str, text: str) -> Piece:
        data = text.encode("utf-8", "surrogatepass")
        return Piece(name, len(data), checksums_of(data))


@dataclass(frozen=True, slots=True)
class Outline:
    """What a prompt was made of, in checksums."""

    client_messages: tuple[Piece, ...]
    client_tools: tuple[Piece, ...]
    gateway_messages: tuple[Piece, ...]
    gateway_tools: tuple[Piece, ...]
    prompt: bytes
    """The checksums of the text that the engine rendered last; empty if it does not tell."""
    rounds: int
    """How many prompts the request needed: several if the gateway ran calls."""
    history_key: str

    @property
    def length(self) -> int:
        return len(self.client_messages)

    @property
    def pieces(self) -> Iterable[Piece]:
        messages = () if self.gateway_messages is self.client_messages else self.gateway_messages
        return (*self.client_messages, *self.client_tools, *messages, *self.gateway_tools)


@dataclass(slots=True)
class PromptParts:
    """What the prompts of one request are made of. The answer fills it in; nothing is computed before the request ends.

    `deferred` are the names of tools that the client sent and the model is not offered until they are loaded.
    """

    messages: Sequence[ChatMessage] = ()
    client_tools: Sequence[ToolDefinition] = ()
    gateway_messages: Sequence[ChatMessage] = ()
    """The messages as the gateway hands them to the engine, if they differ from the client's."""
    gateway_tools: Sequence[ToolDefinition] = ()
    deferred: frozenset[str] = frozenset()
    first_prompt: bytes = b""
    last_prompt: bytes = b""
    round_change: PromptPrefix | None = None
    """The first change between two prompts of this request, if the gateway runs the calls."""
    rounds: int = 0

    def add_prompt(self, text: str) -> None:
        """Note the text that the engine rendered for the next round."""
        checksums = checksums_of(text.encode("utf-8", "surrogatepass"))
        self.rounds += 1
        if self.rounds == 1:
            self.first_prompt = checksums
        elif self.round_change is None and (kept := _common(self.last_prompt, checksums)) is not None:
            what = f"the rendered prompt changed in round {self.rounds}, at byte {kept}"
            self.round_change = PromptPrefix(ChangedBy.TEMPLATE, what, kept, _size(self.last_prompt))
        self.last_prompt = checksums


class PromptHistory:
    """The outlines of the latest requests of each run."""

    def __init__(self) -> None:
        self._outlines: ByteCache[tuple[str, str, str], Outline] = ByteCache(_size_of)

    def compare(
        self, parts: PromptParts, principal: Principal, keys: HistoryKeys, reply: ChatMessage | None
    ) -> tuple[PromptPrefix | None, str]:
        """Return what changed since the request before, and the history key of that if only its calls led to it.

        The first of them is None if no request before it is known.
        """
        messages, tools = _message_pieces(parts.messages), _tool_pieces(parts.client_tools)
        is_same = not parts.gateway_messages or parts.gateway_messages is parts.messages
        outline = Outline(
            messages,
            tools,
            messages if is_same else _message_pieces(parts.gateway_messages),
            _tool_pieces(parts.gateway_tools),
            parts.last_prompt,
            parts.rounds,
            keys.own,
        )
        previous, is_by_calls = self._find(parts.messages, principal, keys)
        # Also without its reply: a client may write another one into its history.
        own_keys = (keys.own, history_keys(parts.messages).own, *([_calls_key(reply)] if reply else []))
        for key in filter(None, own_keys):
            self._outlines.put((principal.tenant, principal.name, key), outline)
        if previous is None:
            return parts.round_change, ""
        return _change(previous, outline, parts), previous.history_key if is_by_calls else ""

    def _find(
        self, messages: Sequence[ChatMessage], principal: Principal, keys: HistoryKeys
    ) -> tuple[Outline | None, bool]:
        replies = [message for message in reversed(messages) if message.tool_calls][:_MAX_REPLIES]
        by_history, by_calls = (
            next(filter(None, map(self._outlines.lookup, _owned(principal, candidates))), None)
            for candidates in (sorted(keys.earlier, key=_is_try), map(_calls_key, replies))
        )
        if by_calls is None or (by_history is not None and by_history.length >= by_calls.length):
            return by_history, False
        # The later one of the run: the client has edited what was before it.
        return by_calls, True


def _owned(principal: Principal, keys: Iterable[str]) -> list[tuple[str, str, str]]:
    return [(principal.tenant, principal.name, key) for key in keys]


def _is_try(key: str) -> bool:
    return key.startswith(TRY)


def checksums_of(data: bytes) -> bytes:
    """Return a checksum for every block, one behind the other."""
    starts = range(0, len(data), _BLOCK)
    return b"".join(zlib.crc32(data[start : start + _BLOCK]).to_bytes(_CHECKSUM, "big") for start in starts)


def _change(previous: Outline, outline: Outline, parts: PromptParts) -> PromptPrefix:
    """Return what changed. The system's text comes first in a prompt, then the tools, then the other messages."""
    sources = (
        (
            ChangedBy.CLIENT,
            previous.client_messages,
            outline.client_messages,
            previous.client_tools,
            outline.client_tools,
        ),
        (
            ChangedBy.GATEWAY,
            previous.gateway_messages,
            outline.gateway_messages,
            previous.gateway_tools,
            outline.gateway_tools,
        ),
    )
    kept = _common(previous.prompt, parts.first_prompt) if parts.first_prompt else None
    size = _size(previous.prompt) if previous.prompt else sum(piece.size for piece in previous.pieces)
    for source, old_messages, messages, old_tools, tools in sources:
        found = _first_change(old_messages, messages, old_tools, tools)
        if found is not None:
            by, what = _attributed(source, *found, parts.deferred)
            return PromptPrefix(by, what, kept or 0, size)
    if kept is not None and previous.prompt:
        by, why = _HIDDEN_ROUNDS if previous.rounds > 1 else _TEMPLATE
        return PromptPrefix(by, f"the rendered prompt changed at byte {kept}, and no message did: {why}", kept, size)
    return parts.round_change or PromptPrefix(ChangedBy.NOBODY, "", size, size)


def _attributed(source: ChangedBy, what: str, tool: str, deferred: Container[str]) -> tuple[ChangedBy, str]:
    if tool in deferred:
        return ChangedBy.GATEWAY, f"{what} (it was deferred, and is loaded now)"
    is_hint = source is ChangedBy.GATEWAY and not tool
    return source, f"{what} (a hint of the loop guard)" if is_hint else what


def _first_change(
    old_messages: Sequence[Piece], messages: Sequence[Piece], old_tools: Sequence[Piece], tools: Sequence[Piece]
) -> tuple[str, str] | None:
    """Return the first change as words, and the name of the tool that it is about, if any; None without a change."""
    is_system = bool(old_messages) and old_messages[0].name == _SYSTEM
    first = 1 if is_system else 0
    return (
        _message_change(old_messages[:first], messages[:first])
        or _tool_change(old_tools, tools)
        or _message_change(old_messages, messages)
    )


def _message_change(old: Sequence[Piece], new: Sequence[Piece]) -> tuple[str, str] | None:
    for before, after in zip(old, new, strict=False):
        if before != after:
            is_same_role = before.name == after.name
            text = f"changed at byte {_difference(before, after)}" if is_same_role else f"is now {after.name}"
            return f"{before.name} {text}", ""
    if len(new) < len(old):
        return f"{old[len(new)].name} and what follows it was removed", ""
    return None


def _tool_change(old: Sequence[Piece], new: Sequence[Piece]) -> tuple[str, str] | None:
    if old == new:
        return None
    old_names, new_names = {piece.name for piece in old}, {piece.name for piece in new}
    for before, after in zip(old, new, strict=False):
        if before == after:
            continue
        if before.name == after.name:
            return f"tool {before.name} changed at byte {_difference(before, after)}", before.name
        if before.name not in new_names:
            return f"tool {before.name} was removed", before.name
        if after.name not in old_names:
            return f"tool {after.name} was added before {before.name}", after.name
        return f"tool {after.name} was moved before {before.name}", after.name
    if len(new) < len(old):
        return f"tool {old[len(new)].name} was removed", old[len(new)].name
    return f"tool {new[len(old)].name} was added", new[len(old)].name


def _difference(before: Piece, after: Piece) -> int:
    """Return where the block begins in which two pieces differ first."""
    return _same_blocks(before.checksums, after.checksums) * _BLOCK


def _common(before: bytes, after: bytes) -> int | None:
    """Return how many bytes at the beginning are the same; None if `after` continues `before`."""
    same = _same_blocks(before, after)
    return None if same + _TAIL_BLOCKS >= len(before) // _CHECKSUM else same * _BLOCK


def _same_blocks(before: bytes, after: bytes) -> int:
    shorter = min(len(before), len(after))
    if before[:shorter] == after[:shorter]:
        return shorter // _CHECKSUM
    return next(at for at in range(shorter // _CHECKSUM) if before[at * 4 : at * 4 + 4] != after[at * 4 : at * 4 + 4])


def _size(checksums: bytes) -> int:
    return len(checksums) // _CHECKSUM * _BLOCK


def _message_pieces(messages: Sequence[ChatMessage]) -> tuple[Piece, ...]:
    return tuple(
        Piece.of(
            _SYSTEM if number == 0 and message.role is Role.SYSTEM else f"message {number} ({message.role.value})",
            "\0".join(map(_part_text, message.parts)),
        )
        for number, message in enumerate(messages)
    )


def _tool_pieces(tools: Sequence[ToolDefinition]) -> tuple[Piece, ...]:
    return tuple(Piece.of(tool.name, _json(tool.as_function())) for tool in tools)


def _json(value: object) -> str:
    """Return a text that differs where values do. A refused request may hold what is not JSON, such as 1e999."""
    try:
        return dumps(value)
    except (ValueError, TypeError, RecursionError):
        return repr(value)


def _part_text(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case Reasoning():
            return f"(reasoning) {part.text}"
        case ToolCall():
            return f"(call {part.id}) {part.name} {part.function.arguments}"
        case ToolResult():
            content = part.content if isinstance(part.content, str) else _json(part.content)
            return "\0".join((f"(result {part.tool_call_id} {part.is_error}) {content}", *map(_part_text, part.media)))
        case Media():
            return f"(media) {digest(part.as_dict())}"


def _calls_key(message: ChatMessage) -> str:
    """Return a key of a reply alone, if it has calls: their ids are unique, as those of most engines are."""
    calls = message.tool_calls
    return f"calls:{digest([[call.id, call.name, call.function.arguments] for call in calls])}" if calls else ""


def _size_of(key: tuple[str, str, str], outline: Outline) -> int:
    texts = sum(map(len, key)) + len(outline.prompt)
    return ENTRY_BYTES + texts + sum(_PIECE_BYTES + len(piece.checksums) for piece in outline.pieces)
