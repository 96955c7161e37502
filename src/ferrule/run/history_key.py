"""History keys: which requests belong to one conversation, when the client sends its whole history every time.

Clients do not send a history back to the letter. They drop the reasoning, change the system prompt, split a reply into
several messages, trim white space and format the arguments of calls again. So a key is a hash over what survives that:
the visible text, and the calls with their ids. A system message does not count.

The key of a request that was answered includes the reply. A later request belongs to it if one of the beginnings of its
own history has that key: two conversations that begin alike differ in their replies, or at least in the ids of calls.
The key of a request that failed is that of its messages, marked as a try, so that the next try belongs to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.json_text import canonical, digest, dumps, loads
from ferrule.core.media import Media
from ferrule.core.message import ChatMessage, Role, Text

TRY = "try:"
"""The beginning of the key of a request that failed."""
_MAX_TRIES = 4
"""How many beginnings are looked up at which an earlier try may have failed."""
_MAX_REPLIES = 8
"""How many beginnings are looked up that end with a reply."""


@dataclass(frozen=True, slots=True)
class HistoryKeys:
    """`own` is the key of a request, with its reply if it has one; empty if there is nothing to hash.

    `earlier` are the keys that an earlier request of the same conversation can have, the most likely first.
    """

    own: str
    earlier: tuple[str, ...]


def history_keys(messages: Sequence[ChatMessage], reply: ChatMessage | None = None) -> HistoryKeys:
    """Return the keys of a request. Without a `reply` it has failed, or has not ended."""
    history = list(_keys((*messages, reply) if reply else messages))
    own = history.pop()[0] if reply and history else f"{TRY}{history[-1][0]}" if history else ""
    history.reverse()
    replies = [key for key, is_reply in history if is_reply]
    tries = [TRY + key for key, is_reply in history if not is_reply]
    return HistoryKeys(own, (*tries[:1], *replies[:_MAX_REPLIES], *tries[1:_MAX_TRIES]))


def _keys(messages: Iterable[ChatMessage]) -> Iterator[tuple[str, bool]]:
    """Yield the key of each beginning, and whether it ends with a reply. Adjacent assistant messages are one reply."""
    key = ""
    for is_reply, group in groupby(messages, _is_reply):
        for unit in [list(group)] if is_reply else [[message] for message in group]:
            if unit[0].role is not Role.SYSTEM:
                content = "\0".join((key, unit[0].role.value, *_content(unit)))
                key = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
                yield key, is_reply


def _is_reply(message: ChatMessage) -> bool:
    return message.role is Role.ASSISTANT


def _content(messages: Sequence[ChatMessage]) -> list[str]:
    texts: list[str] = []
    others: list[str] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, Text):
                texts.append(part.text)
            elif isinstance(part, ToolCall):
                others += (part.id, part.name, _canonical_arguments(part.function.arguments))
            elif isinstance(part, ToolResult):
                content = part.content if isinstance(part.content, str) else dumps(part.content)
                others += (part.tool_call_id, content.strip())
                others += (digest(one.as_dict()) for one in part.media)
            elif isinstance(part, Media):
                others.append(digest(part.as_dict()))
    return ["".join(texts).strip(), *others]


def _canonical_arguments(arguments: str) -> str:
    try:
        return canonical(loads(arguments))
    except (ValueError, RecursionError):
        # It is compared as it is written.
        return arguments
